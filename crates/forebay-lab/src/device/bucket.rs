//! A volume in a bucket: a write ends in memory, chunks go to the bucket as objects, and a commit
//! is a record. What each costs is a request: a round trip, its bytes at the rate of one request,
//! and its turn on the line that all of them share.
//!
//! No object has bytes here, and no request goes wrong; `forebay-volume` is simulated with that in
//! tests of its own. Not counted are maps, removals, and reads of pages that lie in records.

use super::drive::{DriveCounts, span_of};
use super::figures::{positive, positive_count, positive_size};
use super::pace::{Pace, wait_until};
use super::settings::SettingError;
use super::staging::{Chunk, Need, Staging, Upload};
use super::statistics::{Ledger, Statistics};
use super::transfer::{End, TransferKind};
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_base::{Instant, PAGE_BYTES, Span};
use forebay_rt::Rt;
use forebay_rt::wait::WaitQueue;
use forebay_store::{Durability, Geometry, Io, IoKind, ObjectId, Request, Store};
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// What a bucket, the line to it, and a volume in it are like.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BucketSettings {
    /// A request and its answer without their bytes.
    pub round_trip_us: u64,
    /// Requests at once.
    #[serde(deserialize_with = "positive_count")]
    pub requests: u32,
    /// Rate of the bytes of one request.
    #[serde(deserialize_with = "positive")]
    pub request_bytes_per_s: u64,
    /// Rate of all requests together, in each direction.
    #[serde(deserialize_with = "positive")]
    pub bytes_per_s: u64,
    /// Bytes of an object.
    #[serde(deserialize_with = "positive_size")]
    pub chunk_bytes: u64,
    /// Memory for pages on their way to the bucket.
    #[serde(deserialize_with = "positive_size")]
    pub staged_bytes: u64,
}

impl Default for BucketSettings {
    /// A bucket in the same region, and the memory that `forebay serve nbd --memory 256M` has for
    /// its pages.
    fn default() -> BucketSettings {
        BucketSettings {
            round_trip_us: 25_000,
            requests: 16,
            request_bytes_per_s: 60_000_000,
            bytes_per_s: 200_000_000,
            chunk_bytes: 1 << 20,
            staged_bytes: 32 << 20,
        }
    }
}

impl BucketSettings {
    /// Chunks that have room at least: half of them are uploaded while the others fill.
    const LEAST_STAGED_CHUNKS: u64 = 4;

    /// Checks the figures against each other.
    ///
    /// # Errors
    /// [`SettingError`] for the first that is impossible.
    pub fn check(&self) -> Result<(), SettingError> {
        let wrong = |field, bytes: u64, allowed: String| {
            Err(SettingError {
                kind: "bucket",
                field,
                value: bytes.to_string(),
                allowed,
            })
        };
        if !self.chunk_bytes.is_multiple_of(PAGE_BYTES as u64) {
            let allowed = format!("allowed are multiples of {PAGE_BYTES}");
            return wrong("chunk_bytes", self.chunk_bytes, allowed);
        }
        let least = self.chunk_bytes.saturating_mul(Self::LEAST_STAGED_CHUNKS);
        if self.staged_bytes < least {
            let allowed = format!("{least} and more are allowed, four chunks");
            return wrong("staged_bytes", self.staged_bytes, allowed);
        }
        Ok(())
    }
}

/// Most bytes of a request of the cache.
const LARGEST_BYTES: u64 = 1 << 20;

/// Bytes of a record that has no pages.
const RECORD_BYTES: u64 = 512;

/// A volume in a bucket as a store. Each object of the engine has chunks of its own.
pub struct Bucket {
    shared: Arc<Shared>,
}

struct Shared {
    rt: Rt,
    settings: BucketSettings,
    state: Mutex<State>,
    changed: WaitQueue,
}

