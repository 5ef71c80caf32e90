//! Transfers and their ends, for the tests of the models.

use super::{Device, DeviceSettings, Transfer, TransferKind, build};
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_rt::wait::Slot;
use forebay_rt::{Rt, Virtual, VirtualSettings};
use forebay_store::{Finish, FinishedIo};

/// A machine with one device.
pub(crate) struct Bench {
    pub(crate) machine: Virtual,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) ends: Arc<Mutex<Vec<(u64, Instant)>>>,
}

impl Bench {
    pub(crate) fn named(name: &str) -> Bench {
        Bench::of(&DeviceSettings::named(name).expect("the catalogue has it"))
    }

    pub(crate) fn of(settings: &DeviceSettings) -> Bench {
        let machine = Virtual::new(VirtualSettings::default());
        let device = build(&machine.rt(), "device", settings).expect("it can be");
        Bench {
            machine,
            device,
            ends: Arc::default(),
        }
    }

    /// Submits a transfer now; its end is noted under its start.
    pub(crate) fn submit(&self, kind: TransferKind, start_bytes: u64, length_bytes: u64) {
        let ended = Arc::new(Slot::new());
        let heard = Transfer::heard(kind, start_bytes, length_bytes, Arc::clone(&ended));
        self.device.submit(heard);
        let (rt, ends) = (self.machine.rt(), Arc::clone(&self.ends));
        self.machine.rt().spawn("hears", async move {
            ended.take().await;
            lock(&ends).push((start_bytes, rt.now()));
        });
    }

    /// Runs until everything has ended, and returns how long it took from the start of the run.
    pub(crate) fn finish(&self) -> Span {
        self.machine.run_for(Span::from_secs(100_000));
        let ends = lock(&self.ends);
        ends.iter().map(|&(_, at)| at).max().expect("some ended") - Instant::ZERO
    }

    /// Runs `transfers` one after the other, each submitted when the one before has ended.
    pub(crate) fn one_by_one(&self, transfers: &[(TransferKind, u64, u64)]) -> Span {
        let rt = self.machine.rt();
        let work = one_by_one(rt, Arc::clone(&self.device), transfers.to_vec());
        self.machine.run(work)
    }

    /// When each transfer ended, in the order of their ends.
    pub(crate) fn order(&self) -> Vec<u64> {
        lock(&self.ends).iter().map(|&(start, _)| start).collect()
    }
}

async fn one_by_one(
    rt: Rt,
    device: Arc<dyn Device>,
    transfers: Vec<(TransferKind, u64, u64)>,
) -> Span {
    let began = rt.now();
    for (kind, start, length) in transfers {
        let ended = Arc::new(Slot::new());
        device.submit(Transfer::heard(kind, start, length, Arc::clone(&ended)));
        ended.take().await;
    }
    rt.now() - began
}

/// Notes when requests of the engine end, by their token.
pub(crate) struct Heard {
    rt: Rt,
    ends: Mutex<Vec<(u64, Instant)>>,
}

impl Heard {
    pub(crate) fn new(rt: Rt) -> Arc<Heard> {
        let ends = Mutex::default();
        Arc::new(Heard { rt, ends })
    }

    /// When the request with `token` ended, in milliseconds; None if it has not.
    pub(crate) fn end_ms(&self, token: u64) -> Option<f64> {
        let ends = lock(&self.ends);
        let (_, at) = ends.iter().find(|(other, _)| *other == token)?;
        Some((*at - Instant::ZERO).as_secs_f64() * 1e3)
    }

    /// How many have ended.
    pub(crate) fn ended(&self) -> usize {
        lock(&self.ends).len()
    }
}

impl Finish for Heard {
    fn finished(&self, io: FinishedIo) {
        assert_eq!(io.result, Ok(()));
        lock(&self.ends).push((io.token, self.rt.now()));
    }
}

/// Whether `measured` is within `percent` of `expected`.
pub(crate) fn is_near(measured: f64, expected: f64, percent: f64) -> bool {
    (measured - expected).abs() <= expected * percent / 100.0
}
