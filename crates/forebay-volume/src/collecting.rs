//! `gc`: removes what the state as of the last record does not need.
//!
//! - invariant VB8: nothing is removed that this state or a later one names. Later records name no
//!   further objects of older epochs, and of the last epoch only those from [`Map::settled`] on.
//! - invariant VB19: no map is made as of an opening record, but only as of a commit after it:
//!   until then it is not settled that the opening counts.
//! - invariant VB9: records go only if two maps that cover them are there, and after the maps
//!   before those; openings stay. So whichever map is lost, the other one and the records after it
//!   are there.
//! - what snapshots hold stays: see invariant VB22.

use crate::append::{Append, Appended};
use crate::call::{Call, Progress, Reply};
use crate::copying::{Copied, Copying};
use crate::fault::VolumeFault;
use crate::holding::{Held, Holding, Pins};
use crate::manifest::Manifest;
use crate::map::Map;
use crate::name::{
    ChunkName, DATA_PREFIX, LOG_PREFIX, MAP_PREFIX, MAPPED_KEY, TWIN_PREFIX, map_key, number_of,
    record_of,
};
use crate::opening::{Access, Opened, Opening};
use std::collections::BTreeSet;

/// The bytes of the object [`MAPPED_KEY`].
pub const MAPPED: &[u8] = b"records were removed\n";
/// What is listed, in this order: maps go before the records that they cover.
const PREFIXES: [&str; 4] = [MAP_PREFIX, LOG_PREFIX, TWIN_PREFIX, DATA_PREFIX];

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
    pins: Pins,
    /// What is opened.
    manifest: Option<Manifest>,
    held: Held,
    /// The map before the newest one, which stays too; 0 if there is none.
    older: u64,
    collected: Collected,
    /// The next one is the last.
    doomed: Vec<(String, u64)>,
}

#[derive(Debug)]
enum Step {
    Open(Opening),
    /// The last record gets its other copy, before a map stands for it.
    Complete(Box<Opened>, Copying),
    MakeMap(Box<Map>, Append),
    /// Is the map before the newest one there?
    Older(Box<Map>),
    /// From now on records may be missing: see [`MAPPED_KEY`].
    Mark(Box<Map>, Append),
    Hold(Box<Map>, Holding),
    List(Box<Map>, usize),
    Remove,
}

impl Collecting {
    /// A collection that has not begun.
    pub fn new(pins: Pins) -> Collecting {
        Collecting {
            step: Step::Open(Opening::new(Access::Read)),
            pins,
            manifest: None,
            held: Held::default(),
            older: 0,
            collected: Collected::default(),
            doomed: Vec::new(),
        }
    }

    /// What to ask now.
    pub fn next(&self) -> Call {
        match &self.step {
            Step::Open(opening) => opening.next(),
            Step::Complete(_, copying) => copying.next(),
            Step::MakeMap(_, append) | Step::Mark(_, append) => append.next(),
            Step::Older(_) => Call::Get {
                key: map_key(self.older),
                range: Some(0..1),
            },
            Step::Hold(_, holding) => holding.next(),
            Step::List(_, at) => Call::List {
                prefix: PREFIXES[*at],
            },
            Step::Remove => Call::Remove {
                key: self
                    .doomed
                    .last()
                    .map(|(key, _)| key.clone())
                    .unwrap_or_default(),
            },
        }
    }

    /// What is to be removed, with its bytes, once that is known: in this order, as many as one
    /// likes at a time of those whose keys begin alike up to the first slash. It ends with that,
    /// and nothing is asked any more.
    pub fn doomed(&mut self) -> Option<Vec<(String, u64)>> {
        if !matches!(self.step, Step::Remove) {
            return None;
        }
        self.doomed.reverse();
        Some(std::mem::take(&mut self.doomed))
    }

