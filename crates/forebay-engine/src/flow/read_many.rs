//! Many reads in one call. The pages of all of them are looked up first. Then as many reads of the
//! store as it usually takes are kept under way, and what has come in is copied in the order of the
//! requests.
//!
//! Reads are begun only when the next request has to wait. So several of them are handed to the
//! kernel together. A thread that takes the answers of the store itself begins more for those that
//! have come in, whichever they are. The call holds no page and no frame while it waits, so it may
//! be dropped anywhere: what is under way ends by itself.

use crate::counters::Counter;
use crate::error::AccessError;
use crate::event::CallKind;
use crate::file::{MOST_UNDER_WAY, ReadRequest};
use crate::flow::fill::{FillPlan, Touch};
use crate::handle::Handle;
use crate::memory::Memory;
use crate::parts::Files;
use crate::state::frame::{FrameTable, flag};
use crate::state::index::{LONGEST_BYTES, key};
use crate::state::object::ObjectState;
use forebay_base::PAGE_BYTES;
use forebay_base::units::{byte_of, page_of};
use forebay_law::blame::Cause;
use forebay_rt::driver::NextTurn;
use forebay_rt::wait::either;

/// So many times as many requests as may be under way are begun before the first of them has ended,
/// because some end sooner than others. Their pages have to stay in memory until they are copied.
const BEGUN_TIMES: usize = 2;

/// Pages for which a call has begun a read. Those that have come in are forgotten when it is asked
/// for room.
struct UnderWay {
    pages: [(u32, u64); MOST_UNDER_WAY],
    count: usize,
    /// How many there may be.
    most: usize,
}

impl UnderWay {
    fn none(most: usize) -> UnderWay {
        UnderWay {
            pages: [(0, 0); MOST_UNDER_WAY],
            count: 0,
            most: most.clamp(1, MOST_UNDER_WAY),
        }
    }

    fn note(&mut self, frame: u32, key: u64) {
        self.pages[self.count] = (frame, key);
        self.count += 1;
    }

    fn has_room(&self) -> bool {
        self.count < self.most
    }

    /// Forgets the pages that a store no longer fills.
    fn forget_settled(&mut self, frames: &FrameTable) {
        let mut kept = 0;
        for at in 0..self.count {
            let (frame, key) = self.pages[at];
            if frames.word(frame) & flag::EXCLUSIVE != 0 && frames.owner(frame) == key {
                self.pages[kept] = (frame, key);
                kept += 1;
            }
        }
        self.count = kept;
    }
}

/// How far a call has begun to read.
struct Ahead {
    under_way: UnderWay,
    /// The requests before this one are begun.
    begun: usize,
    goes_on: bool,
}

impl Ahead {
    /// Whether one more is begun now, if the request at `at` waits, and those from `end` on have
    /// time.
    fn begins_more(&self, at: usize, end: usize) -> bool {
        let is_due = self.begun == at || self.goes_on;
        self.begun < end && self.under_way.has_room() && is_due
    }
}

