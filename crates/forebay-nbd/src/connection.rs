//! One client on one thread: its socket, its requests, and the wait for either.

use crate::buffer_pool::{BufferPool, ConnectionBuffers};
use crate::busy_poll::{BusyPoll, Present};
use crate::channel::Channel;
use crate::connection_state::ConnectionState;
use crate::export::Export;
use crate::handshake::{Agreement, ExportFacts, OPTION_LIMIT_BYTES};
use crate::opening::{Gate, Opening, OpeningError};
use crate::pipeline::{Pipeline, TransmissionError};
use crate::queue::ByteQueue;
use crate::session::Session;
use crate::socket::{Moved, Socket};
use crate::wire;
use forebay::Caller;
use forebay_block::{Buffer, Finished, Job, PIECE_BYTES, SLOTS, Slots, WakeFd, perform};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::future::Future;
use std::sync::Arc;
use thiserror::Error;

/// Most bytes of requests that are read at once.
const INPUT_BYTES: usize = 128 << 10;
/// Most bytes of replies that wait for their client.
const OUTPUT_BYTES: usize = 128 << 10;
/// The same for requests, as long as the client is a stranger.
const STRANGER_INPUT_BYTES: usize = 4 << 10;
/// A request under way, with everything that waits inside it, takes at most this much in
/// addition to its buffer.
const REQUEST_BYTES: usize = 4 << 10;

const _: () = assert!(INPUT_BYTES >= 2 * OPTION_LIMIT_BYTES && INPUT_BYTES >= 2 * PIECE_BYTES);

/// Memory that a connection has for itself, its thread's stack included. It shares the rest of its
/// buffers with others.
pub(crate) const OWN_BYTES: usize = INPUT_BYTES
    + OUTPUT_BYTES
    + PIECE_BYTES
    + SLOTS * REQUEST_BYTES
    + forebay_rt::thread::SMALL_STACK_BYTES;

/// Most bytes of shared buffers that a connection can use.
pub(crate) const REQUESTS_BYTES: usize = SLOTS * PIECE_BYTES;

/// Buffers for connections: `shared_bytes` that they share, and what each has for itself.
pub(crate) fn buffer_pool(shared_bytes: usize) -> BufferPool {
    BufferPool::new(shared_bytes, INPUT_BYTES, OUTPUT_BYTES)
}

