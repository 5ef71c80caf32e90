//! The one place that writes file pages: a run of tagged neighbours becomes one large request.
//!
//! It allocates nothing, reclaims nothing and calls no flow that does. The flusher and `sync` call
//! it, and reclaim only under historic policies.

use crate::marks::Mark;
use crate::parts::Writeback;
use crate::state::activity::Part;
use crate::state::backing::Backing;
use crate::state::dirty_index::{Pass, Run, Tag, Takes};
use crate::state::frame::{Refused, claimable, flag, piece_of};
use crate::state::index::{INDEX_BITS, key};
use crate::state::object::ObjectState;
use crate::state::outstanding::token;
use crate::state::stamp::Stamp;
use crate::state::write_cut::{WriteCut, unit_end};
use forebay_base::PAGE_BYTES;
use forebay_base::sync::{atomic::Ordering, lock};
use forebay_base::units::byte_of;
use forebay_rt::Work;
use forebay_store::{Durability, IoKind, PagePointer, Request};
use std::ops::Range;

/// The pages of a run that are still to be claimed.
struct LeftOfRun {
    pages: Range<u64>,
    since: Stamp,
}

/// The pages that were claimed for one request.
#[derive(Default)]
struct Neighbours {
    count: usize,
    /// The flags that say how their writes failed before.
    history: u64,
}

/// The result of a claim.
enum Claim {
    Taken(PagePointer),
    /// It belongs in a request of its own: the pages before it failed less often, or more often.
    Apart,
    /// Somebody holds it. It stays tagged.
    Busy,
    /// It is clean, or gone.
    Clean,
    /// It lies past the end, or contains the end: a cut of the object is about to drop it, or to
    /// put the end back.
    Cut,
}

/// Neighbours that were claimed.
struct Claimed {
    first: u64,
    pages: Vec<PagePointer>,
    /// The object's length before the first claim.
    length_bytes: u64,
    /// Since when the oldest of them is dirty, or longer.
    since: Stamp,
}

/// Which pages to write.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    pub(crate) tag: Tag,
    pub(crate) pages: Range<u64>,
    /// At most this many, and the dirty pages after them in the store's last unit.
    pub(crate) limit: u64,
    /// The caller waits until they are written.
    pub(crate) is_awaited: bool,
    /// The caller makes them durable afterwards.
    pub(crate) is_synced: bool,
    /// When the pass of the flusher began that writes them.
    pub(crate) pass: Option<Stamp>,
}

/// How a run is submitted.
#[derive(Clone, Copy, Debug)]
struct Manner {
    sequence: u64,
    is_awaited: bool,
    asks_durable: bool,
}

impl Selection {
    /// Every page of `pages` with `tag`.
    pub(crate) fn all(tag: Tag, pages: Range<u64>) -> Selection {
        Selection {
            tag,
            pages,
            limit: u64::MAX,
            is_awaited: false,
            is_synced: false,
            pass: None,
        }
    }

    /// The same for a caller that waits until they are written.
    pub(crate) fn awaited(self) -> Selection {
        Selection {
            is_awaited: true,
            ..self
        }
    }

    /// The same for a caller that waits, and makes durable what was written.
    pub(crate) fn synced(self) -> Selection {
        Selection {
            is_synced: true,
            ..self.awaited()
        }
    }
}

