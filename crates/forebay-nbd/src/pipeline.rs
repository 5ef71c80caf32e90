//! The transmission phase without its socket: requests in, replies out, and many under way.
//!
//! A request is split into pieces of at most [`PIECE_BYTES`]; each piece is a job in a slot. A job
//! that can be done at once is answered at once; the others are answered as they end, in any order.
//!
//! invariant N3: a request is answered exactly once while its client is there, after its payload
//! was taken in full and after its last piece has ended.
//! invariant N4: between the head and the last byte of a simple reply nothing else is sent.

use crate::queue::ByteQueue;
use crate::request_error::RequestError;
use crate::session::{Command, Session};
use crate::wire::{
    ALLOCATION_CONTEXT_ID, CHUNK_HEAD_BYTES, REQUEST_BYTES, Request, chunk, chunk_head, command,
    extent_flag, simple_reply, u32_at,
};
use forebay_base::sync::atomic::{AtomicU64, Ordering};
use forebay_block::{
    BlockError, Buffer, EXTENT_BYTES, Finished, Job, PIECE_BYTES, SLOTS, Share, Slots, extents,
};
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use thiserror::Error;

/// Replies are sent once there are this many bytes of them, so that the client can work on the
/// first replies while the next ones are made.
const SEND_BYTES: usize = 32 << 10;
/// Longest text that is sent with an error.
const REASON_LIMIT_BYTES: usize = 400;
/// Most extents that fit into one reply, after the number of their context.
const EXTENTS_LIMIT: usize = (PIECE_BYTES - 4) / EXTENT_BYTES;
/// The most room that the answer to a piece needs.
const ANSWER_LIMIT_BYTES: usize = CHUNK_HEAD_BYTES + 16 + PIECE_BYTES;
const _: () = assert!(ANSWER_LIMIT_BYTES > CHUNK_HEAD_BYTES + 16 + REASON_LIMIT_BYTES);

/// Why a client cannot be served any longer; the connection ends.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum TransmissionError {
    #[error("a request begins with {0:#x}; the client and the server lost step")]
    Magic(u32),
    #[error("a read failed after its reply had begun: {0}")]
    LateFailure(String),
}

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// A simple reply without bytes.
    Plain,
    /// A simple reply followed by the bytes of a read, in order.
    Stream,
    /// A chunk for each piece of a read.
    Chunks,
    /// One chunk of extents.
    Extents,
}

/// A request that has not been answered yet.
#[derive(Clone, Debug)]
struct InFlight {
    cookie: u64,
    answer: Answer,
    /// Pieces that have not ended, whether they were begun or not.
    pieces_left: u32,
    /// The range to be made durable before the answer.
    durable: Option<Range<u64>>,
    /// The first thing that went wrong.
    error: Option<RequestError>,
    /// The next byte of a streamed reply.
    next_byte: u64,
    /// The head of a streamed reply was sent.
    is_begun: bool,
}

/// The request that is being split into pieces.
#[derive(Clone, Debug)]
enum Issuing {
    Read {
        request: usize,
        left: Range<u64>,
    },
    Write {
        request: usize,
        left: Range<u64>,
    },
    Refused {
        request: usize,
        payload_bytes: u64,
    },
    /// A request of one piece.
    Whole {
        request: usize,
        offset_bytes: u64,
        job: Job,
    },
}

/// The piece that a busy slot works on.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    request: usize,
    offset_bytes: u64,
}

/// The requests of one connection.
pub(crate) struct Pipeline<M, F> {
    session: Session,
    slots: Slots<M, F>,
    pieces: [Piece; SLOTS],
    outcomes: Vec<Option<Result<usize, BlockError>>>,
    /// Bit set of the slots whose job ended but is not answered yet.
    finished: u64,
    /// Bit set of the slots whose job changes bytes and has not ended.
    writing: u64,
    in_flight: Vec<Option<InFlight>>,
    issuing: Option<Issuing>,
    /// The request whose simple reply is half sent.
    speaker: Option<usize>,
    is_over: bool,
    replies_aborted: bool,
    /// Counts the answers that are errors.
    errors: Arc<AtomicU64>,
}

