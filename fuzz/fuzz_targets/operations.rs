//! Any sequence of operations on a file, before a store of any kind some of whose requests fail:
//! what is read is what was written, and in the end the store has it and all counters agree.
#![no_main]

use forebay_base::Span;
use forebay_engine::lab::LabCache;
use forebay_engine::{AccessError, Advice, Cache, File, Parts, Settings};
use forebay_rt::{Rt, Virtual, VirtualSettings};
use forebay_store::{
    Durability, Failure, Fault, FaultAction, FaultStore, FaultWhen, Geometry, IoKind, MemoryStore,
    ObjectId, Store,
};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

const PAGE: u64 = 4096;
const OBJECT: ObjectId = ObjectId(1);
/// Longest file: more than the memory.
const LONGEST: u64 = 600 * PAGE;
/// How often a failed call is repeated: no fault strikes this often.
const TRIES: u32 = 50;

/// What is left of the input.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn number(&mut self, bound: u64) -> Option<u64> {
        let three = [self.byte()?, self.byte()?, self.byte()?];
        let number = three
            .into_iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(byte));
        Some(number % bound)
    }

    /// A place in a file, and a length: some bytes or some pages.
    fn range(&mut self) -> Option<(u64, u64)> {
        let start = self.number(LONGEST)?;
        let length = u64::from(self.byte()?) + 1;
        let (start, length) = match length % 3 {
            0 => (start, length),
            1 => (start / PAGE * PAGE, length * PAGE / 8),
            _ => (start, length * 33),
        };
        Some((start, length.min(LONGEST - start)))
    }
}

/// A call that is repeated while it meets an injected failure.
macro_rules! surely {
    ($mirror:expr, $attempt:expr) => {{
        let mut tries = 0;
        loop {
            match $attempt {
                Ok(value) => break value,
                Err(AccessError::Store(_) | AccessError::TooManyFailed { .. }) if tries < TRIES => {
                    tries += 1;
                    // The next call may get the same error.
                    let _ = $mirror.file.sync().await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }};
}

/// The file, and what it should hold.
struct Mirror {
    file: File,
    bytes: Vec<u8>,
}

impl Mirror {
    fn compare(&self, start: u64, read: &[u8]) {
        let expected = &self.bytes[start as usize..][..read.len()];
        let differs = (0..read.len()).find(|&at| read[at] != expected[at]);
        assert_eq!(differs, None, "bytes from {start} on differ");
    }

    /// Does what `input` says; none at the end of the input.
    async fn step(&mut self, input: &mut Input<'_>, rt: &Rt) -> Option<()> {
        match input.byte()? % 12 {
            0..=3 => {
                let (start, length) = input.range()?;
                let bytes = vec![input.byte()? | 1; length as usize];
                surely!(self, self.file.write_at(&bytes, start).await);
                let end = (start + length) as usize;
                self.bytes.resize(self.bytes.len().max(end), 0);
                self.bytes[start as usize..end].copy_from_slice(&bytes);
            }
            4 | 5 => {
                let (start, length) = input.range()?;
                let mut bytes = vec![0xee; length as usize];
                let read = surely!(self, self.file.read_at(&mut bytes, start).await);
                let left = (self.bytes.len() as u64).saturating_sub(start);
                assert_eq!(read as u64, length.min(left), "read at {start}");
                if read > 0 {
                    self.compare(start, &bytes[..read]);
                }
            }
            6 => {
                let length = input.number(LONGEST)?;
                surely!(self, self.file.truncate(length).await);
                self.bytes.resize(length as usize, 0);
            }
            7 => {
                let (start, length) = input.range()?;
                surely!(self, self.file.discard(start..start + length).await);
                let end = self.bytes.len().min((start + length) as usize);
                let start = end.min(start as usize);
                self.bytes[start..end].fill(0);
            }
            8 => {
                let page = input.number(LONGEST / PAGE)?;
                if (page + 1) * PAGE <= self.bytes.len() as u64 {
                    let guard = surely!(self, self.file.page(page).await);
                    self.compare(page * PAGE, &guard);
                }
            }
            9 => {
                let (start, length) = input.range()?;
                let advice = match input.byte()? % 3 {
                    0 => Advice::WillNeed,
                    1 => Advice::DontNeed,
                    _ => Advice::Random,
                };
                surely!(self, self.file.advise(advice, start..start + length).await);
            }
            10 => rt.sleep(Span::from_millis(input.byte()?.into())).await,
            _ => {
                let (start, length) = input.range()?;
                // An injected failure is reported here, and not again later.
                let _ = self.file.sync_range(start..start + length).await;
            }
        }
        assert_eq!(self.file.len(), self.bytes.len() as u64);
        Some(())
    }
}

/// A store whose kind and faults the first bytes choose.
fn store(rt: &Rt, input: &mut Input<'_>) -> Option<(Arc<MemoryStore>, Arc<FaultStore>)> {
    let durability = match input.byte()? % 3 {
        0 => Durability::OnFinish,
        1 => Durability::OnCommit,
        _ => Durability::Unstable,
    };
    let memory = Arc::new(MemoryStore::with(Geometry {
        durability,
        max_io_pages: [1, 4, 64][usize::from(input.byte()?) % 3],
        stable_pages: input.byte()? % 2 == 0,
        ..MemoryStore::new().geometry()
    }));
    let faults = Arc::new(FaultStore::new(rt.clone(), memory.clone()));
    for kind in [IoKind::Read, IoKind::Write, IoKind::Commit, IoKind::Discard] {
        let action = match input.byte()? % 4 {
            0 => continue,
            1 => FaultAction::Fail(Failure::NoSpace),
            2 => FaultAction::Delay(Span::from_millis(20)),
            _ => FaultAction::Torn {
                pages: 1,
                failure: Failure::Device(5),
            },
        };
        faults.inject(Fault {
            when: FaultWhen::Nth(1 + u64::from(input.byte()?) % 8),
            ..Fault::each(kind, action)
        });
    }
    Some((memory, faults))
}

async fn play(rt: Rt, input: &mut Input<'_>) -> Option<()> {
    let (memory, faults) = store(&rt, input)?;
    let settings = Settings {
        memory_bytes: 2 << 20,
        prefault: false,
        dirty_expire: Span::from_millis(50),
        writeback_interval: Span::from_millis(50),
        ..Settings::default()
    };
    let parts = Parts {
        rt: rt.clone(),
        sink: None,
    };
    let cache = Cache::with_parts(settings, parts).expect("the settings are good");
    let attached = cache.attach(faults.clone()).expect("a store is attached");
    let mut mirror = Mirror {
        file: cache.open(&attached, OBJECT, 0).expect("the object opens"),
        bytes: Vec::new(),
    };
    while mirror.step(input, &rt).await.is_some() {}
    faults.clear();
    // The last failure is reported once; then all is well.
    let _ = mirror.file.sync().await;
    mirror.file.sync().await.expect("the store is well");
    let stored = memory.snapshot(OBJECT);
    assert_eq!(stored.len(), mirror.bytes.len(), "the store's length");
    mirror.compare(0, &stored);
    rt.sleep(Span::from_secs(1)).await;
    assert_eq!(cache.check(), Vec::<String>::new());
    assert_eq!(cache.statistics().dirty(), 0);
    Some(())
}

fuzz_target!(|input: &[u8]| {
    let machine = Virtual::new(VirtualSettings::default());
    let rt = machine.rt();
    // An input that is too short to choose a store has nothing to show.
    machine.run(async move {
        let _ = play(rt, &mut Input(input)).await;
    });
});