impl Writeback {
    /// Submits the selected pages, lowest offset first. Waits while the store has as many writes as
    /// keep it busy. Returns the pages submitted and the first page that was not looked at.
    pub(crate) async fn writeout(
        &self,
        backing: &Backing,
        object: &ObjectState,
        selection: Selection,
    ) -> (u64, u64) {
        let Selection {
            tag,
            mut pages,
            limit,
            is_awaited,
            is_synced,
            pass,
        } = selection;
        let unit_pages = u64::from(backing.geometry.write_unit_pages);
        let most = self.longest_write(backing);
        let mut submitted = 0;
        let mut from = pages.start;
        loop {
            let left_pages = limit.saturating_sub(submitted);
            if left_pages == 0 {
                // A unit that was begun is not left for another turn.
                pages.end = pages.end.min(unit_end(from, unit_pages));
                if from >= pages.end {
                    return (submitted, from);
                }
            }
            self.until_store_takes_more(backing, most).await;
            let cut = WriteCut {
                left_pages,
                most_pages: most,
                unit_pages,
            };
            // The number first: a sync that finds a page untagged waits for the rounds that may
            // have taken it.
            let sequence = backing.write_begins(object.number);
            let (end, range) = (|first| cut.end(first), from..pages.end);
            let now = || Stamp::at(self.accounts.now_ms());
            let pass = pass.map(|began| Pass { began, now: now() });
            let takes = Takes { tag, pass };
            let (taken, is_last) = {
                let mut dirty = lock(&object.dirty);
                let taken = dirty.take_run(&self.pages.slab, takes, range, end);
                let all = pages.clone();
                let is_last = is_synced && dirty.next_tagged(&self.pages.slab, tag, all).is_none();
                (taken, is_last)
            };
            let is_only = is_last && submitted == 0;
            let manner = Manner {
                sequence,
                is_awaited,
                asks_durable: is_only && owes_no_commit(backing, object),
            };
            let done = taken.map(|run| self.submit_run(backing, object, run, manner));
            let oldest = backing.write_ends(object.number, sequence);
            object.in_flight.written.wake_up_to(oldest);
            let Some((count, next)) = done else {
                return (submitted, pages.end);
            };
            submitted += count;
            if count > 0 {
                // A store that answers at once has ended the writes by now.
                backing.end_retry(object);
            }
            let charge = self.rt.charge(Work::Writeback { pages: count });
            charge.and(Work::Request { count: 1 }).await;
            from = next;
        }
    }

    /// Pages of the longest write of a file to this store.
    fn longest_write(&self, backing: &Backing) -> u64 {
        if backing.writes.vectors.pages() > self.pages.vectors.pages() {
            // Its file system makes requests of it (`write_depth=turns`).
            return backing.writes.vectors.pages() as u64;
        }
        (self.pages.vectors.pages() as u64).min(u64::from(backing.geometry.max_io_pages))
    }

    /// Waits while the store has as many pages to write as it can write in a fifth of a second:
    /// enough to keep it busy, few enough that a read after them is answered soon. Pages are
    /// counted, not requests: the single pages that reclaim writes must not keep the flusher from
    /// its runs.
    async fn until_store_takes_more(&self, backing: &Backing, pages_of_a_write: u64) {
        loop {
            let listener = backing.writes.ended.listen();
            let average = lock(&backing.rates).bandwidth.average_pages_per_s;
            // This many certainly have a vector.
            let deep = backing.writes.vectors.count() as u64;
            let allowed = (average / 5 / pages_of_a_write).clamp(backing.writes.least, deep);
            let pages = backing.writes.pages_in_flight.load(Ordering::Acquire);
            // Page-outs to swap on the same store have vectors of their own: they may keep the
            // queue full for as long as memory is short, and writes of files have to get in
            // between.
            let requests = u64::from(backing.writes.files_in_flight.load(Ordering::Acquire));
            if requests < deep && pages.div_ceil(pages_of_a_write) < allowed {
                return;
            }
            listener.await;
        }
    }

    /// Submits a dirty page of an object for reclaim, which waits for nothing, with the dirty pages
    /// after it that its file system writes with it. False if somebody holds the first of them, it
    /// is clean by now, or too many writes are under way.
    pub fn write_page(&self, backing: &Backing, object: &ObjectState, page: u64) -> bool {
        let sequence = backing.write_begins(object.number);
        let takes = Takes {
            tag: Tag::Dirty,
            pass: None,
        };
        let end = page.saturating_add(u64::from(backing.older.reclaim_run_pages.max(1)));
        let taken = {
            let mut dirty = lock(&object.dirty);
            let is_dirty = dirty
                .next_tagged(&self.pages.slab, Tag::Dirty, page..page + 1)
                .is_some();
            is_dirty
                .then(|| dirty.take_run(&self.pages.slab, takes, page..end, |_| end))
                .flatten()
        };
        let manner = Manner {
            sequence,
            is_awaited: false,
            asks_durable: false,
        };
        let done = taken.map(|run| self.submit_run(backing, object, run, manner));
        let oldest = backing.write_ends(object.number, sequence);
        object.in_flight.written.wake_up_to(oldest);
        let is_submitted = done.is_some_and(|(submitted, _)| submitted > 0);
        if is_submitted {
            backing.end_retry(object);
        }
        is_submitted
    }

