//! `gc`: removes what the state as of the last record does not need.
//!
//! - invariant VB8: nothing is removed that this state or a later one names. Later records name no
//!   further objects of older epochs, and of the last epoch only those from [`Map::settled`] on.
//! - invariant VB9: records go only after a map that covers them is there, and openings stay.

use crate::append::{Append, Appended};
use crate::call::{Call, Progress, Reply};
use crate::fault::VolumeFault;
use crate::map::Map;
use crate::name::{ChunkName, DATA_PREFIX, LOG_PREFIX, MAP_PREFIX, map_key, number_of};
use crate::opening::{Access, Opened, Opening};
use std::collections::BTreeSet;

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Removes what is not needed. A writer may go on meanwhile, and others may collect.
#[derive(Debug)]
pub struct Collecting {
    step: Step,
    collected: Collected,
    doomed: Vec<(String, u64)>,
}

#[derive(Debug)]
enum Step {
    Open(Opening),
    MakeMap(Box<Map>, Append),
    List(Box<Map>, &'static str),
    Remove,
}

impl Collecting {
    /// A collection that has not begun.
    #[allow(clippy::new_without_default, reason = "it is a task and not a value")]
    pub fn new() -> Collecting {
        Collecting {
            step: Step::Open(Opening::new(Access::Read)),
            collected: Collected::default(),
            doomed: Vec::new(),
        }
    }

    /// What to ask now.
    pub fn next(&self) -> Call {
        match &self.step {
            Step::Open(opening) => opening.next(),
            Step::MakeMap(_, append) => append.next(),
            Step::List(_, prefix) => Call::List { prefix },
            Step::Remove => Call::Remove {
                key: self
                    .doomed
                    .last()
                    .map(|(key, _)| key.clone())
                    .unwrap_or_default(),
            },
        }
    }

    /// Takes the answer to [`Collecting::next`].
    ///
    /// # Errors
    /// [`VolumeFault`] if the volume cannot be read. Nothing was removed then.
    pub fn answer(&mut self, reply: Reply) -> Result<Progress<Collected>, VolumeFault> {
        match &mut self.step {
            Step::Open(opening) => {
                if let Progress::Done(Opened { map, base, .. }) = opening.answer(reply)? {
                    let number = map.number();
                    self.step = if number > base {
                        let append = Append::new(map_key(number), map.encode());
                        Step::MakeMap(Box::new(map), append)
                    } else {
                        Step::List(Box::new(map), DATA_PREFIX)
                    };
                }
            }
            Step::MakeMap(map, append) => {
                match append.answer(reply) {
                    Progress::More => {}
                    Progress::Done(Appended::Ours) => {
                        self.step = Step::List(map.clone(), DATA_PREFIX);
                    }
                    // Records must not go if that map does not stand for them.
                    Progress::Done(Appended::Theirs) => {
                        return Err(VolumeFault::Damaged {
                            key: map_key(map.number()),
                            what: "it is not the map as of its record",
                        });
                    }
                }
            }
            Step::List(map, prefix) => {
                if let Reply::Keys(keys) = reply {
                    self.doomed.extend(unneeded(map, keys));
                    let next = match *prefix {
                        DATA_PREFIX => Some(LOG_PREFIX),
                        LOG_PREFIX => Some(MAP_PREFIX),
                        _ => None,
                    };
                    match next {
                        Some(next) => *prefix = next,
                        None => self.step = Step::Remove,
                    }
                }
            }
            Step::Remove => {
                if let Reply::Done | Reply::Missing = reply
                    && let Some((_, bytes)) = self.doomed.pop()
                {
                    self.collected.objects += 1;
                    self.collected.bytes += bytes;
                }
            }
        }
        match self.step {
            Step::Remove if self.doomed.is_empty() => Ok(Progress::Done(self.collected)),
            _ => Ok(Progress::More),
        }
    }
}

/// Those of `keys`, each with its length, that `map` and later ones do not need: `gc` removes them.
///
/// ```
/// use forebay_volume::{Manifest, Map, log_key, unneeded};
/// let map = Map::new(&Manifest::new(1, 2 << 30, 1 << 20)?);
/// let keys = vec![(log_key(1), 100), ("data/00/0000000000000001-0000000000000000".into(), 4096)];
/// assert_eq!(unneeded(&map, keys), [], "both may be a writer's that has just begun");
/// # Ok::<(), forebay_volume::VolumeFault>(())
/// ```
pub fn unneeded(map: &Map, keys: Vec<(String, u64)>) -> Vec<(String, u64)> {
    let named: BTreeSet<ChunkName> = map.chunks().map(|(_, object)| object.name).collect();
    let mut records: BTreeSet<u64> = map.openings().iter().copied().collect();
    records.extend(map.pages().map(|(_, inline)| inline.record));
    let is_needed = |key: &str| {
        if let Some(name) = ChunkName::parse(key) {
            let may_come = (name.epoch, name.number) >= (map.epoch(), map.settled());
            return may_come || named.contains(&name);
        }
        if let Some(number) = number_of(key, LOG_PREFIX) {
            return number > map.number() || records.contains(&number);
        }
        match number_of(key, MAP_PREFIX) {
            Some(number) => number >= map.number(),
            // Nobody here made it.
            None => true,
        }
    };
    keys.into_iter()
        .filter(|(key, _)| !is_needed(key))
        .collect()
}
