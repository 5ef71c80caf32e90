//! What is staged, what waits, and what is done next. It waits for nothing.

use super::history::{History, State as Stamps};
use forebay_base::Prng;
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_store::{Failure, Io, IoKind};
use forebay_volume::{Call, ChunkName, Need, PAGE_BYTES, Scope, Source, Twin, Uploads, Writer};
use std::collections::VecDeque;
use std::ops::Range;

pub(super) const PAGE: usize = PAGE_BYTES as usize;
const UPLOADS: usize = 2;
/// Pages that are staged at most.
const STAGED_PAGES: usize = 96;

/// See above.
pub(super) struct Desk {
    pub(super) writer: Writer,
    pub(super) chance: Prng,
    pub(super) history: Arc<Mutex<History>>,
    pub(super) reads: VecDeque<Io>,
    pub(super) waiting: VecDeque<Io>,
    pub(super) committing: Vec<Io>,
    pub(super) commits: Vec<Io>,
    pub(super) is_recording: bool,
    pub(super) uploads: Uploads,
    /// What was staged so far, and what the next record holds.
    pub(super) stamps: Stamps,
    pub(super) frozen: Stamps,
    pub(super) has_frozen: bool,
    /// No request is answered with success any more, and the bucket is not asked.
    pub(super) is_dead: bool,
    pub(super) broken: Option<String>,
}

/// What a task can do now.
pub(super) enum Job {
    Read(Io),
    Upload(u64, Scope, ChunkName),
    Record,
}

/// Requests that have ended, to be finished by whoever holds no lock.
pub(super) type Ended = Vec<(Io, Result<(), Failure>)>;

/// Where a page comes from, with what is in memory copied.
pub(super) enum Taken {
    Bytes(Vec<u8>),
    Of(String, u64),
    /// Of a copy of record, from a byte on, with a checksum.
    OfRecord(u64, u64, u32),
}

impl From<Source<'_>> for Taken {
    fn from(source: Source<'_>) -> Taken {
        match source {
            Source::Zeros => Taken::Bytes(vec![0; PAGE]),
            Source::Memory(bytes) => Taken::Bytes(bytes.to_vec()),
            Source::Chunk(object, at) => Taken::Of(object.name.to_string(), at),
            Source::Record { record, at, crc } => Taken::OfRecord(record, at, crc),
        }
    }
}

/// The stamp in a page.
pub(super) fn stamp_of(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[..8].try_into().expect("a page is longer"))
}

impl Desk {
    /// That of a volume of which nothing is known yet.
    pub(super) fn new(writer: Writer, chance: Prng) -> Desk {
        Desk {
            writer,
            chance,
            history: Arc::default(),
            reads: VecDeque::new(),
            waiting: VecDeque::new(),
            committing: Vec::new(),
            commits: Vec::new(),
            is_recording: false,
            uploads: Uploads::new(UPLOADS),
            frozen: Stamps::new(),
            has_frozen: false,
            stamps: Stamps::new(),
            is_dead: false,
            broken: None,
        }
    }

    pub(super) fn submit(&mut self, io: Io, ended: &mut Ended) {
        let kind = io.request().kind;
        match kind {
            _ if self.is_dead => ended.push((io, Err(Failure::Gone))),
            IoKind::Read => self.reads.push_back(io),
            _ if self.writer.is_fenced() => ended.push((io, Err(Failure::Fenced))),
            IoKind::Commit => self.commits.push(io),
            IoKind::Write => {
                self.waiting.push_back(io);
                self.settle(ended);
            }
            IoKind::Discard | IoKind::SetLength => ended.push((io, Err(Failure::Unsupported))),
        }
    }

    /// Stages what waits, as far as it fits now.
    fn settle(&mut self, ended: &mut Ended) {
        for io in std::mem::take(&mut self.waiting) {
            let pages = pages_of(&io);
            let chunk = pages.start / self.writer.manifest().chunk_pages();
            let is_closed = !self.uploads.lets_stage(&self.writer, chunk..=chunk);
            if is_closed || self.writer.staged_pages() + io.page_count() > STAGED_PAGES {
                self.waiting.push_back(io);
                continue;
            }
            for (index, page) in pages.enumerate() {
                let mut bytes = vec![0; PAGE];
                io.copy_page(index, 0, &mut bytes);
                self.stamps.insert(page, stamp_of(&bytes));
                self.writer.stage(page, &bytes);
            }
            self.uploads.staged(&self.writer, chunk..=chunk);
            ended.push((io, Ok(())));
        }
    }