    /// Claims the pages of a taken run and submits those that it could claim, in as few requests as
    /// the gaps and the vectors allow. Returns how many, and the first page for which there was no
    /// vector.
    fn submit_run(
        &self,
        backing: &Backing,
        object: &ObjectState,
        run: Run,
        mut manner: Manner,
    ) -> (u64, u64) {
        let mut submitted = 0;
        let mut left = LeftOfRun {
            pages: run.first..run.first + run.pages,
            since: run.since,
        };
        while !left.pages.is_empty() {
            let most = left.pages.end - left.pages.start;
            let Some(vector) = self.vector_for_writing(backing, most) else {
                let mut dirty = lock(&object.dirty);
                for page in left.pages.clone() {
                    // A sync may have tagged it, whichever caller took it.
                    dirty.untake(&self.pages.slab, page, Tag::ToWrite, run.since);
                }
                break;
            };
            let claimed = self.claim_neighbours(backing, object, &mut left, vector);
            submitted += claimed.pages.len() as u64;
            if claimed.pages.is_empty() {
                self.give_back(backing, claimed.pages);
            } else {
                manner.asks_durable &= claimed.pages.len() as u64 == run.pages;
                self.submit_write(backing, object, claimed, manner);
            }
        }
        (submitted, left.pages.start)
    }

    /// An empty vector for a write of `pages` pages or, if no vector is that long, of fewer. None
    /// if too many writes are under way: a vector comes back when one of them ends.
    fn vector_for_writing(&self, backing: &Backing, pages: u64) -> Option<Vec<PagePointer>> {
        let is_short = pages <= backing.writes.vectors.pages() as u64;
        let long = if is_short {
            None
        } else {
            self.pages.vectors.take_idle()
        };
        long.or_else(|| backing.writes.vectors.take_idle())
            .or_else(|| self.pages.vectors.take_idle())
    }

    /// Takes the vector of a write to `backing` back.
    pub(crate) fn give_back(&self, backing: &Backing, vector: Vec<PagePointer>) {
        let is_longer = vector.capacity() > self.pages.vectors.pages();
        let is_own = is_longer && backing.writes.vectors.pages() > self.pages.vectors.pages();
        if is_own || self.pages.vectors.is_too_short(&vector) {
            backing.writes.vectors.give_back(vector);
        } else {
            self.pages.vectors.give_back(vector);
        }
    }

    /// Claims neighbours from the front of `left` until a claim fails or the vector is full.
    /// Removes the pages that it looked at from `left`.
    fn claim_neighbours(
        &self,
        backing: &Backing,
        object: &ObjectState,
        left: &mut LeftOfRun,
        mut vector: Vec<PagePointer>,
    ) -> Claimed {
        let length_bytes = object.length_bytes();
        let since = left.since;
        let mut first = left.pages.start;
        let mut neighbours = Neighbours::default();
        while let Some(page) = left.pages.next() {
            self.prefetch_claims(object, page);
            match self.claim(backing, object, page, &mut neighbours) {
                Claim::Apart => {
                    left.pages.start = page;
                    break;
                }
                Claim::Taken(pointer) => {
                    if vector.is_empty() {
                        first = page;
                    }
                    vector.push(pointer);
                    neighbours.count += 1;
                    if vector.len() == vector.capacity() {
                        break;
                    }
                    continue;
                }
                // A sync may have tagged it, whichever caller took it: it is to be written in any
                // case.
                Claim::Busy => {
                    self.accounts.mark(Mark::WriteoutBusy);
                    lock(&object.dirty).untake(&self.pages.slab, page, Tag::ToWrite, since);
                }
                // It stays tagged for the cut that drops it. A sync waits until the cut is done, or
                // has failed and the page is there to be written.
                Claim::Cut => {
                    self.accounts.mark(Mark::WriteoutCut);
                    lock(&object.dirty).untake(&self.pages.slab, page, Tag::ToWrite, since);
                }
                Claim::Clean => {
                    self.accounts.mark(Mark::WriteoutClean);
                    lock(&object.dirty).landed(&self.pages.slab, page);
                    self.pages.slab.freed.wake_all();
                }
            }
            if !vector.is_empty() {
                break;
            }
        }
        Claimed {
            first,
            pages: vector,
            length_bytes,
            since,
        }
    }

