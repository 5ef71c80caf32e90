//! The threads of a store, and how they end.

use forebay_base::sync::{Mutex, lock};
use forebay_rt::thread::Joiner;
use std::sync::Arc;
use std::thread::ThreadId;

/// The threads of one store.
///
/// A finisher may drop the last handle of a store, and it runs on one of these threads, which must
/// not wait for itself. So each thread enrols, and a drop on one of them leaves the threads to end
/// by themselves.
///
/// ```
/// let mut threads = forebay_store::ThreadGroup::default();
/// threads.start("worker", || {})?;
/// threads.join();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct ThreadGroup {
    members: Arc<Mutex<Vec<ThreadId>>>,
    joiners: Vec<Joiner>,
}

impl ThreadGroup {
    /// Starts a thread that runs `body`, with a stack of
    /// [`forebay_rt::thread::SMALL_STACK_BYTES`].
    ///
    /// # Errors
    /// If the system has no thread left to give.
    pub fn start(
        &mut self,
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<()> {
        let members = Arc::clone(&self.members);
        let joiner = forebay_rt::thread::spawn_small(name, move || {
            lock(&members).push(std::thread::current().id());
            body();
        })?;
        self.joiners.push(joiner);
        Ok(())
    }

    /// Waits until every thread has ended; returns at once if called on one of them.
    pub fn join(&mut self) {
        let here = std::thread::current().id();
        if lock(&self.members).contains(&here) {
            self.joiners.clear();
        }
        for joiner in self.joiners.drain(..) {
            joiner.join();
        }
    }
}
