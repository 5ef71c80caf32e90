//! Recorded bytes through a pipeline whose jobs end when the test says so.

use super::*;
use crate::wire::{Errno, chunk, command_flag, u16_at, u32_at, u64_at};
use forebay::AccessError;
use forebay_block::{Extent, Pool, WakeFd, encode_extent};
use forebay_rt::wait::Gate;
use forebay_store::{Failure, IoKind, ObjectId, Request as StoreRequest, StoreError};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const LENGTH_BYTES: u64 = 1 << 20;

/// An export in plain memory. Its jobs wait while the gate is closed.
struct Medium {
    bytes: RefCell<Vec<u8>>,
    gate: Gate,
    /// If set, only reads of this byte wait at the gate.
    slow_byte: Cell<Option<u64>>,
    /// Ranges that contain this byte fail.
    bad_byte: Cell<Option<u64>>,
    /// Ranges that were flushed.
    flushes: RefCell<Vec<Range<u64>>>,
}

fn a_bad_block() -> BlockError {
    let request = StoreRequest {
        kind: IoKind::Read,
        object: ObjectId(1),
        offset_bytes: 0,
        length_bytes: 4096,
    };
    let failure = Failure::Device(5);
    AccessError::Store(StoreError { failure, request }).into()
}

async fn perform(medium: Rc<Medium>, job: Job, mut buffer: Buffer) -> Finished {
    let waits = match (&job, medium.slow_byte.get()) {
        (Job::Read(range), Some(slow)) => range.contains(&slow),
        (_, slow) => slow.is_none(),
    };
    if waits {
        medium.gate.wait().await;
    }
    let bad = |range: &Range<u64>| {
        medium
            .bad_byte
            .get()
            .is_some_and(|bad| range.contains(&bad))
    };
    let places = |range: &Range<u64>| range.start as usize..range.end as usize;
    let outcome = match &job {
        Job::Read(range) | Job::Write(range) if bad(range) => Err(a_bad_block()),
        Job::Read(range) => {
            let length = places(range).len();
            buffer[..length].copy_from_slice(&medium.bytes.borrow()[places(range)]);
            Ok(length)
        }
        Job::Write(range) => {
            let length = places(range).len();
            medium.bytes.borrow_mut()[places(range)].copy_from_slice(&buffer[..length]);
            Ok(0)
        }
        Job::Trim(range) | Job::Zero { range, .. } => {
            medium.bytes.borrow_mut()[places(range)].fill(0);
            Ok(0)
        }
        Job::Flush(range) => {
            medium.flushes.borrow_mut().push(range.clone());
            Ok(0)
        }
        Job::Prefetch(_) => Ok(0),
        Job::Extents { range, .. } => {
            // The first half of the range is a hole.
            let middle = range.start.midpoint(range.end);
            let extents = [(middle, true), (range.end, false)];
            for (entry, (end_bytes, is_hole)) in buffer.chunks_exact_mut(EXTENT_BYTES).zip(extents)
            {
                entry.copy_from_slice(&encode_extent(Extent { end_bytes, is_hole }));
            }
            Ok(2 * EXTENT_BYTES)
        }
    };
    Finished { buffer, outcome }
}

/// A reply as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reply {
    cookie: u64,
    errno: u32,
    /// Of a structured reply: kind, flags.
    chunk: Option<(u16, u16)>,
    payload: Vec<u8>,
}

/// A client with a pipeline at the other end of two byte queues.
struct Talk<M, F> {
    medium: Rc<Medium>,
    wake_fd: Arc<WakeFd>,
    pipeline: Pipeline<M, F>,
    input: ByteQueue,
    output: ByteQueue,
    replies: Vec<u8>,
}

fn talk(structured: bool) -> Talk<impl Fn(Job, Buffer) -> MediumJob, MediumJob> {
    let share = Arc::new(Pool::new(SLOTS * PIECE_BYTES * 2)).enter();
    talk_with(structured, share)
}

