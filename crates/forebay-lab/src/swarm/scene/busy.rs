//! Busy: a store has requests while its writers pause without a gap and some of its pages are
//! dirty.
//!
//! The oracle of work judges calls that are held up for any reason, and what is due by the
//! background threshold. This one asks only whether writers pause.

use super::super::verdict::{Oracle, Violation};
use super::observer::{Moment, Observer, SceneIo};
use super::plan::Scene;
use forebay_base::{Instant, Span};
use forebay_engine::event::{Event, PauseLimit};
use forebay_store::Rate;

/// A store may idle for this long: two of the longest pauses, and the rest of a flusher whose last
/// round was in vain. The first pause may have begun when nothing of the store was due.
const LONGEST: Span = Span::from_millis(500);

/// One store.
#[derive(Clone, Copy, Debug, Default)]
struct OfStore {
    is_judged: bool,
    requests: u64,
    /// Until when writers pause, and since when without a gap.
    paused: Option<(Instant, Instant)>,
    /// Since when it has had no request and something to write.
    idle_since: Instant,
}

impl OfStore {
    fn pauses(&mut self, from: Instant, until: Instant) {
        self.paused = match self.paused {
            Some((since, last)) if from <= last => Some((since, last.max(until))),
            _ => Some((from, until)),
        };
    }

    fn judge(&self, now: Instant) -> Option<String> {
        let (since, until) = self.paused?;
        let idle = until.min(now).since(since.max(self.idle_since));
        (self.is_judged && self.requests == 0 && idle > LONGEST).then(|| {
            format!(
                "at {} ms it has had no request for {idle}, in which its writers paused and its \
                 pages were dirty ({LONGEST} may be)",
                now.as_millis()
            )
        })
    }
}

/// See above.
#[derive(Debug)]
pub(super) struct Busy {
    stores: Vec<OfStore>,
}

impl Busy {
    pub(super) fn new(scene: &Scene) -> Busy {
        let sites = scene.sites.iter();
        let of_store = sites.map(|site| OfStore {
            // A store that refuses pages is left alone for a while.
            is_judged: site.rate != Rate::UNLIMITED && site.faults.is_empty(),
            ..OfStore::default()
        });
        Busy {
            stores: of_store.collect(),
        }
    }

    fn judge(&self, now: Instant) -> Option<Violation> {
        let mut stores = self.stores.iter().enumerate();
        let (store, what) = stores.find_map(|(at, store)| Some((at, store.judge(now)?)))?;
        Some(Oracle::Busy.finds(format!("store {store}: {what}")))
    }
}

impl Observer for Busy {
    fn event(&mut self, moment: &Moment<'_>, event: &Event) -> Option<Violation> {
        if let Event::BalanceDirtyPages { bdi, record, .. } = event {
            let pause = Span::from_micros(record.pause_us);
            let (from, until) = if record.limit == PauseLimit::Unmeasured {
                // It is reported at its end.
                let before_us = moment.now.as_micros() - record.pause_us;
                (Instant::ZERO + Span::from_micros(before_us), moment.now)
            } else {
                (moment.now, moment.now + pause)
            };
            self.stores[*bdi].pauses(from, until);
        }
        None
    }

    fn io(&mut self, moment: &Moment<'_>, io: SceneIo<'_>) -> Option<Violation> {
        let found = self.judge(moment.now);
        let store = &mut self.stores[io.store()];
        match io {
            SceneIo::RequestBegins(_) => store.requests += 1,
            SceneIo::RequestEnds(..) => {
                store.requests -= 1;
                store.idle_since = moment.now;
            }
            _ => {}
        }
        found
    }

    fn look(&mut self, moment: &Moment<'_>) -> Option<Violation> {
        let seen = moment.statistics();
        for (store, seen) in self.stores.iter_mut().zip(&seen.backings) {
            if seen.reclaimable == 0 {
                store.idle_since = moment.now;
            }
        }
        self.judge(moment.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::at;

    fn store(pauses_ms: &[u64]) -> OfStore {
        let mut store = OfStore {
            is_judged: true,
            ..OfStore::default()
        };
        for &from in pauses_ms {
            store.pauses(at(from), at(from + 180));
        }
        store
    }

    #[test]
    fn a_store_that_idles_while_its_writers_pause_is_found() {
        assert_eq!(store(&[0, 180, 360]).judge(at(500)), None);
        let found = store(&[0, 180, 360]).judge(at(540));
        assert!(found.is_some_and(|what| what.contains("no request for 540 ms")));
    }

    #[test]
    fn a_store_may_idle_while_nobody_pauses_or_after_a_request() {
        assert_eq!(store(&[0, 180, 400]).judge(at(580)), None, "a gap");
        let busy = OfStore {
            requests: 1,
            ..store(&[0, 180, 360])
        };
        assert_eq!(busy.judge(at(540)), None);
        let asked = OfStore {
            idle_since: at(100),
            ..store(&[0, 180, 360])
        };
        assert_eq!(asked.judge(at(540)), None);
    }
}
