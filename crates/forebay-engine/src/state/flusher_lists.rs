//! The objects that a flusher has to write (spec/writeback.md 7.1), and those whose failed writes
//! are not due again yet.
//!
//! An object is on one of the lists if and only if its place is `Queued` (B2).
//!
//! invariant B3: a flusher that sleeps without a bound has said so here, in one step with its last
//! look at empty lists. So the first object wakes it, or it looks again by itself.

use crate::state::object::{ObjectState, Queueing};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Objects for which the lists have room from the start.
const ROOM: usize = 128;

/// The objects of one store that are to be written, oldest first.
#[derive(Debug)]
pub(crate) struct FlusherLists {
    /// Dirty, in order of the time (ms) when they became so.
    dirty: VecDeque<(u64, Arc<ObjectState>)>,
    /// Objects of the present round.
    io: VecDeque<Arc<ObjectState>>,
    /// Objects with work left after their turn.
    more_io: VecDeque<Arc<ObjectState>>,
    /// Objects with failed writes, by the time (ms) of the next try and by their number. No round
    /// looks at one before its time, however many there are.
    put_off: BTreeMap<(u64, u32), Arc<ObjectState>>,
    /// Whether the flusher looks at the lists again by itself, at its next interval at the latest.
    is_armed: bool,
}

impl FlusherLists {
    pub(crate) fn new() -> FlusherLists {
        FlusherLists {
            dirty: VecDeque::with_capacity(ROOM),
            io: VecDeque::with_capacity(ROOM),
            more_io: VecDeque::with_capacity(ROOM),
            put_off: BTreeMap::new(),
            is_armed: false,
        }
    }

    /// Appends an object that became dirty at `since_ms`.
    pub(crate) fn add_dirty(&mut self, since_ms: u64, object: Arc<ObjectState>) {
        self.dirty.push_back((since_ms, object));
    }

    /// Appends an object that has work left, or puts it off until `until_ms`.
    pub(crate) fn add_left(
        &mut self,
        until_ms: Option<u64>,
        queueing: &mut Queueing,
        object: Arc<ObjectState>,
    ) {
        if let Some(until_ms) = until_ms {
            queueing.put_off_until_ms = until_ms;
            self.put_off.insert((until_ms, object.number), object);
        } else {
            self.more_io.push_back(object);
        }
    }

    /// Ends the wait of an object that may have been put off.
    pub(crate) fn hurry(&mut self, queueing: &Queueing, number: u32) {
        let key = (queueing.put_off_until_ms, number);
        self.more_io.extend(self.put_off.remove(&key));
    }

    /// Ends the wait of all objects that are put off. False if there were none.
    pub(crate) fn hurry_all(&mut self) -> bool {
        let waited = !self.put_off.is_empty();
        while let Some((_, object)) = self.put_off.pop_first() {
            self.more_io.push_back(object);
        }
        waited
    }

    /// When the first object that is put off is due, if there is one.
    pub(crate) fn first_due_ms(&self) -> Option<u64> {
        self.put_off.first_key_value().map(|(key, _)| key.0)
    }

    /// If the round has no object left, begins the next one: with what was left of the last round,
    /// what was put off and is due now, and what has been dirty since `dirty_since_ms` or longer.
    /// Returns whether it did.
    pub(crate) fn fill_round(&mut self, now_ms: u64, dirty_since_ms: Option<u64>) -> bool {
        if !self.io.is_empty() {
            return false;
        }
        self.io.append(&mut self.more_io);
        while let Some(first) = self.put_off.first_entry()
            && first.key().0 <= now_ms
        {
            self.io.push_back(first.remove());
        }
        let Some(cutoff_ms) = dirty_since_ms else {
            return true;
        };
        let is_due = |(since_ms, _): &mut (u64, Arc<ObjectState>)| *since_ms <= cutoff_ms;
        while let Some((_, object)) = self.dirty.pop_front_if(is_due) {
            self.io.push_back(object);
        }
        true
    }

