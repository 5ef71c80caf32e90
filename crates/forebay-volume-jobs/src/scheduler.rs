//! What a store of a volume knows: the writer, requests that wait, and what is under way. It waits
//! for nothing and asks the bucket nothing; its driver fetches [`Job`]s here and brings back
//! how they ended.
//!
//! - invariant BS1: a commit ends well only after a record, or several, that hold every write which
//!   had ended when the commit came. Writes that come later are staged for the next one.
//! - invariant BS2: no page is staged in a chunk while an object of that chunk is being made of all
//!   that is staged: the object would count for it.
//! - invariant BS3: a request that waits is ended by the next change that lets it go on, or by the
//!   failure of what it waits for. Of uploads that run side by side the first that fails ends what
//!   waits; one that fails after that ends nothing, for its trouble is as old.

use crate::job::{Job, PAGE, Piece, ReadJob, Removed, UploadJob};
use crate::limits::Limits;
use crate::record_copies::{Purpose, RecordCopies};
use crate::requests::{Ended, Requests};
use crate::upkeep::Upkeep;
use forebay_store::{Extent, Failure, Io, IoKind, Request};
use forebay_volume::{
    Appended, Call, InlinePage, Manifest, Need, Opened, PAGE_BYTES, Progress, Reply, Scope, Source,
    Twin, Uploads, VolumeFault, Writer,
};
use std::ops::Range;

/// Called when the volume is left to others, or cannot be: then with false.
pub type Closing = Box<dyn FnOnce(bool) + Send>;

/// Who may change the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    ReadOnly,
    Writer,
    /// It was one, and leaves the volume to others.
    Closed,
}

/// See above.
pub struct Scheduler {
    writer: Writer,
    limits: Limits,
    role: Role,
    requests: Requests,
    record: RecordCopies,
    uploads: Uploads,
    /// Memory of chunks that were uploaded, for those that come next: fresh memory costs more than
    /// what is put there.
    spares: Vec<Vec<u8>>,
    /// How many uploads have failed and ended what waited then.
    upload_failures: u64,
    /// An upload has failed: none is begun for its own sake until somebody asks for something.
    is_put_off: bool,
    upkeep: Upkeep,
    closing: Option<Closing>,
    /// How often what was staged became that of a commit.
    begun_commits: u64,
    is_stopped: bool,
}

impl Scheduler {
    /// For `writer`, or for a volume that is only read.
    pub fn new(writer: Writer, limits: Limits, is_read_only: bool) -> Scheduler {
        Scheduler {
            writer,
            limits,
            role: if is_read_only {
                Role::ReadOnly
            } else {
                Role::Writer
            },
            requests: Requests::default(),
            record: RecordCopies::none(),
            uploads: Uploads::new(limits.uploads),
            spares: Vec::new(),
            upload_failures: 0,
            is_put_off: false,
            upkeep: Upkeep::new(),
            closing: None,
            begun_commits: 0,
            is_stopped: false,
        }
    }

    /// Reads of `opened` from now on. Returns the bytes that are others there.
    pub fn follow(&mut self, opened: Opened) -> Vec<Range<u64>> {
        let changed = self
            .writer
            .map()
            .changed_bytes(&opened.map, &opened.manifest);
        self.writer.follow(opened);
        changed
    }

    /// What never changes of the volume.
    pub fn manifest(&self) -> Manifest {
        *self.writer.manifest()
    }

    /// What is known of the volume.
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// How often what was staged became that of a commit. It happens in
    /// [`Scheduler::next_job`] alone, before anything else is staged there.
    pub fn begun_commits(&self) -> u64 {
        self.begun_commits
    }

    /// Whether the volume is only read.
    pub fn is_read_only(&self) -> bool {
        self.role == Role::ReadOnly
    }

    /// Whether another writer has the volume.
    pub fn is_fenced(&self) -> bool {
        self.writer.is_fenced()
    }

    /// Whether [`Scheduler::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// The number of the record that is another writer's, if this one found it as its own next one.
    pub fn last_number(&self) -> u64 {
        self.writer.map().number()
    }

    /// What to ask when an object is missing, for one copy of a record; none if this is no writer,
    /// or knows it already.
    pub fn successor(&self, twin: Twin) -> Option<Call> {
        if self.role == Role::ReadOnly || self.is_fenced() {
            return None;
        }
        self.writer.successor(twin)
    }

