//! Who is to blame for waits: gives the law the sums of the ledger, the limits of a minute ago and
//! those of now.

use crate::caller::{Caller, CallerKey};
use crate::engine::Engine;
use crate::event::WaitedCall;
use crate::incident::Incident;
use crate::state::backing::Backing;
use crate::state::dirtied::DirtierKey;
use crate::state::dirtier::Dirtier;
use crate::state::ledger::{Moment, RowKey, Sums};
use crate::state::minutes::{MINUTE, MINUTES};
use crate::why::{DirtiedRow, WaitRow, Why, WhyLine};
use forebay_base::{Instant, Span};
use forebay_law::blame::{BlameInputs, Suspect, blame, savings};
use forebay_store::{Failure, IoKind};
use std::collections::BTreeMap;

impl Engine {
    /// Who waited in the time `last` before now, or since the start.
    pub(crate) fn why(&self, last: Option<Span>) -> Why {
        let now = self.rt.now();
        let minutes = last.and_then(minutes_of);
        let window = window_of(now, minutes);
        let mut callers: BTreeMap<(CallerKey, Option<usize>), Vec<WaitRow>> = BTreeMap::new();
        for row in self.wait_rows(last) {
            callers.entry((row.caller, row.bdi)).or_default().push(row);
        }
        let (present, past) = (self.moment(), self.ledger.minute_ago());
        let past = past.unwrap_or(present);
        let dirtied = self.dirtied_rows(last);
        let ages = self.oldest_dirty_ages();
        let mut lines: Vec<WhyLine> = callers
            .into_iter()
            .map(|((caller, bdi), rows)| {
                let mut inputs = inputs_of(bdi, &present, &past);
                inputs.elapsed_us = window.as_micros();
                let is_it = |row: &&DirtiedRow| (row.caller, row.bdi) == (caller, bdi);
                let pages = dirtied.iter().find(is_it).map_or(0, |row| row.pages);
                let oldest_dirty = bdi.and_then(|bdi| ages.get(bdi).copied().flatten());
                let line = self.line((caller, bdi, pages), rows, inputs);
                WhyLine {
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
        }
    }

    /// The rows of the ledger in the same window.
    pub(crate) fn wait_rows(&self, last: Option<Span>) -> Vec<WaitRow> {
        let sums = self.ledger.sums(self.rt.now(), last.and_then(minutes_of));
        sums.into_iter().map(row_of).collect()
    }

    /// The pages that each caller made dirty in the same window.
    pub(crate) fn dirtied_rows(&self, last: Option<Span>) -> Vec<DirtiedRow> {
        let minutes = last.and_then(minutes_of);
        let rows = self.dirtied.pages(self.rt.now(), minutes).into_iter();
        let row = |(key, pages): (DirtierKey, u64)| DirtiedRow {
            caller: key.caller,
            bdi: key.bdi.map(|bdi| bdi as usize),
            pages,
        };
        rows.map(row).collect()
    }

    /// Notes for `caller` what one of its writers has made dirty since it was last noted.
    pub(crate) fn note_dirtied_by(&self, caller: CallerKey, backing: &Backing, dirtier: &Dirtier) {
        let pages = dirtier.take_dirtied();
        if pages == 0 {
            return;
        }
        let now = self.rt.now();
        self.heaviest.note(caller, pages, now.as_millis());
        let bdi = Some(backing.number as u32);
        self.dirtied.note(DirtierKey { caller, bdi }, pages, now);
    }

    /// The calls that ended in the time `last` before now, or since the start, and that took at
    /// least the threshold. The newest comes first.
    pub(crate) fn stalls(&self, last: Option<Span>) -> Vec<WaitedCall> {
        self.ledger.stalls(self.instant_before(last))
    }

    /// What happened in the time `last` before now, or since the start, the oldest first.
    pub(crate) fn incidents(&self, last: Option<Span>) -> Vec<Incident> {
        self.incidents.latest(self.instant_before(last))
    }

    /// Notes that store `bdi` has refused a request.
    pub(crate) fn note_refusal(&self, bdi: usize, kind: IoKind, failure: Failure) {
        self.incidents.refused(self.rt.now(), bdi, kind, failure);
    }

    /// The instant `last` before now, or the start.
    fn instant_before(&self, last: Option<Span>) -> Instant {
        let age = self.rt.now().since(Instant::ZERO);
        Instant::ZERO + age.saturating_sub(last.unwrap_or(Span::MAX))
    }

    /// The callers that have dirtied most lately, with their parts of the pages that are dirty now.
    pub(crate) fn heaviest_callers(&self) -> Vec<(Caller, u64)> {
        let now_ms = self.now_ms();
        let dirty = self.global.pages();
        let callers = self.heaviest.all(now_ms);
        let of = |(key, _): (CallerKey, u64)| {
            let part = self.heaviest.part(key, now_ms);
            (self.ledger.caller(key), part.of(dirty))
        };
        callers.into_iter().map(of).collect()
    }

    fn line(
        &self,
        (caller, bdi, dirtied_pages): (CallerKey, Option<usize>, u64),
        mut rows: Vec<WaitRow>,
        mut inputs: BlameInputs,
    ) -> WhyLine {
        rows.sort_by_key(|row| std::cmp::Reverse(row.waited));
        for row in &rows {
            inputs.waited_us[row.cause as usize] = row.waited.as_micros();
        }
        let verdict = blame(&inputs);
        let culprit = match verdict.first {
            Suspect::OthersDirty => self.ledger.culprit(caller, bdi),
            _ => None,
        };
        let drain = bdi.and_then(|bdi| self.drain_statistics(&self.stores.get(bdi)));
        let mut of_store = inputs;
        if let Some(drain) = drain.filter(|drain| !drain.is_idle) {
            of_store.limit_pages = drain.limit.min(inputs.limit_pages);
        }
        WhyLine {
            caller: self.ledger.caller(caller),
            bdi,
            waited: Span::from_micros(inputs.all_us()),
            rows,
            verdict,
            culprit: culprit.map(|key| self.ledger.caller(key)),
            inputs,
            savings: savings(&of_store),
            dirtied_pages,
            drain,
            oldest_dirty: None,
            advice: None,
        }
    }
}

/// The number of minutes that cover the time `last` before now, including the present minute. None
/// if the ledger does not go back that far: then everything since the start counts.
fn minutes_of(last: Span) -> Option<u64> {
    let minutes = last.as_millis().div_ceil(MINUTE.as_millis()) + 1;
    (minutes <= MINUTES).then_some(minutes)
}

/// How much of the time before `now` these minutes cover.
fn window_of(now: Instant, minutes: Option<u64>) -> Span {
    let all = now.since(Instant::ZERO);
    let Some(minutes) = minutes else { return all };
    let begun = Span::from_nanos(all.as_nanos() % MINUTE.as_nanos());
    all.min(begun + MINUTE.saturating_mul(minutes - 1))
}

fn row_of((key, sums): (RowKey, Sums)) -> WaitRow {
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
    use crate::policy::Policy;
    use forebay_rt::{Virtual, VirtualSettings};

    #[test]
    fn what_is_asked_of_a_time_begins_so_long_before_now() {
        let world = Virtual::new(VirtualSettings::default());
        let rt = world.rt();
        let engine = Engine::alone(rt.clone(), Policy::default());
        world.run(async move {
            rt.sleep(Span::from_secs(10)).await;
            let before = |last| engine.instant_before(last).since(Instant::ZERO);
            assert_eq!(before(Some(Span::from_secs(3))), Span::from_secs(7));
            assert_eq!(before(Some(Span::from_secs(11))), Span::ZERO);
            assert_eq!(before(None), Span::ZERO);
        });
    }
}
