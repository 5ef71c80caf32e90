//! What a writer's own commits have made useless. It is removed while the writer goes on, the
//! oldest first, so that those who opened the volume a little earlier find what they need.
//!
//! - invariant VB10: what a state named is removed only once a later record no longer needs it,
//!   that record is known to be in the log, and a map that covers it is known to be there: an
//!   opening looks for newer maps at the end, and begins again if there is one. A record
//!   is removed only if two such maps are known to be there (VB9), and [`crate::MAPPED_KEY`] is.

use crate::manifest::Manifest;
use crate::map::Map;
use crate::name::{ChunkName, Twin, map_key};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Objects that are remembered; `gc` finds what is more.
const LIMIT: usize = 1 << 16;

/// An object that nobody needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dead {
    Chunk(ChunkName),
    Record(u64, Twin),
    Map(u64),
}

impl Dead {
    fn key(&self) -> String {
        match self {
            Dead::Chunk(name) => name.to_string(),
            Dead::Record(number, twin) => twin.key(*number),
            Dead::Map(number) => map_key(*number),
        }
    }
}

/// A map that is being made.
#[derive(Clone, Debug)]
struct Covering {
    number: u64,
    /// The records up to there that are needed.
    kept: BTreeSet<u64>,
    /// What records that it covers have replaced.
    replaced: Vec<ChunkName>,
}

/// See above.
#[derive(Clone, Debug)]
pub(crate) struct Waste {
    /// Replaced by the record that is being made.
    sealed: Vec<ChunkName>,
    /// Replaced by records that no map covers.
    replaced: Vec<ChunkName>,
    /// What can be removed.
    dead: VecDeque<Dead>,
    /// How many chunks are in the two before, and in `covering`.
    chunks: u64,
    /// How many of what can be removed are records and maps.
    others: u64,
    /// The bytes of both copies of records that are there, as far as they are known, and their sum.
    sizes: BTreeMap<u64, u64>,
    recorded_bytes: u64,
    /// Bytes of records and of replaced chunks since the last map.
    fresh_bytes: u64,
    chunk_bytes: u64,
    /// The newest map that is known to be there, and the one before it: all records after that one
    /// are needed.
    covered: u64,
    older: u64,
    /// Records up to this one are those of a clone's parent.
    shared: u64,
    /// Which records up to `older` were needed when that was known last.
    kept: BTreeSet<u64>,
    covering: Option<Covering>,
}

impl Waste {
    /// That of a writer which begins with `map`. The newest map object is that of record `base`,
    /// and the one before it that of `older`. What was useless before is not known here.
    pub(crate) fn new(manifest: &Manifest, map: &Map, base: u64, older: u64) -> Waste {
        let needed = records_of(map);
        let records = map.records().iter();
        let page_bytes = manifest.pages.record_bytes();
        let sizes = records.map(|(&number, it)| (number, 2 * page_bytes * it.pages));
        let sizes: BTreeMap<u64, u64> = sizes.take(LIMIT).collect();
        Waste {
            sealed: Vec::new(),
            replaced: Vec::new(),
            dead: VecDeque::new(),
            chunks: 0,
            others: 0,
            recorded_bytes: sizes.values().sum(),
            sizes,
            fresh_bytes: 0,
            chunk_bytes: manifest.whole_object_bytes(),
            covered: base,
            older,
            shared: manifest.shared.map_or(0, |it| it.record),
            kept: needed
                .into_iter()
                .filter(|&number| number <= older)
                .collect(),
            covering: None,
        }
    }

    /// The record that is being made replaces `name`.
    pub(crate) fn replaced(&mut self, name: ChunkName) {
        if self.len() < LIMIT {
            self.sealed.push(name);
        }
    }

    fn len(&self) -> usize {
        self.sealed.len() + self.chunks as usize + self.others as usize
    }

    /// Bytes that came since the last map: about as many may be freed by the next two.
    pub(crate) fn fresh_bytes(&self) -> u64 {
        self.fresh_bytes
    }

    /// The bytes of records that are there, as far as they are known.
    pub(crate) fn recorded_bytes(&self) -> u64 {
        self.recorded_bytes
    }

    /// Record `number`, each copy of which has so many bytes, is in the log.
    pub(crate) fn recorded(&mut self, number: u64, bytes: usize) {
        let both_bytes = 2 * bytes as u64;
        if self.sizes.len() < LIMIT {
            self.sizes.insert(number, both_bytes);
            self.recorded_bytes += both_bytes;
        }
        self.fresh_bytes += both_bytes + self.sealed.len() as u64 * self.chunk_bytes;
        self.chunks += self.sealed.len() as u64;
        self.replaced.append(&mut self.sealed);
    }

    /// No record names `name` or will.
    pub(crate) fn never_named(&mut self, name: ChunkName) {
        if self.len() >= LIMIT {
            return;
        }
        self.dead.push_back(Dead::Chunk(name));
        self.chunks += 1;
    }

