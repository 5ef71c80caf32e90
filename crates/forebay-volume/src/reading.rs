//! From a bucket to the map as of the last record.
//!
//! Each record has two copies, and the two newest maps stay in the bucket with all records after
//! the older of them. So whatever single object is missing, something else shows it.
//!
//! - invariant VB16: an end of the log is believed only if no copy of the next record and none of
//!   the one after it is there, and the map with which the reading began still is: maps go before
//!   the records that they cover, so nothing was removed from what was read.
//! - invariant VB17: listings are hints. A map that no listing shows is missed by none, because the
//!   one before it and the records after that are there; that there is no map at all is believed
//!   only if no record was removed, which [`MAPPED_KEY`] says.
//!
//! Two copies of a record differ only where a writer that opened the volume met a commit of the one
//! before. Then the second copy is the record, unless the next record follows the first one.

use crate::call::{Call, Progress, Reply};
use crate::fault::VolumeFault;
use crate::manifest::Manifest;
use crate::map::Map;
use crate::name::{MAP_PREFIX, MAPPED_KEY, Twin, log_key, map_key, number_of};
use crate::record::Record;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How often a reading begins again because maps came and went. More means that the bucket names
/// what it does not have.
const ROUNDS_LIMIT: u32 = 20;

/// The last record that was read, as the object that it was found in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) record: Record,
    checksum: u32,
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) twin: Twin,
}

/// What a reading found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) map: Map,
    /// The record of the map with which it began; 0 is none.
    pub(crate) base: u64,
    /// The map before that one, as far as a listing shows it; 0 is none.
    pub(crate) older: u64,
    /// The newest map that a record names.
    pub(crate) mapped: u64,
    /// The last record, if any was read.
    pub(crate) last: Option<Found>,
}

/// Reads the newest map and the records after it.
#[derive(Debug)]
pub(crate) struct Reading {
    manifest: Manifest,
    read: Read,
    /// Maps that were listed and are missing or damaged.
    bad_maps: BTreeSet<u64>,
    map_fault: Option<VolumeFault>,
    rounds: u32,
    /// The records before them, as copies of the next record say that do not follow the last one.
    unfit: Vec<u32>,
    /// What is wrong with the second copy of the next record.
    damage: Option<VolumeFault>,
    /// A record was found past one that is missing.
    is_gap: bool,
    /// It began with a state that was read before, and need not be read again for a newer map that
    /// it covers.
    is_following: bool,
    step: Step,
}

