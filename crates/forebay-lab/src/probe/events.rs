//! The engine's events, counted as they happen.

use super::Latencies;
use super::pauses::{PausesOf, WatchedPauses};
use crate::outcome::{Distribution, Stall};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_engine::event::{Event, EventSink, PageLevels, PauseRecord};
use forebay_engine::{CallerKey, CallerKind};
use forebay_law::throttle::ThrottleReason;
use std::collections::BTreeMap;

/// Who waited, why, and how long in microseconds.
/// What stalls are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct StallKey {
    context: &'static str,
    reason: &'static str,
    delayed_us: u64,
}

/// Counts events. The engine's hot paths call it, so it keeps nothing that grows with their number.
pub(crate) struct Watcher {
    tick: Span,
    counted: Mutex<Counted>,
}

#[derive(Default)]
struct Counted {
    /// Pauses that began before this are not counted.
    from: Instant,
    pauses: Latencies,
    /// By number of the store.
    of_store: BTreeMap<usize, PausesOf>,
    /// By process; handles without a name are not told apart.
    of_process: BTreeMap<CallerKey, PausesOf>,
    since_look: PausesSinceLook,
    stalls: BTreeMap<StallKey, u64>,
    short_pauses: u64,
    longest_pause: BTreeMap<usize, Span>,
    throttle_start_percent: Option<f64>,
    /// By zone, at each write of a file page from reclaim.
    dirty_of_inactive: BTreeMap<usize, Mean>,
    dirty_and_writeback_of_inactive: BTreeMap<usize, Mean>,
    dirty_of_file: Mean,
}

/// The pauses since the last sample, over the whole run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PausesSinceLook {
    count: u64,
    sum: Span,
    longest: Span,
}

impl PausesSinceLook {
    fn add(&mut self, pause: Span) {
        self.count += 1;
        self.sum += pause;
        self.longest = self.longest.max(pause);
    }

    /// Their mean in milliseconds; 0 if there are none.
    pub(crate) fn mean_ms(&self) -> f64 {
        self.sum.as_secs_f64() * 1e3 / self.count.max(1) as f64
    }

    /// The longest in milliseconds; 0 if there are none.
    pub(crate) fn longest_ms(&self) -> f64 {
        self.longest.as_secs_f64() * 1e3
    }
}

/// A mean that is being computed.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    fn add(&mut self, part: u64, whole: u64) {
        if whole > 0 {
            self.sum += part as f64 / whole as f64;
            self.count += 1;
        }
    }

    fn value(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// What was counted.
pub(crate) struct Watched {
    pub(crate) pauses: Distribution,
    /// By number of the store.
    pub(crate) of_store: BTreeMap<usize, WatchedPauses>,
    pub(crate) of_process: BTreeMap<CallerKey, WatchedPauses>,
    pub(crate) pause_median_ms: f64,
    /// Pauses below 4 ms, as a part of all.
    pub(crate) short_pauses_percent: f64,
    /// Dirty pages at the first pause, in percent of the threshold.
    pub(crate) throttle_start_percent: Option<f64>,
    pub(crate) stalls: Vec<Stall>,
    /// By number of the store.
    pub(crate) longest_pause: BTreeMap<usize, Span>,
    /// By number of the zone: dirty over inactive file pages, whenever reclaim wrote one.
    pub(crate) dirty_of_inactive: BTreeMap<usize, f64>,
    /// The same with pages under writeback.
    pub(crate) dirty_and_writeback_of_inactive: BTreeMap<usize, f64>,
    /// Dirty over all file pages of the machine.
    pub(crate) dirty_of_file: Option<f64>,
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
        let mut counted = lock(&self.counted);
        *counted = Counted {
            from: now,
            // The first pause of all counts, also in a window that opens later.
            throttle_start_percent: counted.throttle_start_percent,
            // The series goes on.
            since_look: counted.since_look,
            ..Counted::default()
        };
    }

    /// Forgets the pauses up to `now`, and nothing else.
    pub(crate) fn restart_pauses(&self, now: Instant) {
        let mut counted = lock(&self.counted);
        counted.from = now;
        counted.pauses = Latencies::default();
        counted.of_store.clear();
        counted.of_process.clear();
        counted.short_pauses = 0;
        counted.longest_pause.clear();
    }

    /// The pauses since the last call.
    pub(crate) fn pauses_since_look(&self) -> PausesSinceLook {
        std::mem::take(&mut lock(&self.counted).since_look)
    }

    pub(crate) fn watched(&self) -> Watched {
        let counted = lock(&self.counted);
        let all = counted.pauses.count().max(1) as f64;
        let by_zone = |means: &BTreeMap<usize, Mean>| {
            let of_zone = |(&zone, mean): (&usize, &Mean)| Some((zone, mean.value()?));
            means.iter().filter_map(of_zone).collect()
        };
        Watched {
            pauses: counted.pauses.distribution_ms(),
            of_store: watched_of(&counted.of_store),
            of_process: watched_of(&counted.of_process),
            pause_median_ms: counted.pauses.percentile_us(50.0) / 1_000.0,
            short_pauses_percent: 100.0 * counted.short_pauses as f64 / all,
            throttle_start_percent: counted.throttle_start_percent,
            stalls: counted
                .stalls
                .iter()
                .map(|(&key, &count)| stall_of(key, count))
                .collect(),
            longest_pause: counted.longest_pause.clone(),
            dirty_of_inactive: by_zone(&counted.dirty_of_inactive),
            dirty_and_writeback_of_inactive: by_zone(&counted.dirty_and_writeback_of_inactive),
            dirty_of_file: counted.dirty_of_file.value(),
        }
    }

    fn note_stall(&self, is_kswapd: bool, reason: &'static str, delayed_us: u64) {
        let context = if is_kswapd { "kswapd" } else { "direct" };
        let tick_us = self.tick.as_micros().max(1);
        let key = StallKey {
            context,
            reason,
            delayed_us: delayed_us / tick_us * tick_us,
        };
        *lock(&self.counted).stalls.entry(key).or_default() += 1;
    }
}

