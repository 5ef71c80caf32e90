//! The settings that change while a cache runs.
//!
//! invariant KN1: a reader of the knobs of the dirty limits gets the values of one change, never
//! parts of two.

use crate::settings::{BackingSettings, Settings};
use forebay_base::Span;
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
    lock,
};
use forebay_law::limits::DirtyKnobs;

/// The knobs of a cache.
#[derive(Debug)]
pub(crate) struct Knobs {
    /// Odd while the dirty knobs change.
    version: AtomicU64,
    /// One caller changes knobs at a time.
    changing: Mutex<()>,
    dirty_ratio_percent: AtomicU64,
    dirty_bytes: AtomicU64,
    background_ratio_percent: AtomicU64,
    background_bytes: AtomicU64,
    writeback_interval_ns: AtomicU64,
    dirty_expire_ns: AtomicU64,
    readahead_pages: AtomicU64,
    swappiness: AtomicU64,
    stall_threshold_ns: AtomicU64,
    /// 0: none.
    at_risk_ns: AtomicU64,
}

/// All [`Knobs`] as one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnobValues {
    pub(crate) dirty: DirtyKnobs,
    pub(crate) writeback_interval: Span,
    pub(crate) dirty_expire: Span,
    pub(crate) readahead_pages: u64,
    pub(crate) swappiness: u64,
    pub(crate) stall_threshold: Span,
    pub(crate) at_risk: Option<Span>,
}

impl KnobValues {
    /// The values in `settings`.
    pub(crate) fn of(settings: &Settings) -> KnobValues {
        KnobValues {
            dirty: settings.dirty,
            writeback_interval: settings.writeback_interval,
            dirty_expire: settings.dirty_expire,
            readahead_pages: settings.readahead_pages,
            swappiness: settings.swappiness,
            stall_threshold: settings.stall_threshold,
            at_risk: settings.at_risk,
        }
    }
}

impl Knobs {
    pub(crate) fn new(values: &KnobValues) -> Knobs {
        let knob = AtomicU64::new;
        Knobs {
            version: knob(0),
            changing: Mutex::new(()),
            dirty_ratio_percent: knob(values.dirty.dirty_ratio_percent),
            dirty_bytes: knob(values.dirty.dirty_bytes),
            background_ratio_percent: knob(values.dirty.background_ratio_percent),
            background_bytes: knob(values.dirty.background_bytes),
            writeback_interval_ns: knob(values.writeback_interval.as_nanos()),
            dirty_expire_ns: knob(values.dirty_expire.as_nanos()),
            readahead_pages: knob(values.readahead_pages),
            swappiness: knob(values.swappiness),
            stall_threshold_ns: knob(values.stall_threshold.as_nanos()),
            at_risk_ns: knob(nanos_of(values.at_risk)),
        }
    }

    /// The knobs of the dirty limits.
    pub(crate) fn dirty(&self) -> DirtyKnobs {
        loop {
            let version = self.version.load(Ordering::SeqCst);
            let knobs = DirtyKnobs {
                dirty_ratio_percent: self.dirty_ratio_percent.load(Ordering::SeqCst),
                dirty_bytes: self.dirty_bytes.load(Ordering::SeqCst),
                background_ratio_percent: self.background_ratio_percent.load(Ordering::SeqCst),
                background_bytes: self.background_bytes.load(Ordering::SeqCst),
            };
            if version.is_multiple_of(2) && self.version.load(Ordering::SeqCst) == version {
                return knobs;
            }
            std::hint::spin_loop();
        }
    }