    /// `map` is being made as an object. No record is in doubt.
    pub(crate) fn covers(&mut self, map: &Map) {
        self.fresh_bytes = 0;
        // What a map was to cover that was not made is covered by this one.
        let mut replaced = self.covering.take().map_or_else(Vec::new, |it| it.replaced);
        replaced.append(&mut self.replaced);
        self.covering = Some(Covering {
            number: map.number(),
            kept: records_of(map),
            replaced,
        });
    }

    /// Whether nothing can be removed without another map.
    pub(crate) fn wants_map(&self) -> bool {
        self.dead.is_empty()
    }

    /// The map that was being made is there.
    pub(crate) fn map_made(&mut self) {
        let Some(covering) = self.covering.take() else {
            return;
        };
        self.dead
            .extend(covering.replaced.into_iter().map(Dead::Chunk));
        // The map that was the newest stays, with all records after that one.
        let known = std::mem::take(&mut self.kept);
        let new = self.older.max(self.shared) + 1..=self.covered;
        let is_dead = |number: &u64| !covering.kept.contains(number);
        let records = known.into_iter().chain(new).filter(is_dead);
        let copies = records.flat_map(|number| Twin::BOTH.map(|twin| Dead::Record(number, twin)));
        // It goes before the records that it covers: see `Collecting`.
        let map = (self.older > 0).then_some(Dead::Map(self.older));
        let room = LIMIT.saturating_sub(self.len());
        let others: Vec<Dead> = map.into_iter().chain(copies).take(room).collect();
        self.others += others.len() as u64;
        self.dead.extend(others);
        self.older = self.covered;
        self.covered = covering.number;
        self.kept = covering.kept;
        self.kept.retain(|&number| number <= self.older);
    }

    /// The newest map that is known to be there.
    pub(crate) fn covered(&self) -> u64 {
        self.covered
    }

    /// How many objects with chunks are of no use.
    pub(crate) fn chunks(&self) -> u64 {
        self.chunks
    }

    /// The keys of those that have been of no use for longest, `most` of them at most and no more
    /// than it takes to free `bytes`. All are of one kind: maps go before the records that they
    /// cover. They stay here until [`Waste::removed`].
    pub(crate) fn oldest(&self, most: usize, bytes: u64) -> Vec<String> {
        let kind = self.dead.front().map(std::mem::discriminant);
        let mut freed = 0;
        let are_next = self.dead.iter().take(most).take_while(|dead| {
            let is_next = freed < bytes && kind == Some(std::mem::discriminant(*dead));
            freed += match dead {
                Dead::Chunk(_) => self.chunk_bytes,
                Dead::Record(number, _) => self.sizes.get(number).map_or(0, |both| both / 2),
                Dead::Map(_) => 0,
            };
            is_next
        });
        are_next.map(Dead::key).collect()
    }

    /// The first `count` of [`Waste::oldest`] are gone.
    pub(crate) fn removed(&mut self, count: usize) {
        for _ in 0..count {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        match self.dead.pop_front() {
            None => {}
            Some(Dead::Chunk(_)) => self.chunks -= 1,
            Some(Dead::Record(number, twin)) => {
                self.others -= 1;
                let left = self.sizes.remove(&number).unwrap_or(0);
                if twin == Twin::First {
                    self.sizes.insert(number, left / 2);
                    self.recorded_bytes -= left - left / 2;
                } else {
                    self.recorded_bytes -= left;
                }
            }
            Some(Dead::Map(_)) => self.others -= 1,
        }
    }
}

/// The records that `map` and later ones need.
fn records_of(map: &Map) -> BTreeSet<u64> {
    let mut records: BTreeSet<u64> = map.openings().iter().copied().collect();
    records.extend(map.records().keys());
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_remembers_as_many_objects_as_it_may_however_many_are_useless() {
        let manifest = Manifest::new(1, 1 << 30, 1 << 20).expect("it is possible");
        let mut waste = Waste::new(&manifest, &Map::new(&manifest), 0, 0);
        for number in 0..2 * LIMIT as u64 {
            let name = ChunkName { epoch: 1, number };
            if number % 2 == 0 {
                waste.never_named(name);
            } else {
                waste.replaced(name);
                waste.recorded(number, 100);
            }
        }
        assert_eq!(waste.len(), LIMIT);
        let mut removals = 0;
        loop {
            let keys = waste.oldest(256, u64::MAX);
            if keys.is_empty() {
                break;
            }
            assert_eq!(
                keys,
                waste.oldest(256, u64::MAX),
                "they stay until they are gone"
            );
            waste.removed(keys.len());
            removals += keys.len();
        }
        assert_eq!(removals, LIMIT / 2, "no map covers the others");
    }
}
