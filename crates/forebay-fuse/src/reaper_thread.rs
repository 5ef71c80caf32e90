//! The reaper's thread: it settles contents of closed files once they are written, lets them go
//! when there are too many, and asks the kernel to forget names when it knows too many. At the end
//! it makes everything durable.

use crate::contents::RETRY_AFTER;
use crate::folder::Folder;
use crate::inode::Inode;
use crate::parts::{Contents, Source};
use crate::reaper::{PRUNED, RETIRING};
use forebay_base::Span;
use forebay_base::sync::{Arc, atomic::Ordering};
use forebay_rt::wait::Permits;
use fuser::INodeNo;

/// How often to look while something has to be settled.
const SETTLE_INTERVAL: Span = Span::from_secs(5);

impl Folder {
    /// What the reaper's thread does until it is stopped.
    pub(crate) fn keep(&self) {
        let reaper = &self.source.reaper;
        forebay_rt::block_on(async {
            loop {
                let news = reaper.news.listen();
                if reaper.is_stopped() {
                    return;
                }
                self.contents.retire_surplus();
                self.source.settle_closed();
                self.source.prune_names();
                self.allocation.look_for_room();
                if reaper.is_settled() && !self.allocation.rooms.is_short() {
                    news.await;
                } else {
                    // A message or a timeout: both lead to another look.
                    let _ = self.source.rt.timeout(SETTLE_INTERVAL, news).await;
                }
            }
        });
    }
}

impl Contents {
    /// Lets go of contents while more are kept than there is room for.
    fn retire_surplus(self: &Arc<Contents>) {
        while let Some(permit) = self.source.reaper.retiring.try_acquire_owned(1) {
            let Some(inode) = self.source.next_unsettled() else {
                return;
            };
            let contents = self.clone();
            self.source.rt.spawn("retire", async move {
                let source = contents.source.clone();
                contents.retire(inode, permit).await;
                source.reaper.news.wake_all();
                source.reaper.spared.wake_all();
            });
        }
    }

    /// Makes every content durable, many at a time: a journal commits them together.
    pub(crate) async fn sync_contents(self: &Arc<Contents>) {
        let permits = Arc::new(Permits::new(RETIRING));
        for inode in self.source.inodes.all() {
            let Some(content) = inode.content.get() else {
                continue;
            };
            let permit = permits.acquire_owned(1).await;
            let contents = self.clone();
            self.source.rt.spawn("sync", async move {
                // The cache reports failures to the caller that waits for everything, and tries
                // again.
                let _ = content.file.sync().await;
                drop(content);
                contents.give_up_if_lost(&inode);
                drop(permit);
            });
        }
        drop(permits.acquire_owned(RETIRING).await);
    }

    /// Makes every content durable or gives it up, with as many tries as it takes: a lost content
    /// cannot be given up before the rest of it is written. To be called once the change gate is
    /// closed.
    pub(crate) async fn sync_until_settled(self: &Arc<Contents>) {
        loop {
            self.sync_contents().await;
            let inodes = self.source.inodes.all();
            for inode in &inodes {
                self.waive_if_lost(inode);
            }
            let mut contents = inodes.iter().filter_map(|inode| inode.content.get());
            let is_owed = contents.any(|content| {
                let is_lost = self.source.files.commit_failure(content.object).is_some();
                content.is_dirty() || is_lost && !content.is_waived()
            });
            if !is_owed {
                return;
            }
            drop(contents);
            drop(inodes);
            self.source.rt.sleep(RETRY_AFTER).await;
        }
    }
}

impl Source {
    /// The next file to retire that has something left to write. This lets go of the contents of
    /// files before it: a file that was only read needs no task.
    fn next_unsettled(&self) -> Option<Arc<Inode>> {
        loop {
            let inode = self.reaper.next_to_retire(self.limits)?;
            inode.content.with(|slot| slot.in_line = false);
            if !self.let_go_if_settled(&inode) {
                return Some(inode);
            }
        }
    }

    /// Sets the times of files that are written by now in the source.
    fn settle_closed(&self) {
        // They are taken out first, so that one that is closed while it is checked is checked
        // again.
        let mut unsettled = self.reaper.take_unsettled();
        unsettled.retain(|_, inode| {
            let inode = inode.upgrade();
            inode.is_some_and(|inode| !self.settle_if_closed(&inode))
        });
        self.reaper.put_back(unsettled);
    }

