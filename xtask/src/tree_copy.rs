//! A copy of the tree, in which files are changed and built.

use crate::error::TaskError;
use crate::source::files;
use std::fs;
use std::path::{Path, PathBuf};

/// A copy of the tree.
pub(crate) struct TreeCopy {
    path: PathBuf,
}

impl TreeCopy {
    /// Copies the tree below `root` to `path`.
    pub(crate) fn make(root: &Path, path: PathBuf) -> Result<TreeCopy, TaskError> {
        let copy = TreeCopy { path };
        for path in files(root)? {
            let from = root.join(&path);
            let content = fs::read(&from).map_err(|cause| TaskError::Read { path: from, cause })?;
            copy.put(&path, &content)?;
        }
        Ok(copy)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The text of a file of the copy.
    pub(crate) fn text(&self, path: &str) -> Result<String, TaskError> {
        let path = self.path.join(path);
        fs::read_to_string(&path).map_err(|cause| TaskError::Read { path, cause })
    }

    /// Writes a file of the copy if it has to change: cargo rebuilds what was written.
    pub(crate) fn put(&self, path: &str, content: &[u8]) -> Result<(), TaskError> {
        let to = self.path.join(path);
        if fs::read(&to).is_ok_and(|there| there == content) {
            return Ok(());
        }
        let folder = to.parent().expect("a file of the tree is in a folder");
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&to, content));
        written.map_err(|cause| TaskError::Write { path: to, cause })
    }
}
