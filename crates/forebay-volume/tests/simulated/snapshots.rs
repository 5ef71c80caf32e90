//! Snapshots that are taken, read and removed, a call at a time.

use super::bucket::Bucket;
use super::history::{Histories, State, read};
use forebay_base::Prng;
use forebay_volume::{
    Append, Appended, Call, Opened, Progress, Reply, Snapshot, SnapshotName, Snapshotting, Twin,
    VolumeFault, Writer,
};

/// Those that were taken and shall stay, and one that is being taken.
#[derive(Default)]
pub(crate) struct Snapshots {
    kept: Vec<(SnapshotName, State)>,
    taking: Option<Taking>,
    keeping: Option<Keeping>,
    begun: u128,
    pub(crate) taken: u64,
    pub(crate) kept_twice: u64,
    pub(crate) dropped: u64,
}

struct Taking {
    name: SnapshotName,
    machine: Snapshotting,
    /// What was committed when it began.
    newest: (u64, usize),
}

/// A snapshot is being kept under a second name.
struct Keeping {
    source: SnapshotName,
    name: SnapshotName,
    state: State,
    bytes: Vec<u8>,
    step: Keep,
}

enum Keep {
    Make(Twin, Append),
    Still(Twin),
}

impl Keeping {
    fn new(source: SnapshotName, name: SnapshotName, state: State, bytes: Vec<u8>) -> Keeping {
        let first = Append::new(name.key(Twin::First), bytes.clone());
        Keeping {
            source,
            name,
            state,
            bytes,
            step: Keep::Make(Twin::First, first),
        }
    }

    /// Makes one step; says at the end whether it counts.
    fn step(&mut self, bucket: &mut Bucket) -> Option<bool> {
        match &mut self.step {
            Keep::Make(twin, append) => {
                let Progress::Done(made) = append.answer(bucket.call(append.next())) else {
                    return None;
                };
                assert_eq!(made, Appended::Ours);
                let second = self.name.key(Twin::Second);
                self.step = match twin {
                    Twin::First => {
                        Keep::Make(Twin::Second, Append::new(second, self.bytes.clone()))
                    }
                    Twin::Second => Keep::Still(Twin::First),
                };
            }
            Keep::Still(twin) => {
                let key = self.source.key(*twin);
                match (bucket.call(Call::Get { key, range: None }), *twin) {
                    (Reply::Bytes(bytes), _) if bytes == self.bytes => return Some(true),
                    (Reply::Unknown, _) => {}
                    (_, Twin::First) => *twin = Twin::Second,
                    (_, Twin::Second) => return Some(false),
                }
            }
        }
        None
    }
}

impl Snapshots {
    /// Makes one step of one of them.
    pub(crate) fn step(&mut self, prng: &mut Prng, bucket: &mut Bucket, histories: &mut Histories) {
        if !self.kept.is_empty() && prng.chance(1, 30) {
            let at = prng.below(self.kept.len() as u64) as usize;
            let (name, _) = self.kept.swap_remove(at);
            // Whoever removes it may be stopped in between.
            for twin in Twin::BOTH {
                if prng.chance(7, 8) {
                    bucket.call(Call::Remove {
                        key: name.key(twin),
                    });
                }
            }
            return;
        }
        if !self.kept.is_empty() && prng.chance(1, 8) {
            let at = prng.below(self.kept.len() as u64) as usize;
            judge(&self.kept[at], bucket, histories, false);
            return;
        }
        if (self.keeping.is_some() || !self.kept.is_empty()) && prng.chance(1, 4) {
            self.keep_step(prng, bucket);
            return;
        }
        let taking = self.taking.get_or_insert_with(|| {
            self.begun += 1;
            let name = format!("s{}", self.begun).parse().unwrap();
            Taking {
                name,
                machine: Snapshotting::new(name, 0, self.begun),
                newest: histories.newest(),
            }
        });
        let reply = bucket.call(taking.machine.next());
        match taking.machine.answer(reply) {
            Ok(Progress::More) if prng.chance(1, 80) => self.taking = None,
            Ok(Progress::More) => {}
            Ok(Progress::Done(())) => {
                let (name, newest) = (taking.name, taking.newest);
                self.taking = None;
                self.taken += 1;
                match state_of(bucket, name) {
                    Some(state) => {
                        histories.judge_reading(newest, &state);
                        self.kept.push((name, state));
                    }
                    None => histories.notice(&"that an object of a new snapshot is gone"),
                }
            }
            Err(fault) => {
                self.taking = None;
                match fault {
                    VolumeFault::PinDropped => self.dropped += 1,
                    VolumeFault::NotThere => {}
                    fault => histories.notice(&fault),
                }
            }
        }
    }

    fn keep_step(&mut self, prng: &mut Prng, bucket: &mut Bucket) {
        if self.keeping.is_none() && !self.kept.is_empty() {
            let at = prng.below(self.kept.len() as u64) as usize;
            let (source, state) = self.kept[at].clone();
            let copies = Twin::BOTH.map(|twin| bucket.peek(&source.key(twin)));
            if let Some(bytes) = copies.into_iter().flatten().next() {
                self.begun += 1;
                let name = format!("k{}", self.begun).parse().unwrap();
                self.keeping = Some(Keeping::new(source, name, state, bytes.to_vec()));
            }
        }
        let Some(keeping) = &mut self.keeping else {
            return;
        };
        if let Some(counts) = keeping.step(bucket) {
            if counts {
                self.kept_twice += 1;
                self.kept.push((keeping.name, keeping.state.clone()));
            }
            self.keeping = None;
        }
    }

    /// Each of them is as it was taken.
    pub(crate) fn judge_end(&self, bucket: &Bucket, histories: &mut Histories) {
        for one in &self.kept {
            judge(one, bucket, histories, true);
        }
    }
}

fn judge(
    (name, taken): &(SnapshotName, State),
    bucket: &Bucket,
    histories: &mut Histories,
    must_be: bool,
) {
    match state_of(bucket, *name) {
        Some(state) => assert_eq!(&state, taken, "{name} is as it was taken"),
        None if must_be => panic!("{name} was removed"),
        None => histories.notice(&"that an object of a snapshot is gone"),
    }
}

/// What is read of the snapshot `name`; none if something is gone.
fn state_of(bucket: &Bucket, name: SnapshotName) -> Option<State> {
    let snapshot = Twin::BOTH.into_iter().find_map(|twin| {
        let key = name.key(twin);
        let call = Call::Get {
            key: key.clone(),
            range: None,
        };
        match bucket.answer(&call) {
            Reply::Bytes(bytes) => Some(Snapshot::decode(&bucket.manifest, &key, &bytes).unwrap()),
            _ => None,
        }
    })?;
    read(
        bucket,
        &Writer::new(Opened::of_snapshot(bucket.manifest, snapshot.map)),
    )
}
