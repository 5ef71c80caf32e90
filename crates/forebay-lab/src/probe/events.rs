//! The engine's events, counted as they happen.

use super::Latencies;
use crate::outcome::{Distribution, Stall};
use forebay::event::{Event, EventSink};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use std::collections::BTreeMap;

/// Who waited, why, and how long in microseconds.
type StallKey = (&'static str, &'static str, u64);

/// Counts events. It is called from the engine's hot paths and keeps nothing that grows with their
/// number.
pub(crate) struct Watcher {
    tick: Span,
    counted: Mutex<Counted>,
}

#[derive(Default)]
struct Counted {
    pauses: Latencies,
    stalls: BTreeMap<StallKey, u64>,
    /// Pauses that began after this are counted.
    from: Instant,
    short_pauses: u64,
    longest_pause: BTreeMap<usize, Span>,
    /// Dirty pages at the first pause, in percent of the threshold.
    throttle_start_percent: Option<f64>,
}

/// What was counted.
pub(crate) struct Watched {
    pub(crate) pauses: Distribution,
    pub(crate) pause_median_ms: f64,
    /// Pauses below 4 ms, a part of all.
    pub(crate) short_pauses_percent: f64,
    /// Dirty pages at the first pause, in percent of the threshold.
    pub(crate) throttle_start_percent: Option<f64>,
    pub(crate) stalls: Vec<Stall>,
    /// By number of the store.
    pub(crate) longest_pause: BTreeMap<usize, Span>,
}

impl Watcher {
    pub(crate) fn new(tick: Span) -> Watcher {
        Watcher {
            tick,
            counted: Mutex::new(Counted::default()),
        }
    }

    /// Forgets what was counted up to `now`.
    pub(crate) fn restart(&self, now: Instant) {
        *lock(&self.counted) = Counted {
            from: now,
            ..Counted::default()
        };
    }

    pub(crate) fn watched(&self) -> Watched {
        let counted = lock(&self.counted);
        let all = counted.pauses.count().max(1) as f64;
        Watched {
            pauses: counted.pauses.distribution_ms(),
            pause_median_ms: counted.pauses.percentile_us(50.0) / 1_000.0,
            short_pauses_percent: 100.0 * counted.short_pauses as f64 / all,
            throttle_start_percent: counted.throttle_start_percent,
            stalls: counted.stalls.iter().map(stall_of).collect(),
            longest_pause: counted.longest_pause.clone(),
        }
    }
}

fn stall_of((&(context, reason, delayed_us), &count): (&StallKey, &u64)) -> Stall {
    Stall {
        context: context.into(),
        reason: reason.into(),
        delayed_us,
        count,
    }
}

impl EventSink for Watcher {
    fn record(&self, at: Instant, event: &Event) {
        match event {
            Event::BalanceDirtyPages { bdi, record } => {
                let pause = Span::from_micros(record.pause_us);
                if pause > Span::ZERO {
                    let position = &record.position;
                    let level = 100.0 * position.dirty as f64 / position.thresh.max(1) as f64;
                    lock(&self.counted).note_pause(at, *bdi, pause, level);
                }
            }
            Event::MmVmscanThrottled {
                usec_delayed,
                reason,
                ..
            } => {
                let tick_us = self.tick.as_micros().max(1);
                let delayed_us = usec_delayed / tick_us * tick_us;
                let key = ("direct", reason_name(*reason), delayed_us);
                *lock(&self.counted).stalls.entry(key).or_default() += 1;
            }
            _ => {}
        }
    }
}

fn reason_name(reason: forebay_law::throttle::ThrottleReason) -> &'static str {
    use forebay_law::throttle::ThrottleReason;
    match reason {
        ThrottleReason::Writeback => "WRITEBACK",
        ThrottleReason::Isolated => "ISOLATED",
        ThrottleReason::NoProgress => "NOPROGRESS",
        ThrottleReason::Congested => "CONGESTED",
    }
}

impl Counted {
    fn note_pause(&mut self, at: Instant, bdi: usize, pause: Span, level: f64) {
        const SHORT: Span = Span::from_millis(4);
        if at < self.from {
            return;
        }
        self.pauses.record(pause);
        self.throttle_start_percent.get_or_insert(level);
        self.short_pauses += u64::from(pause < SHORT);
        let longest = self.longest_pause.entry(bdi).or_default();
        *longest = (*longest).max(pause);
    }
}