impl<M, F> Pipeline<M, F>
where
    M: Fn(Job, Buffer) -> F,
    F: Future<Output = Finished>,
{
    pub(crate) fn new(session: Session, slots: Slots<M, F>) -> Pipeline<M, F> {
        Pipeline {
            session,
            slots,
            pieces: [Piece::default(); SLOTS],
            outcomes: vec![None; SLOTS],
            finished: 0,
            writing: 0,
            // One for each slot, and one for a request that has no slot yet.
            in_flight: vec![None; SLOTS + 1],
            issuing: None,
            speaker: None,
            is_over: false,
            replies_aborted: false,
            errors: Arc::default(),
        }
    }

    /// The same, whose errors are counted in `errors`.
    pub(crate) fn counting(self, errors: Arc<AtomicU64>) -> Pipeline<M, F> {
        Pipeline { errors, ..self }
    }

    /// Whether the client asked to disconnect.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether no job runs and no finished job waits for its answer.
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.is_idle()
    }

    /// Whether a job that was begun, or the request that is being split, changes bytes.
    pub(crate) fn is_writing(&self) -> bool {
        let begins = match &self.issuing {
            Some(Issuing::Write { .. }) => true,
            Some(Issuing::Whole { job, .. }) => job.changes_bytes(),
            Some(Issuing::Read { .. } | Issuing::Refused { .. }) | None => false,
        };
        begins || self.writing != 0
    }

    /// From now on nothing is answered and nothing is begun; running jobs go on to their end.
    pub(crate) fn abort_replies(&mut self) {
        (self.replies_aborted, self.issuing) = (true, None);
    }

    /// Lets the jobs in the bit set `woken` continue.
    pub(crate) fn go_on(&mut self, mut woken: u64) {
        while woken != 0 {
            let slot = woken.trailing_zeros() as usize;
            woken &= woken - 1;
            if let Some(outcome) = self.slots.poll(slot) {
                self.note(slot, outcome);
            }
        }
    }

    /// Takes requests from `input` and puts answers into `output`, until one of the two or the
    /// slots are exhausted, or until there is enough to send. Returns true if it stopped only
    /// because there was enough to send: after sending, there may be more to do even if no slot is
    /// busy.
    pub(crate) fn advance(
        &mut self,
        input: &mut ByteQueue,
        output: &mut ByteQueue,
    ) -> Result<bool, TransmissionError> {
        loop {
            let answered = self.answer_finished(output)?;
            if output.len() >= SEND_BYTES {
                return Ok(true);
            }
            let issued = self.issue(input, output)?;
            if !answered && !issued {
                return Ok(false);
            }
        }
    }

    /// The connection's share of the pool. Running jobs are broken off.
    pub(crate) fn into_share(self) -> Share {
        self.slots.into_share()
    }

    fn note(&mut self, slot: usize, outcome: Result<usize, BlockError>) {
        self.outcomes[slot] = Some(outcome);
        self.finished |= 1 << slot;
        self.writing &= !(1 << slot);
    }

    /// Answers the finished pieces that can be answered. True if there was one.
    fn answer_finished(&mut self, output: &mut ByteQueue) -> Result<bool, TransmissionError> {
        let mut any = false;
        while self.finished != 0 {
            let mut settled = false;
            let mut left = self.finished;
            while left != 0 {
                let slot = left.trailing_zeros() as usize;
                left &= left - 1;
                settled |= self.settle(slot, output)?;
            }
            any |= settled;
            if !settled {
                break;
            }
        }
        Ok(any)
    }

    /// Answers the piece in `slot` and frees the slot, if it is this piece's turn and there is
    /// room.
    fn settle(&mut self, slot: usize, output: &mut ByteQueue) -> Result<bool, TransmissionError> {
        if self.replies_aborted {
            self.free(slot);
            return Ok(true);
        }
        let Piece {
            request,
            offset_bytes,
        } = self.pieces[slot];
        if output.room() < ANSWER_LIMIT_BYTES || self.speaker.is_some_and(|it| it != request) {
            return Ok(false);
        }
        let in_flight = self.in_flight[request]
            .as_mut()
            .expect("a piece belongs to a request");
        let is_last = in_flight.pieces_left == 1;
        let outcome = self.outcomes[slot].expect("a finished slot has an outcome");
        let buffer = &*self.slots.buffer(slot);
        let outcome = outcome.map(|length| &buffer[..length]);
        let outcome = outcome.map_err(RequestError::from);
        let is_error = outcome.is_err();
        match in_flight.answer {
            Answer::Stream if in_flight.next_byte != offset_bytes => return Ok(false),
            Answer::Stream => {
                let goes_on = push_stream(in_flight, outcome, output)?;
                self.speaker = (goes_on && !is_last).then_some(request);
            }
            Answer::Chunks => push_data(in_flight.cookie, is_last, offset_bytes, outcome, output),
            Answer::Extents => push_extents(in_flight.cookie, offset_bytes, outcome, output),
            Answer::Plain => {
                if let Err(error) = outcome {
                    in_flight.error.get_or_insert(error);
                }
                if is_last
                    && in_flight.error.is_none()
                    && let Some(range) = in_flight.durable.take()
                {
                    self.rerun_as_flush(slot, range);
                    return Ok(true);
                }
                if is_last {
                    let errno = in_flight.error.as_ref().map(|error| error.errno);
                    output.push(&simple_reply(in_flight.cookie, errno));
                }
            }
        }
        self.errors
            .fetch_add(u64::from(is_error), Ordering::Relaxed);
        in_flight.pieces_left -= 1;
        if is_last {
            self.in_flight[request] = None;
        }
        self.free(slot);
        Ok(true)
    }

    /// The last piece of a request that must be durable becomes a flush of exactly the request's
    /// range. So the writer of a journal does not wait for anybody else's data.
    fn rerun_as_flush(&mut self, slot: usize, range: Range<u64>) {
        self.finished &= !(1 << slot);
        if let Some(outcome) = self.slots.start(slot, Job::Flush(range)) {
            self.note(slot, outcome);
        }
    }

    fn free(&mut self, slot: usize) {
        self.finished &= !(1 << slot);
        self.outcomes[slot] = None;
        self.slots.release(slot);
    }

    /// Begins the next piece, if there is one and a free slot for it. True if something was begun.
    fn issue(
        &mut self,
        input: &mut ByteQueue,
        output: &mut ByteQueue,
    ) -> Result<bool, TransmissionError> {
        if self.is_over || self.replies_aborted {
            return Ok(false);
        }
        match self.issuing.take() {
            None => self.take_request(input),
            Some(Issuing::Read { request, left }) => Ok(self.issue_read(request, left)),
            Some(Issuing::Write { request, left }) => Ok(self.issue_write(request, left, input)),
            Some(Issuing::Whole {
                request,
                offset_bytes,
                job,
            }) => Ok(self.issue_whole(request, offset_bytes, job)),
            Some(Issuing::Refused {
                request,
                payload_bytes,
            }) => Ok(self.refuse(request, payload_bytes, input, output)),
        }
    }

    fn take_request(&mut self, input: &mut ByteQueue) -> Result<bool, TransmissionError> {
        let Some(head) = input.filled().first_chunk::<REQUEST_BYTES>() else {
            return Ok(false);
        };
        if !self.slots.has_free() {
            return Ok(false);
        }
        let Some(request) = Request::decode(head) else {
            let magic = u32_at(head, 0);
            return Err(TransmissionError::Magic(magic));
        };
        input.consume(REQUEST_BYTES);
        match self.session.check(&request) {
            Ok(Command::Disconnect) => self.is_over = true,
            Ok(command) => self.begin(request.cookie, command),
            Err(refusal) => {
                self.errors.fetch_add(1, Ordering::Relaxed);
                let error = RequestError {
                    errno: refusal.errno,
                    reason: refusal.reason.to_owned(),
                };
                let answer = match request.kind {
                    command::READ | command::BLOCK_STATUS if self.session.structured => {
                        Answer::Extents
                    }
                    _ => Answer::Plain,
                };
                let refused = self.ask(request.cookie, answer, 1, None);
                self.in_flight[refused].as_mut().expect("just asked").error = Some(error);
                let has_payload = request.kind == command::WRITE;
                self.issuing = Some(Issuing::Refused {
                    request: refused,
                    payload_bytes: u64::from(request.length_bytes) * u64::from(has_payload),
                });
            }
        }
        Ok(true)
    }

    fn begin(&mut self, cookie: u64, command: Command) {
        let pieces = |range: &Range<u64>| {
            (range.end - range.start)
                .div_ceil(PIECE_BYTES as u64)
                .max(1)
        };
        match command {
            Command::Read(left) => {
                let answer = if self.session.structured {
                    Answer::Chunks
                } else {
                    Answer::Stream
                };
                let request = self.ask(cookie, answer, pieces(&left) as u32, None);
                self.in_flight[request]
                    .as_mut()
                    .expect("just asked")
                    .next_byte = left.start;
                self.issue_read(request, left);
            }
            Command::Write {
                range: left,
                durable,
            } => {
                let durable = durable.then(|| left.clone());
                let request = self.ask(cookie, Answer::Plain, pieces(&left) as u32, durable);
                self.issuing = Some(Issuing::Write { request, left });
            }
            Command::Flush => self.begin_one(cookie, None, Job::Flush(0..u64::MAX)),
            Command::Trim { range, durable } => {
                let durable = durable.then(|| range.clone());
                self.begin_one(cookie, durable, Job::Trim(range));
            }
            Command::WriteZeroes {
                range,
                durable,
                no_hole,
            } => {
                let durable = durable.then(|| range.clone());
                self.begin_one(cookie, durable, Job::Zero { range, no_hole });
            }
            Command::Cache(range) => self.begin_one(cookie, None, Job::Prefetch(range)),
            Command::BlockStatus { range, one_extent } => {
                let request = self.ask(cookie, Answer::Extents, 1, None);
                let most = if one_extent { 1 } else { EXTENTS_LIMIT };
                self.issue_whole(request, range.start, Job::Extents { range, most });
            }
            Command::Disconnect => self.is_over = true,
        }
    }

    fn begin_one(&mut self, cookie: u64, durable: Option<Range<u64>>, job: Job) {
        let request = self.ask(cookie, Answer::Plain, 1, durable);
        self.issue_whole(request, 0, job);
    }

    /// A new entry in the table of requests.
    fn ask(
        &mut self,
        cookie: u64,
        answer: Answer,
        pieces_left: u32,
        durable: Option<Range<u64>>,
    ) -> usize {
        let request = self
            .in_flight
            .iter()
            .position(Option::is_none)
            .expect("at most one request has no slot, so one entry is free");
        self.in_flight[request] = Some(InFlight {
            cookie,
            answer,
            pieces_left,
            durable,
            error: None,
            next_byte: 0,
            is_begun: false,
        });
        request
    }

    fn issue_whole(&mut self, request: usize, offset_bytes: u64, job: Job) -> bool {
        let Some(slot) = self.slots.take(job.buffer_bytes()) else {
            self.issuing = Some(Issuing::Whole {
                request,
                offset_bytes,
                job,
            });
            return false;
        };
        self.start_in(slot, request, offset_bytes, job);
        true
    }

    fn start_in(&mut self, slot: usize, request: usize, offset_bytes: u64, job: Job) {
        self.pieces[slot] = Piece {
            request,
            offset_bytes,
        };
        self.writing |= u64::from(job.changes_bytes()) << slot;
        if let Some(outcome) = self.slots.start(slot, job) {
            self.note(slot, outcome);
        }
    }

    fn issue_read(&mut self, request: usize, left: Range<u64>) -> bool {
        let piece = left.start..left.end.min(left.start + PIECE_BYTES as u64);
        let job = Job::Read(piece.clone());
        let Some(slot) = self.slots.take(job.buffer_bytes()) else {
            self.issuing = Some(Issuing::Read { request, left });
            return false;
        };
        if piece.end < left.end {
            self.issuing = Some(Issuing::Read {
                request,
                left: piece.end..left.end,
            });
        }
        self.start_in(slot, request, piece.start, job);
        true
    }

    fn issue_write(&mut self, request: usize, left: Range<u64>, input: &mut ByteQueue) -> bool {
        let piece = left.start..left.end.min(left.start + PIECE_BYTES as u64);
        let length = (piece.end - piece.start) as usize;
        let slot = if input.len() < length {
            None
        } else {
            self.slots.take(length)
        };
        let Some(slot) = slot else {
            self.issuing = Some(Issuing::Write { request, left });
            return false;
        };
        self.slots.buffer(slot)[..length].copy_from_slice(&input.filled()[..length]);
        input.consume(length);
        if piece.end < left.end {
            self.issuing = Some(Issuing::Write {
                request,
                left: piece.end..left.end,
            });
        }
        self.start_in(slot, request, piece.start, Job::Write(piece));
        true
    }

    /// Skips the payload of a refused request, then answers with the reason.
    fn refuse(
        &mut self,
        request: usize,
        payload_bytes: u64,
        input: &mut ByteQueue,
        output: &mut ByteQueue,
    ) -> bool {
        let passed = payload_bytes.min(input.len() as u64);
        input.consume(passed as usize);
        let payload_bytes = payload_bytes - passed;
        let is_blocked = output.room() < ANSWER_LIMIT_BYTES || self.speaker.is_some();
        if payload_bytes > 0 || is_blocked {
            self.issuing = Some(Issuing::Refused {
                request,
                payload_bytes,
            });
            return passed > 0;
        }
        let in_flight = self.in_flight[request]
            .take()
            .expect("it was asked and is not answered");
        let error = in_flight.error.expect("a refused request has a reason");
        match in_flight.answer {
            Answer::Plain => output.push(&simple_reply(in_flight.cookie, Some(error.errno))),
            _ => push_error(in_flight.cookie, true, None, &error, output),
        }
        true
    }
}

