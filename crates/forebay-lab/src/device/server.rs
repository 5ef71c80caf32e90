//! A remote server whose finished writes are unstable until a COMMIT (spec/workloads.md 5.6).
//!
//! A WRITE crosses the network, behind those before it, into the server's memory, and is answered
//! if that has room; otherwise it waits for the server's disk. The disk does one job at a time: a
//! COMMIT writes all of its file that is unstable and pays for the sync, in order with other
//! COMMITs; a read of what the server does not have in memory; and, when there are no requests and
//! much is unstable, one step of the server's own flushing.

use super::drive::{DriveCounts, span_of};
use super::figures::{positive, positive_size};
use super::pace::{Pace, wait_until};
use super::statistics::{Ledger, Statistics};
use super::transfer::{End, TransferKind};
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_base::{Instant, PAGE_BYTES, Span};
use forebay_rt::Rt;
use forebay_rt::wait::WaitQueue;
use forebay_store::{Durability, Geometry, Io, IoKind, ObjectId, Store};
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// What a server is like.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSettings {
    /// Rate of the network in each direction.
    #[serde(deserialize_with = "positive")]
    pub network_bytes_per_s: u64,
    /// A request and its answer without their bytes.
    pub round_trip_us: u64,
    /// Memory for what is unstable; when it is full, a WRITE waits for the disk.
    #[serde(deserialize_with = "positive_size")]
    pub memory_bytes: u64,
    /// Rate of the disk.
    #[serde(deserialize_with = "positive")]
    pub disk_bytes_per_s: u64,
    /// How long the disk takes to reach the bytes of a read.
    pub disk_seek_us: u64,
    /// What a COMMIT costs besides the bytes.
    pub commit_us: u64,
    /// Unstable bytes above which the server flushes by itself.
    #[serde(deserialize_with = "positive_size")]
    pub flush_above_bytes: u64,
    /// Part of the disk's rate that the server's own flushing has.
    #[serde(deserialize_with = "positive")]
    pub flush_percent: u64,
    /// Bytes of the largest WRITE.
    #[serde(deserialize_with = "positive_size")]
    pub largest_bytes: u64,
    /// Bytes of WRITEs under way above which the client calls the server congested, and the most
    /// that the client should have under way.
    #[serde(deserialize_with = "positive_size")]
    pub under_way_bytes: u64,
}

impl Default for ServerSettings {
    /// The server of spec/workloads.md 5.6.
    fn default() -> ServerSettings {
        ServerSettings {
            network_bytes_per_s: 117_000_000,
            round_trip_us: 200,
            memory_bytes: 1 << 30,
            disk_bytes_per_s: 90_000_000,
            disk_seek_us: 12_670,
            commit_us: 20_000,
            flush_above_bytes: 100 << 20,
            flush_percent: 80,
            largest_bytes: 1 << 20,
            under_way_bytes: 64 << 20,
        }
    }
}

/// One step of the server's own flushing.
const FLUSH_STEP_BYTES: u64 = 4 << 20;

/// A remote server as a store.
pub struct Server {
    shared: Arc<Shared>,
}

struct Shared {
    rt: Rt,
    settings: ServerSettings,
    state: Mutex<State>,
    changed: WaitQueue,
}

/// All times are the server's own unless the comment says otherwise.
#[derive(Default)]
struct State {
    pace: Pace,
    /// When the network is free, to the server and from it.
    free_at: [Instant; 2],
    /// Calls that get to the server or to the client, by time and number.
    crossing: BinaryHeap<Reverse<(Instant, u64)>>,
    calls: BTreeMap<u64, Call>,
    next_call: u64,
    /// Unstable bytes of each file, by its number.
    unstable: BTreeMap<ObjectId, u64>,
    /// WRITEs that wait for memory.
    waiting: VecDeque<u64>,
    /// COMMITs and READs that wait for the disk.
    jobs: VecDeque<u64>,
    disk: Option<(Instant, Job)>,
    /// Bytes that are in the server's memory and not on its disk.
    unstable_bytes: u64,
    /// Bytes of WRITEs under way.
    under_way_bytes: u64,
    /// What iostat would show, in the machine's time.
    ledger: Ledger,
    is_served: bool,
}

struct Call {
    end: End,
    kind: IoKind,
    object: ObjectId,
    bytes: u64,
    /// In the machine's time, in which its client waits.
    sent_machine_at: Instant,
    is_answered: bool,
}

/// What the disk is doing.
#[derive(Clone, Copy, Debug)]
enum Job {
    Commit { call: u64, bytes: u64 },
    Read { call: u64 },
    Flush { bytes: u64 },
}

const TO_SERVER: usize = 0;
const TO_CLIENT: usize = 1;

impl Server {
    /// A server as `settings` say.
    pub fn new(rt: Rt, settings: ServerSettings) -> Server {
        Server {
            shared: Arc::new(Shared {
                rt,
                settings,
                state: Mutex::default(),
                changed: WaitQueue::new(),
            }),
        }
    }

