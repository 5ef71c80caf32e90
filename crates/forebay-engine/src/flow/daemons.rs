//! The daemons: a keeper for each node and each store, from the first moment on.

use crate::accounting::rates::EARLY_SAMPLES;
use crate::engine::Engine;
use crate::error::BuildError;
use crate::kernel::{Estimate, PastFileSystem, WriteDepth};
use crate::settings::BackingSettings;
use crate::state::attachment::Attachment;
use crate::state::backing::{Backing, WriteQueue};
use crate::state::vectors::IoVectors;
use crate::unwritten::OfStore;
use forebay_base::PAGE_BYTES;
use forebay_base::sync::lock;
use forebay_store::{Geometry, Store};
use std::sync::Arc;

/// Commits of one store that may be under way at a time. Commits of other objects wait.
const COMMITTERS: usize = 8;
/// Most writes of one store that may be under way at a time.
const OWN_VECTORS: u32 = 128;

impl Engine {
    /// Starts a kswapd for each node.
    pub(crate) fn start(&self) {
        for node in 0..self.memory.nodes.len() {
            let reclaim = self.reclaim.clone();
            self.accounts.keep("kswapd", move || {
                let reclaim = reclaim.clone();
                async move { reclaim.run_kswapd(node).await }
            });
        }
    }

    /// Registers `store` and starts its flusher.
    pub(crate) fn attach(
        &self,
        store: Arc<dyn Store>,
        settings: BackingSettings,
        file_system: PastFileSystem,
    ) -> Result<Arc<Backing>, BuildError> {
        if self.accounts.is_closing() {
            return Err(BuildError::Closed);
        }
        settings.check()?;
        let geometry = store.geometry();
        check_geometry(&geometry)?;
        let queue = self.write_queue(&geometry, settings.queue_requests, file_system);
        let arena = self.memory.frames.arena();
        let guaranteed = settings.min_ratio_percent;
        let attachment = Attachment::of(&store).ok_or(BuildError::AlreadyAttached)?;
        let attached = store.clone();
        let backing = self.dirty.stores.add(guaranteed, arena, |number| {
            Backing::new(number, store, settings, queue, self.accounts.now_ms())
        })?;
        *lock(&backing.owner.attachment) = Some(attachment);
        attached.attached(Arc::new(OfStore {
            pages: Arc::downgrade(&self.pages),
            backing: backing.number,
        }));
        self.dirty.begin_drain(&backing);
        let (flusher, of) = (self.flusher.clone(), backing.clone());
        self.accounts
            .keep("flusher", move || flusher.clone().flusher(of.clone()));
        for _ in 0..COMMITTERS {
            let (writeback, of) = (self.writeback.clone(), backing.clone());
            self.accounts
                .keep("committer", move || writeback.clone().committer(of.clone()));
        }
        Ok(backing)
    }

    /// How the flusher uses a store's queue, and the vectors that the store has for that. If the
    /// queue is to run full, each request has a long vector, outside the budget.
    fn write_queue(
        &self,
        geometry: &Geometry,
        queue_requests: u32,
        file_system: PastFileSystem,
    ) -> WriteQueue {
        let depth = self.kernel.values.write_depth;
        let queue = geometry.queue_depth.min(queue_requests);
        let turn_pages = file_system.whole_turn_pages;
        let (count, pages, least_writes) = if depth == WriteDepth::WholeTurns && turn_pages > 0 {
            let deep = queue.saturating_mul(geometry.max_io_pages) / turn_pages;
            (queue, turn_pages as usize, deep.clamp(2, queue.max(2)))
        } else if depth.fills_queues() {
            (queue, self.pages.vectors.half_pages(), queue)
        } else {
            let count = queue.min(OWN_VECTORS);
            (count, self.pages.vectors.short_pages(), count.min(2))
        };
        WriteQueue {
            geometry: *geometry,
            vectors: IoVectors::new(count as usize, pages),
            least_writes: u64::from(least_writes),
            samples: if self.kernel.values.estimate == Estimate::Learned {
                EARLY_SAMPLES
            } else {
                0
            },
            reclaim_writes: file_system.reclaim_writes,
            reclaim_run_pages: file_system.reclaim_run_pages,
            inodes: file_system.inodes,
            congestion: file_system
                .congestion
                .map(|signal| (self.reclaim.congestion.clone(), signal)),
        }
    }
}

/// Refuses a geometry out of the ranges that [`Geometry`] documents.
fn check_geometry(geometry: &Geometry) -> Result<(), BuildError> {
    for (setting, given) in [
        ("max_io_pages of the store", geometry.max_io_pages),
        ("write_unit_pages of the store", geometry.write_unit_pages),
        ("queue_depth of the store", geometry.queue_depth),
    ] {
        if given == 0 {
            return Err(BuildError::BadSetting {
                setting,
                given: given.to_string(),
                allowed: "at least 1",
            });
        }
    }
    let block = geometry.block_bytes;
    if !(512..=PAGE_BYTES as u32).contains(&block) || !block.is_power_of_two() {
        return Err(BuildError::BadSetting {
            setting: "block_bytes of the store",
            given: block.to_string(),
            allowed: "a power of two from 512 to 4096",
        });
    }
    Ok(())
}
