//! What snapshots hold. A remover of objects asks for it first.
//!
//! - invariant VB22: objects are removed only after their remover knew a state that does not need
//!   them, then found no pin, and then read every snapshot that a listing shows; what one of these
//!   names stays. That a pin is dropped is said before the snapshots are listed.
//!
//! A snapshot that this listing does not show was pinned after that state, so it is of that one or
//! of a later one, and needs nothing of what is removed: see VB8 and VB23.
//!
//! - invariant VB25: a reader of snapshots lists them again, until a listing shows none that was
//!   not read. So a snapshot may be kept under a second name without a pin, if the first one is
//!   still there afterwards: a listing shows one of them at any time.

use crate::append::Append;
use crate::call::{Call, Progress, Reply};
use crate::fault::VolumeFault;
use crate::manifest::Manifest;
use crate::map::Map;
use crate::name::{ChunkName, PIN_PREFIX, SNAPSHOT_PREFIX, Twin, record_of};
use crate::snapshot::{Pin, Snapshot};
use crate::snapshot_name::SnapshotName;
use std::collections::BTreeSet;

/// Objects that maps name, those of snapshots above all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    chunks: BTreeSet<ChunkName>,
    records: BTreeSet<u64>,
    /// The only ones that are asked about; all if it is none.
    among: Option<Box<Held>>,
}

impl Held {
    /// Those of the objects `keys`: no more memory is needed than for these.
    ///
    /// ```
    /// use forebay_volume::{Held, Manifest, Map, log_key};
    /// let mut held = Held::among(&[log_key(7)]);
    /// held.add(&Map::new(&Manifest::new(1, 2 << 30, 1 << 20)?));
    /// assert!(!held.holds(&log_key(7)));
    /// # Ok::<(), forebay_volume::VolumeFault>(())
    /// ```
    pub fn among(keys: &[String]) -> Held {
        let records = keys.iter().filter_map(|key| record_of(key));
        Held {
            among: Some(Box::new(Held {
                chunks: keys
                    .iter()
                    .filter_map(|key| ChunkName::parse(key))
                    .collect(),
                records: records.collect(),
                among: None,
            })),
            ..Held::default()
        }
    }

    /// Adds what `map` names.
    pub fn add(&mut self, map: &Map) {
        let among = self.among.as_deref();
        let names = map.chunks().map(|(_, object)| object.name);
        let is_meant = |name: &ChunkName| among.is_none_or(|it| it.chunks.contains(name));
        self.chunks.extend(names.filter(is_meant));
        let records = map.records().keys().copied();
        let is_meant = |number: &u64| among.is_none_or(|it| it.records.contains(number));
        self.records.extend(records.filter(is_meant));
    }

    /// Whether one of the maps names the object `key`.
    pub fn holds(&self, key: &str) -> bool {
        let is_chunk = |name| self.chunks.contains(&name);
        let is_record = |number| self.records.contains(&number);
        ChunkName::parse(key).is_some_and(is_chunk) || record_of(key).is_some_and(is_record)
    }
}

/// What to do with pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pins {
    /// Nothing is removed while there is one.
    Respect,
    /// Those who set them have had their time: see [`crate::Snapshotting`].
    Drop,
}

/// The bytes of what says that a pin is dropped.
const DROPPED: &[u8] = b"this pin holds nothing any more\n";
const LIST: Call = Call::List {
    prefix: SNAPSHOT_PREFIX,
};

/// Finds out what snapshots hold.
#[derive(Debug)]
pub struct Holding {
    manifest: Manifest,
    pins: Pins,
    step: Step,
    /// The snapshots that were read, or are gone.
    known: BTreeSet<SnapshotName>,
    held: Held,
}

#[derive(Debug)]
enum Step {
    Pins,
    /// What says that pins are dropped, the next one last.
    Drop(Vec<Append>),
    List,
    /// A copy of the last of these snapshots. The second one is asked for if the first is missing
    /// or damaged in this way.
    Read(Vec<SnapshotName>, Twin, Option<VolumeFault>),
}

impl Holding {
    /// For the volume with `manifest`. What is found is added to `held`.
    pub fn new(manifest: Manifest, pins: Pins, held: Held) -> Holding {
        Holding {
            manifest,
            pins,
            step: Step::Pins,
            known: BTreeSet::new(),
            held,
        }
    }

    /// What to ask now.
    pub fn next(&self) -> Call {
        match &self.step {
            Step::Pins => Call::List { prefix: PIN_PREFIX },
            Step::Drop(drops) => match drops.last() {
                Some(drop) => drop.next(),
                None => LIST,
            },
            Step::List => LIST,
            Step::Read(names, twin, _) => Call::Get {
                key: names.last().map(|it| it.key(*twin)).unwrap_or_default(),
                range: None,
            },
        }
    }