    pub(crate) fn writeback_interval(&self) -> Span {
        Span::from_nanos(self.writeback_interval_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn dirty_expire(&self) -> Span {
        Span::from_nanos(self.dirty_expire_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn readahead_pages(&self) -> u64 {
        self.readahead_pages.load(Ordering::Relaxed)
    }

    pub(crate) fn swappiness(&self) -> u64 {
        self.swappiness.load(Ordering::Relaxed)
    }

    pub(crate) fn stall_threshold(&self) -> Span {
        Span::from_nanos(self.stall_threshold_ns.load(Ordering::Relaxed))
    }

    /// No byte may be older than this and not durable.
    pub(crate) fn at_risk(&self) -> Option<Span> {
        span_of(&self.at_risk_ns)
    }

    /// All of them.
    pub(crate) fn values(&self) -> KnobValues {
        KnobValues {
            dirty: self.dirty(),
            writeback_interval: self.writeback_interval(),
            dirty_expire: self.dirty_expire(),
            readahead_pages: self.readahead_pages(),
            swappiness: self.swappiness(),
            stall_threshold: self.stall_threshold(),
            at_risk: self.at_risk(),
        }
    }

    /// How often the knobs were changed.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed) / 2
    }

    /// Changes the knobs to the result of `change`, unless it refuses. Callers that change
    /// different knobs at the same time both succeed.
    pub(crate) fn change<E>(
        &self,
        change: impl FnOnce(KnobValues) -> Result<KnobValues, E>,
    ) -> Result<(), E> {
        let _alone = lock(&self.changing);
        let values = change(self.values())?;
        self.version.fetch_add(1, Ordering::SeqCst);
        let set = |knob: &AtomicU64, value| knob.store(value, Ordering::SeqCst);
        set(&self.dirty_ratio_percent, values.dirty.dirty_ratio_percent);
        set(&self.dirty_bytes, values.dirty.dirty_bytes);
        let background = values.dirty.background_ratio_percent;
        set(&self.background_ratio_percent, background);
        set(&self.background_bytes, values.dirty.background_bytes);
        let interval_ns = values.writeback_interval.as_nanos();
        set(&self.writeback_interval_ns, interval_ns);
        set(&self.dirty_expire_ns, values.dirty_expire.as_nanos());
        set(&self.readahead_pages, values.readahead_pages);
        set(&self.swappiness, values.swappiness);
        set(&self.stall_threshold_ns, values.stall_threshold.as_nanos());
        set(&self.at_risk_ns, nanos_of(values.at_risk));
        self.version.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// The knobs of one store.
#[derive(Debug)]
pub(crate) struct StoreKnobs {
    min_ratio_percent: AtomicU64,
    max_ratio_percent: AtomicU64,
    strict_limit: AtomicBool,
    /// 0: none.
    drain_ns: AtomicU64,
}

impl StoreKnobs {
    pub(crate) fn new(settings: &BackingSettings) -> StoreKnobs {
        StoreKnobs {
            min_ratio_percent: AtomicU64::new(settings.min_ratio_percent),
            max_ratio_percent: AtomicU64::new(settings.max_ratio_percent),
            strict_limit: AtomicBool::new(settings.strict_limit),
            drain_ns: AtomicU64::new(nanos_of(settings.drain)),
        }
    }

    pub(crate) fn min_ratio_percent(&self) -> u64 {
        self.min_ratio_percent.load(Ordering::Relaxed)
    }

    pub(crate) fn max_ratio_percent(&self) -> u64 {
        self.max_ratio_percent.load(Ordering::Relaxed)
    }

    pub(crate) fn strict_limit(&self) -> bool {
        self.strict_limit.load(Ordering::Relaxed)
    }

    /// What is dirty of the store has to be written within this time.
    pub(crate) fn drain(&self) -> Option<Span> {
        span_of(&self.drain_ns)
    }

    /// Takes the knobs from `settings`. The list of stores calls it, one caller at a time.
    pub(crate) fn set(&self, settings: &BackingSettings) {
        let Self {
            min_ratio_percent,
            max_ratio_percent,
            strict_limit,
            drain_ns,
        } = self;
        min_ratio_percent.store(settings.min_ratio_percent, Ordering::Relaxed);
        max_ratio_percent.store(settings.max_ratio_percent, Ordering::Relaxed);
        strict_limit.store(settings.strict_limit, Ordering::Relaxed);
        drain_ns.store(nanos_of(settings.drain), Ordering::Relaxed);
    }
}

/// A time that may be none.
fn span_of(ns: &AtomicU64) -> Option<Span> {
    let ns = ns.load(Ordering::Relaxed);
    (ns > 0).then(|| Span::from_nanos(ns))
}

fn nanos_of(span: Option<Span>) -> u64 {
    span.map_or(0, Span::as_nanos)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn invariant_kn1_dirty_knobs_are_of_one_change() {
        let mut values = KnobValues::of(&Settings::default());
        let of = |percent| DirtyKnobs {
            dirty_ratio_percent: percent,
            dirty_bytes: percent,
            background_ratio_percent: percent,
            background_bytes: percent,
        };
        values.dirty = of(1);
        let knobs = Arc::new(Knobs::new(&values));
        let changer = knobs.clone();
        let changes = forebay_rt::thread::spawn("change", move || {
            for round in 0..10_000_u64 {
                let change = |mut values: KnobValues| {
                    values.dirty = of(round % 90);
                    Ok::<_, ()>(values)
                };
                changer.change(change).expect("nothing refuses it");
            }
        })
        .expect("a thread starts");
        for _ in 0..10_000 {
            let seen = knobs.dirty();
            assert_eq!(seen, of(seen.dirty_bytes));
        }
        changes.join();
        assert_eq!(knobs.version(), 10_000);
    }
}
