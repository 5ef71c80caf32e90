//! A front whose clients are function calls. A front for ublk or vhost-user would look like this,
//! with the kernel's rings added. It knows no protocol.

use forebay::File;
use forebay_block::{BlockError, Buffer, Disk, Finished, Job, Pool, Slots, WakeFd, perform};
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::BTreeMap;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

type Doing<'d> = Pin<Box<dyn Future<Output = Finished> + 'd>>;
type Make<'d> = Box<dyn Fn(Job, Buffer) -> Doing<'d> + 'd>;

/// The result of a request: the bytes for the client, or the error.
pub(crate) type Outcome = Result<Vec<u8>, BlockError>;

/// One client of a disk.
pub(crate) struct Calls<'d> {
    slots: Slots<Make<'d>, Doing<'d>>,
    wake_fd: Arc<WakeFd>,
    /// The job that runs in each slot, by the number that the client got for it.
    running: BTreeMap<usize, u64>,
    ended: BTreeMap<u64, Outcome>,
    next: u64,
}

impl<'d> Calls<'d> {
    pub(crate) fn new(disk: &'d Disk, pool: &Arc<Pool>, ending: &'d AtomicBool) -> Calls<'d> {
        let wake_fd = Arc::new(WakeFd::new().expect("the system has a descriptor"));
        let file: File = disk.handle();
        let make = move |job: Job, buffer: Buffer| -> Doing<'d> {
            let file = file.clone();
            Box::pin(async move { perform(disk, &file, job, buffer, ending).await })
        };
        Calls {
            slots: Slots::new(Box::new(make) as Make<'d>, &wake_fd, pool.enter()),
            wake_fd,
            running: BTreeMap::new(),
            ended: BTreeMap::new(),
            next: 0,
        }
    }

    /// Begins a request with the bytes that it writes. `None` if there is no room for it now.
    pub(crate) fn begin(&mut self, job: Job, bytes: &[u8]) -> Option<u64> {
        let slot = self.slots.take(job.buffer_bytes())?;
        self.slots.buffer(slot)[..bytes.len()].copy_from_slice(bytes);
        let number = self.next;
        self.next += 1;
        self.running.insert(slot, number);
        if let Some(outcome) = self.slots.start(slot, job) {
            self.note(slot, outcome);
        }
        Some(number)
    }

    /// Returns the result of the request `number`.
    pub(crate) fn end(&mut self, number: u64) -> Outcome {
        loop {
            if let Some(outcome) = self.ended.remove(&number) {
                return outcome;
            }
            self.turn();
        }
    }

    /// Begins a request and waits for its end.
    pub(crate) fn call(&mut self, job: Job, bytes: &[u8]) -> Outcome {
        let number = self.begin(job, bytes).expect("nothing else runs");
        self.end(number)
    }

    /// A write that is durable when it returns.
    pub(crate) fn write_through(&mut self, range: Range<u64>, bytes: &[u8]) -> Outcome {
        self.call(Job::Write(range.clone()), bytes)?;
        self.call(Job::Flush(range), &[])
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.slots.is_idle()
    }

    /// Waits for a wake-up, then continues every slot whose waker woke.
    fn turn(&mut self) {
        if self.wake_fd.may_sleep() {
            let mut fds = [PollFd::new(&*self.wake_fd, PollFlags::IN)];
            poll(&mut fds, None).expect("it is a descriptor");
            self.wake_fd.woke(true);
        }
        let mut woken = self.wake_fd.take();
        while woken != 0 {
            let slot = woken.trailing_zeros() as usize;
            woken &= woken - 1;
            if let Some(outcome) = self.slots.poll(slot) {
                self.note(slot, outcome);
            }
        }
    }

    fn note(&mut self, slot: usize, outcome: Result<usize, BlockError>) {
        let outcome = outcome.map(|length| self.slots.buffer(slot)[..length].to_vec());
        self.slots.release(slot);
        let number = self.running.remove(&slot).expect("it ran");
        self.ended.insert(number, outcome);
    }
}
