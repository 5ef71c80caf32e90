//! One connection to a server: its socket, its requests under way, and its bytes to send and to
//! read.

use super::address::Address;
use super::conversation::{Conversation, Event, INPUT_BYTES};
use super::dialing::{GoesOn, connect, greet};
use super::greeting::Facts;
use super::line::{Line, TLS_BYTES};
use super::outbox::Outbox;
use super::pending::{Pending, Question};
use super::refusal::ClientError;
use super::trust::Trust;
use crate::socket::Moved;
use crate::wire::{Errno, REQUEST_BYTES, Request, command};
use forebay_base::PAGE_BYTES;
use rustix::event::PollFlags;

/// Pages of one request at most: larger requests gain little, and others wait for them.
pub(crate) const PAGES_LIMIT: u32 = 64;
/// Requests under way on one connection at most.
pub(crate) const SLOTS: usize = 32;
/// A request and its payload, at most.
const LONGEST_REQUEST_BYTES: usize = REQUEST_BYTES + (PAGES_LIMIT as usize) * PAGE_BYTES;
/// Bytes that are received at once at most, in addition to a chunk that must be there as a whole.
const RECEIVED_BYTES: usize = 256 << 10;

/// Memory of one connection: the most bytes that are on their way in and out.
pub(crate) const LINK_BYTES: usize =
    INPUT_BYTES + RECEIVED_BYTES + Outbox::size_bytes(LONGEST_REQUEST_BYTES) + TLS_BYTES;

/// A request under way, and the question that was sent for it.
type UnderWay = Option<(Pending, Question)>;

/// One connection to a server.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) line: Line,
    pub(crate) facts: Facts,
    conversation: Conversation,
    under_way: Vec<UnderWay>,
    outbox: Outbox,
    input: Vec<u8>,
    /// The part of `input` that is filled and not used.
    filled: std::ops::Range<usize>,
    /// Whether something may have come. To ask in vain is half of what a small read costs.
    has_news: bool,
}

/// The connection is of no use any more.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) Option<ClientError>);

/// A request that the server has answered.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) pending: Pending,
    pub(crate) question: Question,
    pub(crate) error: Option<u32>,
}

impl Link {
    /// Connects to `address` and completes the handshake, as long as `goes_on` allows it; through
    /// TLS if there is `trust`.
    pub(crate) fn open(
        address: &Address,
        trust: Option<&Trust>,
        goes_on: &mut GoesOn<'_>,
    ) -> Result<Link, ClientError> {
        let socket = connect(&address.place, goes_on).map_err(ClientError::Away)?;
        let mut line = Line::new(socket);
        let mut input = Vec::with_capacity(INPUT_BYTES);
        let facts = greet(&mut line, address.export(), trust, &mut input, goes_on)?;
        let filled = 0..input.len();
        input.resize(INPUT_BYTES + RECEIVED_BYTES, 0);
        Ok(Link {
            line,
            facts,
            conversation: Conversation::new(facts.is_structured, SLOTS),
            under_way: (0..SLOTS).map(|_| None).collect(),
            outbox: Outbox::new(LONGEST_REQUEST_BYTES),
            input,
            filled,
            has_news: true,
        })
    }

    /// How many requests it has; None if it takes no more.
    pub(crate) fn load(&self) -> Option<usize> {
        let room = self.conversation.room();
        (self.outbox.has_room() && room > 0).then_some(SLOTS - room)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.conversation.room() == SLOTS
    }

    /// Puts `question` on its way. The link has room.
    pub(crate) fn ask(&mut self, pending: Pending, question: Question) {
        let Question {
            kind,
            flags,
            offset_bytes,
            length_bytes,
        } = question;
        let asked = self
            .conversation
            .ask(kind, flags, offset_bytes, length_bytes);
        let (slot, head) = asked.expect("a link with room was chosen");
        self.outbox.add(head, |output| pending.push_payload(output));
        self.under_way[slot] = Some((pending, question));
    }