fn talk_with(structured: bool, share: Share) -> Talk<impl Fn(Job, Buffer) -> MediumJob, MediumJob> {
    let medium = Rc::new(Medium {
        bytes: RefCell::new((0..LENGTH_BYTES).map(|at| (at / 512) as u8).collect()),
        gate: Gate::new(true),
        slow_byte: Cell::new(None),
        bad_byte: Cell::new(None),
        flushes: RefCell::default(),
    });
    let wake_fd = Arc::new(WakeFd::new().unwrap());
    let session = Session {
        length_bytes: LENGTH_BYTES,
        read_only: false,
        structured,
        allocation: structured,
    };
    let of = medium.clone();
    let make = move |job, buffer| -> MediumJob { Box::pin(perform(of.clone(), job, buffer)) };
    Talk {
        medium,
        pipeline: Pipeline::new(session, Slots::new(make, &wake_fd, share)),
        wake_fd,
        input: ByteQueue::new(256 << 10),
        output: ByteQueue::new(256 << 10),
        replies: Vec::new(),
    }
}

type MediumJob = std::pin::Pin<Box<dyn Future<Output = Finished>>>;

impl<M, F> Talk<M, F>
where
    M: Fn(Job, Buffer) -> F,
    F: Future<Output = Finished>,
{
    /// Sends bytes and reads every reply, until nothing changes any more.
    fn say(&mut self, bytes: &[u8]) -> Result<(), TransmissionError> {
        let mut left = bytes;
        loop {
            let part = left.len().min(self.input.room());
            self.input.push(&left[..part]);
            left = &left[part..];
            let before = (self.input.len(), self.pipeline.finished);
            self.pipeline.go_on(self.wake_fd.take());
            self.pipeline.advance(&mut self.input, &mut self.output)?;
            self.replies.extend(self.output.filled());
            let sent = self.output.len();
            self.output.clear();
            let after = (self.input.len(), self.pipeline.finished);
            if sent == 0 && part == 0 && before == after {
                return Ok(());
            }
        }
    }

    fn replies(&mut self) -> Vec<Reply> {
        let bytes = std::mem::take(&mut self.replies);
        let (mut at, mut replies) = (0, Vec::new());
        while at < bytes.len() {
            let rest = &bytes[at..];
            if u32_at(rest, 0) == crate::wire::CHUNK_MAGIC {
                let length = u32_at(rest, 16) as usize;
                replies.push(Reply {
                    cookie: u64_at(rest, 8),
                    errno: 0,
                    chunk: Some((u16_at(rest, 6), u16_at(rest, 4))),
                    payload: rest[20..20 + length].to_vec(),
                });
                at += 20 + length;
                continue;
            }
            assert_eq!(u32_at(rest, 0), crate::wire::SIMPLE_REPLY_MAGIC);
            // The cookie of a simple read encodes how many bytes follow.
            let (errno, cookie) = (u32_at(rest, 4), u64_at(rest, 8));
            let length = if errno == 0 {
                (cookie >> 32) as usize
            } else {
                0
            };
            replies.push(Reply {
                cookie,
                errno,
                chunk: None,
                payload: rest[16..16 + length].to_vec(),
            });
            at += 16 + length;
        }
        replies
    }
}

fn request(kind: u16, flags: u16, cookie: u64, offset_bytes: u64, length_bytes: u32) -> Vec<u8> {
    let request = Request {
        flags,
        kind,
        cookie,
        offset_bytes,
        length_bytes,
    };
    request.encode().to_vec()
}

fn simple_read(number: u64, offset: u64, length: u32) -> Vec<u8> {
    let cookie = u64::from(length) << 32 | number;
    request(command::READ, 0, cookie, offset, length)
}

#[test]
fn invariant_n4_a_long_simple_read_is_not_interrupted() {
    let mut talk = talk(false);
    talk.medium.gate.close();
    let said = [
        simple_read(1, 0, 512),
        simple_read(2, 100, 300_000),
        simple_read(3, 5, 10),
    ];
    talk.say(&said.concat()).unwrap();
    assert!(talk.replies.is_empty());
    talk.medium.gate.open();
    talk.say(&[]).unwrap();
    let replies = talk.replies();
    let bytes = talk.medium.bytes.borrow();
    let mut numbers: Vec<u64> = replies.iter().map(|reply| reply.cookie & 0xff).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3]);
    let long = replies
        .iter()
        .find(|reply| reply.cookie & 0xff == 2)
        .unwrap();
    assert!(long.payload == bytes[100..300_100]);
    assert!(talk.pipeline.is_idle());
}

