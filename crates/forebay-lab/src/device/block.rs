//! A device: an elevator before a drive, a clock that may run slow, and counters.
//!
//! One task serves the device while it has anything to do. It runs after the task that submitted to
//! an idle device has begun to wait, so requests that are submitted together are merged and sorted
//! before the drive sees any of them: the plug of the block layer.

use super::drive::{Command, Drive};
use super::elevator::{Elevator, Queued};
use super::pace::{Pace, wait_until};
use super::settings::QueueSettings;
use super::statistics::{Ledger, Statistics};
use super::transfer::{Transfer, TransferKind};
use super::{Device, Shape};
use forebay_base::Instant;
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_rt::Rt;
use forebay_rt::wait::WaitQueue;
use forebay_store::Rate;

/// One drive with its queue.
pub struct BlockDevice {
    shared: Arc<Shared>,
    shape: Shape,
}

struct Shared {
    rt: Rt,
    signals_congestion: bool,
    state: Mutex<State>,
    /// The serving task has something new to look at.
    changed: WaitQueue,
}

struct State {
    elevator: Elevator,
    drive: Box<dyn Drive>,
    pace: Pace,
    /// The requests in the drive, by tag.
    given: Vec<Option<Queued>>,
    free_tags: Vec<u32>,
    ledger: Ledger,
    ended_tags: Vec<u32>,
    /// Whether a task serves the device.
    is_served: bool,
}

impl BlockDevice {
    /// The drive `drive` behind a queue with the settings `queue`.
    pub(crate) fn new(
        rt: Rt,
        drive: Box<dyn Drive>,
        queue: QueueSettings,
        capacity_bytes: u64,
    ) -> BlockDevice {
        let shape = Shape {
            capacity_bytes,
            largest_bytes: queue.largest_bytes,
            queue_depth: queue.requests,
            stable_pages: queue.stable_pages,
        };
        let depth = drive.depth().max(1);
        BlockDevice {
            shape,
            shared: Arc::new(Shared {
                rt,
                signals_congestion: queue.signals_congestion,
                state: Mutex::new(State {
                    elevator: Elevator::new(queue.elevator()),
                    drive,
                    pace: Pace::default(),
                    given: (0..depth).map(|_| None).collect(),
                    free_tags: (0..depth as u32).rev().collect(),
                    ledger: Ledger::default(),
                    ended_tags: Vec::new(),
                    is_served: false,
                }),
                changed: WaitQueue::new(),
            }),
        }
    }

    fn touch(&self, change: impl FnOnce(&mut State, Instant)) {
        change(&mut lock(&self.shared.state), self.shared.rt.now());
        self.shared.changed.wake_all();
    }
}

impl Device for BlockDevice {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn submit(&self, transfer: Transfer) {
        let shared = &self.shared;
        let now = shared.rt.now();
        let (was_served, has_room) = {
            let mut state = lock(&shared.state);
            state.elevator.add(transfer, now);
            let in_flight = state.in_flight();
            state.ledger.in_flight(in_flight, now);
            let was_served = std::mem::replace(&mut state.is_served, true);
            (was_served, !state.free_tags.is_empty())
        };
        if !was_served {
            shared
                .rt
                .spawn("device", serve(Serving(Arc::clone(shared))));
        } else if has_room {
            shared.changed.wake_all();
        }
    }

    fn is_congested(&self, kind: TransferKind) -> bool {
        self.shared.signals_congestion && lock(&self.shared.state).elevator.is_congested(kind)
    }

    fn statistics(&self) -> Statistics {
        let now = self.shared.rt.now();
        let state = &mut *lock(&self.shared.state);
        let merged = (
            state.elevator.merged(TransferKind::Read),
            state.elevator.merged(TransferKind::Write),
        );
        state.ledger.totals(now, merged, state.drive.counts())
    }

    fn set_pace(&self, thousandths: u32) {
        self.touch(|state, now| state.pace.change(now, thousandths));
    }

    fn set_rate(&self, rate: Rate) -> bool {
        let mut was_set = false;
        self.touch(|state, now| {
            let now = state.pace.device_time(now);
            was_set = state.drive.set_rate(rate, now);
        });
        was_set
    }
}

/// The serving task. If it ends with its machine, the requests that the device still has are
/// answered: the device holds their waiters, and these hold the device.
struct Serving(Arc<Shared>);

impl Drop for Serving {
    fn drop(&mut self) {
        let left = lock(&self.0.state).take_under_way();
        drop(left);
    }
}

/// Serves the device until it has nothing to do.
async fn serve(serving: Serving) {
    let shared = &serving.0;
    let mut ended = Vec::new();
    loop {
        let now = shared.rt.now();
        lock(&shared.state).conclude(now, &mut ended);
        // Those that learn of an end may submit again, so no lock is held here.
        for queued in ended.drain(..) {
            let Queued { pieces, .. } = queued;
            for piece in pieces {
                piece.ended();
            }
        }
        let changed = shared.changed.listen();
        let Some(next) = lock(&shared.state).feed(now) else {
            return;
        };
        wait_until(&shared.rt, now, next, changed).await;
    }
}

impl State {
    /// What has not ended, if anything is left.
    fn take_under_way(&mut self) -> Option<(Elevator, Vec<Queued>)> {
        if self.in_flight() == 0 {
            return None;
        }
        self.is_served = false;
        let given = self.given.iter_mut().filter_map(Option::take).collect();
        Some((self.elevator.take_all(), given))
    }

    fn in_flight(&self) -> u64 {
        (self.elevator.in_flight() + self.given.len() - self.free_tags.len()) as u64
    }

    /// Collects the requests that the drive has ended by `now`.
    fn conclude(&mut self, now: Instant, ended: &mut Vec<Queued>) {
        let device_now = self.pace.device_time(now);
        self.drive.advance(device_now, &mut self.ended_tags);
        for tag in self.ended_tags.drain(..) {
            let queued = self.given[tag as usize]
                .take()
                .expect("a tag is given once");
            self.free_tags.push(tag);
            self.ledger
                .ended(queued.kind, queued.length_bytes, now - queued.at);
            self.elevator.ended(queued.kind, now);
            ended.push(queued);
        }
        let in_flight = self.in_flight();
        self.ledger.in_flight(in_flight, now);
    }

    /// Gives the drive as many requests as it has room for. Returns when the drive has to be asked
    /// again; None if there is nothing left to do.
    fn feed(&mut self, now: Instant) -> Option<Instant> {
        let device_now = self.pace.device_time(now);
        while !self.free_tags.is_empty() {
            let Some(queued) = self.elevator.take(now) else {
                break;
            };
            let tag = self.free_tags.pop().expect("there is a free one");
            let command = Command {
                tag,
                kind: queued.kind,
                start_bytes: queued.start_bytes,
                length_bytes: queued.length_bytes,
            };
            if queued.kind != TransferKind::Flush {
                self.ledger.begun(command.start_bytes, command.end_bytes());
            }
            self.given[tag as usize] = Some(queued);
            self.drive.accept(command, device_now);
        }
        let next = self.drive.next_event();
        let is_idle = next == Instant::NEVER && self.in_flight() == 0;
        if is_idle {
            self.is_served = false;
            return None;
        }
        Some(if next == Instant::NEVER {
            next
        } else {
            self.pace.machine_time(next)
        })
    }
}

#[cfg(test)]
#[path = "block_tests.rs"]
mod tests;