    /// The record is there: another writer has the volume.
    pub fn succeeded(&mut self, ended: &mut Ended) {
        self.writer.succeeded();
        // A record that is under way ends what waits when it ends.
        if !self.record.are_being_made() {
            self.end_fenced(ended);
        }
    }

    /// Takes `io`.
    pub fn submit(&mut self, io: Io, ended: &mut Ended) {
        let request = io.request();
        if request.kind == IoKind::Read {
            // What lies there by now is another writer's, and older bytes look like newer ones.
            if self.is_fenced() {
                return ended.push(io, Err(Failure::Fenced));
            }
            return self.begin_read(io, ended);
        }
        if let Some(result) = self.refusal(request) {
            return ended.push(io, result);
        }
        self.is_put_off = false;
        if request.kind == IoKind::Commit {
            return self.requests.commits.push(io);
        }
        self.requests.changes.push_back(io);
        self.settle(ended);
    }

    /// How a change that needs no work ends.
    fn refusal(&self, request: Request) -> Option<Result<(), Failure>> {
        let (offset, length) = (request.offset_bytes, request.length_bytes);
        let volume_bytes = self.manifest().length_bytes;
        let end = offset.checked_add(length);
        let is_whole = |bytes: u64| bytes.is_multiple_of(PAGE_BYTES);
        match request.kind {
            IoKind::SetLength if offset == volume_bytes => Some(Ok(())),
            _ if self.role == Role::ReadOnly => Some(Err(Failure::ReadOnly)),
            _ if self.is_fenced() => Some(Err(Failure::Fenced)),
            _ if self.role == Role::Closed => Some(Err(Failure::Gone)),
            IoKind::SetLength => Some(Err(Failure::Unsupported)),
            IoKind::Commit => None,
            _ if length == 0 => Some(Ok(())),
            IoKind::Write if end.is_none_or(|end| end > volume_bytes) => {
                Some(Err(Failure::OutOfRange))
            }
            IoKind::Discard if offset >= volume_bytes => Some(Ok(())),
            _ if !is_whole(offset) || !is_whole(length) => Some(Err(Failure::Unsupported)),
            _ => None,
        }
    }

    fn begin_read(&mut self, mut io: Io, ended: &mut Ended) {
        let pieces = self.fill(&mut io);
        self.queue_read(io, pieces, false, ended);
    }