#[test]
fn chunks_of_a_long_read_cover_it_once() {
    let mut talk = talk(true);
    talk.say(&request(command::READ, 0, 7, 1, 200_000)).unwrap();
    let replies = talk.replies();
    assert_eq!(replies.len(), 4);
    let mut covered = vec![0_u8; 200_000];
    for (at, reply) in replies.iter().enumerate() {
        let last = u16::from(at == 3);
        assert_eq!(reply.chunk, Some((chunk::OFFSET_DATA, last)));
        let offset = u64_at(&reply.payload, 0) as usize - 1;
        covered[offset..offset + reply.payload.len() - 8].copy_from_slice(&reply.payload[8..]);
    }
    assert!(covered == talk.medium.bytes.borrow()[1..200_001]);
}

#[test]
fn extents_are_sent_as_lengths_from_the_requested_offset() {
    let mut talk = talk(true);
    talk.say(&request(command::BLOCK_STATUS, 0, 7, 8192, 65_536))
        .unwrap();
    let replies = talk.replies();
    assert_eq!(replies[0].chunk, Some((chunk::BLOCK_STATUS, chunk::DONE)));
    let words: Vec<u32> = replies[0]
        .payload
        .chunks(4)
        .map(|word| u32_at(word, 0))
        .collect();
    assert_eq!(words, [1, 32_768, 3, 32_768, 0]);
}

#[test]
fn a_read_of_nothing_is_answered() {
    let mut simple = talk(false);
    simple.say(&simple_read(1, 0, 0)).unwrap();
    assert_eq!(simple.replies().len(), 1);
    let mut structured = talk(true);
    structured
        .say(&request(command::READ, 0, 1, LENGTH_BYTES, 0))
        .unwrap();
    assert_eq!(
        structured.replies()[0].chunk,
        Some((chunk::NONE, chunk::DONE))
    );
}

#[test]
fn a_failure_inside_a_read_is_reported_where_the_reply_allows_it() {
    // Chunks can report it at any piece, a simple reply only at the first one.
    let mut structured = talk(true);
    structured.medium.bad_byte.set(Some(70_000));
    structured
        .say(&request(command::READ, 0, 1, 0, 200_000))
        .unwrap();
    let kinds: Vec<_> = structured
        .replies()
        .iter()
        .map(|r| r.chunk.unwrap().0)
        .collect();
    let failed = kinds
        .iter()
        .filter(|&&kind| kind == chunk::ERROR_OFFSET)
        .count();
    assert_eq!((kinds.len(), failed), (4, 1));

    let mut first = talk(false);
    first.medium.bad_byte.set(Some(3));
    first
        .say(&[simple_read(1, 0, 200_000), simple_read(2, 512, 1)].concat())
        .unwrap();
    let errnos: Vec<u32> = first.replies().iter().map(|reply| reply.errno).collect();
    assert_eq!(errnos, [Errno::Io as u32, 0]);
    assert!(first.pipeline.is_idle());

    let mut late = talk(false);
    late.medium.bad_byte.set(Some(70_000));
    let ended = late.say(&simple_read(1, 0, 200_000));
    assert!(matches!(ended, Err(TransmissionError::LateFailure(_))));
}

#[test]
fn a_request_that_waits_does_not_hold_up_the_next() {
    let mut talk = talk(true);
    talk.medium.slow_byte.set(Some(100));
    talk.medium.gate.close();
    talk.say(&request(command::READ, 0, 1, 0, 4096)).unwrap();
    let mut said = request(command::READ, 0, 2, 8192, 4096);
    said.extend(request(command::WRITE, 0, 3, 0, 1));
    said.push(0);
    talk.say(&said).unwrap();
    let cookies = |replies: Vec<Reply>| -> Vec<u64> { replies.iter().map(|r| r.cookie).collect() };
    assert_eq!(cookies(talk.replies()), [2, 3]);
    talk.medium.gate.open();
    talk.say(&[]).unwrap();
    assert_eq!(cookies(talk.replies()), [1]);
}