/// Times are the bucket's own unless the comment says otherwise.
struct State {
    settings: BucketSettings,
    pace: Pace,
    /// When the line is free, to the bucket and from it.
    free_at: [Instant; 2],
    /// Answers to come, by time and number.
    answers: BinaryHeap<Reverse<(Instant, u64)>>,
    asked: BTreeMap<u64, Asked>,
    next_asked: u64,
    staging: Staging,
    reads: VecDeque<(Call, u64)>,
    /// Changes that wait for room, for a chunk, or for a commit.
    waiting: VecDeque<Call>,
    /// Commits that the next record is for, and those that came too late for it.
    committing: Vec<Call>,
    commits: Vec<Call>,
    is_recording: bool,
    ledger: Ledger,
    /// Since when calls are taken: the machine's time.
    machine_now: Instant,
    is_served: bool,
}

/// A request of the engine.
struct Call {
    end: End,
    request: Request,
}

/// A request to the bucket.
struct Asked {
    errand: Errand,
    bytes: u64,
    /// In the machine's time, in which the client waits.
    sent_machine_at: Instant,
}

enum Errand {
    Read(Call),
    /// What a chunk keeps of the object that it replaces.
    Base(Chunk),
    Put(Chunk),
    Record,
}

const TO_BUCKET: usize = 0;
const TO_CLIENT: usize = 1;

impl Bucket {
    /// A volume in a bucket as `settings` say.
    pub fn new(rt: Rt, settings: BucketSettings) -> Bucket {
        Bucket {
            shared: Arc::new(Shared {
                rt,
                state: Mutex::new(State::new(settings.clone())),
                settings,
                changed: WaitQueue::new(),
            }),
        }
    }

    /// From now on the bucket and its line run at this many thousandths of their figures. At 0 it
    /// gives no answer, at [`FULL_PACE`](super::FULL_PACE) it runs as usual.
    pub fn set_pace(&self, thousandths: u32) {
        let now = self.shared.rt.now();
        lock(&self.shared.state).pace.change(now, thousandths);
        self.shared.changed.wake_all();
    }

    /// What iostat would show of it as a device: puts, gets, and commits.
    pub fn seen_as_device(&self) -> Statistics {
        let now = self.shared.rt.now();
        let state = &mut *lock(&self.shared.state);
        state.ledger.totals(now, (0, 0), DriveCounts::default())
    }

    /// `object` has been in the bucket for ever, and is this long.
    pub(crate) fn lay_out(&self, object: ObjectId, length_bytes: u64) {
        let mut state = lock(&self.shared.state);
        state.staging.lay_out(object, length_bytes);
    }

    /// Whether writes wait for room.
    pub(crate) fn is_congested(&self) -> bool {
        !lock(&self.shared.state).waiting.is_empty()
    }
}

impl Store for Bucket {
    fn geometry(&self) -> Geometry {
        let settings = &self.shared.settings;
        let page_bytes = PAGE_BYTES as u64;
        Geometry {
            block_bytes: PAGE_BYTES as u32,
            max_io_pages: (settings.chunk_bytes.min(LARGEST_BYTES) / page_bytes) as u32,
            write_unit_pages: (settings.chunk_bytes / page_bytes) as u32,
            queue_depth: settings.requests.saturating_mul(4),
            durability: Durability::Unstable,
            stable_pages: true,
        }
    }

    fn submit(&self, io: Io) {
        let shared = &self.shared;
        let now = shared.rt.now();
        let request = io.request();
        let call = Call {
            end: End::Io(io),
            request,
        };
        let mut ended = Vec::new();
        let is_new = {
            let state = &mut *lock(&shared.state);
            state.machine_now = now;
            state.take(call, &mut ended);
            let at = state.pace.device_time(now);
            state.employ(at, &mut ended);
            !state.answers.is_empty() && !std::mem::replace(&mut state.is_served, true)
        };
        for end in ended {
            end.report();
        }
        if is_new {
            let serving = Serving(Arc::clone(shared));
            shared.rt.spawn("bucket", serve(serving));
        } else {
            shared.changed.wake_all();
        }
    }
}

