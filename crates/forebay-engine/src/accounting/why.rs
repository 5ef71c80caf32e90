//! Who is to blame for waits: gives the law the sums of the ledger, the limits of a minute ago and
//! those of now.

use crate::caller::{Caller, CallerKey};
use crate::engine::Engine;
use crate::event::WaitedCall;
use crate::incident::Incident;
use crate::parts::Accounts;
use crate::state::backing::Backing;
use crate::state::dirtied::DirtierKey;
use crate::state::dirtier::Dirtier;
use crate::state::ledger::{Moment, RowKey, Sums};
use crate::state::minutes::Window;
use crate::state::open_calls::CallerAtStore;
use crate::state::open_calls::OpenRow;
use crate::trouble::StoreTrouble;
use crate::why::{DirtiedRow, OpenWait, WaitRow, Why, WhyLine};
use forebay_base::sync::atomic::Ordering;
use forebay_base::{Instant, Span};
use forebay_law::blame::{BlameInputs, Suspect, blame, savings};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A store that answers within this time is not called silent.
const LEAST_SILENCE: Span = Span::from_secs(1);

impl Engine {
    /// Who waited in the time `last` before now, or since the start.
    pub(crate) fn why(&self, last: Option<Span>) -> Why {
        let now = self.rt.now();
        let in_window = last.and_then(|last| Window::of(now, last));
        let window = in_window.map_or(now.since(Instant::ZERO), Window::length);
        let open = self.accounts.open_calls.rows(now);
        let mut callers: BTreeMap<CallerAtStore, Vec<WaitRow>> = BTreeMap::new();
        for row in self.wait_rows(last) {
            callers
                .entry(CallerAtStore {
                    caller: row.caller,
                    bdi: row.bdi,
                })
                .or_default()
                .push(row);
        }
        let (present, past) = (self.dirty.moment(), self.accounts.ledger.minute_ago());
        let past = past.unwrap_or(present);
        let dirtied = self.dirtied_rows(last);
        let ages = self.dirty.oldest_dirty_ages();
        let mut lines: Vec<WhyLine> = callers
            .into_iter()
            .map(|(of, rows)| {
                let CallerAtStore { caller, bdi } = of;
                let mut inputs = inputs_of(bdi, &present, &past);
                inputs.elapsed_us = window.as_micros();
                let is_it = |row: &&DirtiedRow| (row.caller, row.bdi) == (caller, bdi);
                let pages = dirtied.iter().find(is_it).map_or(0, |row| row.pages);
                let oldest_dirty = bdi.and_then(|bdi| ages.get(bdi).copied().flatten());
                let line = self.line(of, pages, rows, inputs);
                let is_it = |row: &&OpenRow| (row.caller, row.bdi) == (caller, bdi);
                let waits_now = open.iter().filter(is_it).filter_map(|row| row.now_for);
                WhyLine {
                    waits_now: waits_now.max(),
                    oldest_dirty,
                    advice: self.advice(&line, &dirtied),
                    ..line
                }
            })
            .collect();
        lines.sort_by_key(|line| std::cmp::Reverse(line.waited));
        Why {
            window,
            waited: lines.iter().fold(Span::ZERO, |sum, line| sum + line.waited),
            lines,
            elastic: self.elastic_statistics(),
            troubles: self.troubles(),
        }
    }

    /// What is wrong with the stores now.
    fn troubles(&self) -> Vec<StoreTrouble> {
        let backings = self.dirty.stores.all();
        let of_store = |backing: &Arc<Backing>| {
            let now = self.rt.now();
            let kept_pages = backing.counts.failed_pages.load(Ordering::Relaxed);
            let latest = backing.failing.refusals.latest(kept_pages, now).into_iter();
            let refused = latest.flatten().filter(|trouble| !trouble.is_over);
            let silent = backing.activity.silent(now);
            StoreTrouble {
                bdi: backing.number,
                name: self.store_name(backing.number),
                silent: if silent < LEAST_SILENCE {
                    Span::ZERO
                } else {
                    silent
                },
                refused: refused.collect(),
                kept_pages,
            }
        };
        let all = backings.iter().map(of_store);
        all.filter(|store| store.silent > Span::ZERO || !store.refused.is_empty())
            .collect()
    }

    /// What people call the store numbered `bdi`.
    pub(crate) fn store_name(&self, bdi: usize) -> String {
        let stores = self.dirty.stores.all();
        match stores.get(bdi).and_then(|backing| backing.owner.name.get()) {
            Some(name) => format!("store {bdi} ({name})"),
            None => format!("store {bdi}"),
        }
    }

    /// The rows of the ledger in the same window, with the waits of calls that have not ended.
    pub(crate) fn wait_rows(&self, last: Option<Span>) -> Vec<WaitRow> {
        let now = self.rt.now();
        let window = last.and_then(|last| Window::of(now, last));
        let sums = self.accounts.ledger.sums(window).into_iter();
        let mut rows: Vec<WaitRow> = sums.map(|(key, sums)| row_of(key, sums)).collect();
        let longest = window.map_or(Span::MAX, Window::length);
        for open in self.accounts.open_calls.rows(now) {
            let waited = Span::from_micros(open.us).min(longest);
            let is_it = |row: &&mut WaitRow| {
                (row.caller, row.bdi, row.cause) == (open.caller, open.bdi, open.cause)
            };
            match rows.iter_mut().find(is_it) {
                Some(row) => {
                    row.calls += 1;
                    row.waited += waited;
                    row.longest = row.longest.max(Span::from_micros(open.us));
                }
                None => rows.push(WaitRow {
                    caller: open.caller,
                    bdi: open.bdi,
                    cause: open.cause,
                    calls: 1,
                    waited,
                    longest: Span::from_micros(open.us),
                }),
            }
        }
        rows
    }

