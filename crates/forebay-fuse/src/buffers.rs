//! Buffers for replies: a bounded number at a time, reused for the next replies.

use crate::shares::REPLIES;
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_rt::wait::{OwnedPermit, Permits};
use std::ops::{Deref, DerefMut};

/// Buffers of one size. They are zeros when new, so that the system gives memory only to the parts
/// that are used.
#[derive(Debug)]
pub(crate) struct Buffers {
    size_bytes: usize,
    free: Mutex<Vec<Vec<u8>>>,
    permits: Arc<Permits>,
}

/// A buffer, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Buffer {
    owner: Arc<Buffers>,
    bytes: Vec<u8>,
    _permit: OwnedPermit,
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        // A larger one is for a request that no kernel sends.
        if bytes.len() == self.owner.size_bytes {
            lock(&self.owner.free).push(bytes);
        }
    }
}

impl Buffers {
    pub(crate) fn new(size_bytes: usize) -> Buffers {
        Buffers {
            size_bytes,
            free: Mutex::new(Vec::with_capacity(REPLIES)),
            permits: Arc::new(Permits::new(REPLIES)),
        }
    }

    /// A buffer of at least `wanted_bytes`, as soon as few enough are in use.
    pub(crate) async fn take(self: Arc<Buffers>, wanted_bytes: usize) -> Buffer {
        let permit = self.permits.acquire_owned(1).await;
        let kept = lock(&self.free).pop();
        let bytes = match kept {
            Some(buffer) if buffer.len() >= wanted_bytes => buffer,
            _ => vec![0; self.size_bytes.max(wanted_bytes)],
        };
        Buffer {
            owner: self,
            bytes,
            _permit: permit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn who_finds_none_waits_for_one_that_is_given_back() {
        let buffers = Arc::new(Buffers::new(16));
        let take = || forebay_rt::block_on(buffers.clone().take(8));
        let mut taken: Vec<Buffer> = (0..REPLIES).map(|_| take()).collect();
        let mut next = pin!(buffers.clone().take(8));
        let mut context = Context::from_waker(Waker::noop());
        assert!(next.as_mut().poll(&mut context).is_pending());
        taken.pop();
        assert!(next.as_mut().poll(&mut context).is_ready());
        drop(taken);
        assert!(lock(&buffers.free).len() <= REPLIES);
    }
}
