//! A drive that has only a speed: bytes a second, requests a second, a burst.
//!
//! Requests pass one after the other. When the speed changes, the rest of a request goes on at the
//! new speed. After an idle time the first bytes of a burst pass at once.

use super::drive::{Command, Drive};
use super::transfer::TransferKind;
use forebay_base::{Instant, Span};
use forebay_store::{IoKind, ObjectId, Rate, Request};
use std::collections::VecDeque;

/// A drive of a given speed.
#[derive(Debug)]
pub(crate) struct Rated {
    rate: Rate,
    depth: usize,
    waiting: VecDeque<(Instant, Command)>,
    passing: Option<Passing>,
    /// When the last command had passed.
    free_at: Instant,
}

/// The command that is passing.
#[derive(Debug)]
struct Passing {
    command: Command,
    /// Since when the rest of it passes at the present rate.
    since: Instant,
    /// The rest, in 2^-32 of the command.
    rest: u64,
    until: Instant,
}

const WHOLE: u64 = 1 << 32;

impl Rated {
    pub(crate) fn new(rate: Rate, depth: usize) -> Rated {
        Rated {
            rate,
            depth,
            waiting: VecDeque::new(),
            passing: None,
            free_at: Instant::ZERO,
        }
    }

    fn span_of(&self, command: &Command) -> Span {
        let kind = match command.kind {
            TransferKind::Read => IoKind::Read,
            TransferKind::Write => IoKind::Write,
            TransferKind::Flush => IoKind::Commit,
        };
        self.rate.span_of(Request {
            kind,
            object: ObjectId(0),
            offset_bytes: 0,
            length_bytes: command.length_bytes,
        })
    }

    /// How far back the passing of a command that came at `at` may begin.
    fn credited(&self, at: Instant) -> Instant {
        if self.rate.bytes_per_s == 0 {
            return at;
        }
        let burst = super::drive::span_of(self.rate.burst_bytes, self.rate.bytes_per_s);
        Instant::from_nanos(at.as_nanos().saturating_sub(burst.as_nanos()))
    }

    fn begin(&mut self) {
        let Some((at, command)) = self.waiting.pop_front() else {
            return;
        };
        let since = self.free_at.max(self.credited(at));
        let until = since + self.span_of(&command);
        self.passing = Some(Passing {
            command,
            since,
            rest: WHOLE,
            until,
        });
    }
}

impl Drive for Rated {
    fn depth(&self) -> usize {
        self.depth
    }

    fn accept(&mut self, command: Command, now: Instant) {
        self.waiting.push_back((now, command));
        if self.passing.is_none() {
            self.begin();
        }
    }

    fn next_event(&self) -> Instant {
        let passing = self.passing.as_ref();
        passing.map_or(Instant::NEVER, |passing| passing.until)
    }

    fn advance(&mut self, now: Instant, ended: &mut Vec<u32>) {
        while let Some(passing) = self.passing.take_if(|passing| passing.until <= now) {
            self.free_at = passing.until;
            ended.push(passing.command.tag);
            self.begin();
        }
    }

    fn set_rate(&mut self, rate: Rate, now: Instant) -> bool {
        let Some(mut passing) = self.passing.take() else {
            self.rate = rate;
            return true;
        };
        let whole = u128::from(self.span_of(&passing.command).as_nanos().max(1));
        let passed = u128::from((now - passing.since).as_nanos()) << 32;
        let passed = u64::try_from(passed / whole).unwrap_or(u64::MAX);
        self.rate = rate;
        passing.rest = passing.rest.saturating_sub(passed);
        passing.since = passing.since.max(now);
        let whole = self.span_of(&passing.command);
        passing.until = if whole == Span::MAX && passing.rest > 0 {
            Instant::NEVER
        } else {
            let rest = (u128::from(whole.as_nanos()) * u128::from(passing.rest)) >> 32;
            passing.since + Span::from_nanos(rest as u64)
        };
        self.passing = Some(passing);
        true
    }
}