#[derive(Debug)]
enum Step {
    /// Which maps are there? Asked first, and last of all where the log ends or is damaged.
    List(Option<Ending>),
    Map(u64),
    /// A copy of the next record.
    Walk(Twin),
    /// The other copy of the last record: the next one does not follow the one that was read.
    Other,
    /// A copy of the record after one that is missing.
    Beyond(Twin),
    /// Is the map still there with which this began? Without one: was a record ever removed?
    Still(Ending),
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
            read: Read {
                map: Map::new(&manifest),
                base: 0,
                older: 0,
                mapped: 0,
                last: None,
            },
            bad_maps: BTreeSet::new(),
            map_fault: None,
            rounds: 0,
            unfit: Vec::new(),
            damage: None,
            is_gap: false,
            is_following: false,
            step: Step::List(None),
        }
    }

    /// Goes on from `read`, which is as of its last record.
    pub(crate) fn following(manifest: Manifest, read: Read) -> Reading {
        Reading {
            read,
            is_following: true,
            step: Step::Walk(Twin::Second),
            ..Reading::new(manifest)
        }
    }

    /// The number of the next record.
    fn number(&self) -> u64 {
        self.read.map.number() + 1 + u64::from(self.read.last.is_some())
    }

    pub(crate) fn next(&self) -> Call {
        let (key, range) = match &self.step {
            Step::List(_) => return Call::List { prefix: MAP_PREFIX },
            Step::Map(number) => (map_key(*number), None),
            Step::Walk(twin) => (twin.key(self.number()), None),
            Step::Other => {
                let twin = self.read.last.as_ref().map(|it| it.twin.other());
                (twin.unwrap_or(Twin::First).key(self.number() - 1), None)
            }
            Step::Beyond(twin) => (twin.key(self.number() + 1), None),
            Step::Still(_) if self.read.base == 0 => (MAPPED_KEY.to_owned(), None),
            Step::Still(_) => (map_key(self.read.base), Some(0..1)),
        };
        Call::Get { key, range }
    }

    /// See [`crate::Opening::ahead`].
    pub(crate) fn ahead(&self, count: u64) -> Vec<String> {
        let is_walking = matches!(self.step, Step::Walk(Twin::Second)) && self.read.last.is_some();
        let next = self.number() + 1;
        let numbers = next..next + if is_walking { count } else { 0 };
        numbers.map(|number| Twin::Second.key(number)).collect()
    }

    /// Takes the answer to [`Reading::next`].
    ///
    /// # Errors
    /// [`VolumeFault`], if an object is missing, damaged or of a newer program.
    pub(crate) fn answer(&mut self, reply: Reply) -> Result<Progress<Read>, VolumeFault> {
        let step = std::mem::replace(&mut self.step, Step::List(None));
        self.step = match (step, reply) {
            (Step::List(Some(end)), Reply::Keys(keys)) => match self.newest(&keys) {
                newest if newest <= self.read.base => return self.end(end),
                newest if self.is_following && newest < self.number() => {
                    self.read.base = newest;
                    return self.end(end);
                }
                newest => Step::Map(newest),
            },
            (Step::List(None), Reply::Keys(keys)) => self.choose(&keys)?,
            (Step::Map(number), Reply::Bytes(bytes)) => self.begin(number, &bytes)?,
            (Step::Map(number), Reply::Missing) => {
                self.bad_maps.insert(number);
                Step::List(None)
            }
            (Step::Walk(twin), Reply::Bytes(bytes)) => self.take(twin, bytes),
            (Step::Walk(Twin::Second), Reply::Missing) => Step::Walk(Twin::First),
            (Step::Walk(Twin::First), Reply::Missing) => self.not_found(),
            (Step::Other, Reply::Bytes(bytes)) => self.take_other(bytes),
            (Step::Other, Reply::Missing) => self.does_not_follow(),
            (Step::Beyond(_), Reply::Bytes(_)) => self.found_beyond(),
            (Step::Beyond(Twin::Second), Reply::Missing) => Step::Beyond(Twin::First),
            (Step::Beyond(Twin::First), Reply::Missing) => Step::Still(Ending::Last),
            (Step::Still(end), Reply::Bytes(_)) if self.read.base > 0 => Step::List(Some(end)),
            (Step::Still(end), Reply::Missing) if self.read.base == 0 => Step::List(Some(end)),
            // A collector has passed, or the listing of maps is not what is there.
            (Step::Still(_), Reply::Bytes(_) | Reply::Missing) => self.begin_again()?,
            // The same is asked again.
            (step, _) => step,
        };
        Ok(Progress::More)
    }

    fn end(&mut self, end: Ending) -> Result<Progress<Read>, VolumeFault> {
        match end {
            Ending::Damage(fault) => Err(fault),
            Ending::Last => {
                let last = self.read.last.take();
                if let Some(last) = &last {
                    self.apply(last)?;
                }
                let map = std::mem::replace(&mut self.read.map, Map::new(&self.manifest));
                let read = Read {
                    map,
                    last,
                    ..self.read
                };
                Ok(Progress::Done(read))
            }
        }
    }

    fn begin_again(&mut self) -> Result<Step, VolumeFault> {
        self.bad_maps.clear();
        self.again()
    }

    fn again(&mut self) -> Result<Step, VolumeFault> {
        self.rounds += 1;
        if self.rounds > ROUNDS_LIMIT {
            let key = match self.bad_maps.last() {
                Some(&number) => map_key(number),
                None => format!("every object below {MAP_PREFIX}"),
            };
            return Err(VolumeFault::Missing { key });
        }
        Ok(Step::List(None))
    }

    /// The newest map of `keys` that is not known to be bad; 0 if there is none. Notes the one
    /// before that with which this began.
    fn newest(&mut self, keys: &[(String, u64)]) -> u64 {
        let listed = keys
            .iter()
            .filter_map(|(key, _)| number_of(key, MAP_PREFIX));
        let listed: BTreeSet<u64> = listed.filter(|it| !self.bad_maps.contains(it)).collect();
        let older = listed.range(..self.read.base).next_back();
        self.read.older = older.copied().unwrap_or(0);
        listed.last().copied().unwrap_or(0)
    }

    /// Begins with the newest map of `keys`.
    fn choose(&mut self, keys: &[(String, u64)]) -> Result<Step, VolumeFault> {
        let newest = self.newest(keys);
        if newest > 0 {
            return Ok(Step::Map(newest));
        }
        if self.bad_maps.is_empty() {
            self.read.map = Map::new(&self.manifest);
            return Ok(self.walk_from(0));
        }
        match self.map_fault.take() {
            Some(fault) => Err(fault),
            None => self.begin_again(),
        }
    }

    fn begin(&mut self, number: u64, bytes: &[u8]) -> Result<Step, VolumeFault> {
        match Map::decode(&self.manifest, number, bytes) {
            Ok(map) => {
                self.read.map = map;
                Ok(self.walk_from(number))
            }
            // The one before it and the records say the same.
            Err(fault @ VolumeFault::Damaged { .. }) => {
                self.bad_maps.insert(number);
                self.map_fault = Some(fault);
                self.again()
            }
            Err(fault) => Err(fault),
        }
    }

    fn walk_from(&mut self, base: u64) -> Step {
        self.read.base = base;
        self.read.mapped = base;
        self.read.last = None;
        self.walk_on()
    }

    fn walk_on(&mut self) -> Step {
        self.unfit.clear();
        self.damage = None;
        self.is_gap = false;
        Step::Walk(Twin::Second)
    }

    fn apply(&mut self, found: &Found) -> Result<(), VolumeFault> {
        self.read.mapped = self.read.mapped.max(found.record.mapped);
        let map = &mut self.read.map;
        map.apply(&self.manifest, &found.record, found.checksum)
    }

    /// A copy of the next record.
    fn take(&mut self, twin: Twin, bytes: Vec<u8>) -> Step {
        let (record, checksum) = match Record::decode(self.number(), &bytes) {
            Ok(decoded) => decoded,
            Err(VolumeFault::Damaged { what, .. }) if twin == Twin::Second => {
                let key = twin.key(self.number());
                self.damage = Some(VolumeFault::Damaged { key, what });
                return Step::Walk(Twin::First);
            }
            Err(fault) => return Step::Still(Ending::Damage(fault)),
        };
        let before = self.read.last.as_ref().map(|it| it.checksum);
        if record.prior == before.unwrap_or(self.read.map.checksum()) {
            if let Some(last) = self.read.last.take()
                && let Err(fault) = self.apply(&last)
            {
                return Step::Still(Ending::Damage(fault));
            }
            let bytes = Arc::new(bytes);
            self.read.last = Some(Found {
                record,
                checksum,
                bytes,
                twin,
            });
            return self.walk_on();
        }
        self.unfit.push(record.prior);
        match twin {
            Twin::Second => Step::Walk(Twin::First),
            Twin::First => self.none_follows(),
        }
    }

    /// No copy of the next record follows the last one.
    fn none_follows(&self) -> Step {
        if self.read.last.is_some() {
            return Step::Other;
        }
        self.does_not_follow()
    }

    fn does_not_follow(&self) -> Step {
        Step::Still(Ending::Damage(VolumeFault::Damaged {
            key: log_key(self.number()),
            what: "it does not follow the record before",
        }))
    }

    /// The other copy of the last record counts, if the next one follows it.
    fn take_other(&mut self, bytes: Vec<u8>) -> Step {
        let decoded = Record::decode(self.number() - 1, &bytes);
        if let (Ok((record, checksum)), Some(last)) = (decoded, &mut self.read.last)
            && record.prior == self.read.map.checksum()
            && self.unfit.contains(&checksum)
        {
            *last = Found {
                record,
                checksum,
                bytes: Arc::new(bytes),
                twin: last.twin.other(),
            };
            return self.walk_on();
        }
        self.does_not_follow()
    }

    fn not_found(&self) -> Step {
        if !self.unfit.is_empty() {
            return self.none_follows();
        }
        if let Some(damage) = &self.damage {
            return Step::Still(Ending::Damage(damage.clone()));
        }
        if self.is_gap {
            // It was not made meanwhile: it is gone.
            let key = log_key(self.number());
            return Step::Still(Ending::Damage(VolumeFault::Missing { key }));
        }
        Step::Beyond(Twin::Second)
    }

    fn found_beyond(&mut self) -> Step {
        let step = self.walk_on();
        self.is_gap = true;
        step
    }
}

/// The number of the newest map that is not `missing`; 0 if there is none.
pub(crate) fn newest(keys: &[(String, u64)], missing: u64) -> u64 {
    let numbers = keys
        .iter()
        .filter_map(|(key, _)| number_of(key, MAP_PREFIX));
    numbers.filter(|&it| it != missing).max().unwrap_or(0)
}