#[test]
fn what_is_written_can_be_read_however_long() {
    for structured in [false, true] {
        let mut talk = talk(structured);
        let payload: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
        let mut said = request(command::WRITE, command_flag::FUA, 1, 333, 300_000);
        said.extend(&payload);
        said.extend(request(command::FLUSH, 0, 2, 0, 0));
        talk.say(&said).unwrap();
        assert!(talk.medium.bytes.borrow()[333..300_333] == payload);
        let flushes = talk.medium.flushes.borrow();
        assert_eq!(
            *flushes,
            [333..300_333, 0..u64::MAX],
            "the ranges that FUA covers"
        );
        drop(flushes);
        assert_eq!(talk.replies().len(), 2);
    }
}

#[test]
fn a_failed_write_is_answered_after_its_payload_and_not_flushed() {
    let mut talk = talk(true);
    talk.medium.bad_byte.set(Some(100_000));
    let mut said = request(command::WRITE, command_flag::FUA, 1, 0, 200_000);
    said.extend(vec![9; 100_000]);
    talk.say(&said).unwrap();
    assert!(talk.replies().is_empty());
    talk.say(&vec![9; 100_000]).unwrap();
    let replies = talk.replies();
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0].errno, Errno::Io as u32);
    assert_eq!(*talk.medium.flushes.borrow(), []);
}

#[test]
fn invariant_n3_a_refused_write_takes_its_payload_along() {
    let mut talk = talk(true);
    let mut said = request(command::WRITE, 0, 1, LENGTH_BYTES - 1, 300_000);
    said.extend(vec![1; 300_000]);
    said.extend(request(command::READ, 0, 2, LENGTH_BYTES, 1));
    said.extend(request(command::BLOCK_STATUS, 0, 3, 0, 4096));
    talk.say(&said).unwrap();
    let replies = talk.replies();
    assert_eq!(replies[0].errno, Errno::NoSpace as u32);
    assert_eq!(replies[1].chunk, Some((chunk::ERROR, chunk::DONE)));
    assert_eq!(u32_at(&replies[1].payload, 0), Errno::Invalid as u32);
    assert_eq!(replies[2].chunk, Some((chunk::BLOCK_STATUS, chunk::DONE)));
    assert_eq!(talk.medium.bytes.borrow()[LENGTH_BYTES as usize - 1], 255);
}

#[test]
fn more_requests_than_slots_are_all_answered() {
    let mut talk = talk(true);
    talk.medium.gate.close();
    let said: Vec<u8> = (0..1000)
        .flat_map(|cookie| request(command::READ, 0, cookie, cookie * 512, 512))
        .collect();
    talk.say(&said).unwrap();
    assert!(talk.replies().is_empty());
    assert!(!talk.pipeline.slots.has_free());
    talk.medium.gate.open();
    talk.say(&[]).unwrap();
    let replies = talk.replies();
    assert_eq!(replies.len(), 1000);
    for reply in replies {
        assert_eq!(u64_at(&reply.payload, 0), reply.cookie * 512);
        assert_eq!(reply.payload[8], reply.cookie as u8);
    }
}

#[test]
fn after_disconnect_nothing_is_begun() {
    let mut talk = talk(true);
    let said = [
        request(command::READ, 0, 1, 0, 1),
        request(command::DISC, 0, 2, 0, 0),
        request(command::READ, 0, 3, 0, 1),
    ];
    talk.say(&said.concat()).unwrap();
    assert!(talk.pipeline.is_over());
    assert_eq!(talk.replies().len(), 1);
}

#[test]
fn a_mute_pipeline_ends_what_runs_and_says_nothing() {
    let mut talk = talk(true);
    talk.medium.gate.close();
    let mut said = request(command::WRITE, 0, 1, 0, 4);
    said.extend([7; 4]);
    talk.say(&said).unwrap();
    talk.pipeline.abort_replies();
    assert!(!talk.pipeline.is_idle());
    talk.medium.gate.open();
    talk.say(&[]).unwrap();
    assert!(talk.pipeline.is_idle());
    assert!(talk.replies.is_empty());
    assert_eq!(talk.medium.bytes.borrow()[..4], [7; 4]);
}

