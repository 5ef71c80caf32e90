//! Wakes a thread that waits for its socket when one of its own requests can continue.

use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::sync::Arc;
use std::task::{Wake, Waker};

/// An event descriptor with sixty-four wakers: it becomes readable when one of them wakes while its
/// owner sleeps.
///
/// invariant N1: a wake-up before or during [`WakeFd::may_sleep`] is seen by that call, or makes
/// the descriptor readable. The sleeper announces its sleep before it looks for wake-ups, the
/// waker sets its bit before it asks whether somebody sleeps, and all of them see these steps in
/// one order.
///
/// ```
/// use forebay_block::WakeFd;
/// let wake_fd = std::sync::Arc::new(WakeFd::new()?);
/// wake_fd.waker(5).wake();
/// assert!(!wake_fd.may_sleep());
/// assert_eq!(wake_fd.take(), 1 << 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct WakeFd {
    woken: AtomicU64,
    is_asleep: AtomicBool,
    event: OwnedFd,
}

impl WakeFd {
    /// One that nobody has woken.
    ///
    /// # Errors
    /// The error of the system if it has no descriptor for it.
    pub fn new() -> Result<WakeFd, Errno> {
        Ok(WakeFd {
            woken: AtomicU64::new(0),
            is_asleep: AtomicBool::new(false),
            event: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    /// The wakers that woke since the last call, as bits.
    pub fn take(&self) -> u64 {
        if self.woken.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.woken.swap(0, Ordering::Acquire)
    }

    /// Announces that the owner will now wait for [`WakeFd::as_fd`]. False if a waker has already
    /// woken.
    pub fn may_sleep(&self) -> bool {
        self.is_asleep.store(true, Ordering::SeqCst);
        if self.woken.load(Ordering::SeqCst) == 0 {
            return true;
        }
        self.is_asleep.store(false, Ordering::SeqCst);
        false
    }

    /// Announces that the owner is awake again; `heard` if the descriptor was readable.
    pub fn woke(&self, heard: bool) {
        self.is_asleep.store(false, Ordering::SeqCst);
        if heard {
            let mut count = [0; 8];
            // Nobody else reads the counter, so this read does not block.
            let _ = rustix::io::read(&self.event, &mut count);
        }
    }

    fn wake(&self, number: u32) {
        self.woken.fetch_or(1 << number, Ordering::SeqCst);
        if self.is_asleep.swap(false, Ordering::SeqCst) {
            // This fails only if the counter is full, and then the descriptor is readable already.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// The waker `number`, 0 to 63.
    pub fn waker(self: &Arc<Self>, number: u32) -> Waker {
        debug_assert!(number < u64::BITS);
        let wake_fd = self.clone();
        Waker::from(Arc::new(NumberedWaker { wake_fd, number }))
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

struct NumberedWaker {
    wake_fd: Arc<WakeFd>,
    number: u32,
}

impl Wake for NumberedWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake_fd.wake(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_readable(wake_fd: &WakeFd) -> bool {
        let mut fds = [PollFd::new(wake_fd, PollFlags::IN)];
        let now = Timespec::default();
        poll(&mut fds, Some(&now)).unwrap() == 1
    }

    #[test]
    fn invariant_n1_a_wake_up_is_seen_or_makes_the_descriptor_readable() {
        let wake_fd = Arc::new(WakeFd::new().unwrap());
        let waker = wake_fd.waker(63);
        waker.wake_by_ref();
        assert!(!wake_fd.may_sleep());
        assert!(!is_readable(&wake_fd));
        assert_eq!(wake_fd.take(), 1 << 63);
        assert!(wake_fd.may_sleep());
        waker.wake_by_ref();
        assert!(is_readable(&wake_fd));
        wake_fd.woke(true);
        assert!(!is_readable(&wake_fd));
        assert_eq!(wake_fd.take(), 1 << 63);
        assert_eq!(wake_fd.take(), 0);
    }
}
