//! Knobs that are turned while a cache runs.

use crate::error::BuildError;
use crate::settings::{BackingSettings, Settings};
use crate::state::knobs::{KnobValues, each_knob, each_store_knob};
use crate::store_key::StoreKey;
use forebay_base::Span;

macro_rules! changes {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $($place:ident).+,)*) => {
        /// What to change in a running cache. A knob whose field is `None` stays as it is.
        /// [`crate::Cache::retune`] returns the old values in the same form.
        ///
        /// ```
        /// # use forebay_engine as forebay;
        /// # use forebay::{Cache, Changes, Settings};
        /// let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
        /// let before = cache.retune(&Changes { swappiness: Some(10), ..Changes::default() })?;
        /// assert_eq!(before, Changes { swappiness: Some(60), ..Changes::default() });
        /// let refused = cache.retune(&Changes { swappiness: Some(201), ..Changes::default() });
        /// let said = refused.unwrap_err().to_string();
        /// assert_eq!(said, "setting swappiness cannot be 201: 0 to 200");
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Changes {
            $($(#[$doc])* pub $name: Option<$kind>,)*
            /// The memory budget, at most that of the start. It is reached in the background;
            /// [`crate::Cache::set_memory`] does the same and waits until it is reached.
            pub memory_bytes: Option<u64>,
            /// Changes of stores. Only what comes of all of them has to be allowed.
            pub stores: Vec<StoreChanges>,
        }

        impl Changes {
            /// `values` with these changes.
            pub(crate) fn applied(&self, mut values: KnobValues) -> KnobValues {
                $(set(&mut values.$name, self.$name);)*
                values
            }

            /// The present values, from `values` and `memory_bytes`, of the knobs that these
            /// changes set.
            pub(crate) fn old(&self, values: &KnobValues, memory_bytes: u64) -> Changes {
                Changes {
                    $($name: self.$name.map(|_| values.$name),)*
                    memory_bytes: self.memory_bytes.map(|_| memory_bytes),
                    stores: Vec::new(),
                }
            }

            /// Every knob of the cache, with its value.
            pub(crate) fn all(values: &KnobValues, memory_bytes: u64) -> Changes {
                Changes {
                    $($name: Some(values.$name),)*
                    memory_bytes: Some(memory_bytes),
                    stores: Vec::new(),
                }
            }
        }
    };
}
each_knob!(changes);

macro_rules! store_changes {
    ($($(#[$doc:meta])* $name:ident: $kind:ty,)*) => {
        /// What to change for one store.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct StoreChanges {
            /// The store.
            pub store: StoreKey,
            $($(#[$doc])* pub $name: Option<$kind>,)*
        }

        impl StoreChanges {
            /// No change of `store`.
            pub const fn of_store(store: StoreKey) -> StoreChanges {
                StoreChanges {
                    store,
                    $($name: None,)*
                }
            }

            /// Every knob of the store `store` that is attached with `settings`.
            ///
            /// ```
            /// # use forebay_engine as forebay;
            /// use forebay::{StoreChanges, StoreKey};
            /// use forebay::settings::BackingSettings;
            /// let all = StoreChanges::of(StoreKey::numbered(0), &BackingSettings::default());
            /// assert_eq!(all.max_ratio_percent, Some(100));
            /// ```
            pub fn of(store: StoreKey, settings: &BackingSettings) -> StoreChanges {
                StoreChanges {
                    store,
                    $($name: Some(settings.$name),)*
                }
            }

            /// `settings` with these changes.
            pub(crate) fn applied(&self, mut settings: BackingSettings) -> BackingSettings {
                $(set(&mut settings.$name, self.$name);)*
                settings
            }

            /// The present values, from `settings`, of the knobs that these changes set; `store`
            /// is the store.
            pub(crate) fn old(&self, store: StoreKey, settings: &BackingSettings) -> StoreChanges {
                StoreChanges {
                    store,
                    $($name: self.$name.map(|_| settings.$name),)*
                }
            }
        }
    };
}
each_store_knob!(store_changes);

impl Changes {
    /// Adds the values of `other` for knobs that limit dirty pages and that these changes do not
    /// have yet.
    pub(crate) fn add_limits(&mut self, other: &Changes) {
        add(&mut self.dirty_ratio_percent, other.dirty_ratio_percent);
        add(&mut self.dirty_bytes, other.dirty_bytes);
        let percent = other.background_ratio_percent;
        add(&mut self.background_ratio_percent, percent);
        add(&mut self.background_bytes, other.background_bytes);
        add(&mut self.memory_bytes, other.memory_bytes);
    }

    /// Refuses values that [`Settings`] would refuse too.
    pub(crate) fn check(settings: &Settings, values: &KnobValues) -> Result<(), BuildError> {
        values.put_into(settings.clone()).check_values()
    }

    /// Every knob of a cache that is built with `settings`, with its value. Stores have theirs in
    /// [`BackingSettings`].
    ///
    /// ```
    /// # use forebay_engine as forebay;
    /// use forebay::{Changes, Settings};
    /// assert_eq!(Changes::of(&Settings::default()).swappiness, Some(60));
    /// ```
    pub fn of(settings: &Settings) -> Changes {
        Changes::all(&KnobValues::of(settings), settings.memory_bytes)
    }
}

impl Settings {
    /// These settings with `changes`, to build a cache that has them from the start. Changes of
    /// stores are for [`BackingSettings::changed`].
    ///
    /// # Errors
    /// [`BuildError::BadSetting`] with the allowed values. Whether the memory is enough is checked
    /// when the cache is built.
    ///
    /// ```
    /// # use forebay_engine as forebay;
    /// use forebay::{Changes, Settings};
    /// let changes = Changes { swappiness: Some(10), ..Changes::default() };
    /// assert_eq!(Settings::default().changed(&changes)?.swappiness, 10);
    /// # Ok::<(), forebay::BuildError>(())
    /// ```
    pub fn changed(&self, changes: &Changes) -> Result<Settings, BuildError> {
        let mut settings = changes.applied(KnobValues::of(self)).put_into(self.clone());
        set(&mut settings.memory_bytes, changes.memory_bytes);
        settings.check_values()?;
        Ok(settings)
    }
}

impl BackingSettings {
    /// These settings with `changes`, whichever store they are for.
    ///
    /// # Errors
    /// [`BuildError::BadSetting`] with the allowed values.
    ///
    /// ```
    /// # use forebay_engine as forebay;
    /// use forebay::StoreChanges;
    /// use forebay::settings::BackingSettings;
    /// use forebay::StoreKey;
    /// let store = StoreKey::numbered(0);
    /// let mut changes = StoreChanges::of_store(store);
    /// changes.max_ratio_percent = Some(101);
    /// assert!(BackingSettings::default().changed(&changes).is_err());
    /// ```
    pub fn changed(&self, changes: &StoreChanges) -> Result<BackingSettings, BuildError> {
        let settings = changes.applied(*self);
        settings.check()?;
        Ok(settings)
    }
}

fn add<T>(change: &mut Option<T>, other: Option<T>) {
    *change = change.take().or(other);
}

fn set<T>(value: &mut T, change: Option<T>) {
    if let Some(change) = change {
        *value = change;
    }
}
