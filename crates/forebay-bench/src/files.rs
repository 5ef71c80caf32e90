//! The files of a bench as they are written before it measures.

use crate::error::BenchError;
use crate::layout::{CHUNK_BYTES, Layout, stamp_pages};
use forebay_host::Interrupts;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Writes the files of `layout`, each page stamped with its number, and drops them from the
/// kernel's page cache.
pub(crate) fn write_files(layout: &Layout, interrupts: &Interrupts) -> Result<(), BenchError> {
    for (path, bytes) in layout.files() {
        write_file(&path, bytes, interrupts)?;
    }
    Ok(())
}

fn write_file(path: &Path, bytes: u64, interrupts: &Interrupts) -> Result<(), BenchError> {
    let failed = || BenchError::in_scratch("write", path);
    let mut file = File::create_new(path).map_err(failed())?;
    let mut chunk = vec![0_u8; CHUNK_BYTES];
    let mut written = 0;
    while written < bytes {
        interrupts.check()?;
        stamp_pages(&mut chunk, written);
        let part = (bytes - written).min(CHUNK_BYTES as u64);
        file.write_all(&chunk[..part as usize]).map_err(failed())?;
        written += part;
    }
    file.sync_all().map_err(failed())?;
    fadvise(&file, 0, None, Advice::DontNeed).map_err(|e| failed()(e.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Who;
    use forebay_host::HostError;
    use std::fs;

    #[test]
    fn files_are_as_long_as_the_layout_says_and_stamped() {
        let parent = tempfile::tempdir().unwrap();
        let layout = Layout::new(parent.path(), 4 << 20);
        write_files(&layout, &Interrupts::none()).unwrap();
        let data = fs::read(layout.data_file()).unwrap();
        assert_eq!(data.len(), 16 << 20);
        assert_eq!(data[5 * 4096..5 * 4096 + 8], 5_u64.to_le_bytes());
        assert!(layout.set_file(Who::Kernel, 1, 2).exists());
    }

    #[test]
    fn an_interrupt_stops_the_writing() {
        let parent = tempfile::tempdir().unwrap();
        let layout = Layout::new(parent.path(), 4 << 20);
        let interrupts = Interrupts::none();
        interrupts.simulate(15);
        let error = write_files(&layout, &interrupts).unwrap_err();
        assert!(matches!(
            error,
            BenchError::Host(HostError::Interrupted { signal: 15 })
        ));
    }
}
