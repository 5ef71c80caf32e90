//! How far each process has come, over time.

use super::Scenario;
use super::script::Action;
use crate::outcome::{Column, Series};
use crate::world::WorldError;
use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_rt::wait::Gate;

/// Bytes that processes have moved.
pub(super) struct Progress {
    groups: Vec<Moved>,
    /// A moment, and how much each group had moved then.
    noted: Mutex<Vec<(f64, Vec<u64>)>>,
    /// Opened when a process could not go on.
    failed: Gate,
    /// Why the first one could not go on.
    failure: Mutex<Option<WorldError>>,
}

/// A process is in no call.
const NO_CALL: u64 = u64::MAX;

struct Moved {
    name: String,
    /// By process.
    bytes: Vec<AtomicU64>,
    /// When the call began that each process is in, nanoseconds from switching on; [`NO_CALL`]
    /// outside.
    in_call_since: Vec<AtomicU64>,
    /// The longest call that has ended and counts, nanoseconds.
    longest_call: AtomicU64,
    /// Turns of a process with a rate that came too late, in the time in which latencies count;
    /// none of a group that makes up for them.
    turns_lost: Option<AtomicU64>,
    /// It was killed: what its processes still do until they have ended does not count.
    is_over: AtomicBool,
    starts_at: Span,
}

impl Progress {
    pub(super) fn new(scenario: &Scenario) -> Progress {
        let of_group = |group: &super::Group| Moved {
            name: group.name.clone(),
            bytes: (0..group.count).map(|_| AtomicU64::new(0)).collect(),
            in_call_since: (0..group.count).map(|_| AtomicU64::new(NO_CALL)).collect(),
            longest_call: AtomicU64::new(0),
            turns_lost: matches!(&group.action, Action::Access(it) if it.loses_late_turns())
                .then(|| AtomicU64::new(0)),
            is_over: AtomicBool::new(false),
            starts_at: group.start,
        };
        Progress {
            groups: scenario.groups.iter().map(of_group).collect(),
            noted: Mutex::default(),
            failed: Gate::new(false),
            failure: Mutex::default(),
        }
    }

    /// A process has moved another `bytes`.
    pub(super) fn moved(&self, group: usize, number: usize, bytes: u64) {
        if !self.is_over(group) {
            self.groups[group].bytes[number].fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// A group is killed, and nothing that it does from now on counts.
    pub(super) fn end_group(&self, group: usize) {
        self.groups[group].is_over.store(true, Ordering::Relaxed);
    }

    /// A process of `group` cannot go on. The reason does not matter if it was killed.
    pub(super) fn fail(&self, group: usize, error: &WorldError) {
        if !self.is_over(group) {
            let name = &self.groups[group].name;
            lock(&self.failure).get_or_insert_with(|| error.clone().of_process(name));
            self.failed.open();
        }
    }

    /// Ready with the reason when a process cannot go on.
    pub(super) async fn failure(&self) -> WorldError {
        self.failed.wait().await;
        let failure = lock(&self.failure).clone();
        failure.expect("the gate is opened once the failure is there")
    }

    fn is_over(&self, group: usize) -> bool {
        self.groups[group].is_over.load(Ordering::Relaxed)
    }

    /// A process begins a call whose latency counts.
    pub(super) fn begin_call(&self, group: usize, number: usize, now: Instant) {
        let since = (now - Instant::ZERO).as_nanos();
        self.groups[group].in_call_since[number].store(since, Ordering::Relaxed);
    }

    /// The call of a process is over, or is reported unfinished. Returns when it began; none if
    /// there was no call, it was reported already, or its group is over.
    pub(super) fn end_call(&self, group: usize, number: usize) -> Option<Instant> {
        let since = &self.groups[group].in_call_since[number];
        let since = since.swap(NO_CALL, Ordering::Relaxed);
        let counts = since != NO_CALL && !self.is_over(group);
        counts.then(|| Instant::ZERO + Span::from_nanos(since))
    }

    /// A call of `group` that has ended counts.
    pub(super) fn note_call(&self, group: usize, span: Span) {
        let longest = &self.groups[group].longest_call;
        longest.fetch_max(span.as_nanos(), Ordering::Relaxed);
    }

    /// A process of `group` leaves out as many turns.
    pub(super) fn lose_turns(&self, group: usize, turns: u64) {
        if let (false, Some(lost)) = (self.is_over(group), &self.groups[group].turns_lost) {
            lost.fetch_add(turns, Ordering::Relaxed);
        }
    }

    /// The turns that `group` left out; none if it makes up for late ones.
    pub(super) fn turns_lost(&self, group: usize) -> Option<u64> {
        let lost = self.groups[group].turns_lost.as_ref()?;
        Some(lost.load(Ordering::Relaxed))
    }

    /// The longest call of `group` that has ended and counts.
    pub(super) fn longest_call(&self, group: usize) -> Span {
        Span::from_nanos(self.groups[group].longest_call.load(Ordering::Relaxed))
    }

    /// What each process of `group` has moved.
    pub(super) fn of_group(&self, group: usize) -> Vec<u64> {
        let bytes = self.groups[group].bytes.iter();
        bytes.map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// Notes how far all processes are when the scenario has run for this long.
    pub(super) fn note(&self, passed: Span) {
        let at_s = passed.as_secs_f64();
        let sum = |group: usize| self.of_group(group).iter().sum();
        let moved = (0..self.groups.len()).map(sum).collect();
        lock(&self.noted).push((at_s, moved));
    }

    /// Adds a column `rate@NAME` for each group: bytes a second since the row before.
    pub(super) fn add_columns(&self, series: &mut Series) {
        let noted = lock(&self.noted);
        for (group, moved) in self.groups.iter().enumerate() {
            let level = |at_s: f64| level_at(&noted, group, at_s);
            let mut before_s = 0.0;
            let mut rate = |&at_s: &f64| {
                let moved = level(at_s) - level(before_s);
                let rate = moved / (at_s - before_s).max(1e-9);
                before_s = at_s;
                rate
            };
            let column = Column {
                name: format!("rate@{}", moved.name),
                unit: "bytes/s".into(),
                values: series.at_s.iter().map(&mut rate).collect(),
            };
            series.columns.push(column);
        }
    }

    /// When the group of that number starts.
    pub(super) fn starts_at(&self, group: usize) -> Span {
        self.groups[group].starts_at
    }
}

/// What `group` had moved at `at_s`, on the line between the moments before and after it.
fn level_at(noted: &[(f64, Vec<u64>)], group: usize, at_s: f64) -> f64 {
    let behind = noted.partition_point(|(then_s, _)| *then_s < at_s);
    let value = |index: usize| noted[index].1[group] as f64;
    if behind == noted.len() {
        return if noted.is_empty() {
            0.0
        } else {
            value(behind - 1)
        };
    }
    let (until_s, until) = (noted[behind].0, value(behind));
    let (from_s, from) = match behind {
        0 => (0.0, 0.0),
        _ => (noted[behind - 1].0, value(behind - 1)),
    };
    from + (until - from) * (at_s - from_s) / (until_s - from_s).max(1e-9)
}
