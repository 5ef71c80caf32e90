//! First come, first called: the waiters of one primitive, in a slab.
//!
//! A place is *waiting* (linked into the line), *called* (unlinked, not yet picked up by its owner)
//! or *free*. Its owner alone frees it, by a [`Line::poll`] that finds the call or by
//! [`Line::leave`].

use std::task::Waker;

/// The index that stands for no place.
const NONE: u32 = u32::MAX;

/// Wakers that are run together once the lock is released.
const BATCH: usize = 16;

/// The waiters of one primitive; `T` is what each of them waits with.
#[derive(Debug)]
pub(super) struct Line<T> {
    places: Vec<Place<T>>,
    free: u32,
    first: u32,
    last: u32,
    waiting: usize,
}

#[derive(Debug)]
struct Place<T> {
    previous: u32,
    next: u32,
    called: bool,
    waker: Option<Waker>,
    with: T,
}

impl<T: Copy> Line<T> {
    pub(super) const PLACE_BYTES: usize = size_of::<Place<T>>();

    /// An empty line. The first `room` waiters at a time cost no allocation.
    pub(super) fn with_room(room: usize) -> Line<T> {
        Line {
            places: Vec::with_capacity(room),
            free: NONE,
            first: NONE,
            last: NONE,
            waiting: 0,
        }
    }

    /// Waiters that were not called yet.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Adds a waiter at the end and returns its place.
    pub(super) fn join(&mut self, with: T) -> u32 {
        let place = Place {
            previous: self.last,
            next: NONE,
            called: false,
            waker: None,
            with,
        };
        let index = if self.free == NONE {
            self.places.push(place);
            (self.places.len() - 1) as u32
        } else {
            let index = self.free;
            self.free = self.places[index as usize].next;
            self.places[index as usize] = place;
            index
        };
        match self.last {
            NONE => self.first = index,
            last => self.places[last as usize].next = index,
        }
        self.last = index;
        self.waiting += 1;
        index
    }

    /// What the first waiter waits with.
    pub(super) fn front(&mut self) -> Option<&mut T> {
        match self.first {
            NONE => None,
            first => Some(&mut self.places[first as usize].with),
        }
    }

    /// Calls the first waiter; returns its waker if it was polled already.
    pub(super) fn call_front(&mut self) -> Option<Waker> {
        let first = self.first;
        if first == NONE {
            return None;
        }
        self.call(first)
    }

    /// The place of the first waiter that `is_meant` is true of.
    pub(super) fn first_where(&self, is_meant: impl Fn(&T) -> bool) -> Option<u32> {
        let mut index = self.first;
        while index != NONE && !is_meant(&self.places[index as usize].with) {
            index = self.places[index as usize].next;
        }
        (index != NONE).then_some(index)
    }

    /// Calls the waiter at `index`, which waits; returns its waker if it was polled already.
    pub(super) fn call(&mut self, index: u32) -> Option<Waker> {
        self.unlink(index);
        let place = &mut self.places[index as usize];
        place.called = true;
        place.waker.take()
    }

    /// Frees the place at `index` and returns true if its owner was called; otherwise keeps `waker`
    /// until then. A replaced waker must be dropped without the lock: that may drop a task, and
    /// with it other waiters of this line.
    pub(super) fn poll(&mut self, index: u32, waker: &Waker) -> (bool, Option<Waker>) {
        let place = &mut self.places[index as usize];
        if place.called {
            self.release(index);
            return (true, None);
        }
        let is_known = place.waker.as_ref().is_some_and(|it| it.will_wake(waker));
        if is_known {
            return (false, None);
        }
        (false, place.waker.replace(waker.clone()))
    }

    /// Frees the place at `index`. Returns what it waited with, if it was called and its owner
    /// leaves without having picked up the call, and its waker, which must be dropped without the
    /// lock.
    pub(super) fn leave(&mut self, index: u32) -> (Option<T>, Option<Waker>) {
        let place = &mut self.places[index as usize];
        let waker = place.waker.take();
        let called = place.called.then_some(place.with);
        if called.is_none() {
            self.unlink(index);
        }
        self.release(index);
        (called, waker)
    }

    fn release(&mut self, index: u32) {
        self.places[index as usize].next = self.free;
        self.free = index;
    }

    fn unlink(&mut self, index: u32) {
        let Place { previous, next, .. } = self.places[index as usize];
        match previous {
            NONE => self.first = next,
            previous => self.places[previous as usize].next = next,
        }
        match next {
            NONE => self.last = previous,
            next => self.places[next as usize].previous = previous,
        }
        self.waiting -= 1;
    }
}

/// Wakers collected under a lock, to be run after it is released.
#[derive(Debug, Default)]
pub(super) struct WakerBatch {
    wakers: [Option<Waker>; BATCH],
    called: usize,
}

impl WakerBatch {
    /// Adds the waker of a called waiter, if it has one already.
    pub(super) fn add(&mut self, waker: Option<Waker>) {
        self.wakers[self.called] = waker;
        self.called += 1;
    }

    /// Whether the lock must be released before more waiters can be called.
    pub(super) fn is_full(&self) -> bool {
        self.called == BATCH
    }

    /// Runs the wakers; returns how many waiters were called.
    pub(super) fn wake(self) -> usize {
        for waker in self.wakers.into_iter().flatten() {
            waker.wake();
        }
        self.called
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_called_in_order_and_reused() {
        let mut line = Line::with_room(0);
        let first = line.join('a');
        let second = line.join('b');
        let third = line.join('c');
        assert_eq!(line.leave(second).0, None);
        assert!(line.call_front().is_none(), "nobody was polled");
        assert_eq!(line.waiting(), 1);
        assert!(line.poll(first, Waker::noop()).0);
        assert!(!line.poll(third, Waker::noop()).0);
        assert!(line.call_front().is_some(), "the third was polled");
        assert_eq!(line.leave(third).0, Some('c'));
        for with in ['d', 'e', 'f'] {
            line.join(with);
        }
        assert_eq!(line.places.len(), 3);
        assert_eq!(line.front(), Some(&mut 'd'));
    }
}