impl Files {
    /// Reads what [`Memory::read_many_resident`] left, with at most `most` reads of the store under
    /// way. A store that fails for one request does not end the others; the first failure in the
    /// order of the requests is returned.
    pub(crate) async fn read_many(
        &self,
        handle: &Handle,
        requests: &mut [ReadRequest<'_>],
        most: usize,
    ) -> Result<(), AccessError> {
        let mut ahead = Ahead {
            under_way: UnderWay::none(most),
            begun: 0,
            goes_on: true,
        };
        let mut first_failure = Ok(());
        for at in 0..requests.len() {
            if self.memory.read_on(handle, &mut requests[at]) {
                continue;
            }
            let mut read = self.begin_ahead(handle, requests, at, &mut ahead).await;
            if read.is_ok() {
                read = self.end_read(handle, &mut requests[at]).await;
            }
            match read {
                Err(error @ AccessError::Store(_)) => first_failure = first_failure.and(Err(error)),
                // Memory, or the whole store: the others would wait for the same.
                Err(error) => {
                    first_failure = first_failure.and(Err(error));
                    break;
                }
                Ok(()) => {}
            }
        }
        self.accounts.told(CallKind::Read, first_failure)
    }

    /// Begins to read for the request at `at` and for those after it. While that one has not come
    /// in, and there are more than may be under way, begins one for each that ends.
    async fn begin_ahead(
        &self,
        handle: &Handle,
        requests: &[ReadRequest<'_>],
        at: usize,
        ahead: &mut Ahead,
    ) -> Result<(), AccessError> {
        let end = requests.len().min(at + BEGUN_TIMES * ahead.under_way.most);
        ahead.begun = ahead.begun.max(at);
        loop {
            ahead.under_way.forget_settled(&self.memory.frames);
            while ahead.begins_more(at, end) {
                let read = &requests[ahead.begun];
                match self.begin_read(handle, read, &mut ahead.under_way).await {
                    Ok(()) => ahead.begun += 1,
                    Err(error) if ahead.begun == at => return Err(error),
                    // There is no memory for a request whose turn has not come: what has come in by
                    // then may make room, so the others are read one after the other.
                    Err(_) => ahead.goes_on = false,
                }
            }
            let has_more = ahead.goes_on && ahead.begun < end;
            if !has_more || !self.others_come_first(handle, &requests[at]).await? {
                return Ok(());
            }
        }
    }

    /// Waits until the request goes on, or until the thread has taken answers of the store. True if
    /// those were all for other requests.
    async fn others_come_first(
        &self,
        handle: &Handle,
        request: &ReadRequest<'_>,
    ) -> Result<bool, AccessError> {
        let object = &*handle.object;
        let page = page_of(request.offset_bytes + request.done_bytes as u64);
        let key = key(object.number, page);
        let Some(frame) = self.memory.find(key) else {
            return Ok(false);
        };
        if self.memory.frames.word(frame) & flag::EXCLUSIVE == 0 {
            return Ok(false);
        }
        handle.stream.note_waited();
        let call = self
            .dirty
            .call(handle, CallKind::Read, byte_of(page), PAGE_BYTES as u64);
        let _waiting = self.accounts.waiting(&call.waits, Cause::StoreRead);
        let mut settled = None;
        let settles = async {
            let ended = self.pages.page_settles(object, frame, key, flag::EXCLUSIVE);
            settled = Some(ended.await);
        };
        either(settles, NextTurn::default()).await;
        settled.map_or(Ok(true), |settled| settled.map(|()| false))
    }

    /// Begins to read what is missing of a request, without waiting for it.
    async fn begin_read(
        &self,
        handle: &Handle,
        request: &ReadRequest<'_>,
        under_way: &mut UnderWay,
    ) -> Result<(), AccessError> {
        let object = &*handle.object;
        let (done, wanted) = (request.done_bytes, wanted_bytes(object, request));
        if done >= wanted {
            return Ok(());
        }
        let page = page_of(request.offset_bytes + done as u64);
        let last = page_of(request.offset_bytes + wanted as u64 - 1);
        let key = key(object.number, page);
        if self.memory.find(key).is_some() {
            return Ok(());
        }
        self.accounts.count(Counter::CacheMiss, 1);
        let left_bytes = (wanted - done) as u64;
        let call = self
            .dirty
            .call(handle, CallKind::Read, byte_of(page), left_bytes);
        let touch = Touch::miss(page, last - page + 1);
        let planned = self.plan_fill(object, &handle.stream, touch);
        let plan = planned
            .filter(|plan| plan.pages.contains(&page))
            .unwrap_or(FillPlan::unmarked(page..page + 1));
        self.fill(&call, handle, plan, page..page + 1).await?;
        if let Some(frame) = self.memory.find(key) {
            under_way.note(frame, key);
        }
        Ok(())
    }

    /// Waits for the rest of a request and copies it.
    async fn end_read(
        &self,
        handle: &Handle,
        request: &mut ReadRequest<'_>,
    ) -> Result<(), AccessError> {
        let (offset_bytes, begun) = (request.offset_bytes, request.done_bytes);
        let mut read = self
            .read_until_told::<false>(handle, &mut *request.buffer, begun, offset_bytes)
            .await;
        if matches!(read, Err(AccessError::Store(_))) {
            // What was begun ahead failed. As in any other read, the page is then tried alone.
            read = self
                .read_until_told::<false>(handle, &mut *request.buffer, begun, offset_bytes)
                .await;
        }
        request.done_bytes = read?;
        Ok(())
    }
}

impl Memory {
    /// Serves the requests whose pages are resident, and the others as far as theirs are. True if
    /// nothing is left.
    pub(crate) fn read_many_resident(
        &self,
        handle: &Handle,
        requests: &mut [ReadRequest<'_>],
    ) -> bool {
        let mut is_all = true;
        for at in 0..requests.len() {
            self.warm_ahead(&handle.object, requests, at);
            requests[at].done_bytes = 0;
            is_all &= self.read_on(handle, &mut requests[at]);
        }
        is_all
    }

    /// Copies what is resident of the rest of a request. True if nothing is left.
    fn read_on(&self, handle: &Handle, request: &mut ReadRequest<'_>) -> bool {
        let (offset_bytes, done) = (request.offset_bytes, request.done_bytes);
        let wanted = wanted_bytes(&handle.object, request);
        let rest = request.buffer.get_mut(done..wanted).unwrap_or_default();
        let (copied, missing) = self.read_resident(handle, rest, offset_bytes + done as u64);
        request.done_bytes += copied;
        missing.is_none()
    }

    /// Fetches ahead what the next reads of a batch will touch: the buckets of the later reads, the
    /// frames and pages of the next ones.
    #[inline]
    fn warm_ahead(&self, object: &ObjectState, requests: &[ReadRequest<'_>], at: usize) {
        const BUCKETS_AHEAD: usize = 4;
        const PAGES_AHEAD: usize = 2;
        let key = |at: usize| {
            let offset_bytes = requests.get(at)?.offset_bytes;
            (offset_bytes < LONGEST_BYTES).then(|| key(object.number, page_of(offset_bytes)))
        };
        if let Some(key) = key(at + BUCKETS_AHEAD) {
            self.index.prefetch(key);
        }
        if let Some(frame) = key(at + PAGES_AHEAD).and_then(|key| self.index.candidate(key)) {
            self.frames.prefetch(frame);
        }
    }
}

/// How many bytes of its buffer a request can fill, as long as the object is now.
fn wanted_bytes(object: &ObjectState, request: &ReadRequest<'_>) -> usize {
    let left = object.length_bytes().saturating_sub(request.offset_bytes);
    left.min(request.buffer.len() as u64) as usize
}
