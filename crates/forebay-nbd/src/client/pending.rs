//! A request that waits for a server, from its arrival to its end.

use super::conversation::Event;
use super::greeting::Facts;
use super::ledger::{Covered, Era};
use crate::wire::{command, command_flag, extent_flag, transmission_flag, u32_at};
use forebay_base::{PAGE_BYTES, Span};
use forebay_rt::wait::Slot;
use forebay_store::{Extent, Failure, Io, IoKind};
use std::sync::Arc;

/// Longest range of one request without a payload.
const RANGE_LIMIT_BYTES: u64 = 512 << 20;

static ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// What the submitter wants.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// A request of a cache.
    Io(Io),
    /// The first hole or data of a range.
    Extent {
        offset_bytes: u64,
        end_bytes: u64,
        found: Option<Extent>,
        answer: Arc<Slot<Extent>>,
    },
}

/// A request and its progress.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) wanted: Wanted,
    /// Writes whose end its submitter knew when it came.
    pub(crate) heard: u64,
    /// The time for its answer counts from here, by the clock of the thread.
    pub(crate) since: Span,
    /// What a commit covers, once its flush was sent.
    pub(crate) covered: Option<Covered>,
    /// When it was last sent.
    pub(crate) sent: Era,
    /// Bytes of its range that are done, if the range takes several requests.
    done_bytes: u64,
}

/// A request to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) offset_bytes: u64,
    pub(crate) length_bytes: u32,
}

/// What to do next with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Ask(Question),
    /// Nothing of it is left for the server.
    Done,
    Fail(Failure),
}

impl Pending {
    pub(crate) fn new(wanted: Wanted, heard: u64) -> Pending {
        Pending {
            wanted,
            heard,
            since: Span::ZERO,
            covered: None,
            sent: Era::default(),
            done_bytes: 0,
        }
    }

    pub(crate) fn is(&self, kind: IoKind) -> bool {
        matches!(&self.wanted, Wanted::Io(io) if io.request().kind == kind)
    }

    /// What to ask of a server with `facts` next.
    pub(crate) fn next(&self, facts: &Facts) -> Next {
        let Wanted::Io(io) = &self.wanted else {
            return self.next_extent(facts);
        };
        let request = io.request();
        let (offset, length) = (request.offset_bytes, request.length_bytes);
        let inside = facts.length_bytes.saturating_sub(offset).min(length);
        let block = u64::from(facts.least_block_bytes);
        // The last block may be cut short by the end of the export.
        let is_whole = |end: u64| end.is_multiple_of(block) || end == facts.length_bytes;
        let ask = |kind, flags, offset_bytes, length_bytes: u64| {
            Next::Ask(Question {
                kind,
                flags,
                offset_bytes,
                length_bytes: length_bytes as u32,
            })
        };
        match request.kind {
            IoKind::Read | IoKind::Write | IoKind::Discard if length == 0 => Next::Done,
            IoKind::Read if inside == 0 => Next::Done,
            IoKind::Read => {
                let end = (offset + inside)
                    .next_multiple_of(block)
                    .min(facts.length_bytes);
                ask(command::READ, 0, offset, end - offset)
            }
            IoKind::Write if inside < length => Next::Fail(Failure::OutOfRange),
            IoKind::Write if !is_whole(offset + length) => Next::Fail(Failure::Unsupported),
            IoKind::Write => ask(command::WRITE, 0, offset, length),
            IoKind::Commit => ask(command::FLUSH, 0, 0, 0),
            IoKind::SetLength if offset == facts.length_bytes => Next::Done,
            IoKind::Discard if self.done_bytes >= inside => Next::Done,
            // It is made durable at once, because nobody would repeat it after a restart.
            IoKind::Discard
                if facts
                    .can(transmission_flag::SEND_WRITE_ZEROES | transmission_flag::SEND_FUA)
                    && offset.is_multiple_of(block)
                    && is_whole(offset + inside) =>
            {
                let left = (inside - self.done_bytes).min(RANGE_LIMIT_BYTES);
                let at = offset + self.done_bytes;
                ask(command::WRITE_ZEROES, command_flag::FUA, at, left)
            }
            IoKind::SetLength | IoKind::Discard => Next::Fail(Failure::Unsupported),
        }
    }

