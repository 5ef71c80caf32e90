//! From a bucket to the map as of the last record.
//!
//! `gc` removes records that a map covers. A reader that began with an older map then meets a gap,
//! or what somebody made in it. So a reading is right only if no newer map is there when it has
//! reached the end; else it begins again with that one.

use crate::call::{Call, Progress, Reply};
use crate::fault::VolumeFault;
use crate::manifest::Manifest;
use crate::map::Map;
use crate::name::{MAP_PREFIX, log_key, map_key, number_of};
use crate::record::Record;

/// Reads the newest map and the records after it.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    manifest: Manifest,
    map: Map,
    /// The record of the map with which it began; 0 is none.
    base: u64,
    step: Step,
}

#[derive(Clone, Debug)]
enum Step {
    /// Which maps are there? Asked first, and again where the log ends or is damaged.
    List {
        end: Option<Ending>,
    },
    Map(u64),
    Walk,
}

#[derive(Clone, Debug)]
enum Ending {
    /// No record follows.
    Last,
    /// What follows is wrong.
    Damage(VolumeFault),
}

impl Reading {
    pub(crate) fn new(manifest: Manifest) -> Reading {
        Reading {
            manifest,
            map: Map::new(&manifest),
            base: 0,
            step: Step::List { end: None },
        }
    }

    /// The record of the map with which it began.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn next(&self) -> Call {
        let key = match self.step {
            Step::List { .. } => return Call::List { prefix: MAP_PREFIX },
            Step::Map(number) => map_key(number),
            Step::Walk => log_key(self.map.number() + 1),
        };
        Call::Get { key, range: None }
    }

    pub(crate) fn answer(&mut self, reply: Reply) -> Result<Progress<Map>, VolumeFault> {
        match (&self.step, reply) {
            (Step::List { end }, Reply::Keys(keys)) => {
                let newest = newest(&keys);
                match end {
                    Some(Ending::Last) if newest <= self.base => {
                        return Ok(Progress::Done(self.map.clone()));
                    }
                    Some(Ending::Damage(fault)) if newest <= self.base => {
                        return Err(fault.clone());
                    }
                    _ if newest == 0 => self.step = Step::Walk,
                    _ => self.step = Step::Map(newest),
                }
            }
            (Step::Map(number), Reply::Bytes(bytes)) => {
                self.map = Map::decode(&self.manifest, *number, &bytes)?;
                self.base = *number;
                self.step = Step::Walk;
            }
            // A newer one has replaced it.
            (Step::Map(_), Reply::Missing) => self.step = Step::List { end: None },
            (Step::Walk, Reply::Bytes(bytes)) => {
                let number = self.map.number() + 1;
                let applied = Record::decode(number, &bytes).and_then(|(record, checksum)| {
                    self.map.apply(&self.manifest, &record, checksum)
                });
                if let Err(fault) = applied {
                    let end = Some(Ending::Damage(fault));
                    self.step = Step::List { end };
                }
            }
            (Step::Walk, Reply::Missing) => {
                let end = Some(Ending::Last);
                self.step = Step::List { end };
            }
            // The same is asked again.
            _ => {}
        }
        Ok(Progress::More)
    }
}

/// The number of the newest map; 0 if there is none.
pub(crate) fn newest(keys: &[(String, u64)]) -> u64 {
    let numbers = keys
        .iter()
        .filter_map(|(key, _)| number_of(key, MAP_PREFIX));
    numbers.max().unwrap_or(0)
}
