//! Commits past every cache: a direct write of whole blocks, and the call that makes it durable.

use super::ring::open_direct;
use crate::error::BenchError;
use crate::measure::AlignedBytes;
use crate::phases::commit::DurableFile;
use forebay_base::PAGE_BYTES;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BLOCK_BYTES: u64 = PAGE_BYTES as u64;

/// A file that is written past the page cache, if the file system allows that.
pub(crate) struct DirectFile {
    file: Arc<File>,
    path: PathBuf,
    /// As many blocks as a write of a page can touch.
    blocks: AlignedBytes,
}

impl DirectFile {
    /// The file, and whether it is past the page cache.
    pub(crate) fn open(path: &Path) -> Result<(DirectFile, bool), BenchError> {
        let (file, is_direct) = open_direct(path)?;
        Ok((DirectFile::new(Arc::new(file), path), is_direct))
    }

    /// Another handle with its own blocks.
    pub(crate) fn again(&self) -> DirectFile {
        DirectFile::new(Arc::clone(&self.file), &self.path)
    }

    fn new(file: Arc<File>, path: &Path) -> DirectFile {
        DirectFile {
            file,
            path: path.to_owned(),
            blocks: AlignedBytes::new(2 * PAGE_BYTES, PAGE_BYTES),
        }
    }
}

impl DurableFile for DirectFile {
    /// Writes the blocks that `bytes` touch. Other bytes in these blocks are not preserved: the
    /// floor does not remember them, and nobody reads them.
    fn commit(&mut self, bytes: &[u8], offset_bytes: u64) -> Result<(), BenchError> {
        let first_byte = offset_bytes / BLOCK_BYTES * BLOCK_BYTES;
        let start = (offset_bytes - first_byte) as usize;
        let end = start + bytes.len();
        self.blocks[start..end].copy_from_slice(bytes);
        let touched = &self.blocks[..end.next_multiple_of(PAGE_BYTES)];
        self.file
            .write_all_at(touched, first_byte)
            .and_then(|()| self.file.sync_data())
            .map_err(BenchError::in_scratch("write", &self.path))
    }

    fn cut(&mut self, length_bytes: u64) -> Result<(), BenchError> {
        self.file
            .set_len(length_bytes)
            .map_err(BenchError::in_scratch("cut", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_writes_whole_blocks_with_its_bytes_in_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![1; PAGE_BYTES]).unwrap();
        let (file, _) = DirectFile::open(&path).unwrap();
        let mut file = file.again();
        let offset_bytes = 2 * BLOCK_BYTES - 100;
        file.commit(&[7; 200], offset_bytes).unwrap();
        let found = std::fs::read(&path).unwrap();
        assert_eq!(found.len(), 3 * PAGE_BYTES);
        let at = offset_bytes as usize;
        assert_eq!(found[..PAGE_BYTES], [1; PAGE_BYTES]);
        assert_eq!(found[at..at + 200], [7; 200]);
        file.cut(BLOCK_BYTES).unwrap();
        assert_eq!(path.metadata().unwrap().len(), BLOCK_BYTES);
    }
}
