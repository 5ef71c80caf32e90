//! What the cache's trace events show: how long writers paused, and what a page of reclaim costs.

use crate::contender::Sample;
use crate::measure::Times;
use forebay::event::{Event, EventSink};
use forebay_base::Instant;
use std::cell::Cell;
use std::sync::Mutex;

/// Records what is needed from each event.
#[derive(Default)]
pub(crate) struct EventLog {
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    /// Pauses of writers.
    pauses: Times,
    /// Time for one page, for each batch that reclaim judged.
    page_times: Times,
}

thread_local! {
    /// When reclaim on this thread was last seen working, if it is working.
    static RECLAIM_SEEN: Cell<Option<Instant>> = const { Cell::new(None) };
}

impl EventLog {
    /// How long writers paused since the last call, if any did.
    pub(crate) fn pause_samples(&self) -> Vec<Sample> {
        let pauses = std::mem::take(&mut self.noted().pauses);
        if pauses.count() == 0 {
            return Vec::new();
        }
        vec![
            Sample::plain("pauses", "pauses", pauses.count() as f64),
            pauses.micros("pause"),
        ]
    }

    /// The median time between two batches of reclaim on one thread, for each page judged since the
    /// last call. The median is used because a batch during which the thread lost its processor
    /// means nothing.
    pub(crate) fn reclaim_sample(&self) -> Option<Sample> {
        let page_times = std::mem::take(&mut self.noted().page_times);
        (page_times.count() > 0).then(|| {
            let percentiles = page_times.percentiles(1.0);
            Sample {
                percentiles: Some(percentiles),
                ..Sample::plain("reclaim", "ns a page", percentiles.p50)
            }
        })
    }

    fn noted(&self) -> std::sync::MutexGuard<'_, Noted> {
        self.noted
            .lock()
            .expect("nothing panics while it holds this")
    }

    fn record_batch(&self, at: Instant, pages: u64) {
        if let Some(before) = RECLAIM_SEEN.replace(Some(at))
            && pages > 0
        {
            self.noted()
                .page_times
                .record(at.since(before).as_nanos() / pages);
        }
    }
}

impl EventSink for EventLog {
    fn record(&self, at: Instant, event: &Event) {
        match *event {
            Event::BalanceDirtyPages { record, .. } => {
                self.noted().pauses.record(record.pause_us * 1_000);
            }
            Event::MmVmscanLruShrinkInactive { nr_scanned, .. } => {
                self.record_batch(at, nr_scanned);
            }
            Event::MmVmscanLruShrinkActive { nr_taken, .. } => self.record_batch(at, nr_taken),
            Event::MmVmscanKswapdWake { .. }
            | Event::MmVmscanDirectReclaimBegin { .. }
            | Event::MmVmscanThrottled { .. } => RECLAIM_SEEN.set(Some(at)),
            Event::MmVmscanKswapdSleep { .. } | Event::MmVmscanDirectReclaimEnd { .. } => {
                RECLAIM_SEEN.set(None);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(nr_taken: u64) -> Event {
        Event::MmVmscanLruShrinkActive {
            nid: 0,
            nr_taken,
            nr_deactivated: 0,
            priority: 12,
        }
    }

    #[test]
    fn a_page_of_reclaim_is_timed_from_batch_to_batch_and_not_over_a_sleep() {
        let log = EventLog::default();
        let wake = Event::MmVmscanKswapdWake {
            nid: 0,
            highest_zoneidx: 0,
        };
        let at = Instant::from_nanos;
        assert!(log.reclaim_sample().is_none());
        log.record(at(1_000), &wake);
        log.record(at(1_640), &batch(32));
        log.record(at(2_600), &batch(32));
        log.record(at(2_700), &Event::MmVmscanKswapdSleep { nid: 0 });
        log.record(at(9_000_000), &wake);
        log.record(at(9_000_640), &batch(32));
        let sample = log.reclaim_sample().unwrap();
        assert!((sample.value - 20.0).abs() < 0.1, "{sample:?}");
        assert!((sample.percentiles.unwrap().max - 30.0).abs() < 0.1);
        assert!(log.reclaim_sample().is_none(), "each round has its own");
    }
}
