//! Anonymous memory of a process.

use super::file::touch_work;
use super::{Process, World, WorldError};
use forebay_base::units::{byte_of, pages_for};
use forebay_engine::lab::LabFile;
use forebay_engine::{BuildError, File};
use forebay_rt::Work;

/// Pages that are touched for one charge.
const TOUCHED_AT_ONCE: u64 = 32;

/// An anonymous mapping. Dropping it frees its pages without charging for that.
pub struct Mapping {
    process: Process,
    memory: File,
    pages: u64,
    /// Pages from the first on that were touched before.
    touched_pages: u64,
}

impl World {
    /// Refuses a workload whose anonymous memory would not fit into swap and memory together.
    ///
    /// # Errors
    /// [`WorldError::NoSwap`].
    pub fn expect_swap(&self, what: &str, needed_bytes: u64) -> Result<(), WorldError> {
        let machine = self.machine();
        let swap_bytes = machine.storage.swap.map_or(0, |swap| swap.bytes);
        let memory_bytes = byte_of(machine.memory.all_managed_pages());
        if swap_bytes > 0 && needed_bytes <= swap_bytes.saturating_add(memory_bytes) {
            return Ok(());
        }
        Err(self.no_swap(what, needed_bytes))
    }

    fn no_swap(&self, what: &str, needed_bytes: u64) -> WorldError {
        let machine = self.machine();
        WorldError::NoSwap {
            what: what.into(),
            needed_bytes,
            machine: machine.name.clone(),
            swap_bytes: machine.storage.swap.map_or(0, |swap| swap.bytes),
            memory_bytes: byte_of(machine.memory.all_managed_pages()),
        }
    }
}

impl Process {
    /// Maps `length_bytes` of anonymous memory, zeros that take no room until they are touched.
    ///
    /// # Errors
    /// [`WorldError::NoSwap`] on a machine without swap, or with too little.
    pub async fn map_anonymous(&self, length_bytes: u64) -> Result<Mapping, WorldError> {
        self.charge(Work::Call).await;
        let world = self.world();
        let mapped = world.cache().anonymous(length_bytes);
        let memory = mapped.map_err(|error| match error {
            BuildError::NoSwap { .. } => world.no_swap("a mapping", length_bytes),
            other => other.into(),
        })?;
        Ok(Mapping {
            memory: self.own(&memory),
            process: self.clone(),
            pages: pages_for(length_bytes),
            touched_pages: 0,
        })
    }
}

impl Mapping {
    /// Its size.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Writes one word into each of `count` pages from `first_page` on.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub async fn touch(&mut self, first_page: u64, count: u64) -> Result<(), WorldError> {
        let end = self.pages.min(first_page + count);
        let mut page = first_page;
        while page < end {
            let behind = end.min(page + TOUCHED_AT_ONCE);
            let new = behind.saturating_sub(self.touched_pages.max(page));
            let charge = self.process.charge(touch_work(behind - page));
            charge.and(Work::Fault { pages: new }).await;
            let mut next = page;
            while next < behind {
                // A touch of memory that is there is most of what a hog does.
                next += self.memory.write_starts(&[0; 8], next..behind);
                if next < behind {
                    self.memory.write_at(&[0; 8], byte_of(next)).await?;
                    next += 1;
                }
            }
            self.touched_pages = self.touched_pages.max(behind);
            page = behind;
        }
        Ok(())
    }

    /// Writes one word into every page, from the first to the last.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub async fn touch_all(&mut self) -> Result<(), WorldError> {
        self.touch(0, self.pages).await
    }

    /// Frees the memory.
    pub async fn unmap(self) {
        let pages = self.touched_pages;
        self.process
            .charge(Work::Call)
            .and(Work::Unmap { pages })
            .await;
    }
}
