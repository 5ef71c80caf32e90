//! Anonymous memory of a process.

use super::file::touch_work;
use super::{Process, WorldError};
use forebay::File;
use forebay_base::units::{byte_of, pages_for};
use forebay_rt::Work;

/// Pages that are touched for one charge.
const TOUCHED_AT_ONCE: u64 = 32;

/// An anonymous mapping. Dropping it gives its pages up without charging for that.
pub struct Mapping {
    process: Process,
    memory: File,
    pages: u64,
    /// Pages from the first on that were touched before.
    touched_pages: u64,
}

impl Process {
    /// Maps `length_bytes` of anonymous memory, zeros that take no room until they are touched.
    ///
    /// # Errors
    /// [`WorldError::Build`] on a machine without swap, or with too little.
    pub async fn map_anonymous(&self, length_bytes: u64) -> Result<Mapping, WorldError> {
        self.charge(Work::Call).await;
        let memory = self.world().cache().anonymous(length_bytes)?;
        Ok(Mapping {
            memory: memory.on_node(self.node()),
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
            for page in page..behind {
                self.memory.write_at(&[0; 8], byte_of(page)).await?;
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

    /// Gives the memory up.
    pub async fn unmap(self) {
        let pages = self.touched_pages;
        self.process
            .charge(Work::Call)
            .and(Work::Unmap { pages })
            .await;
    }
}
