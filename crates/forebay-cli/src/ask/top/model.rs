//! What `forebay top` knows: the last two states, a minute of levels, and what the user chose.

use forebay_base::Span;
use forebay_control::state::{CallerSums, State, StoreWords};
use std::collections::{BTreeMap, VecDeque};

/// Levels that are remembered, one a second.
const HISTORY: usize = 120;

/// How callers are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// The caller that waits most now comes first.
    #[default]
    Now,
    /// The caller that waited most since the start.
    Total,
    /// The caller with the most dirty pages.
    Dirty,
    /// The caller that makes most dirty now.
    Dirtied,
}

impl Order {
    pub(super) fn next(self) -> Order {
        match self {
            Order::Now => Order::Total,
            Order::Total => Order::Dirty,
            Order::Dirty => Order::Dirtied,
            Order::Dirtied => Order::Now,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Order::Now => "waits now",
            Order::Total => "waits since the start",
            Order::Dirty => "dirty pages",
            Order::Dirtied => "what they write",
        }
    }
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) now: State,
    before: Option<State>,
    /// Bytes that were dirty or under writeback, the newest last.
    pub(super) levels: VecDeque<u64>,
    pub(super) order: Order,
    /// The store whose waiters are shown; all if it is none.
    pub(super) store: Option<usize>,
    pub(super) is_paused: bool,
    pub(super) shows_help: bool,
}

/// What a caller did between the last two states.
pub(super) struct CallerRow<'m> {
    pub(super) sums: &'m CallerSums,
    /// How long it waited in each second, ms. Several calls together may wait for more than 1000.
    pub(super) waits_ms_per_s: u64,
    /// What it made dirty in each second.
    pub(super) dirtied_bytes_per_s: u64,
}

impl Model {
    pub(super) fn new(now: State) -> Model {
        Model {
            levels: VecDeque::from([level(&now)]),
            now,
            before: None,
            order: Order::default(),
            store: None,
            is_paused: false,
            shows_help: false,
        }
    }

    /// Notes the next state.
    pub(super) fn note(&mut self, state: State) {
        if self.levels.len() == HISTORY {
            self.levels.pop_front();
        }
        self.levels.push_back(level(&state));
        self.before = Some(std::mem::replace(&mut self.now, state));
    }

    /// Shows the waiters of the next store; after the last one, those of all stores.
    pub(super) fn next_store(&mut self) {
        let next = self.store.map_or(0, |number| number + 1);
        self.store = Some(next).filter(|&number| number < self.now.stores.len());
    }

    pub(super) fn level(&self) -> u64 {
        level(&self.now)
    }

    /// The increase of a sum since the state before, per second.
    pub(super) fn rate(&self, of: impl Fn(&State) -> u64) -> u64 {
        let Some(before) = &self.before else {
            return 0;
        };
        per_second(
            of(&self.now).saturating_sub(of(before)),
            self.now.since(before),
        )
    }

    /// The increase of a sum of one store since the state before, per second.
    pub(super) fn store_rate(&self, number: usize, of: impl Fn(&StoreWords) -> u64) -> u64 {
        self.rate(|state| state.stores.get(number).map_or(0, &of))
    }

    /// The callers to be shown, in the chosen order.
    pub(super) fn callers<'m>(&'m self) -> Vec<CallerRow<'m>> {
        let known = self.before.iter().flat_map(|before| &before.callers);
        let known: BTreeMap<_, _> = known.map(|sums| (&sums.caller, sums)).collect();
        let span = self.before.as_ref().map(|before| self.now.since(before));
        let row = |sums: &'m CallerSums| {
            let before = known.get(&sums.caller).copied();
            let rate = |of: fn(&CallerSums) -> u64| {
                let added = of(sums).saturating_sub(before.map_or(0, of));
                span.map_or(0, |span| per_second(added, span))
            };
            CallerRow {
                sums,
                waits_ms_per_s: rate(|sums| sums.waited_us) / 1_000,
                dirtied_bytes_per_s: rate(|sums| sums.dirtied_bytes),
            }
        };
        let callers = self.now.callers.iter();
        let mut rows: Vec<_> = callers
            .filter(|sums| self.is_shown(sums))
            .map(row)
            .collect();
        // In the state the longest wait comes first, and the sort keeps this order among equals.
        rows.sort_by_key(|row| {
            std::cmp::Reverse(match self.order {
                Order::Now => row.waits_ms_per_s,
                Order::Total => row.sums.waited_us,
                Order::Dirty => row.sums.dirty_bytes,
                Order::Dirtied => row.dirtied_bytes_per_s,
            })
        });
        rows
    }

    fn is_shown(&self, sums: &CallerSums) -> bool {
        let mut waits = self.now.waits.iter();
        self.store.is_none()
            || waits.any(|wait| wait.store == self.store && wait.caller == sums.caller)
    }
}

fn level(state: &State) -> u64 {
    state.dirty.dirty_bytes + state.dirty.writeback_bytes
}

fn per_second(count: u64, span: Span) -> u64 {
    let us = u128::from(span.as_micros().max(1));
    u64::try_from(u128::from(count) * 1_000_000 / us).unwrap_or(u64::MAX)
}
