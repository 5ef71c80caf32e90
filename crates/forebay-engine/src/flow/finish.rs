//! What happens when a store finishes a request: the one place where control comes from below.
//!
//! Called on the store's threads; it takes short locks, waits for nothing and allocates nothing.

use crate::counters::Counter;
use crate::event::Event;
use crate::marks::Mark;
use crate::parts::Writeback;
use crate::state::activity::Part;
use crate::state::backing::{Backing, Enqueued};
use crate::state::commit_line::Committed;
use crate::state::dirty_index::Tag;
use crate::state::flusher_requests::FlusherWork;
use crate::state::frame::{flag, halved};
use crate::state::index::page_of as index_of;
use crate::state::object::ObjectState;
use crate::state::outstanding::of_token;
use crate::state::read_meter::MEASURED;
use crate::state::stamp::Stamp;
use forebay_base::sync::{atomic::Ordering, lock};
use forebay_base::units::page_of;
use forebay_store::{Durability, Finish, FinishedIo, IoKind, StoreError};

/// A write that its store refused.
#[derive(Clone, Copy)]
struct FailedWrite<'a> {
    io: &'a FinishedIo,
    /// Since when its pages have been dirty.
    since: Stamp,
    error: StoreError,
}

impl Finish for Writeback {
    fn finished(&self, io: FinishedIo) {
        let (number, sequence) = of_token(io.token);
        let object = self
            .pages
            .objects
            .get(number)
            .expect("an object with requests is in the table");
        match io.request.kind {
            IoKind::Read => {
                self.read_finished(&object, &io);
                let backing = self.dirty.backing_of(&object);
                self.accounts.note_answer(&backing, &io);
                backing.answers.reads.ends(
                    io.pages.len() as u64,
                    sequence == MEASURED,
                    io.result.is_ok(),
                    || self.rt.now(),
                );
                self.dirty.activity_ends(&backing, Part::Aside);
                self.reads_in_flight.fetch_sub(1, Ordering::Relaxed);
                self.pages.vectors.give_back(io.pages);
                object.in_flight.reads.fetch_sub(1, Ordering::AcqRel);
                return;
            }
            IoKind::Write if object.is_anonymous() => self.page_out_finished(&object, io),
            IoKind::Write => return self.write_finished(&object, io, sequence),
            IoKind::Commit => return self.commit_finished(&object, &io),
            other => unreachable!("{other:?} is finished by its ticket"),
        }
        object.in_flight.changes.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Writeback {
    fn read_finished(&self, object: &ObjectState, io: &FinishedIo) {
        let pages = io.pages.len() as u64;
        let counter = match io.result {
            Ok(()) => Counter::Pgpgin,
            Err(_) => Counter::NrReadFailed,
        };
        self.accounts.count(counter, pages);
        if let Err(error) = io.result {
            self.accounts.mark(if object.is_anonymous() {
                Mark::SwapReadFailed
            } else {
                Mark::ReadFailed
            });
            // A request to swap knows slots. The frames know the pages.
            let first = self
                .memory
                .frames
                .owner(self.memory.frames.frame_at(&io.pages[0]));
            let first = index_of(first);
            object.note_read_failure(first..first + pages, error);
        }
        let is_anonymous = object.is_anonymous();
        for page in &io.pages {
            let frame = self.memory.frames.frame_at(page);
            if io.result.is_ok() {
                if is_anonymous {
                    self.memory.anonymous_is_clean();
                }
                self.memory.frames.end_fill(frame);
            } else {
                self.memory.release_page(self.memory.frames.adopt(frame));
            }
        }
    }

    fn write_finished(&self, object: &ObjectState, io: FinishedIo, sequence: u64) {
        let backing = self.dirty.backing_of(object);
        self.accounts.note_answer(&backing, &io);
        let pages = io.pages.len() as u64;
        let is_taken = io.result.is_ok();
        let since = backing.dirty_since(sequence);
        let refused = |error| FailedWrite {
            io: &io,
            since,
            error,
        };
        match io.result {
            Ok(()) => {
                object.is_known_up_to(io.request.offset_bytes + io.request.length_bytes);
                self.pages_written(object, &backing, &io, since);
            }
            Err(error) => self.pages_failed(object, &backing, refused(error)),
        }
        backing.count_written(pages, is_taken);
        if is_taken {
            // A store that refuses is tried again and again, and answers at once: it would have
            // most of the limit on dirty pages, and the others next to nothing.
            self.dirty
                .global
                .complete(&backing, pages, self.accounts.now_ms());
        }
        self.accounts.count(Counter::NrWritten, pages);
        if is_taken {
            self.accounts.count(Counter::Pgpgout, pages);
        }
        self.memory.note_written(&io.pages);
        let oldest = backing.write_ends(object.number, sequence);
        if is_taken {
            backing.end_retry(object);
        }
        backing
            .writes
            .pages_in_flight
            .fetch_sub(pages, Ordering::AcqRel);
        // The vector first: a writer that sees one write less takes it.
        self.give_back(&backing, io.pages);
        backing
            .writes
            .files_in_flight
            .fetch_sub(1, Ordering::AcqRel);
        self.dirty.activity_ends(&backing, Part::Request);
        backing.write_is_over();
        // Whoever is woken may ask whether everything is written.
        object.in_flight.changes.fetch_sub(1, Ordering::AcqRel);
        object.in_flight.written.wake_up_to(oldest);
        self.pages.slab.freed.wake_all();
    }

    /// A commit that was one request has ended (`flow/commit.rs` began it).
    fn commit_finished(&self, object: &ObjectState, io: &FinishedIo) {
        let backing = self.dirty.backing_of(object);
        self.accounts.note_answer(&backing, io);
        self.dirty.activity_ends(&backing, Part::Request);
        let result = match io.result {
            Ok(()) => {
                object.note_committed(object.syncing.commits.covered());
                let since = lock(&object.dirty).uncommitted.commit_ends();
                self.dirty.note_durable(&backing, since);
                Committed::Durable
            }
            Err(refusal) => {
                lock(&object.dirty).uncommitted.commit_failed();
                self.accounts.mark(Mark::CommitFailed);
                // The pages are clean, and the store may have lost them.
                object.failures.errors.set_loss(refusal);
                Committed::Failed(refusal)
            }
        };
        object.in_flight.changes.fetch_sub(1, Ordering::AcqRel);
        object.syncing.commits.end(result);
    }

    /// Pages that were dirty since `since` at the longest are written.
    fn pages_written(
        &self,
        object: &ObjectState,
        backing: &Backing,
        io: &FinishedIo,
        since: Stamp,
    ) {
        backing.write_taken(object, self.accounts.now_ms());
        let first = page_of(io.request.offset_bytes);
        let unstable = backing.geometry.durability == Durability::Unstable;
        if io.is_durable && !backing.commits.makes_durable.load(Ordering::Relaxed) {
            backing.commits.makes_durable.store(true, Ordering::Relaxed);
        }
        if unstable {
            // Before the pages are marked: a commit that sees them takes them out of the books.
            self.dirty
                .account_uncommitted(backing, io.pages.len() as u64);
        } else {
            let mut dirty = lock(&object.dirty);
            if !io.is_durable && backing.geometry.durability == Durability::OnCommit {
                object.written_since(&mut dirty, since);
            }
            if !io.is_durable {
                // Before the pages count as written: a sync that finds them written has to commit
                // them.
                object.changed();
            }
            for page in first..first + io.pages.len() as u64 {
                dirty.landed(&self.pages.slab, page);
            }
        }
        if !unstable {
            self.dirty.account_written(backing, &io.pages);
        }
        if io.is_durable || backing.geometry.durability == Durability::OnFinish {
            self.dirty.note_durable(backing, Some(since));
        }
        let mut rotated = 0;
        for page in &io.pages {
            let frame = self.memory.frames.frame_at(page);
            if unstable {
                self.memory.frames.set(frame, flag::UNSTABLE);
            } else {
                rotated += u64::from(self.memory.rotate_reclaimable(frame));
            }
            self.memory.frames.clear(frame, flag::WRITEBACK);
        }
        if unstable {
            // After the pages are marked: a commit that covers this change has to see them.
            let mut dirty = lock(&object.dirty);
            object.written_since(&mut dirty, since);
            object.changed();
        }
        self.accounts.count(Counter::Pgrotated, rotated);
    }

    /// Pages whose write failed are dirty again: nothing is dropped (promise 2).
    fn pages_failed(&self, object: &ObjectState, backing: &Backing, failed: FailedWrite<'_>) {
        let FailedWrite { io, since, error } = failed;
        // Some of them may be good: they are tried again in halves, down to single pages.
        let is_split = io.pages.len() > 1;
        let piece = if is_split { halved(io.pages.len()) } else { 0 };
        let waits = !(is_split && lock(&object.queueing).retry.takes_split());
        let table = &self.memory.frames;
        let frames = || io.pages.iter().map(|page| table.frame_at(page));
        for frame in frames() {
            // The flag before the tag: a flusher that takes a tagged page without the flag believes
            // it clean.
            if table.set(frame, flag::DIRTY | flag::FAILED | piece) & flag::DIRTY == 0 {
                self.dirty.account_dirty(backing, frame);
            } else {
                self.accounts.mark(Mark::WriteFailedDirtyAgain);
            }
        }
        self.accounts.mark(Mark::WriteFailed);
        let pages = io.pages.len() as u64;
        let first = page_of(io.request.offset_bytes);
        {
            // In one step: a sync finds its pages dirty again, or gets the failure.
            let mut dirty = lock(&object.dirty);
            for page in first..first + pages {
                if waits {
                    dirty.refuse(&self.pages.slab, page, since);
                } else {
                    dirty.untake(&self.pages.slab, page, Tag::Dirty, since);
                }
            }
            object.failures.errors.set(error);
        }
        self.dirty.account_written(backing, &io.pages);
        backing.note_failure(error.failure, self.accounts.now_ms());
        // Before another caller can take them and subtract them.
        self.dirty.account_failed(backing, object, pages);
        for frame in frames() {
            self.memory
                .frames
                .clear(frame, flag::WRITEBACK | flag::RECLAIM);
        }
        // The flusher tries the halves, or makes sure that the object has its next try in time.
        let asks = !waits || {
            let (next, pardons) = (backing.next_sequence(), backing.pardons());
            let retry = &mut lock(&object.queueing).retry;
            retry.write_refused(self.accounts.now_ms(), of_token(io.token).1, next, pardons)
        };
        self.requeue_dirty(object, backing);
        if asks {
            backing.flushing.requests.ask(FlusherWork {
                retry: true,
                ..FlusherWork::default()
            });
        }
        self.accounts.record(&Event::WritebackFailed {
            bdi: backing.number,
            ino: object.store_object().0,
            pages,
            errno: error.failure.errno(),
        });
    }

    /// The object's next wait before a try is twice as long as its last one.
    pub(crate) fn put_off(&self, object: &ObjectState, backing: &Backing) {
        let (next, pardons) = (backing.next_sequence(), backing.pardons());
        let retry = &mut lock(&object.queueing).retry;
        retry.put_off(self.accounts.now_ms(), next, pardons);
    }

    /// Puts an object that has dirty pages again on its flusher's list.
    pub(crate) fn requeue_dirty(&self, object: &ObjectState, backing: &Backing) {
        let object = self
            .pages
            .objects
            .get(object.number)
            .expect("an object with dirty pages is known");
        if backing.enqueue(&object, || self.accounts.now_ms()) != Enqueued::NotFirst {
            backing.flushing.requests.wake();
        }
    }
}
