//! Callers: no caller that needs a frame is held up while frames are free (spec/reclaim.md 1.8, 5.5
//! and 6.2; docs/decisions/reclaim-and-memory.md).
//!
//! The store of the readers answers at once, so a reader that is held up waits for a frame. A task
//! that frees one wakes it. Without that it would sleep up to its time-out, 100 ms or a second.
//! Between two passes of its own reclaim it may be throttled, for a tick or 20 ms at a time and
//! often in a row, although frames are free (spec/reclaim.md 3.8 and 5.6). So time in which any
//! caller was throttled does not count.

use super::keeper::beyond;
use forebay_base::{Instant, Span};
use forebay_engine::statistics::ZoneStatistics;
use std::collections::BTreeMap;

/// Looks come every 10 ms. A throttled caller is known only when its wait has ended, after at most
/// 20 ms.
const LONGEST: Span = Span::from_millis(40);

/// Readers that are in a call.
#[derive(Debug, Default)]
pub(super) struct Callers {
    /// The number of the call of each reader, while it is in one.
    in_calls: BTreeMap<u64, u64>,
    calls: u64,
    /// The call of each reader, and since when it has been in this call while frames were free.
    held_up: BTreeMap<u64, (u64, Instant)>,
}

impl Callers {
    pub(super) fn call_begins(&mut self, reader: u64) {
        self.calls += 1;
        self.in_calls.insert(reader, self.calls);
    }

    pub(super) fn call_ends(&mut self, reader: u64) {
        self.in_calls.remove(&reader);
    }

    /// A caller was throttled until now.
    pub(super) fn throttled(&mut self) {
        self.held_up.clear();
    }

    /// Looks at the zones. `is_swapping`: reclaimers wait for room in the queue of swap.
    pub(super) fn look(
        &mut self,
        now: Instant,
        zones: &[ZoneStatistics],
        is_swapping: bool,
    ) -> Option<String> {
        let has_frames = zones.iter().any(|zone| beyond(zone, zone.min) > 0);
        if is_swapping || !has_frames {
            self.held_up.clear();
            return None;
        }
        let before = std::mem::take(&mut self.held_up);
        for (&reader, &call) in &self.in_calls {
            let known = before.get(&reader).filter(|(of, _)| *of == call);
            self.held_up.insert(reader, *known.unwrap_or(&(call, now)));
        }
        let is_long = |(_, (_, since)): &(&u64, &(u64, Instant))| now.since(*since) > LONGEST;
        let (reader, (_, since)) = self.held_up.iter().find(is_long)?;
        let free: Vec<_> = zones.iter().map(|zone| (zone.free, zone.min)).collect();
        Some(format!(
            "reader {reader} is held up from {} to {} ms, and at each look frames were free: now \
             {free:?} with these min marks; {LONGEST} are allowed (spec/reclaim.md 1.8, 5.5)",
            since.as_millis(),
            now.as_millis()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::keeper::zone;
    use super::*;
    use crate::swarm::at;

    /// Reader 7 is in a call from 0 on; what is found at the last of these looks 10 ms apart.
    fn after(looks: u64, act: impl Fn(&mut Callers, u64), free: u64) -> Option<String> {
        let mut callers = Callers::default();
        callers.call_begins(7);
        let zones = [zone(45), zone(free)];
        let mut found = None;
        for look in 0..looks {
            act(&mut callers, look);
            found = callers.look(at(10 * look), &zones, false);
        }
        found
    }

    #[test]
    fn a_reader_that_is_held_up_while_frames_are_free_is_found() {
        assert_eq!(after(5, |_, _| {}, 46), None, "40 ms");
        let found = after(6, |_, _| {}, 46).expect("50 ms");
        assert!(
            found.contains("reader 7 is held up from 0 to 50 ms"),
            "{found}"
        );
    }

    #[test]
    fn a_reader_may_wait_while_there_is_no_frame_or_somebody_is_throttled() {
        // The min mark is 40, and 5 are kept for others.
        assert_eq!(after(50, |_, _| {}, 45), None);
        let throttled = |callers: &mut Callers, look| {
            if look % 4 == 0 {
                callers.throttled();
            }
        };
        assert_eq!(after(50, throttled, 46), None);
        let goes_on = |callers: &mut Callers, look| {
            if look % 4 == 0 {
                callers.call_ends(7);
                callers.call_begins(7);
            }
        };
        assert_eq!(after(50, goes_on, 46), None, "other calls");
    }
}