/// Sends the next part of a simple reply. True if the reply does not report a failure.
fn push_stream(
    in_flight: &mut InFlight,
    outcome: Result<&[u8], RequestError>,
    output: &mut ByteQueue,
) -> Result<bool, TransmissionError> {
    in_flight.next_byte += PIECE_BYTES as u64;
    match outcome {
        // An earlier piece failed: the client knows it and expects no bytes.
        _ if in_flight.error.is_some() => {}
        Ok(bytes) => {
            if !in_flight.is_begun {
                output.push(&simple_reply(in_flight.cookie, None));
            }
            output.push(bytes);
        }
        Err(error) if in_flight.is_begun => {
            return Err(TransmissionError::LateFailure(error.reason));
        }
        Err(error) => {
            output.push(&simple_reply(in_flight.cookie, Some(error.errno)));
            in_flight.error = Some(error);
        }
    }
    in_flight.is_begun = true;
    Ok(in_flight.error.is_none())
}

/// Sends one piece of a read as a chunk of its own.
fn push_data(
    cookie: u64,
    is_last: bool,
    offset_bytes: u64,
    outcome: Result<&[u8], RequestError>,
    output: &mut ByteQueue,
) {
    let done = if is_last { chunk::DONE } else { 0 };
    match outcome {
        Ok([]) => output.push(&chunk_head(done, chunk::NONE, cookie, 0)),
        Ok(bytes) => {
            let length_bytes = 8 + bytes.len() as u32;
            let head = chunk_head(done, chunk::OFFSET_DATA, cookie, length_bytes);
            output.push(&head);
            output.push(&offset_bytes.to_be_bytes());
            output.push(bytes);
        }
        Err(error) => push_error(cookie, is_last, Some(offset_bytes), &error, output),
    }
}

