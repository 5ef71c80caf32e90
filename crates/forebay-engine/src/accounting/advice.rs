//! Which knob would help a caller that waits. Whether a higher limit helps at all, the law of blame
//! says (`forebay_law::blame`); here is which of the limits holds the caller.

use crate::accounting::at_risk::drain_for;
use crate::engine::Engine;
use crate::incident::Happening;
use crate::retune::{Changes, StoreChanges};
use crate::store_key::StoreKey;
use crate::why::{Advice, AdviceReason, Cause, DirtiedRow, Suspect, WhyLine};
use forebay_base::Span;
use forebay_base::sync::lock;

/// A store whose writers hold others back is promised to be written in this time.
const USUAL_PROMISE: Span = Span::from_secs(2);
/// Promises are advised in steps of this, and no shorter one.
const PROMISE_STEP_MS: u64 = 100;

impl Engine {
    /// The knobs that would help the caller of `line`, if there are any. `dirtied` has what callers
    /// made dirty in its window.
    pub(crate) fn advice(&self, line: &WhyLine, dirtied: &[DirtiedRow]) -> Option<Advice> {
        if !line.verdict.is_clear() {
            return None;
        }
        let first = match line.verdict.first {
            Suspect::Limit | Suspect::Memory => self.turn_back(),
            Suspect::OthersDirty => self.hold_back(line, dirtied),
            Suspect::Sync => self.shorter_sync(line),
            _ => None,
        };
        first.or_else(|| self.allow_more(line))
    }

    /// Turns back the knobs that lowered the limit since the moment that the verdict compares with.
    fn turn_back(&self) -> Option<Advice> {
        let since = self.accounts.ledger.minute_ago()?.at;
        let mut back = Changes::default();
        let mut last = None;
        for incident in self.accounts.incidents.latest(since) {
            let Happening::Turned {
                from,
                limit_pages,
                limit_pages_before,
                ..
            } = incident.what
            else {
                continue;
            };
            if limit_pages < limit_pages_before {
                back.add_limits(&from);
                last = Some(incident.at);
            }
        }
        let ago = self.rt.now().since(last?);
        let reason = AdviceReason::TurnBack { ago };
        advice(reason, back)
    }

    /// Lets the other caller's store keep less, if it is another store.
    fn hold_back(&self, line: &WhyLine, dirtied: &[DirtiedRow]) -> Option<Advice> {
        let culprit = line.culprit.as_ref()?.key();
        let rows = dirtied.iter().filter(|row| row.caller == culprit);
        let bdi = rows.max_by_key(|row| row.pages)?.bdi?;
        let backing = self.dirty.stores.get(bdi);
        let average = lock(&backing.rates).bandwidth.average_pages_per_s;
        let held_pages = average.saturating_mul(USUAL_PROMISE.as_millis()) / 1_000;
        let has_promise = self.dirty.drain_of(&backing).is_some();
        let is_same = line.bdi == Some(bdi);
        if is_same || has_promise || average == 0 || held_pages > line.inputs.limit_pages / 2 {
            return None;
        }
        let drain = promised(self.dirty.stores.key_of(bdi), USUAL_PROMISE);
        advice(AdviceReason::HoldBack { bdi }, drain)
    }

    /// Lets less be dirty before a sync, so that it takes half as long.
    fn shorter_sync(&self, line: &WhyLine) -> Option<Advice> {
        let bdi = line.bdi?;
        let sync = line
            .rows
            .iter()
            .find(|row| row.cause == Cause::SyncWrites)?;
        let half_ms = sync.longest.as_millis() / 2;
        let promise_ms = half_ms.next_multiple_of(PROMISE_STEP_MS);
        let promise = Span::from_millis(promise_ms);
        let rate = line.inputs.store_pages_per_s;
        let held_pages = rate.saturating_mul(promise_ms) / 1_000;
        let is_kept = line.drain.is_some_and(|drain| drain.promise <= promise);
        let changes = promised(self.dirty.stores.key_of(bdi), promise);
        let is_possible = self.dirty.check_drains(&changes.stores).is_ok();
        if half_ms < PROMISE_STEP_MS || is_kept || !is_possible || rate == 0 {
            return None;
        }
        if held_pages >= line.inputs.limit_pages {
            return None;
        }
        advice(AdviceReason::ShorterSync, changes)
    }

    /// Twice the limit that holds the caller, if that would help.
    fn allow_more(&self, line: &WhyLine) -> Option<Advice> {
        let saved_us = line.savings.twice_the_memory_us;
        let of_pauses_us = saved_us.saturating_sub(line.inputs.frames_us());
        if of_pauses_us == 0 || of_pauses_us < line.inputs.all_us() / 10 {
            return None;
        }
        let bdi = line.bdi?;
        let backing = self.dirty.stores.get(bdi);
        if let Some(drain) = line.drain.filter(|drain| !drain.is_idle) {
            let twice = |time: Span| time.saturating_mul(2);
            let at_risk = self.knobs.at_risk();
            let is_for_age = at_risk.is_some_and(|limit| drain_for(limit) == drain.promise);
            let changes = if is_for_age && backing.knobs.drain() != Some(drain.promise) {
                Changes {
                    at_risk: Some(at_risk.map(twice)),
                    ..Changes::default()
                }
            } else {
                promised(self.dirty.stores.key_of(bdi), twice(drain.promise))
            };
            return advice(AdviceReason::LongerPromise, changes);
        }
        let percent = backing.knobs.max_ratio_percent();
        if backing.knobs.strict_limit() && percent < 100 {
            let more = StoreChanges {
                max_ratio_percent: Some((percent * 2).min(100)),
                ..StoreChanges::of_store(self.dirty.stores.key_of(bdi))
            };
            return advice(AdviceReason::HigherLimit, of_store(more));
        }
        // However the limit is set, a quarter of the memory stays clean.
        let most = self.memory.dirtyable_pages() / 4 * 3;
        if line.inputs.limit_pages >= most / 10 * 9 {
            return None;
        }
        let dirty = self.knobs.dirty();
        let changes = if dirty.dirty_bytes > 0 {
            Changes {
                dirty_bytes: Some(dirty.dirty_bytes.saturating_mul(2)),
                ..Changes::default()
            }
        } else {
            Changes {
                dirty_ratio_percent: Some((dirty.dirty_ratio_percent * 2).clamp(1, 75)),
                ..Changes::default()
            }
        };
        advice(AdviceReason::HigherLimit, changes)
    }
}

fn advice(reason: AdviceReason, changes: Changes) -> Option<Advice> {
    let is_something = changes != Changes::default();
    is_something.then_some(Advice { reason, changes })
}

fn promised(store: StoreKey, promise: Span) -> Changes {
    of_store(StoreChanges {
        drain: Some(Some(promise)),
        ..StoreChanges::of_store(store)
    })
}

fn of_store(change: StoreChanges) -> Changes {
    Changes {
        stores: vec![change],
        ..Changes::default()
    }
}
