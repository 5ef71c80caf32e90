//! What will happen, ordered by time and then by age.
//!
//! A cancelled event leaves its entry in the heap; its sequence number shows that it is stale, and
//! it is dropped when it comes up, or when most entries are stale.

use super::tasks::Waiter;
use crate::timer::TimerId;
use forebay_base::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Below this many entries the stale ones are not worth a walk.
const TIDY_ENTRIES: usize = 64;

/// What happens.
#[derive(Debug)]
pub(super) enum Event {
    /// A waiter waited for this time.
    Wake(Waiter),
    /// The time slice of this processor ends.
    SliceEnd(usize),
}

#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<Entry>>,
    places: Vec<Place>,
    free: Vec<u32>,
    next_sequence: u64,
    live: usize,
}

#[derive(Debug)]
struct Place {
    sequence: u64,
    /// None: free.
    event: Option<Event>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    time: Instant,
    sequence: u64,
    place: u32,
}

impl Events {
    pub(super) fn set(&mut self, time: Instant, event: Event) -> TimerId {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.live += 1;
        let taken = Place {
            sequence,
            event: Some(event),
        };
        let place = if let Some(place) = self.free.pop() {
            self.places[place as usize] = taken;
            place
        } else {
            self.places.push(taken);
            (self.places.len() - 1) as u32
        };
        self.heap.push(Reverse(Entry {
            time,
            sequence,
            place,
        }));
        TimerId { sequence, place }
    }

    /// Lets the event `id` wake `waiter` instead. Returns what must be dropped without the lock:
    /// the former waiter, or `waiter` itself as an error if the event will not come any more.
    pub(super) fn renew(&mut self, id: TimerId, waiter: Waiter) -> Result<Event, Waiter> {
        match self.live_at(id.place, id.sequence) {
            Some(event) => Ok(std::mem::replace(event, Event::Wake(waiter))),
            None => Err(waiter),
        }
    }

    /// Takes back the event `id` if it is still to come.
    pub(super) fn cancel(&mut self, id: TimerId) -> Option<Event> {
        self.live_at(id.place, id.sequence)?;
        let event = self.release(id.place);
        if self.heap.len() > TIDY_ENTRIES && self.heap.len() > 2 * self.live {
            let places = &self.places;
            self.heap
                .retain(|Reverse(entry)| is_live(places, entry.place, entry.sequence));
        }
        event
    }

    /// When the next event happens.
    pub(super) fn next_time(&mut self) -> Option<Instant> {
        while let Some(Reverse(entry)) = self.heap.peek() {
            if is_live(&self.places, entry.place, entry.sequence) {
                return Some(entry.time);
            }
            self.heap.pop();
        }
        None
    }

    /// The next event, with its sequence, if it happens at `time`.
    pub(super) fn pop_at(&mut self, time: Instant) -> Option<(u64, Event)> {
        if self.next_time()? != time {
            return None;
        }
        let Reverse(entry) = self.heap.pop()?;
        let event = self.release(entry.place)?;
        Some((entry.sequence, event))
    }

    /// Takes back every event that is still to come.
    pub(super) fn cancel_all(&mut self) -> Vec<Event> {
        self.heap.clear();
        let mut cancelled = Vec::with_capacity(self.live);
        for place in 0..self.places.len() {
            if self.places[place].event.is_some() {
                cancelled.extend(self.release(place as u32));
            }
        }
        cancelled
    }

    fn live_at(&mut self, place: u32, sequence: u64) -> Option<&mut Event> {
        let place = &mut self.places[place as usize];
        if place.sequence != sequence {
            return None;
        }
        place.event.as_mut()
    }

    fn release(&mut self, place: u32) -> Option<Event> {
        self.free.push(place);
        self.live -= 1;
        self.places[place as usize].event.take()
    }
}

fn is_live(places: &[Place], place: u32, sequence: u64) -> bool {
    let place = &places[place as usize];
    place.sequence == sequence && place.event.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wake() -> Event {
        Event::Wake(Waiter::Outside(std::task::Waker::noop().clone()))
    }

    #[test]
    fn events_come_by_time_and_then_by_age() {
        let mut events = Events::default();
        let at = Instant::from_nanos;
        let late = events.set(at(9), wake());
        let first = events.set(at(5), Event::SliceEnd(0));
        let second = events.set(at(5), wake());
        assert_eq!(events.next_time(), Some(at(5)));
        assert_eq!(events.pop_at(at(5)).expect("it is due").0, first.sequence);
        assert_eq!(events.pop_at(at(5)).expect("it is due").0, second.sequence);
        assert!(events.pop_at(at(5)).is_none());
        assert!(events.cancel(late).is_some());
        assert!(events.cancel(late).is_none(), "it was cancelled before");
        assert_eq!(events.next_time(), None);
    }

    #[test]
    fn cancelled_events_do_not_pile_up() {
        let mut events = Events::default();
        for nanos in 0..10_000 {
            let id = events.set(Instant::from_nanos(1_000_000 + nanos), wake());
            assert!(events.cancel(id).is_some());
        }
        assert!(
            events.heap.len() <= TIDY_ENTRIES + 1,
            "{}",
            events.heap.len()
        );
        assert_eq!(events.places.len(), 1);
    }
}
