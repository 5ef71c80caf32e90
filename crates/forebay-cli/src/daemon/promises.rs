//! Promises in seconds: the flags that make them, and what is reported of their cost.

use crate::daemon::headings::PROMISES;
use crate::daemon::say::say;
use clap::Args;
use forebay::settings::BackingSettings;
use forebay::statistics::DrainStatistics;
use forebay::{BuildError, Changes, Settings, Statistics, StoreChanges, StoreKey};
use forebay_base::Span;
use forebay_base::units::{byte_of, show_bytes};
use forebay_control::time::{parse_time, show_time};

/// The flags of promises, as every server has them.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Promises {
    /// Limit each store's dirty data to what it can write in TIME at its current rate, at least
    /// 100ms. SIGTERM and unmounting take about that long [default: off]
    #[arg(long, value_name = "TIME", value_parser = parse_drain, conflicts_with = "read_only",
          help_heading = PROMISES)]
    pub(crate) drain: Option<Span>,
    /// Bound the age of data that is not yet durable, at least 400ms: a crash loses at most the
    /// last TIME of writes, as long as the store answers [default: off]
    #[arg(long, value_name = "TIME", value_parser = parse_at_risk, conflicts_with = "read_only",
          help_heading = PROMISES)]
    pub(crate) at_risk: Option<Span>,
}

/// Reads a promise: a time with its unit, which a cache accepts.
fn parse_drain(text: &str) -> Result<Span, String> {
    let drain = parse_time(text)?;
    let asked = StoreChanges {
        drain: Some(Some(drain)),
        ..StoreChanges::of_store(StoreKey::numbered(0))
    };
    let accepted = BackingSettings::default().changed(&asked);
    accepted.map(|_| drain).map_err(|error| allowed(&error))
}

fn parse_at_risk(text: &str) -> Result<Span, String> {
    let at_risk = parse_time(text)?;
    let asked = Changes {
        at_risk: Some(Some(at_risk)),
        ..Changes::default()
    };
    let accepted = Settings::default().changed(&asked);
    accepted.map(|_| at_risk).map_err(|error| allowed(&error))
}

fn allowed(error: &BuildError) -> String {
    match error {
        BuildError::BadSetting { allowed, .. } => (*allowed).to_owned(),
        error => error.to_string(),
    }
}

impl Promises {
    /// The settings of each store.
    pub(crate) fn backing(&self) -> BackingSettings {
        BackingSettings {
            drain: self.drain,
            ..BackingSettings::default()
        }
    }
}

/// What was reported of one store's promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Said {
    promise: Span,
    cost: bool,
    idle: bool,
}

impl Said {
    /// What to report of `drain` now, once for each promise.
    fn next(&mut self, bdi: usize, drain: &DrainStatistics) -> Option<String> {
        if self.promise != drain.promise {
            *self = Said {
                promise: drain.promise,
                ..Said::default()
            };
        }
        let promise = show_time(drain.promise);
        if drain.is_idle && !self.idle {
            self.idle = true;
            let limit = show_bytes(byte_of(drain.limit));
            return Some(format!(
                "the dirty limit of {limit} is less than store {bdi} writes in {promise}: the \
                 promise has no effect"
            ));
        }
        if drain.is_costly && !self.cost {
            self.cost = true;
            let cost = drain.cost_percent;
            let (twice, half) = (show_time(drain.promise + drain.promise), cost / 2);
            return Some(format!(
                "keeping {promise} of drain costs store {bdi} about {cost} % of its rate; {twice} \
                 would cost about {half} %"
            ));
        }
        None
    }
}

/// What to report of all stores, after what was `said` before.
fn news(said: &mut Vec<Said>, statistics: &Statistics) -> Vec<String> {
    said.resize(statistics.backings.len(), Said::default());
    let stores = statistics.backings.iter().zip(said).enumerate();
    stores
        .filter_map(|(bdi, (store, said))| {
            let mut drain = store.drain?;
            // A drain that a limit on the age of bytes needs was not asked for by itself.
            drain.is_idle &= store.at_risk.is_none();
            said.next(bdi, &drain)
        })
        .collect()
}

/// Reports once what a promise costs, or that it changes nothing.
pub(crate) fn report_promises() -> impl FnMut(&Statistics) -> bool {
    let mut said = Vec::new();
    move |statistics| {
        news(&mut said, statistics).iter().for_each(say);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_has_a_unit_and_can_be_kept() {
        assert_eq!(parse_drain("5s"), Ok(Span::from_secs(5)));
        assert_eq!(parse_drain("500ms"), Ok(Span::from_millis(500)));
        for refused in ["", "0", "0s", "5", "five"] {
            assert!(parse_drain(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn each_thing_is_said_once_for_each_promise() {
        let quiet = DrainStatistics {
            promise: Span::from_secs(1),
            limit: 256,
            takes: Span::ZERO,
            cost_percent: 65,
            is_costly: false,
            is_idle: false,
            overshoots: 0,
        };
        let costly = DrainStatistics {
            is_costly: true,
            ..quiet
        };
        let idle = DrainStatistics {
            is_idle: true,
            ..quiet
        };
        let mut said = Said::default();
        assert_eq!(said.next(0, &quiet), None);
        assert_eq!(
            said.next(0, &costly).as_deref(),
            Some(
                "keeping 1s of drain costs store 0 about 65 % of its rate; 2s would cost about 32 %"
            )
        );
        assert_eq!(said.next(0, &costly), None);
        let text = said.next(0, &idle).expect("it is new");
        assert!(text.starts_with("the dirty limit of 1 MiB is less than store 0 writes in 1s"));
        assert_eq!(said.next(0, &idle), None);
        let other = DrainStatistics {
            promise: Span::from_secs(3),
            ..costly
        };
        assert!(said.next(0, &other).is_some());
    }
}