    /// From now on the server and its network run at this many thousandths of their figures. At 0
    /// it gives no answer, at [`FULL_PACE`](super::FULL_PACE) it runs as usual.
    pub fn set_pace(&self, thousandths: u32) {
        let now = self.shared.rt.now();
        lock(&self.shared.state).pace.change(now, thousandths);
        self.shared.changed.wake_all();
    }

    /// What iostat would show of it as a device: its WRITEs, READs and COMMITs.
    pub fn seen_as_device(&self) -> Statistics {
        let now = self.shared.rt.now();
        let state = &mut *lock(&self.shared.state);
        state.ledger.totals(now, (0, 0), DriveCounts::default())
    }

    /// Whether the client has more WRITEs under way than it should.
    pub(crate) fn is_congested(&self) -> bool {
        let under_way = lock(&self.shared.state).under_way_bytes;
        under_way > self.shared.settings.under_way_bytes
    }
}

impl Store for Server {
    fn geometry(&self) -> Geometry {
        let settings = &self.shared.settings;
        let depth = settings.under_way_bytes / settings.largest_bytes;
        Geometry {
            block_bytes: PAGE_BYTES as u32,
            max_io_pages: (settings.largest_bytes / PAGE_BYTES as u64).max(1) as u32,
            write_unit_pages: 1,
            queue_depth: depth.clamp(1, 1 << 16) as u32,
            durability: Durability::Unstable,
            stable_pages: true,
        }
    }

    fn submit(&self, io: Io) {
        let shared = &self.shared;
        let now = shared.rt.now();
        let request = io.request();
        let end = End::Io(io);
        let is_write = request.kind == IoKind::Write;
        let was_served = {
            let state = &mut *lock(&shared.state);
            let under_way = state.calls.len() as u64 + 1;
            state.ledger.in_flight(under_way, now);
            let sent_machine_at = now;
            let now = state.pace.device_time(now);
            let call = Call {
                end,
                kind: request.kind,
                object: request.object,
                bytes: request.length_bytes,
                sent_machine_at,
                is_answered: false,
            };
            let number = state.next_call;
            state.next_call += 1;
            let bytes = if is_write { call.bytes } else { 0 };
            state.under_way_bytes += bytes;
            state.calls.insert(number, call);
            state.cross(
                &shared.settings,
                TO_SERVER,
                Message {
                    call: number,
                    bytes,
                    at: now,
                },
            );
            std::mem::replace(&mut state.is_served, true)
        };
        if was_served {
            shared.changed.wake_all();
        } else {
            shared
                .rt
                .spawn("server", serve(Serving(Arc::clone(shared))));
        }
    }
}

/// The serving task. If it ends with its machine, the requests that the server still has are
/// answered: the server holds their waiters, and these hold the server.
struct Serving(Arc<Shared>);

impl Drop for Serving {
    fn drop(&mut self) {
        let calls = std::mem::take(&mut lock(&self.0.state).calls);
        for call in calls.into_values() {
            call.end.give_up();
        }
    }
}

/// Serves until nothing is under way and nothing is left to flush.
async fn serve(serving: Serving) {
    let shared = &serving.0;
    let mut ended = Vec::new();
    loop {
        let now = shared.rt.now();
        {
            let state = &mut *lock(&shared.state);
            let server_now = state.pace.device_time(now);
            state.advance(&shared.settings, server_now, &mut ended);
            for call in &ended {
                state.enter(call, now);
            }
            let under_way = state.calls.len() as u64;
            state.ledger.in_flight(under_way, now);
        }
        for call in ended.drain(..) {
            call.end.report();
        }
        let changed = shared.changed.listen();
        let next = {
            let mut state = lock(&shared.state);
            let next = state.next_event();
            state.is_served = next.is_some();
            next.map(|then| state.pace.machine_time(then))
        };
        let Some(next) = next else {
            return;
        };
        wait_until(&shared.rt, now, next, changed).await;
    }
}

/// A call or an answer that is sent.
#[derive(Clone, Copy)]
struct Message {
    call: u64,
    bytes: u64,
    at: Instant,
}

impl State {
    /// Sends a call with `bytes` one way, behind what is on that way already.
    fn cross(&mut self, settings: &ServerSettings, way: usize, message: Message) {
        let Message { call, bytes, at } = message;
        let through = self.free_at[way].max(at) + span_of(bytes, settings.network_bytes_per_s);
        self.free_at[way] = through;
        let there = through + Span::from_nanos(settings.round_trip_us * 500);
        self.crossing.push(Reverse((there, call)));
    }

    /// When something happens next; None if nothing does.
    fn next_event(&self) -> Option<Instant> {
        let crossing = self.crossing.peek().map(|Reverse((at, _))| *at);
        let disk = self.disk.as_ref().map(|(until, _)| *until);
        crossing.into_iter().chain(disk).min()
    }

    fn advance(&mut self, settings: &ServerSettings, now: Instant, ended: &mut Vec<Call>) {
        while let Some(at) = self.next_event().filter(|&at| at <= now) {
            if let Some((until, job)) = self.disk.take_if(|(until, _)| *until == at) {
                self.conclude(settings, job, until);
            } else if let Some(Reverse((at, call))) = self.crossing.pop() {
                self.arrived(settings, call, at, ended);
            }
            self.employ_disk(settings, at);
        }
    }

