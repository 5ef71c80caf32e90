//! The settings that change while a cache runs.
//!
//! invariant KN1: a reader of several knobs gets the values of one change, never parts of two.

use crate::settings::{BackingSettings, Settings};
use forebay_base::Span;
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
    lock,
};
use forebay_law::limits::DirtyKnobs;

/// The knobs of a cache, a row each: what it says, its name, its type, and its place in
/// [`Settings`]. Everything that knows all of them is made from this table by the macro `$table`.
macro_rules! each_knob {
    ($table:ident) => {
        $table! {
            /// Percent of the memory that may be dirty.
            dirty_ratio_percent: u64 = dirty.dirty_ratio_percent,
            /// Bytes that may be dirty; 0: the percentage counts.
            dirty_bytes: u64 = dirty.dirty_bytes,
            /// Percent of the memory from which the flushers write in the background.
            background_ratio_percent: u64 = dirty.background_ratio_percent,
            /// Bytes from which the flushers write in the background; 0: the percentage counts.
            background_bytes: u64 = dirty.background_bytes,
            /// Pages dirty for longer than this are written.
            dirty_expire: Span = dirty_expire,
            /// The flushers look for old dirty pages this often; zero for never.
            writeback_interval: Span = writeback_interval,
            /// Largest readahead window, pages: for handles that are opened or advised from now on.
            readahead_pages: u64 = readahead_pages,
            /// 0 to 200: how willing reclaim is to take anonymous pages instead of file pages.
            swappiness: u64 = swappiness,
            /// A call that waits for this long in all is kept as a stall.
            stall_threshold: Span = stall_threshold,
            /// No byte may be older than this and not durable. With no time there is no limit.
            at_risk: Option<Span> = at_risk,
        }
    };
}
pub(crate) use each_knob;

macro_rules! knobs {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $($place:ident).+,)*) => {
        /// The knobs of a cache.
        #[derive(Debug)]
        pub struct Knobs {
            /// Odd while they change.
            version: AtomicU64,
            /// One caller changes knobs at a time.
            changing: Mutex<()>,
            $($name: AtomicU64,)*
        }

        /// All [`Knobs`] as one value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct KnobValues {
            $($(#[$doc])* pub(crate) $name: $kind,)*
        }

        impl KnobValues {
            /// The values in `settings`.
            pub(crate) fn of(settings: &Settings) -> KnobValues {
                KnobValues {
                    $($name: settings.$($place).+,)*
                }
            }

            /// `settings` with these values.
            pub(crate) fn put_into(&self, mut settings: Settings) -> Settings {
                $(settings.$($place).+ = self.$name;)*
                settings
            }
        }

        impl Knobs {
            pub(crate) fn new(values: &KnobValues) -> Knobs {
                Knobs {
                    version: AtomicU64::new(0),
                    changing: Mutex::new(()),
                    $($name: AtomicU64::new(values.$name.to_word()),)*
                }
            }

            $($(#[$doc])* pub(crate) fn $name(&self) -> $kind {
                <$kind>::of_word(self.$name.load(Ordering::SeqCst))
            })*

            /// All of them, of one change.
            pub(crate) fn values(&self) -> KnobValues {
                self.of_one_change(|| KnobValues {
                    $($name: self.$name(),)*
                })
            }

            fn set(&self, values: &KnobValues) {
                $(self.$name.store(values.$name.to_word(), Ordering::SeqCst);)*
            }
        }
    };
}
each_knob!(knobs);

/// What one word holds of a knob.
trait Word {
    fn to_word(self) -> u64;
    fn of_word(word: u64) -> Self;
}

impl Word for u64 {
    fn to_word(self) -> u64 {
        self
    }

    fn of_word(word: u64) -> u64 {
        word
    }
}

impl Word for bool {
    fn to_word(self) -> u64 {
        u64::from(self)
    }

    fn of_word(word: u64) -> bool {
        word != 0
    }
}

impl Word for Span {
    fn to_word(self) -> u64 {
        self.as_nanos()
    }

    fn of_word(word: u64) -> Span {
        Span::from_nanos(word)
    }
}

/// 0: none.
impl Word for Option<Span> {
    fn to_word(self) -> u64 {
        self.map_or(0, Span::as_nanos)
    }

    fn of_word(word: u64) -> Option<Span> {
        (word > 0).then(|| Span::from_nanos(word))
    }
}

impl Knobs {
    /// The knobs of the dirty limits, of one change.
    pub fn dirty(&self) -> DirtyKnobs {
        self.of_one_change(|| DirtyKnobs {
            dirty_ratio_percent: self.dirty_ratio_percent(),
            dirty_bytes: self.dirty_bytes(),
            background_ratio_percent: self.background_ratio_percent(),
            background_bytes: self.background_bytes(),
        })
    }

    /// What `read` returns between two changes (KN1).
    fn of_one_change<T>(&self, read: impl Fn() -> T) -> T {
        loop {
            let version = self.version.load(Ordering::SeqCst);
            let values = read();
            if version.is_multiple_of(2) && self.version.load(Ordering::SeqCst) == version {
                return values;
            }
            std::hint::spin_loop();
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
        self.set(&values);
        self.version.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// The knobs of a store, as those of a cache; all are fields of [`BackingSettings`].
macro_rules! each_store_knob {
    ($table:ident) => {
        $table! {
            /// Part of the dirty limit that it always has, percent.
            min_ratio_percent: u64,
            /// Part of the dirty limit that it may never exceed, percent.
            max_ratio_percent: u64,
            /// Whether its writers are throttled by its own part of the limit alone.
            strict_limit: bool,
            /// What is dirty of it can be written in this time. With no time there is no promise.
            drain: Option<Span>,
        }
    };
}
pub(crate) use each_store_knob;

macro_rules! store_knobs {
    ($($(#[$doc:meta])* $name:ident: $kind:ty,)*) => {
        /// The knobs of one store.
        #[derive(Debug)]
        pub(crate) struct StoreKnobs {
            $($name: AtomicU64,)*
        }

        impl StoreKnobs {
            pub(crate) fn new(settings: &BackingSettings) -> StoreKnobs {
                StoreKnobs {
                    $($name: AtomicU64::new(settings.$name.to_word()),)*
                }
            }

            $($(#[$doc])* pub(crate) fn $name(&self) -> $kind {
                <$kind>::of_word(self.$name.load(Ordering::Relaxed))
            })*

            /// Takes the knobs from `settings`. The list of stores calls it, one caller at a time.
            pub(crate) fn set(&self, settings: &BackingSettings) {
                $(self.$name.store(settings.$name.to_word(), Ordering::Relaxed);)*
            }

            /// Puts the knobs into `settings`.
            pub(crate) fn put_into(&self, mut settings: BackingSettings) -> BackingSettings {
                $(settings.$name = self.$name();)*
                settings
            }
        }
    };
}
each_store_knob!(store_knobs);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn invariant_kn1_dirty_knobs_are_of_one_change() {
        let of = |percent| DirtyKnobs {
            dirty_ratio_percent: percent,
            dirty_bytes: percent,
            background_ratio_percent: percent,
            background_bytes: percent,
        };
        let settings = Settings {
            dirty: of(1),
            ..Settings::default()
        };
        let knobs = Arc::new(Knobs::new(&KnobValues::of(&settings)));
        let changer = knobs.clone();
        let changes = forebay_rt::thread::spawn("change", move || {
            for round in 0..10_000_u64 {
                let dirty = of(round % 90);
                let changed = Settings {
                    dirty,
                    ..Settings::default()
                };
                let change = |_| Ok::<_, ()>(KnobValues::of(&changed));
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
