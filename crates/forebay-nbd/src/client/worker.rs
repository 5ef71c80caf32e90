//! The thread of a server: it moves the bytes of all connections and connects again.
//!
//! All connections are of one *generation*. If one of them breaks, none of them is used any more:
//! the server may have restarted, and an answer on another connection would be counted for the
//! wrong server. Requests that were under way are sent again on the next connections; reads, writes
//! and zeros may be done twice.

use super::address::Address;
use super::connecting::{BackOff, Demands, connect_all};
use super::dialing::LOOK;
use super::greeting::Facts;
use super::ledger::Ledger;
use super::link::{Answered, Broken, Link};
use super::mail::Mail;
use super::pending::{Next, Pending};
use super::refusal::ClientError;
use crate::wire::{Errno, command_flag};
use forebay_base::Span;
use forebay_base::sync::atomic::Ordering;
use forebay_rt::say;
use forebay_rt::thread::Stopwatch;
use forebay_store::{Failure, IoKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::sync::Arc;

/// If a server was away for less than this, only its return is reported.
const SAID_AFTER: Span = Span::from_secs(2);

/// See above.
pub(crate) struct Worker {
    mail: Arc<Mail>,
    address: Address,
    demands: Demands,
    facts: Facts,
    answer_timeout: Span,
    links: Vec<Link>,
    backlog: VecDeque<Pending>,
    answered: Vec<Answered>,
    ledger: Ledger,
    clock: Stopwatch,
    back_off: BackOff,
    /// Since when there are no connections.
    away_since: Span,
    /// The last reported reason why the server could not be used.
    said: Option<String>,
}

impl Worker {
    /// A worker that begins with the connections `links`.
    pub(crate) fn new(
        mail: Arc<Mail>,
        address: Address,
        demands: Demands,
        links: Vec<Link>,
        answer_timeout: Span,
    ) -> Worker {
        let facts = links[0].facts;
        Worker {
            mail,
            address,
            demands: Demands {
                known: Some(facts),
                ..demands
            },
            facts,
            answer_timeout,
            links,
            backlog: VecDeque::new(),
            answered: Vec::new(),
            ledger: Ledger::default(),
            clock: Stopwatch::start(),
            back_off: BackOff::default(),
            away_since: Span::ZERO,
            said: None,
        }
    }

    /// Serves requests until it is stopped and nothing is left.
    pub(crate) fn run(mut self) {
        loop {
            // This has to be checked before the mail is taken: nothing comes after the stop.
            let is_stopped = self.mail.is_stopped();
            self.mail.take(&mut self.backlog, self.clock.elapsed());
            if self.links.is_empty() {
                if is_stopped {
                    return self.fail_all();
                }
                self.try_again();
                continue;
            }
            self.ask();
            match self.move_bytes() {
                Ok(true) => {}
                Ok(false) if is_stopped && self.is_idle() => {
                    self.links.iter_mut().for_each(Link::leave);
                    return;
                }
                Ok(false) => self.sleep(None),
                Err(broken) => self.start_anew(&broken),
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.backlog.is_empty() && self.links.iter().all(Link::is_idle)
    }

    /// Puts requests on their way while there is room.
    fn ask(&mut self) {
        while !self.backlog.is_empty() {
            let loads = self.links.iter().enumerate();
            let free = loads.filter_map(|(index, link)| Some((link.load()?, index)));
            let Some((_, link)) = free.min() else { return };
            let Some(mut pending) = self.backlog.pop_front() else {
                return;
            };
            if pending.is(IoKind::Commit) {
                let covered = self.ledger.covers(pending.heard);
                if self.ledger.is_forgotten(&covered) {
                    self.ledger.reported(&covered);
                    pending.fail(Failure::Forgotten);
                    continue;
                }
                pending.covered = Some(covered);
            }
            pending.sent = self.ledger.era();
            match pending.next(&self.facts) {
                Next::Ask(question) => self.links[link].ask(pending, question),
                Next::Done => pending.succeed(&self.facts),
                Next::Fail(failure) => pending.fail(failure),
            }
        }
    }

    /// Sends and receives once on each connection. True if something moved.
    fn move_bytes(&mut self) -> Result<bool, Broken> {
        let mut has_moved = false;
        let mut broken = None;
        for link in &mut self.links {
            let answered = &mut self.answered;
            let moved = link.send().and_then(|has_sent| {
                let has_come = link.receive(|answer| answered.push(answer))?;
                Ok(has_sent || has_come)
            });
            match moved {
                Ok(moved) => has_moved |= moved,
                Err(error) => {
                    broken = Some(error);
                    break;
                }
            }
        }
        // Even if a connection broke: these answers came before that.
        for answer in std::mem::take(&mut self.answered) {
            self.settle(answer);
        }
        broken.map_or(Ok(has_moved), Err)
    }

    /// Ends a request that the server has answered.
    fn settle(&mut self, answer: Answered) {
        let Answered {
            mut pending,
            question,
            error,
        } = answer;
        self.back_off.answered();
        if let Some(error) = error {
            // Nobody knows what a server still has after a flush that failed. Many servers make a
            // request durable with a flush of everything, so its error may be one of a flush.
            if pending.covered.is_some() || question.flags & command_flag::FUA != 0 {
                self.ledger.started_anew();
            }
            if let Some(covered) = pending.covered {
                self.ledger.reported(&covered);
            }
            return pending.fail(failure_of(error));
        }
        pending.is_answered(&question);
        if let Some(covered) = pending.covered {
            if !self.ledger.flushed(&covered) {
                return pending.fail(Failure::Forgotten);
            }
        } else if pending.is(IoKind::Write) {
            self.ledger.write_finished(pending.sent);
            pending.succeed(&self.facts);
            self.mail.heard.fetch_add(1, Ordering::Release);
            return;
        } else if pending.is(IoKind::Discard) && pending.next(&self.facts) != Next::Done {
            return self.backlog.push_front(pending);
        }
        pending.succeed(&self.facts);
    }

    /// The server may have restarted: no write since its last flush counts as durable.
    fn start_anew(&mut self, broken: &Broken) {
        if let Some(error) = &broken.0 {
            say(format_args!("{}: {error}", self.address));
        }
        self.away_since = self.clock.elapsed();
        for link in &mut self.links {
            for mut pending in link.take_back() {
                pending.covered = None;
                pending.since = self.away_since;
                self.backlog.push_front(pending);
            }
        }
        self.links.clear();
        self.ledger.started_anew();
    }

    /// Connects again, or waits a little.
    fn try_again(&mut self) {
        let now = self.clock.elapsed();
        give_up_late(&mut self.backlog, now, self.answer_timeout);
        let left = self.back_off.left(now);
        if left > Span::ZERO {
            return self.sleep(Some(left.min(LOOK)));
        }
        let connected = self.connect();
        self.back_off.tried(self.clock.elapsed());
        match connected {
            Ok(links) => {
                self.links = links;
                self.say_back();
            }
            Err(_) if self.mail.is_stopped() => {}
            Err(error) => self.say_refused(&error),
        }
    }

    /// Connects, which may take long. Meanwhile requests come and are late, and the store may be
    /// dropped.
    fn connect(&mut self) -> Result<Vec<Link>, ClientError> {
        let Worker {
            mail,
            clock,
            backlog,
            answer_timeout,
            ..
        } = self;
        let mut goes_on = || {
            let now = clock.elapsed();
            mail.take(backlog, now);
            give_up_late(backlog, now, *answer_timeout);
            !mail.is_stopped()
        };
        connect_all(&self.address, self.demands, &mut goes_on)
    }

    fn fail_all(&mut self) {
        for pending in self.backlog.drain(..) {
            pending.fail(Failure::NoAnswer);
        }
    }

    /// Sleeps until a connection is ready, mail comes, or `longest` has passed.
    fn sleep(&mut self, longest: Option<Span>) {
        if !self.mail.wake_fd.may_sleep() {
            // Requests that come all the time must not keep answers from being heard.
            self.links.iter_mut().for_each(Link::look);
            return;
        }
        let mut fds = Vec::with_capacity(1 + self.links.len());
        fds.push(PollFd::new(&*self.mail.wake_fd, PollFlags::IN));
        for link in &self.links {
            fds.push(PollFd::new(&link.line, link.interest()));
        }
        let timeout = longest.map(|longest| Timespec {
            tv_sec: (longest.as_nanos() / 1_000_000_000) as i64,
            tv_nsec: (longest.as_nanos() % 1_000_000_000) as i64,
        });
        // A signal is as good as something to do.
        let polled = poll(&mut fds, timeout.as_ref());
        let mut is_ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let has_mail = is_ready.next() == Some(true);
        let ready: Vec<bool> = is_ready.collect();
        self.mail.wake_fd.woke(has_mail);
        for (link, is_ready) in self.links.iter_mut().zip(ready) {
            if is_ready || polled.is_err() {
                link.look();
            }
        }
    }

    fn say_back(&mut self) {
        let away = self.clock.elapsed().saturating_sub(self.away_since);
        let again = match self.ledger.unsettled() {
            0 => String::new(),
            writes => format!("; {writes} writes that it had not made durable are repeated"),
        };
        say(format_args!(
            "{}: the server was away for {:.1} s{again}",
            self.address,
            away.as_secs_f64()
        ));
        self.said = None;
    }

    fn say_refused(&mut self, error: &ClientError) {
        let away = self.clock.elapsed().saturating_sub(self.away_since);
        if matches!(error, ClientError::Away(_)) && away < SAID_AFTER {
            return;
        }
        let text = error.to_string();
        if self.said.as_ref() != Some(&text) {
            say(format_args!("{}: {text}; requests wait", self.address));
            self.said = Some(text);
        }
    }
}

/// Fails requests of `backlog` that have waited for longer than `answer_timeout`.
fn give_up_late(backlog: &mut VecDeque<Pending>, now: Span, answer_timeout: Span) {
    let is_late = |pending: &Pending| now.saturating_sub(pending.since) > answer_timeout;
    if !backlog.iter().any(is_late) {
        return;
    }
    for pending in std::mem::take(backlog) {
        if is_late(&pending) {
            pending.fail(Failure::NoAnswer);
        } else {
            backlog.push_back(pending);
        }
    }
}

/// The cache's word for an error of the protocol.
fn failure_of(error: u32) -> Failure {
    const NOT_PERMITTED: u32 = Errno::NotPermitted as u32;
    const NO_SPACE: u32 = Errno::NoSpace as u32;
    const OVERFLOW: u32 = Errno::Overflow as u32;
    const UNSUPPORTED: u32 = Errno::Unsupported as u32;
    match error {
        NOT_PERMITTED => Failure::ReadOnly,
        NO_SPACE => Failure::NoSpace,
        OVERFLOW => Failure::OutOfRange,
        UNSUPPORTED => Failure::Unsupported,
        other => Failure::Device(i32::try_from(other).unwrap_or(5)),
    }
}