    /// Takes back the requests that were not answered.
    pub(crate) fn take_back(&mut self) -> impl Iterator<Item = Pending> + '_ {
        let taken = self.under_way.iter_mut().filter_map(Option::take);
        taken.map(|(pending, _)| pending)
    }

    /// The events of the socket to wait for.
    pub(crate) fn interest(&self) -> PollFlags {
        let mut wanted = PollFlags::IN;
        let has_unsent = !self.outbox.unsent().is_empty() || self.line.has_unsent();
        wanted.set(PollFlags::OUT, has_unsent);
        wanted
    }

    /// Sends as much as the server takes. True if something was sent.
    pub(crate) fn send(&mut self) -> Result<bool, Broken> {
        let mut has_moved = match self.line.flush() {
            Moved::Bytes(_) => true,
            Moved::WouldBlock => false,
            Moved::Closed | Moved::Broken => return Err(Broken(None)),
        };
        while !self.outbox.unsent().is_empty() {
            match self.line.send(self.outbox.unsent()) {
                Moved::Bytes(count) => self.outbox.was_sent(count),
                Moved::WouldBlock => return Ok(has_moved),
                Moved::Closed | Moved::Broken => return Err(Broken(None)),
            }
            has_moved = true;
        }
        Ok(has_moved)
    }

    /// Something may have come, or the server is gone.
    pub(crate) fn look(&mut self) {
        self.has_news = true;
    }

    /// Receives once, if something may have come, and passes what has ended to `ended`. True if
    /// something came.
    pub(crate) fn receive(&mut self, mut ended: impl FnMut(Answered)) -> Result<bool, Broken> {
        if !self.has_news {
            return Ok(false);
        }
        if self.filled.start > 0 {
            self.input.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        let had = self.filled.end;
        let room = &mut self.input[had..];
        let most = room.len();
        let moved = self.line.receive(room);
        self.has_news = match moved {
            // Less than there was room for: nothing was left. TLS gives a record at a time.
            Moved::Bytes(count) => count == most || self.line.is_tls(),
            Moved::WouldBlock => false,
            Moved::Closed | Moved::Broken => true,
        };
        match moved {
            Moved::Bytes(count) => self.filled.end += count,
            Moved::WouldBlock if had == 0 => return Ok(false),
            Moved::WouldBlock => {}
            Moved::Closed | Moved::Broken => return Err(Broken(None)),
        }
        self.listen(&mut ended)?;
        Ok(matches!(moved, Moved::Bytes(_)))
    }

    fn listen(&mut self, ended: &mut impl FnMut(Answered)) -> Result<(), Broken> {
        loop {
            let heard = self.conversation.advance(&self.input[self.filled.clone()]);
            let (taken, event) = heard.map_err(|error| Broken(Some(error.into())))?;
            self.filled.start += taken;
            match event {
                Event::More => return Ok(()),
                Event::Noted => {}
                Event::Ended {
                    error: Some(error), ..
                } if error == Errno::Shutdown as u32 => {
                    // The server is about to end. The request stays, for the next server.
                    return Err(Broken(None));
                }
                Event::Ended { slot, error } => {
                    let (pending, question) =
                        self.under_way[slot].take().expect("it was under way");
                    ended(Answered {
                        pending,
                        question,
                        error,
                    });
                }
                Event::Data { slot, .. }
                | Event::Zeros { slot, .. }
                | Event::Extents { slot, .. } => {
                    if let Some((pending, _)) = &mut self.under_way[slot] {
                        pending.take(&event);
                    }
                }
            }
        }
    }

    /// Says goodbye. The server may be gone already.
    pub(crate) fn leave(&mut self) {
        let request = Request {
            flags: 0,
            kind: command::DISC,
            cookie: 0,
            offset_bytes: 0,
            length_bytes: 0,
        };
        self.line.send(&request.encode());
    }
}