/// The serving task. If it ends with its machine, the requests that the bucket still has are
/// answered: the bucket holds their waiters, and these hold the bucket.
struct Serving(Arc<Shared>);

impl Drop for Serving {
    fn drop(&mut self) {
        let calls = lock(&self.0.state).take_all();
        for call in calls {
            call.end.give_up();
        }
    }
}

/// Serves until the bucket has answered everything.
async fn serve(serving: Serving) {
    let shared = &serving.0;
    let mut ended = Vec::new();
    loop {
        let now = shared.rt.now();
        lock(&shared.state).advance(now, &mut ended);
        // Those that learn of an end may submit again, so no lock is held here.
        for end in ended.drain(..) {
            end.report();
        }
        let changed = shared.changed.listen();
        let next = {
            let mut state = lock(&shared.state);
            let next = state.answers.peek().map(|Reverse((at, _))| *at);
            state.is_served = next.is_some();
            next.map(|then| state.pace.machine_time(then))
        };
        let Some(next) = next else {
            return;
        };
        wait_until(&shared.rt, now, next, changed).await;
    }
}

impl State {
    fn new(settings: BucketSettings) -> State {
        let uploads = settings.requests as usize;
        State {
            staging: Staging::new(settings.chunk_bytes, settings.staged_bytes, uploads),
            settings,
            pace: Pace::default(),
            free_at: [Instant::ZERO; 2],
            answers: BinaryHeap::new(),
            asked: BTreeMap::new(),
            next_asked: 0,
            reads: VecDeque::new(),
            waiting: VecDeque::new(),
            committing: Vec::new(),
            commits: Vec::new(),
            is_recording: false,
            ledger: Ledger::default(),
            machine_now: Instant::ZERO,
            is_served: false,
        }
    }

    /// Takes a call; what needs no request ends.
    fn take(&mut self, call: Call, ended: &mut Vec<End>) {
        match call.request.kind {
            IoKind::Read => match self.staging.missing_bytes(call.request) {
                0 => ended.push(call.end),
                bytes => self.reads.push_back((call, bytes)),
            },
            IoKind::Commit => self.commits.push(call),
            IoKind::Write | IoKind::Discard | IoKind::SetLength => {
                self.waiting.push_back(call);
                self.settle(ended);
            }
        }
    }

    /// Stages what waits, as far as it fits now.
    fn settle(&mut self, ended: &mut Vec<End>) {
        for call in std::mem::take(&mut self.waiting) {
            if self.staging.fits(call.request) {
                self.staging.change(call.request);
                ended.push(call.end);
            } else {
                self.waiting.push_back(call);
            }
        }
    }

    /// Lets everything happen up to `now`, the machine's time.
    fn advance(&mut self, now: Instant, ended: &mut Vec<End>) {
        self.machine_now = now;
        let device_now = self.pace.device_time(now);
        while let Some(&Reverse((at, number))) = self.answers.peek()
            && at <= device_now
        {
            self.answers.pop();
            let asked = self.asked.remove(&number).expect("it was asked");
            self.answered(asked, at, ended);
            self.employ(at, ended);
        }
    }

    fn answered(&mut self, asked: Asked, at: Instant, ended: &mut Vec<End>) {
        let kind = match asked.errand {
            Errand::Read(_) | Errand::Base(_) => TransferKind::Read,
            Errand::Put(_) | Errand::Record => TransferKind::Write,
        };
        let waited = self.machine_now - asked.sent_machine_at;
        self.ledger.ended(kind, asked.bytes, waited);
        match asked.errand {
            Errand::Read(call) => ended.push(call.end),
            Errand::Base(chunk) => self.ask(Errand::Put(chunk), self.settings.chunk_bytes, at),
            Errand::Put(chunk) => {
                self.staging.uploaded(chunk);
                self.settle(ended);
            }
            Errand::Record => {
                self.is_recording = false;
                self.commit_ends(ended);
            }
        }
        self.ledger
            .in_flight(self.asked.len() as u64, self.machine_now);
    }