    /// The waits that go on, the longest first.
    pub(crate) fn open_waits(&self) -> Vec<OpenWait> {
        let rows = self.accounts.open_calls.rows(self.rt.now()).into_iter();
        let wait = |row: OpenRow| {
            Some(OpenWait {
                caller: row.caller,
                bdi: row.bdi,
                cause: row.cause,
                waited: row.now_for?,
            })
        };
        let mut waits: Vec<OpenWait> = rows.filter_map(wait).collect();
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.waited));
        waits
    }

    /// The pages that each caller made dirty in the same window.
    pub(crate) fn dirtied_rows(&self, last: Option<Span>) -> Vec<DirtiedRow> {
        let window = last.and_then(|last| Window::of(self.rt.now(), last));
        let rows = self.accounts.dirtied.pages(window).into_iter();
        let row = |(key, pages): (DirtierKey, u64)| DirtiedRow {
            caller: key.caller,
            bdi: key.bdi.map(|bdi| bdi as usize),
            pages,
        };
        rows.map(row).collect()
    }

    /// The calls that ended in the time `last` before now, or since the start, and that took at
    /// least the threshold. The newest comes first.
    pub(crate) fn stalls(&self, last: Option<Span>) -> Vec<WaitedCall> {
        self.accounts.ledger.stalls(self.instant_before(last))
    }

    /// What happened in the time `last` before now, or since the start, the oldest first.
    pub(crate) fn incidents(&self, last: Option<Span>) -> Vec<Incident> {
        self.accounts.incidents.latest(self.instant_before(last))
    }

    /// The instant `last` before now, or the start.
    fn instant_before(&self, last: Option<Span>) -> Instant {
        let age = self.rt.now().since(Instant::ZERO);
        Instant::ZERO + age.saturating_sub(last.unwrap_or(Span::MAX))
    }

    /// The callers that have dirtied most lately, with their parts of the pages that are dirty now.
    pub(crate) fn heaviest_callers(&self) -> Vec<(Caller, u64)> {
        let now_ms = self.accounts.now_ms();
        let dirty = self.dirty.global.pages();
        let callers = self.accounts.top_dirtiers.all(now_ms);
        let of = |(key, _): (CallerKey, u64)| {
            let part = self.accounts.top_dirtiers.part(key, now_ms);
            (self.accounts.ledger.caller(key), part.of(dirty))
        };
        callers.into_iter().map(of).collect()
    }

    fn line(
        &self,
        of: CallerAtStore,
        dirtied_pages: u64,
        mut rows: Vec<WaitRow>,
        mut inputs: BlameInputs,
    ) -> WhyLine {
        let CallerAtStore { caller, bdi } = of;
        rows.sort_by_key(|row| std::cmp::Reverse(row.waited));
        for row in &rows {
            inputs.waited_us[row.cause as usize] = row.waited.as_micros();
        }
        let verdict = blame(&inputs);
        let culprit = match verdict.first {
            Suspect::OthersDirty => self.accounts.ledger.culprit(caller, bdi),
            _ => None,
        };
        let drain = bdi.and_then(|bdi| self.dirty.drain_statistics(&self.dirty.stores.get(bdi)));
        let mut of_store = inputs;
        if let Some(drain) = drain.filter(|drain| !drain.is_idle) {
            of_store.limit_pages = drain.limit.min(inputs.limit_pages);
        }
        WhyLine {
            caller: self.accounts.ledger.caller(caller),
            bdi,
            waited: Span::from_micros(inputs.all_us()),
            rows,
            verdict,
            culprit: culprit.map(|key| self.accounts.ledger.caller(key)),
            inputs,
            savings: savings(&of_store),
            dirtied_pages,
            drain,
            waits_now: None,
            oldest_dirty: None,
            advice: None,
        }
    }
}

impl Accounts {
    /// Notes for `caller` what one of its writers has made dirty since it was last noted.
    pub(crate) fn note_dirtied_by(&self, caller: CallerKey, backing: &Backing, dirtier: &Dirtier) {
        let pages = dirtier.take_dirtied();
        if pages == 0 {
            return;
        }
        let now = self.rt.now();
        self.top_dirtiers.note(caller, pages, now.as_millis());
        let bdi = Some(backing.number as u32);
        self.dirtied.note(DirtierKey { caller, bdi }, pages, now);
    }
}

fn row_of(key: RowKey, sums: Sums) -> WaitRow {
    WaitRow {
        caller: key.caller,
        bdi: key.bdi,
        cause: key.cause,
        calls: sums.calls,
        waited: Span::from_micros(sums.us),
        longest: Span::from_micros(sums.longest_us),
    }
}

fn inputs_of(bdi: Option<usize>, present: &Moment, past: &Moment) -> BlameInputs {
    BlameInputs {
        store_pages_per_s: present.rate_of(bdi),
        store_pages_per_s_before: past.rate_of(bdi),
        limit_pages: present.limit_pages,
        limit_pages_before: past.limit_pages,
        memory_bytes: present.memory_bytes,
        memory_bytes_before: past.memory_bytes,
        ..BlameInputs::default()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use forebay_rt::{Virtual, VirtualSettings};

    #[test]
    fn what_is_asked_of_a_time_begins_so_long_before_now() {
        let world = Virtual::new(VirtualSettings::default());
        let rt = world.rt();
        let engine = Engine::alone(rt.clone());
        world.run(async move {
            rt.sleep(Span::from_secs(10)).await;
            let before = |last| engine.instant_before(last).since(Instant::ZERO);
            assert_eq!(before(Some(Span::from_secs(3))), Span::from_secs(7));
            assert_eq!(before(Some(Span::from_secs(11))), Span::ZERO);
            assert_eq!(before(None), Span::ZERO);
        });
    }
}
