//! The thread that answers the clients of a listener: whose turn it is.

use super::answers::Source;
use super::client::Client;
use super::listener::Listener;
use forebay_base::{Instant, Span};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;

/// Most clients at the same time. Further ones wait until one has finished or is disconnected.
const CLIENTS_LIMIT: usize = 16;
/// Bytes of answers that wait for clients to read them.
const UNREAD_LIMIT_BYTES: usize = 512 << 10;
/// How often this thread looks for events while a client listens.
const LOOK_EVERY: Span = Span::from_millis(100);
/// The pause after the system had no descriptor for a client.
const RETRY_AFTER: Span = Span::from_millis(200);

/// Answers all clients, until the program ends.
pub(super) fn answer_all(listener: &impl Listener, source: &Source) {
    let mut turns = Turns {
        clients: Vec::new(),
        accepts_from: Instant::ZERO,
        unread_limit_bytes: UNREAD_LIMIT_BYTES,
    };
    loop {
        turns.wait(listener, source.rt.now());
        let now = source.rt.now();
        turns.accept(listener, now);
        turns.go_round(now, source);
    }
}

struct Turns<S> {
    clients: Vec<Client<S>>,
    /// The next client is accepted from then on.
    accepts_from: Instant,
    /// Another answer is made only while the clients have less than this still to read.
    unread_limit_bytes: usize,
}

impl<S: Read + Write + AsFd> Turns<S> {
    fn accepts(&self, now: Instant) -> bool {
        self.clients.len() < CLIENTS_LIMIT && now >= self.accepts_from
    }

    /// Returns when there may be something to do.
    fn wait(&self, listener: &impl Listener<Stream = S>, now: Instant) {
        let awaited = self.clients.iter().filter_map(|client| {
            let flags = client.awaited()?;
            Some(PollFd::new(&client.stream, flags))
        });
        let mut fds: Vec<_> = awaited.collect();
        if self.accepts(now) {
            fds.push(PollFd::new(listener, PollFlags::IN));
        }
        let timeout = self.timeout(now).map(timespec);
        // An interrupted wait is followed by a turn in which nothing is to be done.
        let _ = poll(&mut fds, timeout.as_ref());
    }

    /// How long nothing may be done if no client moves; for ever if there is none.
    fn timeout(&self, now: Instant) -> Option<Span> {
        // Others may have made room in the last turn after such a client was looked at.
        let has_room = self.unread_bytes() < self.unread_limit_bytes;
        let goes_on = |it: &Client<S>| it.has_more() || (has_room && it.waits_for_room());
        if self.clients.iter().any(goes_on) {
            return Some(Span::ZERO);
        }
        let deadlines = self.clients.iter().filter_map(Client::deadline);
        let retry = Some(self.accepts_from).filter(|&from| from > now);
        let listens = self.clients.iter().any(Client::listens);
        let look = listens.then(|| now + LOOK_EVERY);
        let next = deadlines.chain(retry).chain(look).min();
        next.map(|deadline| deadline.since(now))
    }

    fn unread_bytes(&self) -> usize {
        self.clients.iter().map(Client::unread_bytes).sum()
    }

    fn accept<L: Listener<Stream = S>>(&mut self, listener: &L, now: Instant) {
        while self.accepts(now) {
            match listener.next() {
                Ok(stream) => {
                    let client = |stream| Client::new(stream, L::AUDIENCE, now);
                    self.clients.extend(stream.map(client));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.accepts_from = now + RETRY_AFTER,
            }
        }
    }

    fn go_round(&mut self, now: Instant, source: &Source) {
        let mut unread_bytes = self.unread_bytes();
        let limit_bytes = self.unread_limit_bytes;
        self.clients.retain_mut(|client| {
            let before = client.unread_bytes();
            let stays = client.turn(now, unread_bytes < limit_bytes, source);
            let after = if stays { client.unread_bytes() } else { 0 };
            unread_bytes = unread_bytes - before + after;
            stays
        });
    }
}

fn timespec(span: Span) -> Timespec {
    // Rounded up, so that the deadline has passed at the end.
    let ms = if span == Span::ZERO {
        0
    } else {
        span.as_millis() + 1
    };
    Timespec {
        tv_sec: (ms / 1_000) as i64,
        tv_nsec: (ms % 1_000 * 1_000_000) as i64,
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