    /// Fills the pages that are known. Returns where the others lie.
    fn fill(&self, io: &mut Io) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        let format = self.manifest().pages;
        let first_page = io.request().offset_bytes / PAGE_BYTES;
        for index in 0..io.page_count() {
            let page = first_page + index as u64;
            let source = if page < self.manifest().pages() {
                self.writer.source(page)
            } else {
                Source::Zeros
            };
            let piece = match source {
                Source::Zeros => {
                    io.fill_page(index, 0, &[0; PAGE]);
                    continue;
                }
                Source::Memory(bytes) => {
                    io.fill_page(index, 0, bytes);
                    continue;
                }
                source => Piece::new(index, page, source),
            };
            let piece = piece.expect("it lies in the bucket");
            let last = pieces.last_mut();
            if !last.is_some_and(|last| last.goes_on_with(&piece, format)) {
                pieces.push(piece);
            }
        }
        pieces
    }

    fn queue_read(&mut self, io: Io, pieces: Vec<Piece>, is_repeated: bool, ended: &mut Ended) {
        let job = ReadJob {
            io,
            pieces,
            number: self.writer.map().number(),
            is_repeated,
        };
        if job.pieces.is_empty() {
            return ended.push(job.filled(), Ok(()));
        }
        self.requests.reads.push_back(Box::new(job));
    }

    /// Reads again what commits may have moved, and `gc` or this writer removed: the object `key`
    /// was not there.
    ///
    /// # Errors
    /// The request, if it still needs that object, and has insisted on it before.
    pub fn read_again(&mut self, mut job: ReadJob, key: &str, ended: &mut Ended) -> Result<(), Io> {
        let pieces = self.fill(&mut job.io);
        let is_needed = pieces.iter().any(|piece| piece.key() == key);
        if is_needed && job.is_repeated {
            return Err(job.io);
        }
        self.queue_read(job.io, pieces, is_needed, ended);
        Ok(())
    }

    /// Reads what a newer state has.
    pub fn read_newer(&mut self, job: ReadJob, ended: &mut Ended) {
        self.begin_read(job.io, ended);
    }

    /// Carries out what waits, as far as it can be now.
    fn settle(&mut self, ended: &mut Ended) {
        for io in std::mem::take(&mut self.requests.changes) {
            if self.fits(io.request()) {
                self.change(&io);
                ended.push(io, Ok(()));
            } else {
                self.requests.changes.push_back(io);
            }
        }
    }

    fn fits(&self, request: Request) -> bool {
        let chunk_bytes = u64::from(self.manifest().chunk_bytes);
        let end = request.offset_bytes.saturating_add(request.length_bytes);
        let last = (end - 1) / chunk_bytes;
        let chunks = request.offset_bytes / chunk_bytes..=last;
        if !self.uploads.lets_stage(&self.writer, chunks) {
            return false;
        }
        // A discard stages zeros at its ends.
        let ends = 2 * self.manifest().chunk_pages() as usize;
        let pages = match request.kind {
            IoKind::Discard => ends,
            _ => (request.length_bytes / PAGE_BYTES) as usize,
        };
        self.writer.staged_pages() + pages <= self.limits.staged_pages.max(ends)
    }

    fn change(&mut self, io: &Io) {
        let request = io.request();
        let first = request.offset_bytes / PAGE_BYTES;
        let end = (request.offset_bytes.saturating_add(request.length_bytes) / PAGE_BYTES)
            .min(self.manifest().pages());
        let chunk_pages = self.manifest().chunk_pages();
        if request.kind == IoKind::Write {
            for (index, page) in (first..end).enumerate() {
                self.writer
                    .stage_with(page, |bytes| io.copy_page(index, 0, bytes));
            }
            let chunks = first / chunk_pages..=(end - 1) / chunk_pages;
            return self.uploads.staged(&self.writer, chunks);
        }
        let mut page = first;
        while page < end {
            let chunk = page / chunk_pages;
            let chunk_end = ((chunk + 1) * chunk_pages).min(self.manifest().pages());
            if page == chunk * chunk_pages && chunk_end <= end {
                self.writer.discard(chunk);
                page = chunk_end;
                continue;
            }
            if self.writer.source(page) != Source::Zeros {
                self.writer.stage(page, &[0; PAGE]);
            }
            page += 1;
        }
    }

    /// Most uploads at once from now on: no more than memory allows.
    pub fn limit_uploads(&mut self, most: usize) {
        self.uploads.limit(most.min(self.limits.uploads));
    }

    /// A job that can be done now.
    pub fn next_job(&mut self, ended: &mut Ended) -> Option<Job> {
        if let Some(read) = self.requests.reads.pop_front() {
            return Some(Job::Read(read));
        }
        if self.role == Role::ReadOnly || self.is_fenced() {
            return None;
        }
        if let Some(job) = self.record.next_job() {
            return Some(job);
        }
        if self.role == Role::Writer {
            let (writer, is_stopped) = (&mut self.writer, self.is_stopped);
            if let Some(job) = self.upkeep.next_job(writer, &self.limits, is_stopped) {
                return Some(job);
            }
        }
        if !self.record.are_being_made()
            && !self.upkeep.is_behind(&self.writer, &self.limits)
            && self.begin_commit()
            && let Some(job) = self.next_of_commit(ended)
        {
            return Some(job);
        }
        self.next_of_close()
            .or_else(|| self.next_upload())
            .or_else(|| self.next_in_doubt())
    }

    /// A record in doubt keeps pages in memory: what waits for room alone waits for it.
    fn next_in_doubt(&mut self) -> Option<Job> {
        let is_idle = self.uploads.is_idle()
            && !self.record.are_being_made()
            && self.requests.committing.is_empty();
        if self.requests.changes.is_empty() || !is_idle || !self.writer.is_recording() {
            return None;
        }
        self.record.begin(Purpose::InDoubt)
    }

    fn begin_commit(&mut self) -> bool {
        if self.requests.committing.is_empty() {
            self.requests.committing = std::mem::take(&mut self.requests.commits);
            if !self.requests.committing.is_empty() {
                self.begun_commits += 1;
                self.writer.freeze();
                self.uploads.freeze();
            }
        }
        !self.requests.committing.is_empty()
    }

    fn next_of_commit(&mut self, ended: &mut Ended) -> Option<Job> {
        // One in doubt, of a commit that gave up, comes first.
        if self.writer.is_recording() {
            return self.record.begin(Purpose::InDoubt);
        }
        // Chunks that are planned are whole or many: a record is no place for them.
        if let Some(job) = self.start_upload(Scope::Record) {
            return Some(job);
        }
        let is_uploading = self.uploads.are_for_record(&self.writer);
        match self.writer.need() {
            Need::Nothing if !is_uploading => {
                self.commit_ends(Ok(()), ended);
                None
            }
            Need::Chunks(chunks) => {
                self.uploads.want(chunks);
                self.start_upload(Scope::Record)
            }
            Need::Record if !is_uploading => {
                self.writer.seal();
                self.record.begin(Purpose::Commit)
            }
            Need::Nothing | Need::Record => None,
        }
    }

    fn commit_ends(&mut self, result: Result<(), Failure>, ended: &mut Ended) {
        for io in self.requests.committing.drain(..) {
            ended.push(io, result);
        }
        if self.uploads.is_idle() && !self.writer.has_changes() {
            // A volume that rests keeps no memory for what may come.
            self.spares = Vec::new();
        }
        // What it was to hold and does not is for the next record.
        self.writer.thaw();
        self.uploads.thaw();
        self.settle(ended);
    }

    fn next_upload(&mut self) -> Option<Job> {
        if self.is_put_off {
            return None;
        }
        if self.writer.unrecorded_pages() * 2 > self.limits.staged_pages {
            self.uploads.much_is_staged(&self.writer);
        }
        self.start_upload(Scope::All)
    }

    fn start_upload(&mut self, scope: Scope) -> Option<Job> {
        let (chunk, name) = self.uploads.next(&mut self.writer, scope)?;
        let spare = self.spares.pop().unwrap_or_default();
        let mut job = UploadJob::new(&self.writer, scope, chunk, name, spare);
        job.failures_before = self.upload_failures;
        Some(Job::Upload(job))
    }

    /// Whether the object of `job` still serves for something. If the record gave up that it was
    /// for, it does not, and what it is made of may be gone.
    pub fn is_wanted(&self, job: &UploadJob) -> bool {
        self.writer.is_wanted(job.name)
    }

    /// An upload has ended, with the checksum of its object.
    pub fn uploaded(
        &mut self,
        job: UploadJob,
        result: Result<Option<u32>, Failure>,
        ended: &mut Ended,
    ) {
        self.uploads.ended(job.chunk);
        if job.bytes.capacity() > 0 {
            // There are as many at most as uploads were under way at a time.
            self.spares.push(job.bytes);
        }
        match result {
            Ok(made) => {
                match made {
                    Some(crc) => self.writer.made_with(job.chunk, job.name, crc),
                    None => self.writer.made_zeros(job.chunk, job.name),
                }
                self.settle(ended);
            }
            Err(failure) => {
                self.writer.not_made(job.name);
                if job.failures_before < self.upload_failures {
                    // What waited for it then has ended. What waits now came later, perhaps to a
                    // bucket that is well again: it asks for the chunk again.
                    return self.settle(ended);
                }
                self.upload_failures += 1;
                self.is_put_off = true;
                self.uploads.clear();
                self.fail_waiting(failure, ended);
            }
        }
    }

    /// Ends what waits for uploads. What is staged stays, and so does what a failed write was to
    /// change: its submitter has it still.
    fn fail_waiting(&mut self, failure: Failure, ended: &mut Ended) {
        for io in self.requests.changes.drain(..) {
            ended.push(io, Err(failure));
        }
        if !self.record.are_being_made() {
            self.commit_ends(Err(failure), ended);
        }
    }

    /// What to ask for this copy of the record that is being made.
    pub fn next_call(&self, twin: Twin) -> Option<Call> {
        self.writer.next(twin)
    }

    /// Takes the answer.
    ///
    /// # Errors
    /// [`VolumeFault::Fenced`]: another writer has the volume.
    pub fn answer(&mut self, twin: Twin, reply: Reply) -> Result<Progress<()>, VolumeFault> {
        self.writer.answer(twin, reply)
    }

    /// A copy of a record has ended.
    pub fn copied(&mut self, result: Result<(), Failure>, ended: &mut Ended) {
        if let Some((purpose, result)) = self.record.ended(result, self.writer.is_fenced()) {
            self.recorded(purpose, result, ended);
        }
    }

    fn recorded(&mut self, purpose: Purpose, result: Result<(), Failure>, ended: &mut Ended) {
        if self.is_fenced() {
            return self.end_fenced(ended);
        }
        if purpose == Purpose::Last {
            if let Some(closing) = self.closing.take() {
                closing(result.is_ok());
            }
            return;
        }
        match result {
            Ok(()) if purpose == Purpose::Commit => {
                self.upkeep.recorded();
                self.commit_ends(Ok(()), ended);
            }
            // It was one in doubt; there may be room.
            Ok(()) => self.settle(ended),
            Err(failure) if self.requests.committing.is_empty() => {
                self.fail_waiting(failure, ended);
            }
            Err(failure) => self.commit_ends(Err(failure), ended),
        }
    }

    fn end_fenced(&mut self, ended: &mut Ended) {
        self.uploads.clear();
        self.requests.committing.append(&mut self.requests.commits);
        for io in self
            .requests
            .committing
            .drain(..)
            .chain(self.requests.changes.drain(..))
        {
            ended.push(io, Err(Failure::Fenced));
        }
        if let Some(closing) = self.closing.take() {
            closing(false);
        }
    }

    /// Pages were read that are to be moved.
    pub fn moved(&mut self, pages: Vec<(u64, InlinePage, Vec<u8>)>) {
        for (page, from, bytes) in pages {
            self.writer.moved(page, from, bytes);
        }
    }

    /// The job of the map with this key has ended; without a result it was not made.
    pub fn mapped(&mut self, key: &str, made: Option<Appended>) {
        self.upkeep.mapped(&mut self.writer, key, made);
    }

    /// A removal of `count` objects has ended.
    pub fn removed(&mut self, count: usize, removed: Removed) {
        self.upkeep.removed(&mut self.writer, count, removed);
    }

    /// Leaves the volume to others, if nothing is left to commit. `closing` is called when that is
    /// done, or cannot be done.
    pub fn close(&mut self, closing: Closing) {
        match self.role {
            Role::ReadOnly => return closing(true),
            Role::Closed => return closing(!self.writer.is_recording()),
            Role::Writer => {}
        }
        if self.is_fenced() || self.closing.is_some() {
            return closing(false);
        }
        self.closing = Some(closing);
    }

    fn next_of_close(&mut self) -> Option<Job> {
        let is_idle = self.uploads.is_idle()
            && !self.record.are_being_made()
            && self.requests.committing.is_empty()
            && self.requests.changes.is_empty();
        if self.closing.is_none() || !is_idle {
            return None;
        }
        if !self.writer.is_recording() && !self.writer.has_changes() {
            // Whatever becomes of the record: no commit can follow it.
            self.role = Role::Closed;
            self.writer.close();
            return self.record.begin(Purpose::Last);
        }
        if let Some(closing) = self.closing.take() {
            closing(false);
        }
        None
    }

    /// Lets the threads end once nothing is left.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// The run from byte `offset_bytes` to at most `end_bytes`.
    pub fn extent_at(&self, offset_bytes: u64, end_bytes: u64) -> Extent {
        let chunk_bytes = u64::from(self.manifest().chunk_bytes);
        let end_bytes_in = end_bytes.min(self.manifest().length_bytes);
        let is_hole = |chunk: u64| chunk >= self.manifest().chunks() || self.writer.is_hole(chunk);
        let first = offset_bytes / chunk_bytes;
        let kind = is_hole(first);
        let mut chunk = first + 1;
        while chunk * chunk_bytes < end_bytes_in && is_hole(chunk) == kind {
            chunk += 1;
        }
        let end = if chunk * chunk_bytes >= end_bytes_in {
            end_bytes
        } else {
            chunk * chunk_bytes
        };
        Extent {
            end_bytes: end,
            is_hole: kind,
        }
    }
}
