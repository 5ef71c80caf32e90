//! Transfers and their ends, for the tests of the models.

use super::{Device, DeviceSettings, Transfer, TransferKind, build};
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_rt::wait::Slot;
use forebay_rt::{Rt, Virtual, VirtualSettings};

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

/// Whether `measured` is within `percent` of `expected`.
pub(crate) fn is_near(measured: f64, expected: f64, percent: f64) -> bool {
    (measured - expected).abs() <= expected * percent / 100.0
}
