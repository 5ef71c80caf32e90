//! The files of a bench and their lengths.

use crate::contender::{Load, Phase, Preparation, Who};
use crate::error::BenchError;
use crate::phases::commit::GROWTH_BYTES;
use forebay_base::PAGE_BYTES;
use std::path::{Path, PathBuf};

/// Bytes of one write when the files are made.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;

/// The size of the data, as a multiple of the budget.
const DATA_BUDGETS: u64 = 4;

/// Files in which a contender commits: one for each thread, or one for all of them.
pub(crate) const COMMIT_FILES: u64 = 16;

/// Length of each of them before and after a step.
pub(crate) const COMMIT_BYTES: u64 = 1 << 20;

/// The files of one bench in its scratch folder.
///
/// All contenders share the data: they read it, and rewrite it with the same bytes. They do not
/// share the cached sets, because a direct write of one contender would drop the pages of another
/// from the kernel's page cache. For the same reason the kernel has its own data where it must keep
/// its cached pages while others write.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    folder: PathBuf,
    memory_bytes: u64,
}

impl Layout {
    pub(crate) fn new(folder: &Path, memory_bytes: u64) -> Layout {
        Layout {
            folder: folder.to_owned(),
            memory_bytes,
        }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// Pages of the data, four times the budget.
    pub(crate) fn data_pages(&self) -> u64 {
        DATA_BUDGETS * self.memory_bytes / PAGE_BYTES as u64
    }

    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_pages() * PAGE_BYTES as u64
    }

    /// Pages of the cached set: three quarters of the budget, so that a cache loses none of them to
    /// its own bookkeeping or its free reserve.
    pub(crate) fn set_pages(&self) -> u64 {
        self.memory_bytes / 4 * 3 / PAGE_BYTES as u64 / 64 * 64
    }

    /// Pages of the set that is overwritten: half of the budget, so that all of them may be dirty
    /// at once. No cache that must find a clean page in time accepts three quarters.
    pub(crate) fn dirtied_pages(&self) -> u64 {
        self.set_pages() / 3 * 2 / 64 * 64
    }

    /// Pages of the set that `load` uses.
    pub(crate) fn used_pages(&self, load: Load) -> u64 {
        match load {
            Load::Overwrite => self.dirtied_pages(),
            _ => self.set_pages(),
        }
    }

    pub(crate) fn set_bytes(&self) -> u64 {
        self.set_pages() * PAGE_BYTES as u64
    }

    pub(crate) fn data_file(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The data that `who` reads and overwrites at random; it is as long as the shared data.
    pub(crate) fn mixed_file(&self, who: Who) -> PathBuf {
        match who {
            Who::Kernel => self.folder.join("data-kernel"),
            _ => self.data_file(),
        }
    }

    /// The file of part `part`, of `parts`, of the cached set of `who`.
    pub(crate) fn set_file(&self, who: Who, part: u64, parts: u64) -> PathBuf {
        self.folder
            .join(format!("set-{}-{part}-of-{parts}", who.name()))
    }

    /// The files in which `who` commits, each of [`COMMIT_BYTES`].
    pub(crate) fn commit_files(&self, who: Who) -> impl Iterator<Item = PathBuf> {
        (0..COMMIT_FILES).map(move |index| {
            let name = format!("commit-{}-{index}", who.name());
            self.folder.join(name)
        })
    }

    /// The contender's own files in the state that `preparation` names.
    pub(crate) fn own_files(&self, who: Who, preparation: &Preparation) -> Vec<PathBuf> {
        if preparation.phase == Phase::Commit {
            return self.commit_files(who).collect();
        }
        let parts = preparation.set_files;
        (0..parts)
            .map(|part| self.set_file(who, part, parts))
            .collect()
    }

    /// The file of the kernel's slow disk.
    pub(crate) fn slow_file(&self) -> PathBuf {
        self.folder.join("slow-disk")
    }

    /// The files that are written before the first phase, with their lengths in bytes.
    pub(crate) fn files(&self) -> Vec<(PathBuf, u64)> {
        let mut files = vec![
            (self.data_file(), self.data_bytes()),
            (self.mixed_file(Who::Kernel), self.data_bytes()),
        ];
        for who in [Who::Forebay, Who::Kernel] {
            for (part, parts) in [(0, 1), (0, 2), (1, 2)] {
                files.push((self.set_file(who, part, parts), self.set_bytes() / parts));
            }
        }
        for who in Who::LIBRARY {
            files.extend(self.commit_files(who).map(|path| (path, COMMIT_BYTES)));
        }
        files
    }

    /// Room that all files take at their largest.
    pub(crate) fn room_bytes(&self) -> u64 {
        let written: u64 = self.files().iter().map(|(_, bytes)| bytes).sum();
        written + self.data_bytes() + GROWTH_BYTES
    }
}

/// Writes its number into each page of `bytes`. The first page is the one at `offset_bytes`.
pub(crate) fn stamp_pages(bytes: &mut [u8], offset_bytes: u64) {
    let first_page = offset_bytes / PAGE_BYTES as u64;
    for (page, number) in bytes.chunks_exact_mut(PAGE_BYTES).zip(first_page..) {
        page[..8].copy_from_slice(&number.to_le_bytes());
    }
}

/// Checks that `page` carries the number `page_index`.
pub(crate) fn check_stamp(who: Who, page: &[u8], page_index: u64) -> Result<(), BenchError> {
    let stamp = page.first_chunk::<8>().expect("a page has 4096 bytes");
    let found = u64::from_le_bytes(*stamp);
    if found == page_index {
        return Ok(());
    }
    Err(BenchError::WrongBytes {
        contender: who.name(),
        page: page_index,
        found,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_is_four_budgets_and_the_set_fits_one() {
        let layout = Layout::new(Path::new("/x"), 256 << 20);
        assert_eq!(layout.data_bytes(), 1 << 30);
        assert_eq!(layout.set_bytes(), 192 << 20);
        assert!(layout.room_bytes() >= (2 << 30) + (384 << 20));
    }

    #[test]
    fn a_wrong_page_is_reported() {
        let mut pages = vec![0_u8; 2 * PAGE_BYTES];
        stamp_pages(&mut pages, 7 * PAGE_BYTES as u64);
        check_stamp(Who::Floor, &pages[PAGE_BYTES..], 8).unwrap();
        let error = check_stamp(Who::Floor, &pages, 8).unwrap_err().to_string();
        assert!(error.contains("page 8 of floor"), "{error}");
    }
}
