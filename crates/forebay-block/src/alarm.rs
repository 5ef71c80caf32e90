//! Wakes a thread that waits for its socket when one of its own requests can continue.

use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::sync::Arc;
use std::task::{Wake, Waker};

/// Sixty-four bells and the sleeper that they wake.
///
/// invariant N1: a bell rung before or during [`Alarm::may_sleep`] is seen by that call, or makes
/// the descriptor readable. The sleeper announces its sleep before it looks at the bells, the
/// ringer rings before it asks whether somebody sleeps, and all of them see these steps in one
/// order.
///
/// ```
/// use forebay_block::Alarm;
/// let alarm = std::sync::Arc::new(Alarm::new()?);
/// alarm.bell(5).wake();
/// assert!(!alarm.may_sleep());
/// assert_eq!(alarm.take(), 1 << 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Alarm {
    rung: AtomicU64,
    is_asleep: AtomicBool,
    event: OwnedFd,
}

impl Alarm {
    /// An alarm with no bell rung.
    ///
    /// # Errors
    /// The error of the system if it has no descriptor for it.
    pub fn new() -> Result<Alarm, Errno> {
        Ok(Alarm {
            rung: AtomicU64::new(0),
            is_asleep: AtomicBool::new(false),
            event: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    /// The bells that rang since the last call, as bits.
    pub fn take(&self) -> u64 {
        if self.rung.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.rung.swap(0, Ordering::Acquire)
    }

    /// Announces that the owner will now wait for [`Alarm::as_fd`]. False if a bell has already
    /// rung.
    pub fn may_sleep(&self) -> bool {
        self.is_asleep.store(true, Ordering::SeqCst);
        if self.rung.load(Ordering::SeqCst) == 0 {
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

    fn ring(&self, bell: u32) {
        self.rung.fetch_or(1 << bell, Ordering::SeqCst);
        if self.is_asleep.swap(false, Ordering::SeqCst) {
            // This fails only if the counter is full, and then the descriptor is readable already.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// A waker that rings the bell `bell`, 0 to 63.
    pub fn bell(self: &Arc<Self>, bell: u32) -> Waker {
        debug_assert!(bell < u64::BITS);
        let alarm = self.clone();
        Waker::from(Arc::new(Bell { alarm, bell }))
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

struct Bell {
    alarm: Arc<Alarm>,
    bell: u32,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.alarm.ring(self.bell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_readable(alarm: &Alarm) -> bool {
        let mut fds = [PollFd::new(alarm, PollFlags::IN)];
        let now = Timespec::default();
        poll(&mut fds, Some(&now)).unwrap() == 1
    }

    #[test]
    fn invariant_n1_a_bell_is_seen_or_heard() {
        let alarm = Arc::new(Alarm::new().unwrap());
        let bell = alarm.bell(63);
        bell.wake_by_ref();
        assert!(!alarm.may_sleep());
        assert!(!is_readable(&alarm));
        assert_eq!(alarm.take(), 1 << 63);
        assert!(alarm.may_sleep());
        bell.wake_by_ref();
        assert!(is_readable(&alarm));
        alarm.woke(true);
        assert!(!is_readable(&alarm));
        assert_eq!(alarm.take(), 1 << 63);
        assert_eq!(alarm.take(), 0);
    }
}