/// Why a connection ended out of order.
#[derive(Debug, Error)]
pub(crate) enum ConnectionError {
    #[error("{0}")]
    Opening(#[from] OpeningError),
    #[error("{0}")]
    Transmission(#[from] TransmissionError),
    #[error("the connection broke with requests under way")]
    Broken,
    #[error("the client left with unfinished writes; they were cancelled for the next client")]
    CalledOff,
    #[error("waiting for the client: {0}")]
    System(#[from] Errno),
}

/// What a server provides to a connection.
pub(crate) struct Host<'h> {
    pub(crate) exports: &'h [Export],
    pub(crate) buffers: &'h BufferPool,
    pub(crate) state: &'h ConnectionState,
    /// The number of the connection.
    pub(crate) number: usize,
    /// Returns when the client may begin to use the export with this number.
    pub(crate) begin: &'h dyn Fn(usize),
}

/// Serves a client until it leaves.
pub(crate) fn serve(
    socket: &Socket,
    gate: &Gate<'_>,
    host: &Host<'_>,
) -> Result<(), ConnectionError> {
    let facts = host.exports.iter().map(|export| export.facts.clone());
    let facts: Vec<ExportFacts> = facts.collect();
    let mut furnished = None;
    let mut furnish = || {
        let ConnectionBuffers {
            input,
            output,
            share,
        } = host.buffers.enter();
        furnished = Some((output, share));
        input
    };
    let mut input = ByteQueue::new(STRANGER_INPUT_BYTES);
    let mut channel = Channel::new(socket, host.state);
    let opening = Opening::new(&mut channel, &mut input, &facts, gate, &mut furnish);
    let agreed = opening.run();
    let Some((output, share)) = furnished else {
        if agreed.is_ok() {
            channel.close();
        }
        return Ok(agreed.map(drop)?);
    };
    let buffers = ConnectionBuffers {
        input,
        output,
        share,
    };
    let (result, buffers) = match agreed {
        Ok(Some(agreement)) => {
            (host.begin)(agreement.export);
            transmit(&mut channel, host, agreement, buffers)?
        }
        Ok(None) => (Ok(()), buffers),
        Err(error) => (Err(error.into()), buffers),
    };
    host.buffers.leave(buffers);
    if !matches!(result, Err(ConnectionError::Opening(_))) {
        channel.close();
    }
    result
}

/// Serves requests until the end, and gives back the buffers that it got.
fn transmit(
    channel: &mut Channel<'_>,
    host: &Host<'_>,
    agreement: Agreement,
    buffers: ConnectionBuffers,
) -> Result<(Result<(), ConnectionError>, ConnectionBuffers), Errno> {
    let (export, state) = (&host.exports[agreement.export], host.state);
    let disk = &export.disk;
    let number = u32::try_from(host.number).unwrap_or(u32::MAX);
    let caller = Caller::connection(number, export.name());
    let file = disk.handle().for_caller(&caller);
    let session = Session {
        length_bytes: export.length_bytes(),
        read_only: disk.is_read_only(),
        structured: agreement.structured,
        allocation: agreement.allocation,
    };
    let ConnectionBuffers {
        input,
        output,
        share,
    } = buffers;
    let wake_fd = Arc::new(WakeFd::new()?);
    state.writes.set_waker(wake_fd.waker(0));
    let make = |job: Job, buffer: Buffer| {
        let future = perform(disk, &file, job, buffer, state.ending());
        debug_assert!(size_of_val(&future) <= REQUEST_BYTES);
        future
    };
    let mut transmission = Transmission {
        channel,
        state,
        wake_fd: &wake_fd,
        pipeline: Pipeline::new(session, Slots::new(make, &wake_fd, share))
            .counting(host.buffers.errors.clone()),
        input,
        output,
        incoming: Incoming::Maybe,
        goes_on: false,
        is_broken: false,
        busy_poll: BusyPoll::default(),
        present: host.buffers.presence.enter(),
    };
    let result = transmission.run();
    let Transmission {
        pipeline,
        input,
        output,
        ..
    } = transmission;
    // Jobs that still ran ended with the pipeline.
    let share = pipeline.into_share();
    state.writes.end();
    let buffers = ConnectionBuffers {
        input,
        output,
        share,
    };
    Ok((result, buffers))
}

/// What may come from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Incoming {
    /// Something may have come.
    Maybe,
    /// Nothing is expected before the next sleep, which ends at once if something has come.
    Later,
    /// Nothing will.
    Never,
}

/// The transmission phase of a connection.
struct Transmission<'a, 'c, M, F> {
    channel: &'a mut Channel<'c>,
    state: &'a ConnectionState,
    wake_fd: &'a WakeFd,
    pipeline: Pipeline<M, F>,
    input: ByteQueue,
    output: ByteQueue,
    incoming: Incoming,
    /// Whether bytes that were read may hold more work: half a read, or the requests after it.
    goes_on: bool,
    /// Whether nothing can be sent any more.
    is_broken: bool,
    busy_poll: BusyPoll,
    present: Present<'a>,
}

impl<M, F> Transmission<'_, '_, M, F>
where
    M: Fn(Job, Buffer) -> F,
    F: Future<Output = Finished>,
{
    /// Serves turn by turn until the client has left and everything that it asked for has ended.
    ///
    /// If the connection breaks, the work that was begun is broken off: the client will ask again,
    /// and its old requests must not overtake the new ones. A client that announced that it leaves
    /// does not come again, so its requests go on without it.
    fn run(&mut self) -> Result<(), ConnectionError> {
        let mut result = Ok(());
        loop {
            let woken = self.wake_fd.take();
            if woken != 0 {
                self.looks_again();
            }
            self.pipeline.go_on(woken);
            self.goes_on = self.pipeline.advance(&mut self.input, &mut self.output)?;
            let moved = self.send() | self.receive();
            if self.state.writes.are_called_off() {
                return Err(ConnectionError::CalledOff);
            }
            if self.is_broken && !self.pipeline.is_idle() {
                result = Err(ConnectionError::Broken);
            }
            if self.has_ended() {
                return result;
            }
            if !self.may_write() {
                self.state.writes.end();
            }
            if !moved && woken == 0 && !self.busy_polls() {
                self.sleep()?;
            }
        }
    }

    /// Time has passed: something may have come.
    fn looks_again(&mut self) {
        if self.incoming == Incoming::Later {
            self.incoming = Incoming::Maybe;
        }
    }

    fn hears_more(&self) -> bool {
        self.incoming != Incoming::Never && !self.pipeline.is_over()
    }

    fn has_ended(&self) -> bool {
        if self.is_broken && !self.pipeline.is_over() {
            return true;
        }
        !self.hears_more() && !self.goes_on && self.pipeline.is_idle() && self.has_said_all()
    }

    /// Whether a request, present or future, may still change bytes.
    fn may_write(&self) -> bool {
        let is_taken_apart = self.input.is_empty() || self.pipeline.is_over();
        self.hears_more() || self.goes_on || !is_taken_apart || self.pipeline.is_writing()
    }

    fn has_said_all(&self) -> bool {
        self.output.is_empty() && (self.is_broken || !self.channel.has_unsent())
    }

    /// Sends what is ready. True if that made room.
    fn send(&mut self) -> bool {
        if self.has_said_all() {
            return false;
        }
        if self.output.is_empty() {
            // This makes no room in the queue of replies, so no step has to be repeated.
            match self.channel.flush() {
                Moved::Bytes(_) => self.state.took(),
                Moved::WouldBlock => {}
                Moved::Closed | Moved::Broken => self.give_up(),
            }
            return self.is_broken;
        }
        match self.channel.send(self.output.filled()) {
            Moved::Bytes(count) => {
                self.output.consume(count);
                self.state.took();
                true
            }
            Moved::WouldBlock => false,
            Moved::Closed | Moved::Broken => {
                self.give_up();
                true
            }
        }
    }

    /// Reads what has come. True if something was read or the end was seen.
    fn receive(&mut self) -> bool {
        if !self.wants_input() || self.incoming == Incoming::Later {
            return false;
        }
        let was_empty = self.input.is_empty();
        match self.channel.receive(self.input.spare()) {
            Moved::Bytes(count) => {
                self.input.commit(count);
                // A client that sends one request waits for its reply.
                let is_one = was_empty && count <= wire::REQUEST_BYTES;
                if is_one && !self.channel.has_unread() {
                    self.incoming = Incoming::Later;
                }
                true
            }
            Moved::WouldBlock => {
                self.incoming = Incoming::Later;
                false
            }
            Moved::Closed => {
                self.incoming = Incoming::Never;
                true
            }
            Moved::Broken => {
                self.give_up();
                true
            }
        }
    }

    /// Polls for the next request for a moment, if the client is the only one, asks one thing at a
    /// time and has its answer. True if something has come.
    fn busy_polls(&mut self) -> bool {
        let is_next_due = self.incoming == Incoming::Later && self.wants_input();
        let is_at_rest = self.pipeline.is_idle() && self.has_said_all();
        if !is_next_due || !is_at_rest || !self.present.is_alone() {
            return false;
        }
        for poll in (0..self.busy_poll.polls()).rev() {
            self.looks_again();
            let has_come = self.receive();
            if has_come || poll == 0 {
                self.busy_poll.ended(has_come);
                return has_come;
            }
        }
        false
    }

    /// Nothing is read from a client that does not read its replies until it does.
    fn wants_input(&self) -> bool {
        self.hears_more() && self.input.room() >= INPUT_BYTES / 2
    }

    /// From now on nothing is sent to this client, and nothing is read from it.
    fn give_up(&mut self) {
        (self.goes_on, self.is_broken) = (false, true);
        self.incoming = Incoming::Never;
        self.output.clear();
        self.state.took();
        self.pipeline.abort_replies();
    }

    /// Waits until the client or one of its requests can go on.
    fn sleep(&mut self) -> Result<(), Errno> {
        if !self.wake_fd.may_sleep() {
            return Ok(());
        }
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, self.wants_input());
        if !self.has_said_all() {
            wanted |= PollFlags::OUT;
            self.state.is_full();
        }
        let mut fds = [
            PollFd::new(self.wake_fd, PollFlags::IN),
            PollFd::new(&*self.channel, wanted),
        ];
        // A broken socket would be ready again and again.
        let count = if self.is_broken { 1 } else { 2 };
        let outcome = poll(&mut fds[..count], None);
        let heard = !fds[0].revents().is_empty();
        let is_gone = fds[1].revents().intersects(PollFlags::HUP | PollFlags::ERR);
        self.wake_fd.woke(heard);
        self.looks_again();
        // If the socket was polled for something, the next try to send or receive finds out the
        // rest.
        if is_gone && wanted.is_empty() {
            self.give_up();
        }
        match outcome {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Request, command};
    use forebay_block::BlockError;
    use forebay_rt::wait::Gate;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    /// Pieces of a read. The first one waits until the last one has ended. One of them fails, and
    /// it is answered only after the others were sent and so made room.
    async fn read_piece(gate: Arc<Gate>, job: Job, buffer: Buffer) -> Finished {
        let Job::Read(range) = job else {
            panic!("only reads are requested")
        };
        let outcome = match range.start / PIECE_BYTES as u64 {
            0 => {
                gate.wait().await;
                Ok(PIECE_BYTES)
            }
            5 => Err(BlockError::Ending),
            7 => {
                gate.open();
                Ok(PIECE_BYTES)
            }
            _ => Ok(PIECE_BYTES),
        };
        Finished { buffer, outcome }
    }

    fn transmit(socket: &Socket) -> Result<(), ConnectionError> {
        let (state, wake_fd) = (ConnectionState::new(), Arc::new(WakeFd::new()?));
        let gate = Arc::new(Gate::new(false));
        let make = |job: Job, buffer: Buffer| read_piece(gate.clone(), job, buffer);
        let session = Session {
            length_bytes: 1 << 20,
            read_only: false,
            structured: false,
            allocation: false,
        };
        let pool = buffer_pool(SLOTS * PIECE_BYTES);
        let ConnectionBuffers {
            input,
            output,
            share,
        } = pool.enter();
        let mut transmission = Transmission {
            channel: &mut Channel::new(socket, &state),
            state: &state,
            wake_fd: &wake_fd,
            pipeline: Pipeline::new(session, Slots::new(make, &wake_fd, share)),
            input,
            output,
            incoming: Incoming::Maybe,
            goes_on: false,
            is_broken: false,
            busy_poll: BusyPoll::default(),
            present: pool.presence.enter(),
        };
        transmission.run()
    }

    #[test]
    fn a_read_that_fails_late_ends_the_connection_with_pieces_behind_it() {
        let (mut client, server) = UnixStream::pair().unwrap();
        let thread = forebay_rt::thread::spawn("nbd-client", move || {
            let outcome = transmit(&Socket::Unix(server));
            assert!(matches!(outcome, Err(ConnectionError::Transmission(_))));
        });
        let request = Request {
            flags: 0,
            kind: command::READ,
            cookie: 1,
            offset_bytes: 0,
            length_bytes: 8 * PIECE_BYTES as u32,
        };
        client.write_all(&request.encode()).unwrap();
        let patience = Duration::from_mins(1);
        client.set_read_timeout(Some(patience)).unwrap();
        // Some bytes may have come before; then the connection ends.
        client.read_to_end(&mut Vec::new()).expect("an end");
        thread.unwrap().join();
    }
}