/// Sends the extents of a range as a single chunk: the context, then a length and flags for each.
fn push_extents(
    cookie: u64,
    offset_bytes: u64,
    outcome: Result<&[u8], RequestError>,
    output: &mut ByteQueue,
) {
    let bytes = match outcome {
        Ok(bytes) => bytes,
        Err(error) => return push_error(cookie, true, None, &error, output),
    };
    // An extent takes as many bytes on the wire as in this buffer.
    let length_bytes = 4 + bytes.len() as u32;
    let head = chunk_head(chunk::DONE, chunk::BLOCK_STATUS, cookie, length_bytes);
    output.push(&head);
    output.push(&ALLOCATION_CONTEXT_ID.to_be_bytes());
    let mut at = offset_bytes;
    for extent in extents(bytes) {
        let flags = if extent.is_hole {
            extent_flag::HOLE | extent_flag::ZERO
        } else {
            0
        };
        output.push(&((extent.end_bytes - at) as u32).to_be_bytes());
        output.push(&flags.to_be_bytes());
        at = extent.end_bytes;
    }
}

/// Sends a chunk that reports an error, in words too, and with its offset if that is known.
fn push_error(
    cookie: u64,
    is_last: bool,
    offset_bytes: Option<u64>,
    error: &RequestError,
    output: &mut ByteQueue,
) {
    let done = if is_last { chunk::DONE } else { 0 };
    let mut length = error.reason.len().min(REASON_LIMIT_BYTES);
    while !error.reason.is_char_boundary(length) {
        length -= 1;
    }
    let reason = &error.reason.as_bytes()[..length];
    let (kind, place_bytes) = match offset_bytes {
        Some(_) => (chunk::ERROR_OFFSET, 8),
        None => (chunk::ERROR, 0),
    };
    output.push(&chunk_head(
        done,
        kind,
        cookie,
        (6 + length + place_bytes) as u32,
    ));
    output.push(&(error.errno as u32).to_be_bytes());
    output.push(&(length as u16).to_be_bytes());
    output.push(reason);
    if let Some(offset_bytes) = offset_bytes {
        output.push(&offset_bytes.to_be_bytes());
    }
}

#[cfg(test)]
#[path = "pipeline_tests.rs"]
mod tests;