    /// The next object of this round.
    pub(crate) fn take_of_round(&mut self) -> Option<Arc<ObjectState>> {
        self.io.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    /// The flusher is about to sleep: until its next interval at the longest, or without a bound.
    /// True if the lists are empty, so that it may.
    pub(crate) fn arm(&mut self, is_armed: bool) -> bool {
        self.is_armed = is_armed;
        self.is_empty()
    }

    /// Whether the flusher needs no wake-up to find what is added now.
    pub(crate) fn is_armed(&self) -> bool {
        self.is_armed
    }

    /// The object whose turn is next: one of this round, else one left of the last round, else the
    /// one that has been dirty for the longest time, else the first of those put off.
    pub(crate) fn first(&self) -> Option<&Arc<ObjectState>> {
        self.all().next()
    }

    /// Takes `object` off if it is the first.
    pub(crate) fn take_first(&mut self, object: &Arc<ObjectState>) -> bool {
        if !self.first().is_some_and(|first| Arc::ptr_eq(first, object)) {
            return false;
        }
        let left = self.io.pop_front().or_else(|| self.more_io.pop_front());
        let queued = left.or_else(|| self.dirty.pop_front().map(|(_, object)| object));
        queued.is_some() || self.put_off.pop_first().is_some()
    }

    /// All objects, in the order of their turns.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<ObjectState>> {
        let dirty = self.dirty.iter().map(|(_, object)| object);
        let left = self.io.iter().chain(&self.more_io);
        left.chain(dirty).chain(self.put_off.values())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::state::object::Origin;
    use forebay_base::sync::lock;
    use forebay_store::ObjectId;

    fn object(number: u32) -> Arc<ObjectState> {
        let origin = Origin::File {
            backing: 0,
            object: ObjectId(u64::from(number)),
        };
        Arc::new(ObjectState::new(number, origin, 0))
    }

    /// The numbers of the objects of the next round.
    fn round(lists: &mut FlusherLists, now_ms: u64, dirty_since_ms: Option<u64>) -> Vec<u32> {
        lists.fill_round(now_ms, dirty_since_ms);
        std::iter::from_fn(|| lists.take_of_round())
            .map(|object| object.number)
            .collect()
    }

    #[test]
    fn a_round_takes_what_was_left_and_then_what_is_due() {
        let mut lists = FlusherLists::new();
        lists.add_dirty(10, object(1));
        lists.add_dirty(20, object(2));
        lists.add_left(None, &mut lock(&object(3).queueing), object(3));
        assert_eq!(lists.all().count(), 3);
        assert_eq!(round(&mut lists, 30, Some(15)), [3, 1]);
        assert_eq!(round(&mut lists, 30, None), []);
        assert_eq!(round(&mut lists, 30, Some(20)), [2]);
        assert!(lists.is_empty());
    }

    #[test]
    fn invariant_b3_who_goes_to_sleep_says_how_and_sees_what_came_before() {
        let mut lists = FlusherLists::new();
        assert!(!lists.is_armed(), "it has not looked yet");
        assert!(lists.arm(true) && lists.is_armed());
        lists.add_dirty(10, object(1));
        assert!(!lists.arm(false), "it may not sleep without a bound");
        assert!(!lists.is_armed());
    }

    #[test]
    fn an_object_that_is_put_off_is_in_no_round_before_its_time() {
        let mut lists = FlusherLists::new();
        let (early, late) = (object(1), object(2));
        for (object, until_ms) in [(&late, 900), (&early, 500)] {
            lists.add_left(Some(until_ms), &mut lock(&object.queueing), object.clone());
        }
        assert_eq!(lists.first_due_ms(), Some(500));
        assert_eq!(round(&mut lists, 499, Some(499)), []);
        assert!(Arc::ptr_eq(lists.first().expect("two wait"), &early));
        assert_eq!(round(&mut lists, 500, None), [1]);
        lists.hurry(&lock(&late.queueing), 2);
        lists.hurry(&lock(&early.queueing), 1);
        assert_eq!(round(&mut lists, 501, None), [2]);
        assert!(lists.is_empty());
        lists.add_left(Some(800), &mut lock(&late.queueing), late.clone());
        assert!(lists.hurry_all() && !lists.hurry_all());
        assert_eq!(round(&mut lists, 600, None), [2]);
    }
}
