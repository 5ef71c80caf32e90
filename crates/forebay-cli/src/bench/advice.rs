//! What a person can do about a scratch folder that the system refuses.

use crate::error::CommandError;
use std::io;
use std::path::Path;

/// A maker of [`CommandError::Path`] for `map_err`, with the bench's own advice.
pub(super) fn at(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CommandError {
    CommandError::advised(action, path, advice)
}

/// What a person can do about `error`, to be put behind it.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; give a folder that may be written with --dir"
        }
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            "; give an existing folder with --dir"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; give a smaller --memory, or a --dir on a larger disk"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_one_line_that_says_what_to_do() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = at("write", Path::new("/scratch/data"))(full).to_string();
        assert!(error.starts_with("cannot write /scratch/data: "), "{error}");
        assert!(error.contains("--memory"), "{error}");
        assert!(!error.contains('\n'));
    }
}
