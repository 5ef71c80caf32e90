//! Files of the kernel that are read again and again.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// More than the files are long that are read here: each is one call.
const ROOM_BYTES: usize = 16 << 10;

/// A file that stays open. The kernel makes its text anew at each read from the beginning.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    file: Option<File>,
}

impl Kept {
    pub(super) fn new(path: impl Into<PathBuf>) -> Kept {
        Kept {
            path: path.into(),
            file: None,
        }
    }

    /// Its text now, none if it cannot be read. A file that has gone is looked for again each time.
    pub(super) fn text(&mut self) -> Option<String> {
        let text = self.read();
        if text.is_none() && self.file.take().is_some() {
            // The file may be another one by now, as that of a group that was made again.
            return self.read();
        }
        text
    }

    fn read(&mut self) -> Option<String> {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let file = self.file.as_ref()?;
        let mut bytes = vec![0; ROOM_BYTES];
        let length = file.read_at(&mut bytes, 0).ok()?;
        bytes.truncate(length);
        String::from_utf8(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_kept_file_is_read_as_it_is_now_and_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.max");
        let mut kept = Kept::new(&path);
        assert_eq!(kept.text(), None);
        fs::write(&path, "1000\n").unwrap();
        assert_eq!(kept.text().as_deref(), Some("1000\n"));
        fs::write(&path, "900\n").unwrap();
        assert_eq!(kept.text().as_deref(), Some("900\n"));
    }
}