    /// Takes the answer to [`Holding::next`].
    ///
    /// # Errors
    /// [`VolumeFault::Pinned`]; [`VolumeFault::Damaged`] if a snapshot cannot be read: what it
    /// names is not known then, so nothing can be removed.
    pub fn answer(&mut self, reply: Reply) -> Result<Progress<Held>, VolumeFault> {
        let step = std::mem::replace(&mut self.step, Step::List);
        self.step = match (step, reply) {
            (Step::Pins, Reply::Keys(keys)) => self.pinned(&keys)?,
            (Step::Drop(mut drops), reply) => {
                let is_said = |drop: &mut Append| drop.answer(reply) != Progress::More;
                drops.pop_if(is_said);
                if drops.is_empty() {
                    Step::List
                } else {
                    Step::Drop(drops)
                }
            }
            (Step::List, Reply::Keys(keys)) => {
                let names = keys.iter().filter_map(|(key, _)| SnapshotName::of_key(key));
                let names: BTreeSet<SnapshotName> = names.collect();
                let new = names.difference(&self.known).copied();
                Step::Read(new.collect(), Twin::First, None)
            }
            (Step::Read(names, twin, fault), reply) => self.read(names, twin, fault, reply)?,
            // The same is asked again.
            (step, _) => step,
        };
        match &self.step {
            Step::Read(names, ..) if names.is_empty() => {
                Ok(Progress::Done(std::mem::take(&mut self.held)))
            }
            _ => Ok(Progress::More),
        }
    }

    fn pinned(&self, keys: &[(String, u64)]) -> Result<Step, VolumeFault> {
        let (mut set, mut dropped) = (BTreeSet::new(), BTreeSet::new());
        for (pin, number) in keys.iter().filter_map(|(key, _)| Pin::of_key(key)) {
            match pin {
                Pin::Set => set.insert(number),
                Pin::Dropped => dropped.insert(number),
            };
        }
        let pins: Vec<u128> = set.difference(&dropped).copied().collect();
        if pins.is_empty() {
            return Ok(Step::List);
        }
        if self.pins == Pins::Respect {
            return Err(VolumeFault::Pinned);
        }
        let drops = pins.iter().flat_map(|&number| {
            Twin::BOTH.map(|twin| Append::new(Pin::Dropped.key(number, twin), DROPPED.to_vec()))
        });
        Ok(Step::Drop(drops.collect()))
    }

    fn read(
        &mut self,
        names: Vec<SnapshotName>,
        twin: Twin,
        fault: Option<VolumeFault>,
        reply: Reply,
    ) -> Result<Step, VolumeFault> {
        let Some(name) = names.last() else {
            return Ok(Step::Read(names, twin, fault));
        };
        let fault = match reply {
            Reply::Bytes(bytes) => {
                match Snapshot::decode(&self.manifest, &name.key(twin), &bytes) {
                    Ok(snapshot) => {
                        self.held.add(&snapshot.map);
                        return Ok(self.read_next(names));
                    }
                    Err(damage @ VolumeFault::Damaged { .. }) => Some(damage),
                    Err(fault) => return Err(fault),
                }
            }
            Reply::Missing => fault,
            _ => return Ok(Step::Read(names, twin, fault)),
        };
        match (twin, fault) {
            (Twin::First, fault) => Ok(Step::Read(names, Twin::Second, fault)),
            (Twin::Second, Some(fault)) => Err(fault),
            // It was removed since it was listed.
            (Twin::Second, None) => Ok(self.read_next(names)),
        }
    }

    /// The last one of `names` is known. See invariant VB25.
    fn read_next(&mut self, mut names: Vec<SnapshotName>) -> Step {
        self.known.extend(names.pop());
        if names.is_empty() {
            return Step::List;
        }
        Step::Read(names, Twin::First, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// VB25: between the listing and the reading a snapshot was kept under another name, and
    /// removed under the first.
    #[test]
    fn a_snapshot_that_has_got_another_name_meanwhile_is_read() {
        let manifest = Manifest::new(1, 1 << 20, 64 << 10).expect("it is possible");
        let map = Map::new(&manifest);
        let snapshot = Snapshot { taken_ms: 5, map }.encode();
        let [first, second]: [SnapshotName; 2] =
            ["monday", "clone"].map(|name| name.parse().expect("it is a name"));
        let listed = |name: SnapshotName| Reply::Keys(vec![(name.key(Twin::First), 1)]);
        let mut holding = Holding::new(manifest, Pins::Respect, Held::default());
        let replies = [
            Reply::Keys(Vec::new()),
            listed(first),
            Reply::Missing,
            Reply::Missing,
            listed(second),
            Reply::Bytes(snapshot),
            listed(second),
        ];
        let mut asked = Vec::new();
        for reply in replies {
            asked.push(holding.next());
            let is_last = asked.len() == 7;
            let answered = holding.answer(reply).expect("nothing is wrong");
            assert_eq!(answered != Progress::More, is_last, "{asked:?}");
        }
        let key = second.key(Twin::First);
        assert_eq!(asked[5], Call::Get { key, range: None });
    }
}