fn watched_of<K: Copy + Ord>(pauses: &BTreeMap<K, PausesOf>) -> BTreeMap<K, WatchedPauses> {
    let watched = pauses.iter().map(|(&key, of)| (key, of.watched()));
    watched.collect()
}

/// Who paused, and for which store.
#[derive(Clone, Copy)]
struct Payer {
    bdi: usize,
    caller: CallerKey,
}

fn stall_of(key: StallKey, count: u64) -> Stall {
    Stall {
        context: key.context.into(),
        reason: key.reason.into(),
        delayed_us: key.delayed_us,
        count,
    }
}

impl EventSink for Watcher {
    fn record(&self, at: Instant, event: &Event) {
        match *event {
            Event::BalanceDirtyPages {
                bdi,
                caller,
                ref record,
            } if record.pause_us > 0 => {
                let pause = Span::from_micros(record.pause_us);
                lock(&self.counted).note_pause(at, Payer { bdi, caller }, pause, Some(record));
            }
            Event::BalanceForeground {
                bdi,
                caller,
                nap_us,
                ..
            } => {
                let nap = Span::from_micros(nap_us);
                lock(&self.counted).note_pause(at, Payer { bdi, caller }, nap, None);
            }
            Event::MmVmscanThrottled {
                usec_delayed,
                reason,
                is_kswapd,
                ..
            } => self.note_stall(is_kswapd, reason_name(reason), usec_delayed),
            Event::WritebackCongestionWait {
                usec_delayed,
                is_kswapd,
                ..
            } => self.note_stall(is_kswapd, "congestion_wait", usec_delayed),
            Event::WritebackWaitIffCongested {
                usec_delayed,
                is_kswapd,
                ..
            } => self.note_stall(is_kswapd, "wait_iff_congested", usec_delayed),
            Event::MmVmscanWriteFolio {
                zone,
                is_file: true,
                levels,
                levels_of_all,
                ..
            } => lock(&self.counted).note_write(zone, levels, levels_of_all),
            _ => {}
        }
    }
}

fn reason_name(reason: ThrottleReason) -> &'static str {
    match reason {
        ThrottleReason::Writeback => "WRITEBACK",
        ThrottleReason::Isolated => "ISOLATED",
        ThrottleReason::NoProgress => "NOPROGRESS",
        ThrottleReason::Congested => "CONGESTED",
    }
}

impl Counted {
    /// `record` is that of the laws, where the policy has one limit for all writers.
    fn note_pause(&mut self, at: Instant, payer: Payer, pause: Span, record: Option<&PauseRecord>) {
        const SHORT: Span = Span::from_millis(4);
        let Payer { bdi, caller } = payer;
        self.since_look.add(pause);
        if at < self.from {
            return;
        }
        self.pauses.record(pause);
        self.of_store.entry(bdi).or_default().add(pause, record);
        if caller.kind() == CallerKind::Named {
            let of_process = self.of_process.entry(caller).or_default();
            of_process.add(pause, record);
        }
        let level_percent = || {
            let position = &record?.position;
            Some(100.0 * position.dirty as f64 / position.thresh.max(1) as f64)
        };
        self.throttle_start_percent = self.throttle_start_percent.or_else(level_percent);
        self.short_pauses += u64::from(pause < SHORT);
        let longest = self.longest_pause.entry(bdi).or_default();
        *longest = (*longest).max(pause);
    }

    fn note_write(&mut self, zone: usize, levels: PageLevels, of_all: PageLevels) {
        let of_zone = self.dirty_of_inactive.entry(zone).or_default();
        of_zone.add(levels.dirty, levels.inactive_file);
        let with_writeback = self.dirty_and_writeback_of_inactive.entry(zone);
        let unclean = levels.dirty + levels.writeback;
        with_writeback
            .or_default()
            .add(unclean, levels.inactive_file);
        let file_pages = of_all.inactive_file + of_all.active_file + of_all.isolated_file;
        self.dirty_of_file.add(of_all.dirty, file_pages);
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "halves and quarters are exact")]
mod tests {
    use super::*;

    #[test]
    fn a_write_of_reclaim_samples_the_zone_of_its_page() {
        let small = PageLevels {
            inactive_file: 8,
            dirty: 2,
            writeback: 4,
            ..PageLevels::default()
        };
        let all = PageLevels {
            inactive_file: 30,
            active_file: 2,
            dirty: 8,
            ..PageLevels::default()
        };
        let watcher = Watcher::new(Span::from_millis(4));
        lock(&watcher.counted).note_write(1, small, all);
        let seen = watcher.watched();
        assert_eq!(seen.dirty_of_inactive[&1], 0.25);
        assert_eq!(seen.dirty_and_writeback_of_inactive[&1], 0.75);
        assert_eq!(seen.dirty_of_file, Some(0.25));
        assert!(!seen.dirty_of_inactive.contains_key(&0));
    }
}
