//! Policy: a value for each historic choice, and named sets of values.

mod choices;
mod presets;

pub use choices::{
    ActiveReferences, Choice, ClosedFiles, DirtyThrottle, Eviction, FlushChunk, InactiveShare,
    KswapdBalance, KswapdSleep, Readahead, ReclaimThrottle, ReclaimWriteback, Refaults,
    ScanBalance, ShrinkDemand, StoreShares, WatermarkSpacing, ZoneDirtyLimits,
};
pub use forebay_engine::kernel::{Dirtyable, Estimate, WriteDepth};

/// A knob of [`Policy`], with the names of its values, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knob {
    /// Its name.
    pub name: &'static str,
    /// The names of its values.
    pub values: &'static [&'static str],
}

/// Why [`Policy::set`] refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KnobError {
    /// The text is not of the form `knob=value`.
    #[error("'{given}' is not a setting: write knob=value")]
    NoValue {
        /// What was given.
        given: String,
    },
    /// There is no such knob.
    #[error("there is no knob '{knob}'; the knobs are {}", known.join(", "))]
    UnknownKnob {
        /// What was given.
        knob: String,
        /// The names that there are.
        known: Vec<&'static str>,
    },
    /// The knob has no such value.
    #[error("{knob} cannot be '{value}'; it can be {}", known.join(", "))]
    UnknownValue {
        /// The knob.
        knob: &'static str,
        /// What was given.
        value: String,
        /// The names that there are.
        known: &'static [&'static str],
    },
}

macro_rules! policy {
    ($($(#[$doc:meta])* $knob:ident: $choice:ident,)*) => {
        /// One value for each choice. [`Policy::default`] is today's best.
        ///
        /// ```
        /// use forebay_kernels::Policy;
        /// use forebay_kernels::policy::ReclaimWriteback;
        /// assert_eq!(Policy::preset("forebay"), Some(Policy::default()));
        /// assert!(Policy::preset("linux-1.0").is_none());
        /// let mut policy = Policy::default();
        /// policy.set("reclaim_writeback=a")?;
        /// assert_eq!(policy.reclaim_writeback, ReclaimWriteback::Anybody);
        /// assert!(policy.set("reclaim_writeback=z").is_err());
        /// # Ok::<(), forebay_kernels::policy::KnobError>(())
        /// ```
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Policy {
            $($(#[$doc])* pub $knob: $choice,)*
        }

        impl Policy {
            /// All knobs and the values that each may have.
            pub fn knobs() -> &'static [Knob] {
                &[$(Knob { name: stringify!($knob), values: $choice::NAMES },)*]
            }

            /// The value of each knob, in the order of [`Policy::knobs`].
            pub fn values(&self) -> Vec<&'static str> {
                vec![$(self.$knob.name(),)*]
            }

            fn set_knob(&mut self, knob: &str, value: &str) -> Result<(), KnobError> {
                match knob {
                    $(stringify!($knob) => {
                        self.$knob =
                            $choice::named(value).ok_or_else(|| KnobError::UnknownValue {
                                knob: stringify!($knob),
                                value: value.into(),
                                known: $choice::NAMES,
                            })?;
                    })*
                    _ => return Err(KnobError::UnknownKnob {
                        knob: knob.into(),
                        known: Policy::knobs().iter().map(|knob| knob.name).collect(),
                    }),
                }
                Ok(())
            }
        }
    };
}

policy! {
    /// Writing of file pages by reclaimers.
    reclaim_writeback: ReclaimWriteback,
    /// Waits of reclaimers.
    reclaim_throttle: ReclaimThrottle,
    /// Slowing of writers.
    dirty_throttle: DirtyThrottle,
    /// Turns of files in the flusher.
    flush_chunk: FlushChunk,
    /// Writes of the flusher that are under way at a store.
    write_depth: WriteDepth,
    /// How a store's rate becomes known.
    estimate: Estimate,
    /// How the completed writes that make a store's share are aged.
    store_shares: StoreShares,
    /// Of which memory a part may be dirty.
    dirtyable: Dirtyable,
    /// Dirty limits of zones.
    zone_dirty_limits: ZoneDirtyLimits,
    /// When kswapd sleeps.
    kswapd_sleep: KswapdSleep,
    /// What kswapd balances.
    kswapd_balance: KswapdBalance,
    /// The rule by which pages are evicted.
    eviction: Eviction,
    /// The worth of later touches to an active page.
    active_references: ActiveReferences,
    /// Size of the inactive list of file pages.
    inactive_share: InactiveShare,
    /// The worth of a return soon after an eviction.
    refaults: Refaults,
    /// Shares of anonymous and file pages in reclaim.
    scan_balance: ScanBalance,
    /// How far a stream reads ahead.
    readahead: Readahead,
    /// How many objects the caches beside the pages are asked to give up.
    shrink_demand: ShrinkDemand,
    /// What becomes of pages of files that nobody has open.
    closed_files: ClosedFiles,
    /// Distances of the watermarks.
    watermark_spacing: WatermarkSpacing,
}

impl Policy {
    /// Sets a knob, given as `knob=value`.
    ///
    /// # Errors
    /// [`KnobError`], which names the knobs or values that exist.
    pub fn set(&mut self, setting: &str) -> Result<(), KnobError> {
        let Some((knob, value)) = setting.split_once('=') else {
            return Err(KnobError::NoValue {
                given: setting.into(),
            });
        };
        self.set_knob(knob.trim(), value.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_every_knob_can_be_set_by_name() {
        for knob in Policy::knobs() {
            for value in knob.values {
                let mut policy = Policy::default();
                assert_eq!(policy.set(&format!("{}={value}", knob.name)), Ok(()));
                let at = Policy::knobs().iter().position(|other| other == knob);
                let set = at.map(|at| policy.values()[at]);
                assert_eq!(set, Some(*value), "{}", knob.name);
            }
        }
    }

    #[test]
    fn what_there_is_not_is_answered_with_what_there_is() {
        let mut policy = Policy::default();
        let reported = |result: Result<(), KnobError>| result.expect_err("refused").to_string();
        assert!(reported(policy.set("flush_chunk=9")).contains("1024, bandwidth"));
        assert!(reported(policy.set("flush=1024")).contains("flush_chunk"));
        assert!(reported(policy.set("flush_chunk")).contains("knob=value"));
        assert_eq!(policy, Policy::default());
    }
}