#[test]
fn bytes_that_are_no_request_end_the_session() {
    let mut talk = talk(true);
    let ended = talk.say(&[0x47; 28]);
    assert_eq!(ended, Err(TransmissionError::Magic(0x4747_4747)));
}

proptest! {
    #[test]
    fn invariant_n3_each_request_is_answered_once(
        asked in prop::collection::vec((0_u16..9, 0_u16..4, 0_u64..1 << 21, 0_u32..200_000), 1..40),
        structured: bool,
        pauses in prop::collection::vec(any::<bool>(), 40),
    ) {
        let mut talk = talk(structured);
        for (at, &(kind, flags, offset, length)) in asked.iter().enumerate() {
            if kind == command::DISC {
                continue;
            }
            let cookie = if kind == command::READ {
                u64::from(length) << 32 | at as u64
            } else {
                at as u64
            };
            let mut said = request(kind, flags, cookie, offset, length);
            if kind == command::WRITE {
                said.extend(vec![at as u8; length as usize]);
            }
            if pauses[at] {
                talk.medium.gate.close();
            } else {
                talk.medium.gate.open();
            }
            talk.say(&said).unwrap();
        }
        talk.medium.gate.open();
        talk.say(&[]).unwrap();
        prop_assert!(talk.pipeline.is_idle());
        let replies = talk.replies();
        for (at, &(kind, ..)) in asked.iter().enumerate() {
            let is_end = |reply: &&Reply| reply.chunk.is_none_or(|(_, flags)| flags == chunk::DONE);
            let of_it = replies.iter().filter(|reply| reply.cookie as u32 == at as u32);
            let expected = usize::from(kind != command::DISC);
            prop_assert_eq!(of_it.filter(is_end).count(), expected, "request {}", at);
        }
    }
}

#[test]
fn a_connection_with_one_buffer_answers_everything() {
    for structured in [false, true] {
        let share = Arc::new(Pool::new(0)).enter();
        let mut talk = talk_with(structured, share);
        let length = 5 * PIECE_BYTES as u32 + 7;
        let mut asked = simple_read(1, 9, length);
        asked.extend(request(command::WRITE, command_flag::FUA, 2, 3, length));
        asked.extend(vec![8; length as usize]);
        asked.extend(request(command::FLUSH, 0, 3, 0, 0));
        asked.extend(simple_read(4, 3, 100));
        if structured {
            asked.extend(request(command::BLOCK_STATUS, 0, 5, 0, 4096));
        }
        asked.extend(request(command::WRITE_ZEROES, 0, 6, 0, 4096));
        talk.say(&asked).unwrap();
        let answered: std::collections::BTreeSet<u64> = talk
            .replies()
            .iter()
            .map(|reply| reply.cookie & 0xffff)
            .collect();
        let expected = if structured { 6 } else { 5 };
        assert_eq!(answered.len(), expected, "{answered:?}");
        assert_eq!(talk.medium.bytes.borrow()[4096..][..10], [8; 10]);
        assert!(talk.pipeline.is_idle());
    }
}

/// A client whose reads wait can keep another connection from nothing except the shared buffers.
#[test]
fn a_connection_goes_on_while_another_holds_every_shared_buffer() {
    let pool = Arc::new(Pool::new(4 * PIECE_BYTES));
    let mut slow = talk_with(true, pool.enter());
    let mut quick = talk_with(true, pool.enter());
    slow.medium.gate.close();
    let piece = PIECE_BYTES as u32;
    slow.say(&simple_read(1, 0, 16 * piece)).unwrap();
    assert!(slow.replies().is_empty());
    quick.say(&simple_read(2, 0, 16 * piece)).unwrap();
    let pieces = quick.replies();
    assert_eq!(pieces.len(), 16);
    slow.medium.gate.open();
    slow.say(&[]).unwrap();
    assert_eq!(slow.replies().len(), 16);
}
