//! The times that are waited for, earliest first, in memory that is used again and again: setting a
//! timer allocates only if more timers wait than ever before.

use crate::timer::TimerId;
use forebay_base::Instant;
use std::task::Waker;

/// Timers for which there is room from the start.
pub(super) const ROOM: usize = 256;

/// The waiters. A place holds one of them or is free; the heap has the places that are taken.
///
/// invariant H1: no place of the heap comes before its parent, by deadline and then by age.
/// invariant H2: a place that is taken knows where in the heap it is.
#[derive(Debug)]
pub(super) struct Deadlines {
    places: Vec<Place>,
    heap: Vec<u32>,
    free: Vec<u32>,
    next_sequence: u64,
}

#[derive(Debug)]
struct Place {
    deadline: Instant,
    sequence: u64,
    /// None if nobody waits.
    waker: Option<Waker>,
    at: usize,
}

impl Deadlines {
    pub(super) fn new() -> Deadlines {
        Deadlines {
            places: Vec::with_capacity(ROOM),
            heap: Vec::with_capacity(ROOM),
            free: Vec::with_capacity(ROOM),
            next_sequence: 0,
        }
    }

    /// Lets `waker` wait for `deadline`.
    pub(super) fn insert(&mut self, deadline: Instant, waker: Waker) -> TimerId {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let at = self.heap.len();
        let waiting = Place {
            deadline,
            sequence,
            waker: Some(waker),
            at,
        };
        let place = if let Some(free) = self.free.pop() {
            self.places[free as usize] = waiting;
            free
        } else {
            self.places.push(waiting);
            (self.places.len() - 1) as u32
        };
        self.heap.push(place);
        self.rise(at);
        TimerId { sequence, place }
    }

    /// The waker of a timer that still waits, to be looked at or replaced.
    pub(super) fn waker(&mut self, timer: TimerId) -> Option<&mut Waker> {
        let place = self.places.get_mut(timer.place as usize)?;
        (place.sequence == timer.sequence).then_some(place.waker.as_mut())?
    }

    /// Takes a timer out, if it still waits.
    pub(super) fn remove(&mut self, timer: TimerId) -> Option<Waker> {
        self.waker(timer)?;
        self.take(self.places[timer.place as usize].at)
    }

    /// The earliest deadline.
    pub(super) fn first(&self) -> Option<Instant> {
        let &first = self.heap.first()?;
        Some(self.places[first as usize].deadline)
    }

    /// Whether `timer` is the one that comes first.
    pub(super) fn is_first(&self, timer: TimerId) -> bool {
        self.heap.first() == Some(&timer.place)
    }

    /// Takes the first one out.
    pub(super) fn pop(&mut self) -> Option<Waker> {
        if self.heap.is_empty() {
            return None;
        }
        self.take(0)
    }

    /// Takes all waiters out.
    pub(super) fn take_all(&mut self) -> Vec<Waker> {
        std::iter::from_fn(|| self.pop()).collect()
    }

    /// Takes the place at index `at` out of the heap.
    fn take(&mut self, at: usize) -> Option<Waker> {
        let place = self.heap.swap_remove(at);
        self.free.push(place);
        if at < self.heap.len() {
            self.places[self.heap[at] as usize].at = at;
            self.rise(at);
            self.sink(at);
        }
        self.places[place as usize].waker.take()
    }

    fn key(&self, at: usize) -> (Instant, u64) {
        let place = &self.places[self.heap[at] as usize];
        (place.deadline, place.sequence)
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for at in [one, other] {
            self.places[self.heap[at] as usize].at = at;
        }
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.key(at) < self.key((at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let children = [2 * at + 1, 2 * at + 2];
            let existing = children.into_iter().filter(|&it| it < self.heap.len());
            let Some(least) = existing.min_by_key(|&it| self.key(it)) else {
                return;
            };
            if self.key(at) <= self.key(least) {
                return;
            }
            self.swap(at, least);
            at = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_base::Prng;
    use std::collections::BTreeMap;

    /// Panics unless invariants H1 and H2 hold.
    fn check(deadlines: &Deadlines) {
        for at in 0..deadlines.heap.len() {
            let parent = at.saturating_sub(1) / 2;
            assert!(at == 0 || deadlines.key(parent) < deadlines.key(at));
            assert_eq!(deadlines.places[deadlines.heap[at] as usize].at, at);
        }
    }

    #[test]
    fn they_come_as_an_ordered_map_has_them() {
        for seed in 0..50 {
            let mut chance = Prng::from_seed(seed);
            let mut deadlines = Deadlines::new();
            let mut twin = BTreeMap::new();
            let mut made = Vec::new();
            for _ in 0..500 {
                match chance.below(4) {
                    0 | 1 => {
                        let deadline = Instant::from_nanos(chance.below(20));
                        let timer = deadlines.insert(deadline, Waker::noop().clone());
                        made.push((deadline, timer.sequence, timer));
                        twin.insert((deadline, timer.sequence), timer);
                        let first = twin.values().next() == Some(&timer);
                        assert_eq!(deadlines.is_first(timer), first);
                    }
                    2 if !made.is_empty() => {
                        let which = chance.below(made.len() as u64) as usize;
                        let (deadline, sequence, timer) = made[which];
                        let waited = twin.remove(&(deadline, sequence)).is_some();
                        assert_eq!(deadlines.waker(timer).is_some(), waited);
                        assert_eq!(deadlines.remove(timer).is_some(), waited);
                    }
                    _ => {
                        let first = twin.pop_first().map(|((deadline, _), _)| deadline);
                        assert_eq!(deadlines.first(), first);
                        assert_eq!(deadlines.pop().is_some(), first.is_some());
                    }
                }
                check(&deadlines);
            }
            assert_eq!(deadlines.take_all().len(), twin.len());
            assert_eq!(deadlines.first(), None);
        }
    }
}