    /// Fetches ahead what the claims of the next pages will touch.
    #[inline]
    fn prefetch_claims(&self, object: &ObjectState, page: u64) {
        const BUCKETS_AHEAD: u64 = 8;
        const FRAMES_AHEAD: u64 = 4;
        const LAST_PAGE: u64 = (1 << INDEX_BITS) - 1;
        let ahead = |pages: u64| key(object.number, (page + pages).min(LAST_PAGE));
        self.memory.index.prefetch(ahead(BUCKETS_AHEAD));
        let next = ahead(FRAMES_AHEAD);
        if let Some(frame) = self.memory.index.candidate(next) {
            self.memory.frames.prefetch_frame(frame);
        }
    }

    /// Claims `page` after its neighbours, if its write failed as theirs did.
    fn claim(
        &self,
        backing: &Backing,
        object: &ObjectState,
        page: u64,
        neighbours: &mut Neighbours,
    ) -> Claim {
        let key = key(object.number, page);
        let Some(frame) = self.memory.find_surely(key) else {
            return Claim::Clean;
        };
        if object.is_cut_at(page) {
            return Claim::Cut;
        }
        // The hold keeps the frame from being given to another page between look and claim.
        let hold = match self.memory.frames.hold(frame, key) {
            Ok(hold) => hold,
            Err(Refused::Busy) => return Claim::Busy,
            Err(Refused::Gone) => return Claim::Clean,
        };
        let of_page = hold.word() & (flag::FAILED | flag::PIECE);
        let taken = neighbours.count;
        if taken > 0 && (neighbours.history != of_page || taken >= piece_of(of_page)) {
            return Claim::Apart;
        }
        neighbours.history = of_page;
        let found = self.memory.frames.claim_for_writing(frame);
        drop(hold);
        if !claimable(found) {
            let is_dirty = found & flag::DIRTY != 0;
            return if is_dirty { Claim::Busy } else { Claim::Clean };
        }
        if found & flag::FAILED != 0 {
            self.dirty.account_failure_over(backing, object);
        }
        Claim::Taken(self.memory.frames.arena().pointer(frame))
    }

    fn submit_write(
        &self,
        backing: &Backing,
        object: &ObjectState,
        claimed: Claimed,
        manner: Manner,
    ) {
        let Claimed {
            first,
            pages,
            length_bytes: length_before,
            since,
        } = claimed;
        let offset_bytes = byte_of(first);
        let whole_bytes = (pages.len() * PAGE_BYTES) as u64;
        // The object may have grown since the claims. It may also have been cut since. Then the
        // write still goes up to the old end, because the cut waits for it and the store may refuse
        // the cut.
        let end_bytes = object.length_bytes().max(length_before);
        let to_end = end_bytes.saturating_sub(offset_bytes);
        let least_bytes = whole_bytes - PAGE_BYTES as u64 + 1;
        let length_bytes = to_end.clamp(least_bytes, whole_bytes);
        let request = Request {
            kind: IoKind::Write,
            object: object.store_object(),
            offset_bytes,
            length_bytes,
        };
        let Manner {
            sequence,
            is_awaited,
            asks_durable,
        } = manner;
        self.dirty.account_claimed(backing, &pages);
        backing.write_joins(sequence, since);
        backing.writes.in_flight.fetch_add(1, Ordering::AcqRel);
        backing
            .writes
            .files_in_flight
            .fetch_add(1, Ordering::AcqRel);
        let in_flight = &backing.writes.pages_in_flight;
        in_flight.fetch_add(pages.len() as u64, Ordering::AcqRel);
        self.dirty.activity_begins(backing, Part::Request);
        object.in_flight.changes.fetch_add(1, Ordering::AcqRel);
        let io = self.page_io(backing, request, pages, token(object.number, sequence));
        let stored = first + whole_bytes / PAGE_BYTES as u64;
        object
            .length
            .stored_pages
            .fetch_max(stored, Ordering::Relaxed);
        let io = if is_awaited { io.awaited() } else { io };
        let io = if asks_durable { io.durable() } else { io };
        let io = if object.is_known_to_reach(offset_bytes + length_bytes) {
            io
        } else {
            io.growing()
        };
        self.submit(backing, io);
        backing.queue_changed();
    }
}

/// Whether nothing of `object` waits for a commit, and none is under way that may be shared.
/// Then a sync that is a single write needs none either, if that write is made durable by
/// itself.
fn owes_no_commit(backing: &Backing, object: &ObjectState) -> bool {
    backing.geometry.durability == Durability::OnCommit
        && !object.length.unsynced.load(Ordering::Acquire)
        && backing.changes_to_commit(object).is_none()
        && !object.syncing.commits.is_under_way()
}
