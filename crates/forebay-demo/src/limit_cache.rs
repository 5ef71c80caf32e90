//! A write-back cache that stops its writers at a limit, as the caches of many programs do.
//!
//! A write returns as soon as its block is in memory. When the dirty blocks reach the limit, every
//! writer stops until they have fallen to half of it. Clean blocks leave in the order of their last
//! use.

use super::slow_disk::SlowDisk;
use forebay_base::Span;
use forebay_base::sync::{Mutex, lock};
use forebay_rt::thread::pause_current;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// A stopped writer and an idle flusher look again after this long.
const RETRY: Span = Span::from_millis(1);

/// How many blocks a cache may have.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) cached: usize,
    pub(super) dirty: usize,
}

pub(super) struct LimitCache {
    pub(super) disk: SlowDisk,
    pub(super) block_bytes: u64,
    limits: Limits,
    blocks: Mutex<Blocks>,
}

#[derive(Default)]
struct Blocks {
    /// The bytes of each block, and when it was last used.
    cached: BTreeMap<u64, (Arc<[u8]>, u64)>,
    by_last_use: BTreeMap<u64, u64>,
    dirty: BTreeSet<u64>,
    uses: u64,
    is_stopped: bool,
    /// Why a block could not be written; the writers then fail as well.
    failure: Option<io::ErrorKind>,
}

impl LimitCache {
    pub(super) fn new(disk: SlowDisk, block_bytes: u64, limits: Limits) -> LimitCache {
        LimitCache {
            disk,
            block_bytes,
            limits,
            blocks: Mutex::default(),
        }
    }

    pub(super) fn write(&self, block: u64, bytes: &[u8]) -> io::Result<()> {
        let mut blocks = lock(&self.blocks);
        while blocks.is_stopped && blocks.failure.is_none() {
            drop(blocks);
            pause_current(RETRY);
            blocks = lock(&self.blocks);
        }
        if let Some(kind) = blocks.failure {
            return Err(kind.into());
        }
        blocks.dirty.insert(block);
        blocks.is_stopped = blocks.dirty.len() >= self.limits.dirty;
        blocks.put(block, bytes.into(), self.limits.cached);
        Ok(())
    }

    pub(super) fn read(&self, block: u64) -> io::Result<Arc<[u8]>> {
        let cached = lock(&self.blocks).bytes(block);
        let found = if let Some(bytes) = cached {
            bytes
        } else {
            let mut read = vec![0; self.block_bytes as usize];
            self.disk.read(&mut read, block * self.block_bytes)?;
            read.into()
        };
        let mut blocks = lock(&self.blocks);
        // It may have been written while it was read.
        let bytes = blocks.bytes(block).unwrap_or(found);
        blocks.put(block, Arc::clone(&bytes), self.limits.cached);
        Ok(bytes)
    }

    /// Writes dirty blocks in the order of their numbers until `ends`.
    pub(super) fn flush(&self, ends: impl Fn() -> bool) {
        let mut next = 0;
        while !ends() && lock(&self.blocks).failure.is_none() {
            next = self.flush_one(next);
        }
    }

    /// Writes the first dirty block from `from` on, and returns the number after it.
    fn flush_one(&self, from: u64) -> u64 {
        let Some((block, bytes)) = lock(&self.blocks).dirty_from(from) else {
            pause_current(RETRY);
            return 0;
        };
        let written = self.disk.write(&bytes, block * self.block_bytes);
        let mut blocks = lock(&self.blocks);
        if let Err(error) = written {
            blocks.failure = Some(error.kind());
            return block;
        }
        // A block that was written again meanwhile stays dirty.
        if blocks
            .bytes(block)
            .is_some_and(|now| Arc::ptr_eq(&now, &bytes))
        {
            blocks.dirty.remove(&block);
        }
        blocks.is_stopped &= blocks.dirty.len() > self.limits.dirty / 2;
        block + 1
    }
}

impl Blocks {
    fn bytes(&self, block: u64) -> Option<Arc<[u8]>> {
        self.cached.get(&block).map(|(bytes, _)| Arc::clone(bytes))
    }

    fn put(&mut self, block: u64, bytes: Arc<[u8]>, most: usize) {
        self.uses += 1;
        if let Some((_, last_use)) = self.cached.insert(block, (bytes, self.uses)) {
            self.by_last_use.remove(&last_use);
        }
        self.by_last_use.insert(self.uses, block);
        if self.cached.len() > most {
            let is_clean = |&(_, block): &(&u64, &u64)| !self.dirty.contains(block);
            if let Some((&last_use, &block)) = self.by_last_use.iter().find(is_clean) {
                self.by_last_use.remove(&last_use);
                self.cached.remove(&block);
            }
        }
    }

    fn dirty_from(&self, from: u64) -> Option<(u64, Arc<[u8]>)> {
        let next = self.dirty.range(from..).next();
        let block = *next.or_else(|| self.dirty.first())?;
        Some((block, self.bytes(block)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_rt::thread::spawn;

    const BLOCK_BYTES: u64 = 512;

    fn cache(cached: usize, dirty: usize) -> (tempfile::NamedTempFile, LimitCache) {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(100 * BLOCK_BYTES).unwrap();
        let disk = SlowDisk::open(file.path(), 1_000_000).unwrap();
        let limits = Limits { cached, dirty };
        (file, LimitCache::new(disk, BLOCK_BYTES, limits))
    }

    #[test]
    fn the_oldest_clean_block_leaves_and_is_read_again() {
        let (_file, cache) = cache(3, 100);
        cache.write(0, &[1; 512]).unwrap();
        for block in [1, 2, 1, 3] {
            cache.read(block).unwrap();
        }
        let cached = || {
            lock(&cache.blocks)
                .cached
                .keys()
                .copied()
                .collect::<Vec<_>>()
        };
        assert_eq!(cached(), [0, 1, 3], "0 is dirty, and 1 was used after 2");
        cache.flush_one(0);
        cache.read(4).unwrap();
        assert_eq!(cached(), [1, 3, 4]);
        assert_eq!(cache.read(0).unwrap()[0], 1, "the disk has it");
    }

    #[test]
    fn a_writer_at_the_limit_goes_on_below_half_of_it() {
        let (_file, cache) = cache(10, 4);
        let cache = Arc::new(cache);
        (0..4).for_each(|block| cache.write(block, &[2; 512]).unwrap());
        let stopped = Arc::clone(&cache);
        let writer = spawn("writer", move || stopped.write(4, &[3; 512]).unwrap()).unwrap();
        let next = cache.flush_one(0);
        assert!(!writer.is_finished(), "three of four are dirty");
        cache.flush_one(next);
        writer.join();
        assert_eq!(lock(&cache.blocks).dirty.first(), Some(&2));
    }
}