    /// Sets the times of a written file in the source, and returns whether nothing is left to do
    /// before it is closed again.
    fn settle_if_closed(&self, inode: &Arc<Inode>) -> bool {
        match inode.content.get() {
            Some(content) if !inode.content.is_in_use() => {
                // What cannot be settled now is tried again when it is let go.
                self.settle(&content).is_err() || content.is_settled()
            }
            // It is gone, or comes again when it is closed.
            _ => true,
        }
    }

    /// Sets the times of every written file in the source.
    pub(crate) fn settle_all(&self) {
        for inode in self.inodes.all() {
            if let Some(content) = inode.content.get() {
                // At the end no program is left to get the error; the bytes are safe, and the time
                // is that of the write-back.
                let _ = self.settle(&content);
            }
        }
    }

    /// Asks the kernel for what programs have stored to files that they have mapped: the kernel
    /// writes that before it drops its pages, and waits for us to take it.
    pub(crate) fn take_mapped(&self) {
        let Some(notifier) = self.reaper.notifier() else {
            return;
        };
        for inode in self.inodes.all() {
            if inode.content.is_in_use() {
                // A mount that has ended meanwhile has written all that was mapped.
                let _ = notifier.inval_inode(INodeNo(inode.id), 0, 0);
            }
        }
    }

    /// Asks the kernel to forget names, when it knows more files than descriptors can be spared.
    fn prune_names(&self) {
        let Some(notifier) = self.reaper.notifier() else {
            return;
        };
        if self.inodes.len() <= self.limits.inodes {
            return;
        }
        let after = self.reaper.pruned_up_to.load(Ordering::Relaxed);
        let found = self.inodes.forgettable(after, PRUNED);
        let up_to = match found.last() {
            Some(inode) if found.len() == PRUNED => inode.id,
            _ => 0,
        };
        self.reaper.pruned_up_to.store(up_to, Ordering::Relaxed);
        for inode in found {
            if let Some((parent, name)) = inode.name() {
                // A name that no longer exists need not be forgotten.
                let _ = notifier.inval_entry(INodeNo(parent.id), &name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::TestFolder;
    use forebay_rt::block_on;

    /// There is neither a task nor a wait, because the reaper lets go of many of them.
    #[test]
    fn a_closed_file_with_nothing_to_write_is_let_go_at_once() {
        let bench = TestFolder::new();
        let (folder, reaper) = (&bench.folder, &bench.source().reaper);
        let (clean, dirty) = (bench.create("clean", 0o600), bench.create("dirty", 0o600));
        folder.open_files.write(&dirty, b"bytes", 0, false).unwrap();
        let inodes = [clean, dirty].map(|open| open.used.inode.clone());
        reaper.descriptors_missing();
        let unsettled = folder
            .source
            .next_unsettled()
            .expect("one has to be written");
        assert_eq!(unsettled.id, inodes[1].id);
        assert!(inodes[0].content.is_empty());
        assert!(folder.source.next_unsettled().is_none());
        block_on(bench.cache.close()).unwrap();
    }

    /// It is closed after it was found open, and before it counts as done.
    #[test]
    fn a_file_that_is_closed_while_it_is_looked_at_is_not_forgotten() {
        let bench = TestFolder::new();
        let (folder, reaper) = (&bench.folder, &bench.source().reaper);
        let open = bench.create("file", 0o600);
        let inode = open.used.inode.clone();
        reaper.closed(&inode, true, true, folder.source.limits);
        let mut unsettled = reaper.take_unsettled();
        unsettled.retain(|_, inode| !folder.source.settle_if_closed(&inode.upgrade().unwrap()));
        assert!(unsettled.is_empty(), "it is open");
        folder.open_files.write(&open, b"bytes", 0, false).unwrap();
        drop(open);
        reaper.put_back(unsettled);
        let left = reaper.take_unsettled();
        assert!(left.contains_key(&inode.id), "nobody settles it");
        reaper.put_back(left);
        block_on(bench.cache.sync()).unwrap();
        folder.source.settle_closed();
        assert!(reaper.take_unsettled().is_empty());
        assert!(inode.content.get().unwrap().is_settled());
        block_on(bench.cache.close()).unwrap();
    }
}