    fn next_extent(&self, facts: &Facts) -> Next {
        let Wanted::Extent {
            offset_bytes,
            end_bytes,
            ..
        } = self.wanted
        else {
            return Next::Done;
        };
        let block = u64::from(facts.least_block_bytes);
        let offset = offset_bytes - offset_bytes % block;
        let end = end_bytes.next_multiple_of(block).min(facts.length_bytes);
        if facts.allocation.is_none() || offset >= end {
            return Next::Fail(Failure::Unsupported);
        }
        Next::Ask(Question {
            kind: command::BLOCK_STATUS,
            flags: 0,
            offset_bytes: offset,
            length_bytes: (end - offset).min(RANGE_LIMIT_BYTES) as u32,
        })
    }

    /// Appends the payload of a write.
    pub(crate) fn push_payload(&self, output: &mut Vec<u8>) {
        let Wanted::Io(io) = &self.wanted else { return };
        if io.request().kind != IoKind::Write {
            return;
        }
        let start = output.len();
        output.resize(start + io.request().length_bytes as usize, 0);
        for (page, bytes) in output[start..].chunks_mut(PAGE_BYTES).enumerate() {
            io.copy_page(page, 0, bytes);
        }
    }

    /// Takes a part of a server's reply to it, except its end.
    pub(crate) fn take(&mut self, event: &Event<'_>) {
        match (&mut self.wanted, event) {
            (Wanted::Io(io), Event::Data { at, bytes, .. }) => fill(io, *at as usize, bytes),
            (Wanted::Io(io), Event::Zeros { range, .. }) => {
                fill_zeros(io, range.start as usize, range.end as usize);
            }
            (
                Wanted::Extent {
                    offset_bytes,
                    end_bytes,
                    found,
                    ..
                },
                Event::Extents { bytes, .. },
            ) => *found = Some(first_extent(bytes, *offset_bytes, *end_bytes)),
            _ => {}
        }
    }

    /// Notes that the server has done `question`.
    pub(crate) fn is_answered(&mut self, question: &Question) {
        self.done_bytes += u64::from(question.length_bytes);
    }

    /// Ends it well.
    pub(crate) fn succeed(self, facts: &Facts) {
        match self.wanted {
            Wanted::Io(mut io) => {
                let request = io.request();
                if request.kind == IoKind::Read {
                    let inside = facts.length_bytes.saturating_sub(request.offset_bytes);
                    let pages_end = io.page_count() * PAGE_BYTES;
                    fill_zeros(
                        &mut io,
                        request.length_bytes.min(inside) as usize,
                        pages_end,
                    );
                }
                io.succeed();
            }
            Wanted::Extent {
                found,
                end_bytes,
                answer,
                ..
            } => answer.set(found.unwrap_or(solid(end_bytes))),
        }
    }

    pub(crate) fn fail(self, failure: Failure) {
        match self.wanted {
            Wanted::Io(io) => io.fail(failure),
            Wanted::Extent {
                end_bytes, answer, ..
            } => answer.set(solid(end_bytes)),
        }
    }
}

/// If this is not known, it is not a hole.
fn solid(end_bytes: u64) -> Extent {
    Extent {
        end_bytes,
        is_hole: false,
    }
}

/// The first run in `bytes`, whose extents begin at `offset_bytes` or a little before.
fn first_extent(bytes: &[u8], offset_bytes: u64, end_bytes: u64) -> Extent {
    let is_hole = |at: usize| {
        let hole = extent_flag::HOLE | extent_flag::ZERO;
        u32_at(bytes, at + 4) & hole == hole
    };
    let mut end = offset_bytes;
    for at in (0..bytes.len()).step_by(8) {
        if is_hole(at) != is_hole(0) {
            break;
        }
        end = end.saturating_add(u64::from(u32_at(bytes, at)));
    }
    Extent {
        end_bytes: end.clamp(offset_bytes + 1, end_bytes),
        is_hole: is_hole(0) && end > offset_bytes,
    }
}

/// Puts `bytes` at byte `at` of the range of `io`, as far as it was asked for.
fn fill(io: &mut Io, mut at: usize, mut bytes: &[u8]) {
    let asked = io.request().length_bytes as usize;
    bytes = &bytes[..bytes.len().min(asked.saturating_sub(at))];
    while !bytes.is_empty() {
        let (page, start) = (at / PAGE_BYTES, at % PAGE_BYTES);
        let (now, later) = bytes.split_at(bytes.len().min(PAGE_BYTES - start));
        io.fill_page(page, start, now);
        (at, bytes) = (at + now.len(), later);
    }
}

fn fill_zeros(io: &mut Io, mut at: usize, end: usize) {
    let end = end.min(io.page_count() * PAGE_BYTES);
    while at < end {
        let (page, start) = (at / PAGE_BYTES, at % PAGE_BYTES);
        let count = (end - at).min(PAGE_BYTES - start);
        io.fill_page(page, start, &ZEROS[..count]);
        at += count;
    }
}