    pub(super) fn next_job(&mut self, ended: &mut Ended) -> Option<Job> {
        if self.is_dead {
            return None;
        }
        if let Some(io) = self.reads.pop_front() {
            return Some(Job::Read(io));
        }
        if self.writer.is_fenced() {
            return None;
        }
        if !self.is_recording
            && self.begins_commit()
            && let Some(job) = self.next_of_commit(ended)
        {
            return Some(job);
        }
        if self.writer.staged_pages() * 2 > STAGED_PAGES {
            self.uploads.much_is_staged(&self.writer);
        }
        self.start_upload(Scope::All)
    }

    fn begins_commit(&mut self) -> bool {
        if self.committing.is_empty() && !self.commits.is_empty() {
            self.committing = std::mem::take(&mut self.commits);
            self.writer.freeze();
            self.has_frozen = true;
            self.frozen = self.stamps.clone();
            self.uploads.freeze();
        }
        !self.committing.is_empty()
    }

    fn next_of_commit(&mut self, ended: &mut Ended) -> Option<Job> {
        if self.writer.is_recording() {
            // One in doubt comes first.
            self.is_recording = true;
            return Some(Job::Record);
        }
        if let Some(job) = self.start_upload(Scope::Record) {
            return Some(job);
        }
        let is_uploading = self.uploads.are_for_record(&self.writer);
        match self.writer.need() {
            Need::Chunks(chunks) => {
                self.uploads.want(chunks);
                self.start_upload(Scope::Record)
            }
            _ if is_uploading => None,
            Need::Nothing => {
                ended.extend(self.commit_ends(Ok(())));
                None
            }
            Need::Record => {
                self.writer.seal();
                self.has_frozen = false;
                lock(&self.history).tries(self.frozen.clone());
                self.is_recording = true;
                Some(Job::Record)
            }
        }
    }

    fn start_upload(&mut self, scope: Scope) -> Option<Job> {
        let (chunk, name) = self.uploads.next(&mut self.writer, scope)?;
        Some(Job::Upload(chunk, scope, name))
    }

    /// An upload has ended, with the checksum of its object or with a failure.
    pub(super) fn uploaded(
        &mut self,
        chunk: u64,
        name: ChunkName,
        crc: Option<u32>,
        failure: Option<Failure>,
    ) -> Ended {
        self.uploads.ended(chunk);
        let mut ended = Ended::new();
        match crc {
            Some(crc) => self.writer.made_with(chunk, name, crc),
            None => self.writer.not_made(name),
        }
        if let Some(failure) = failure {
            ended.extend(self.waiting.drain(..).map(|io| (io, Err(failure))));
            if !self.is_recording {
                ended.extend(self.commit_ends(Err(failure)));
            }
        }
        self.settle(&mut ended);
        ended
    }

    /// A record has ended.
    pub(super) fn recorded(&mut self, result: Result<(), Failure>) -> Ended {
        self.is_recording = false;
        match result {
            Err(Failure::Fenced) => self.end_all(Failure::Fenced),
            // It was one in doubt; the commit goes on.
            Ok(()) if self.has_frozen => Ended::new(),
            result => self.commit_ends(result),
        }
    }

    fn commit_ends(&mut self, result: Result<(), Failure>) -> Ended {
        let mut ended: Ended = self.committing.drain(..).map(|io| (io, result)).collect();
        self.writer.thaw();
        self.has_frozen = false;
        self.uploads.thaw();
        self.settle(&mut ended);
        ended
    }

    /// Ends all that waits.
    pub(super) fn end_all(&mut self, failure: Failure) -> Ended {
        let reads = self.reads.drain(..);
        let changes = self.waiting.drain(..).chain(self.committing.drain(..));
        let all = reads.chain(changes).chain(self.commits.drain(..));
        all.map(|io| (io, Err(failure))).collect()
    }

    /// What a call without an answer leads to now and then.
    pub(super) fn gives_up(&mut self) -> bool {
        self.is_dead || self.chance.chance(1, 8)
    }

    /// The call for a copy of the record that is being made. They come in any order.
    pub(super) fn next_of_record(&mut self) -> Option<(Twin, Call)> {
        let first = Twin::BOTH[self.chance.below(2) as usize];
        let mut calls = [first, first.other()].into_iter();
        calls.find_map(|twin| Some((twin, self.writer.next(twin)?)))
    }

    pub(super) fn sources(&self, pages: Range<u64>) -> Vec<Taken> {
        pages.map(|page| self.writer.source(page).into()).collect()
    }
}

fn pages_of(io: &Io) -> Range<u64> {
    let first = io.request().offset_bytes / PAGE_BYTES;
    first..first + io.page_count() as u64
}