    /// Takes the answer to [`Collecting::next`].
    ///
    /// # Errors
    /// [`VolumeFault`] if the volume cannot be read, or is pinned. Nothing was removed then.
    pub fn answer(&mut self, reply: Reply) -> Result<Progress<Collected>, VolumeFault> {
        self.step = match (std::mem::replace(&mut self.step, Step::Remove), reply) {
            (Step::Open(mut opening), reply) => match opening.answer(reply)? {
                Progress::More => Step::Open(opening),
                Progress::Done(mut opened) => match opened.last.take() {
                    // See invariant VB19.
                    Some(copying) if !copying.is_settled() => Step::Remove,
                    Some(copying) => Step::Complete(Box::new(opened), copying),
                    None => self.opened(opened),
                },
            },
            (Step::Complete(opened, mut copying), reply) => match copying.answer(reply) {
                Progress::More => Step::Complete(opened, copying),
                Progress::Done(Copied::Same) => self.opened(*opened),
                // Which of them counts is settled by the next record.
                Progress::Done(Copied::Differs | Copied::IsOther) => Step::Remove,
            },
            (Step::MakeMap(map, mut append), reply) => match append.answer(reply) {
                Progress::More => Step::MakeMap(map, append),
                Progress::Done(Appended::Ours) => self.mapped(map),
                // Records must not go if that map does not stand for them.
                Progress::Done(Appended::Theirs) => {
                    return Err(VolumeFault::Damaged {
                        key: map_key(map.number()),
                        what: "it is not the map as of its record",
                    });
                }
            },
            (Step::Older(map), Reply::Bytes(_)) => {
                let mark = Append::new(MAPPED_KEY.to_owned(), MAPPED.to_vec());
                Step::Mark(map, mark)
            }
            (Step::Older(map), Reply::Missing) => {
                self.older = 0;
                self.hold(map)
            }
            (Step::Mark(map, mut append), reply) => match append.answer(reply) {
                Progress::More => Step::Mark(map, append),
                Progress::Done(_) => self.hold(map),
            },
            (Step::Hold(map, mut holding), reply) => match holding.answer(reply)? {
                Progress::More => Step::Hold(map, holding),
                Progress::Done(held) => {
                    self.held = held;
                    Step::List(map, 0)
                }
            },
            (Step::List(map, at), Reply::Keys(keys)) => self.listed(map, at, keys),
            (Step::Remove, Reply::Done | Reply::Missing) => {
                if let Some((_, bytes)) = self.doomed.pop() {
                    self.collected.objects += 1;
                    self.collected.bytes += bytes;
                }
                Step::Remove
            }
            // The same is asked again.
            (step, _) => step,
        };
        match self.step {
            Step::Remove if self.doomed.is_empty() => Ok(Progress::Done(self.collected)),
            _ => Ok(Progress::More),
        }
    }

    fn listed(&mut self, map: Box<Map>, at: usize, keys: Vec<(String, u64)>) -> Step {
        self.doomed
            .extend(unneeded(&map, self.older, &self.held, keys));
        if at + 1 < PREFIXES.len() {
            return Step::List(map, at + 1);
        }
        self.doomed.reverse();
        Step::Remove
    }

    fn opened(&mut self, opened: Opened) -> Step {
        self.older = opened.stays();
        self.manifest = Some(opened.manifest);
        let number = opened.map.number();
        if number == opened.base {
            return self.mapped(Box::new(opened.map));
        }
        let append = Append::new(map_key(number), opened.map.encode());
        Step::MakeMap(Box::new(opened.map), append)
    }

    fn mapped(&self, map: Box<Map>) -> Step {
        if self.older > 0 {
            return Step::Older(map);
        }
        self.hold(map)
    }

    fn hold(&self, map: Box<Map>) -> Step {
        let manifest = self.manifest.expect("the map is one of an open volume");
        Step::Hold(map, Holding::new(manifest, self.pins, Held::default()))
    }
}

/// Those of `keys`, each with its length, that `map` and later ones do not need, if the map as of
/// record `older` stays with it, and that snapshots do not hold: `gc` removes them.
///
/// ```
/// use forebay_volume::{Held, Manifest, Map, log_key, unneeded};
/// let map = Map::new(&Manifest::new(1, 2 << 30, 1 << 20)?);
/// let keys = vec![(log_key(1), 100), ("data/00/0000000000000001-0000000000000000".into(), 4096)];
/// let unneeded = unneeded(&map, 0, &Held::default(), keys);
/// assert_eq!(unneeded, [], "both may be a writer's that has just begun");
/// # Ok::<(), forebay_volume::VolumeFault>(())
/// ```
pub fn unneeded(
    map: &Map,
    older: u64,
    held: &Held,
    keys: Vec<(String, u64)>,
) -> Vec<(String, u64)> {
    let mut named = Held::default();
    named.add(map);
    let openings: BTreeSet<u64> = map.openings().iter().copied().collect();
    let is_needed = |key: &str| {
        if named.holds(key) || held.holds(key) {
            return true;
        }
        if let Some(name) = ChunkName::parse(key) {
            // It may be named by a later record.
            return (name.epoch, name.number) >= (map.epoch(), map.settled());
        }
        if let Some(number) = record_of(key) {
            return number > older || openings.contains(&number);
        }
        // What is no map either was made by somebody else.
        number_of(key, MAP_PREFIX).is_none_or(|number| number >= older)
    };
    keys.into_iter()
        .filter(|(key, _)| !is_needed(key))
        .collect()
}