    fn commit_ends(&mut self, ended: &mut Vec<End>) {
        for call in self.committing.drain(..) {
            self.ledger.ended(TransferKind::Flush, 0, Span::ZERO);
            ended.push(call.end);
        }
        self.settle(ended);
    }

    /// Asks the bucket for as much as it takes at once.
    fn employ(&mut self, at: Instant, ended: &mut Vec<End>) {
        while self.asked.len() < self.settings.requests as usize {
            let Some((errand, bytes)) = self.next_errand(ended) else {
                return;
            };
            self.ask(errand, bytes, at);
        }
    }

    fn next_errand(&mut self, ended: &mut Vec<End>) -> Option<(Errand, u64)> {
        if let Some((call, bytes)) = self.reads.pop_front() {
            return Some((Errand::Read(call), bytes));
        }
        while !self.is_recording && self.begin_commit() {
            if let Some(upload) = self.staging.next_of_commit() {
                return Some(self.errand_of(upload));
            }
            match self.staging.need() {
                _ if self.staging.is_uploading() => break,
                Need::Nothing => self.commit_ends(ended),
                Need::Chunks => {
                    self.staging.plan_all();
                    let Some(upload) = self.staging.next_of_commit() else {
                        // They are on their way for the next record.
                        break;
                    };
                    return Some(self.errand_of(upload));
                }
                Need::Record => {
                    let pages = self.staging.seal();
                    self.is_recording = true;
                    let bytes = RECORD_BYTES + pages * PAGE_BYTES as u64;
                    return Some((Errand::Record, bytes));
                }
            }
        }
        let upload = self.staging.next_upload()?;
        Some(self.errand_of(upload))
    }

    fn begin_commit(&mut self) -> bool {
        if self.committing.is_empty() {
            self.committing = std::mem::take(&mut self.commits);
            if !self.committing.is_empty() {
                self.staging.freeze();
            }
        }
        !self.committing.is_empty()
    }

    fn errand_of(&self, upload: Upload) -> (Errand, u64) {
        match upload.base_bytes {
            0 => (Errand::Put(upload.chunk), self.settings.chunk_bytes),
            bytes => (Errand::Base(upload.chunk), bytes),
        }
    }

    fn ask(&mut self, errand: Errand, bytes: u64, at: Instant) {
        let way = match errand {
            Errand::Read(_) | Errand::Base(_) => TO_CLIENT,
            Errand::Put(_) | Errand::Record => TO_BUCKET,
        };
        let settings = &self.settings;
        let through = self.free_at[way].max(at) + span_of(bytes, settings.bytes_per_s);
        self.free_at[way] = through;
        let alone = at + span_of(bytes, settings.request_bytes_per_s);
        let answered = through.max(alone) + Span::from_micros(settings.round_trip_us);
        self.answers.push(Reverse((answered, self.next_asked)));
        let asked = Asked {
            errand,
            bytes,
            sent_machine_at: self.machine_now,
        };
        self.asked.insert(self.next_asked, asked);
        self.next_asked += 1;
        self.ledger
            .in_flight(self.asked.len() as u64, self.machine_now);
    }

    fn take_all(&mut self) -> Vec<Call> {
        let asked = std::mem::take(&mut self.asked).into_values();
        let read = asked.filter_map(|asked| match asked.errand {
            Errand::Read(call) => Some(call),
            Errand::Base(_) | Errand::Put(_) | Errand::Record => None,
        });
        let mut calls: Vec<Call> = read.collect();
        calls.extend(self.reads.drain(..).map(|(call, _)| call));
        calls.extend(self.waiting.drain(..));
        calls.append(&mut self.committing);
        calls.append(&mut self.commits);
        calls
    }
}

impl Drop for State {
    /// A bucket that ends with its machine answers the requests that it still has: one that is
    /// dropped unfinished would count as a fault of its program.
    fn drop(&mut self) {
        for call in self.take_all() {
            call.end.give_up();
        }
    }
}

#[cfg(test)]
#[path = "bucket_tests.rs"]
mod tests;
