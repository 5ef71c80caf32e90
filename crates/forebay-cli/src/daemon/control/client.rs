//! One client: a request, an answer, and the end.

use super::answers::{self, Answer, Source};
use super::feed::Hearing;
use super::lines;
use super::listener::Audience;
use super::request::{REQUEST_LIMIT_BYTES, Request, parse};
use forebay_base::{Instant, Span};
use rustix::event::PollFlags;
use std::io::{ErrorKind, Read, Write};

/// A client that sends no request, or reads nothing of its answer, for this long is disconnected.
pub(super) const PATIENCE: Span = Span::from_secs(5);
/// A client that anybody may be has this long for its request, and as long for its whole answer,
/// however it goes about reading it.
const PUBLIC_PATIENCE: Span = Span::from_secs(1);
/// The same for a client that listens. A client whose user reads slowly stays, and one that never
/// reads does not keep its place.
const LISTENER_PATIENCE: Span = Span::from_secs(60);
/// Most clients that listen to events at the same time.
const LISTENERS_LIMIT: usize = 4;
/// Events that are turned into lines at once.
const LINES_AT_ONCE: usize = 64;
/// How often this happens before others have their turn.
const ROUNDS_AT_ONCE: usize = 4;
/// The longest part of a request that is read at once.
const PIECE_BYTES: usize = 4 << 10;

/// How far a client is.
enum Stage {
    /// Its request is still to come.
    Asking(Vec<u8>),
    /// Its answer will be made once others have read theirs.
    Waiting(Request),
    /// Its answer is on its way.
    Answering,
    /// It gets events until it leaves.
    Listening(Hearing),
}

pub(super) struct Client<S> {
    pub(super) stream: S,
    audience: Audience,
    stage: Stage,
    output: Vec<u8>,
    sent: usize,
    /// Its turn ended before it had all the events that it could take.
    has_more: bool,
    /// It is disconnected then if it has done nothing.
    deadline: Instant,
}

impl<S: Read + Write> Client<S> {
    /// A client that connected at `now`.
    pub(super) fn new(stream: S, audience: Audience, now: Instant) -> Client<S> {
        let mut client = Client {
            stream,
            audience,
            stage: Stage::Asking(Vec::new()),
            output: Vec::new(),
            sent: 0,
            has_more: false,
            deadline: now,
        };
        client.deadline = now + client.patience();
        client
    }

    fn patience(&self) -> Span {
        match self.audience {
            Audience::Owner => PATIENCE,
            Audience::Public => PUBLIC_PATIENCE,
        }
    }

    /// Bytes that it has not read.
    pub(super) fn unread_bytes(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Whether its answer waits until others have read theirs.
    pub(super) fn waits_for_room(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_))
    }

    /// Whether its next turn has something for it though nothing wakes this thread.
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// The events of its socket to wait for; none while others have to read first.
    pub(super) fn awaited(&self) -> Option<PollFlags> {
        match &self.stage {
            Stage::Waiting(_) => None,
            Stage::Answering => Some(PollFlags::OUT),
            Stage::Listening(_) if self.unread_bytes() > 0 => Some(PollFlags::IN | PollFlags::OUT),
            Stage::Asking(_) | Stage::Listening(_) => Some(PollFlags::IN),
        }
    }

    /// Whether it may get events for which nothing wakes this thread.
    pub(super) fn listens(&self) -> bool {
        matches!(self.stage, Stage::Listening(_)) && self.unread_bytes() == 0
    }

    /// When it is disconnected, unless it does something before.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let is_awaited = self.awaited().is_some() && !self.listens();
        is_awaited.then_some(self.deadline)
    }

    /// Goes on as far as is possible without waiting. `has_room`: an answer may be made. Returns
    /// whether the client stays.
    pub(super) fn turn(&mut self, now: Instant, has_room: bool, source: &Source) -> bool {
        if self.deadline().is_some_and(|deadline| now >= deadline) {
            return false;
        }
        if let Stage::Asking(_) = &self.stage
            && !self.read()
        {
            return false;
        }
        if has_room && let Stage::Waiting(request) = &self.stage {
            (self.output, self.stage) = begin(request, self.audience, source);
            self.deadline = now + self.patience();
        }
        match self.stage {
            Stage::Answering => self.write(self.next_deadline(now)) && self.unread_bytes() > 0,
            Stage::Listening(_) => self.is_there() && self.send_events(now, source),
            _ => true,
        }
    }

    /// The deadline of a client that has just taken a part of its answer.
    fn next_deadline(&self, now: Instant) -> Instant {
        match self.audience {
            Audience::Owner => now + PATIENCE,
            Audience::Public => self.deadline,
        }
    }

    /// Sends new events to a listener, and only a part of them if they are many. Returns whether it
    /// stays.
    fn send_events(&mut self, now: Instant, source: &Source) -> bool {
        self.has_more = false;
        for _ in 0..ROUNDS_AT_ONCE {
            if self.unread_bytes() == 0 {
                self.output.clear();
                self.sent = 0;
                let Stage::Listening(hearing) = &mut self.stage else {
                    return true;
                };
                let (lost, heard) = hearing.hear(LINES_AT_ONCE);
                if lost > 0 {
                    self.output.extend(lines::lost(lost).into_bytes());
                }
                for (at, news) in &heard {
                    let line = lines::line(*at, news, &|key| source.cache.caller(key));
                    self.output.extend(line.into_bytes());
                }
                if self.output.is_empty() {
                    return true;
                }
                self.deadline = now + LISTENER_PATIENCE;
            }
            if !self.write(now + LISTENER_PATIENCE) {
                return false;
            }
            if self.unread_bytes() > 0 {
                return true;
            }
        }
        self.has_more = true;
        true
    }

    /// Whether a client that only listens is still connected.
    fn is_there(&mut self) -> bool {
        match self.stream.read(&mut [0; 64]) {
            Ok(count) => count > 0,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    /// Reads what has come. Returns whether the client stays.
    fn read(&mut self) -> bool {
        let Stage::Asking(input) = &mut self.stage else {
            return true;
        };
        let mut has_ended = false;
        let mut piece = [0; PIECE_BYTES];
        while input.len() <= REQUEST_LIMIT_BYTES {
            match self.stream.read(&mut piece) {
                // It may still read the answer to what has come.
                Ok(0) => {
                    has_ended = true;
                    break;
                }
                Ok(count) => input.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        match parse(input) {
            Ok(None) => return !has_ended,
            Ok(Some(request)) => self.stage = Stage::Waiting(request),
            Err(unserved) => {
                self.output = Answer::from(unserved).bytes();
                self.stage = Stage::Answering;
            }
        }
        true
    }

    /// Writes as much as the client takes. Each time that it takes something, its deadline moves to
    /// `deadline`. Returns whether it is still connected.
    fn write(&mut self, deadline: Instant) -> bool {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => return false,
                Ok(count) => {
                    self.sent += count;
                    self.deadline = deadline;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }
}

/// The first bytes for a client that sent `request`, and how far it is then.
fn begin(request: &Request, audience: Audience, source: &Source) -> (Vec<u8>, Stage) {
    if audience == Audience::Public {
        return (source.public_answer(request).bytes(), Stage::Answering);
    }
    if !answers::is_for_events(request) {
        return (source.answer(request).bytes(), Stage::Answering);
    }
    match source.feed.listen(LISTENERS_LIMIT) {
        Some(hearing) => (answers::EVENTS_HEAD.into(), Stage::Listening(hearing)),
        None => (Answer::too_many_listeners().bytes(), Stage::Answering),
    }
}