    /// A call has got to the server, or its answer to the client.
    fn arrived(
        &mut self,
        settings: &ServerSettings,
        number: u64,
        at: Instant,
        ended: &mut Vec<Call>,
    ) {
        let call = &self.calls[&number];
        if call.is_answered {
            let call = self.calls.remove(&number).expect("it was just seen");
            if call.kind == IoKind::Write {
                self.under_way_bytes -= call.bytes;
            }
            return ended.push(call);
        }
        match call.kind {
            IoKind::Write => {
                self.waiting.push_back(number);
                self.take_in(settings, at);
            }
            IoKind::Commit | IoKind::Read => self.jobs.push_back(number),
            IoKind::Discard | IoKind::SetLength => self.answer(settings, number, 0, at),
        }
    }

    /// Takes waiting WRITEs into memory as far as it has room.
    fn take_in(&mut self, settings: &ServerSettings, at: Instant) {
        while let Some(&number) = self.waiting.front() {
            let (object, bytes) = (self.calls[&number].object, self.calls[&number].bytes);
            let unstable = &mut self.unstable_bytes;
            if *unstable > 0 && *unstable + bytes > settings.memory_bytes {
                return;
            }
            *unstable += bytes;
            *self.unstable.entry(object).or_default() += bytes;
            self.waiting.pop_front();
            self.answer(settings, number, 0, at);
        }
    }

    fn answer(&mut self, settings: &ServerSettings, number: u64, bytes: u64, at: Instant) {
        let call = self.calls.get_mut(&number).expect("it waits for an answer");
        call.is_answered = true;
        self.cross(
            settings,
            TO_CLIENT,
            Message {
                call: number,
                bytes,
                at,
            },
        );
    }

    /// Gives the disk something to do.
    fn employ_disk(&mut self, settings: &ServerSettings, at: Instant) {
        if self.disk.is_some() {
            return;
        }
        let (job, span) = if let Some(call) = self.jobs.pop_front() {
            self.asked_job(settings, call)
        } else if self.unstable_bytes > settings.flush_above_bytes || !self.waiting.is_empty() {
            let Some(flush) = self.own_flush(settings) else {
                return;
            };
            flush
        } else {
            return;
        };
        self.disk = Some((at + span, job));
    }

    fn asked_job(&mut self, settings: &ServerSettings, number: u64) -> (Job, Span) {
        let call = &self.calls[&number];
        if call.kind == IoKind::Read {
            let seek = Span::from_micros(settings.disk_seek_us);
            let span = seek + span_of(call.bytes, settings.disk_bytes_per_s);
            return (Job::Read { call: number }, span);
        }
        let bytes = self.unstable.remove(&call.object).unwrap_or(0);
        let span = span_of(bytes, settings.disk_bytes_per_s);
        let job = Job::Commit {
            call: number,
            bytes,
        };
        (job, span + Span::from_micros(settings.commit_us))
    }

    /// One step of the server's own flushing, of the file with the most.
    fn own_flush(&mut self, settings: &ServerSettings) -> Option<(Job, Span)> {
        let most = self.unstable.iter_mut().max_by_key(|(_, bytes)| **bytes);
        let (&object, left) = most?;
        let bytes = FLUSH_STEP_BYTES.min(*left);
        *left -= bytes;
        if *left == 0 {
            self.unstable.remove(&object);
        }
        let rate = (settings.disk_bytes_per_s * settings.flush_percent / 100).max(1);
        Some((Job::Flush { bytes }, span_of(bytes, rate)))
    }

    fn conclude(&mut self, settings: &ServerSettings, job: Job, at: Instant) {
        match job {
            Job::Commit { call, bytes } => {
                self.unstable_bytes -= bytes;
                self.answer(settings, call, 0, at);
            }
            Job::Flush { bytes } => self.unstable_bytes -= bytes,
            Job::Read { call } => {
                let bytes = self.calls[&call].bytes;
                self.answer(settings, call, bytes, at);
            }
        }
        self.take_in(settings, at);
    }

    /// Adds a call that has ended to the statistics that are kept in the machine's time.
    fn enter(&mut self, call: &Call, machine_now: Instant) {
        let kind = match call.kind {
            IoKind::Write => Some(TransferKind::Write),
            IoKind::Read => Some(TransferKind::Read),
            IoKind::Commit => Some(TransferKind::Flush),
            IoKind::Discard | IoKind::SetLength => None,
        };
        if let Some(kind) = kind {
            let waited = machine_now - call.sent_machine_at;
            self.ledger.ended(kind, call.bytes, waited);
        }
    }
}

impl Drop for State {
    /// A server that ends with its machine answers the requests that it still has: one that is
    /// dropped unfinished would count as a fault of its program.
    fn drop(&mut self) {
        for (_, call) in std::mem::take(&mut self.calls) {
            call.end.give_up();
        }
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
