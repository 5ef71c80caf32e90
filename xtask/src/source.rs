//! The files that tidy looks at: those that git tracks, and new ones that it does not ignore.

use crate::command::text;
use crate::error::TaskError;
use crate::rust_text::RustText;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One text file of the repository.
pub(crate) struct Source {
    /// Its path from the root of the repository, with `/` between the parts.
    pub(crate) path: String,
    /// What is in it.
    pub(crate) text: String,
    /// Its code and its comments, separated, if it is Rust.
    pub(crate) rust: Option<RustText>,
}

impl Source {
    /// The file at `path` with the content `text`.
    pub(crate) fn new(path: &str, text: &str) -> Source {
        let is_rust = has_extension(path, "rs");
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
            rust: is_rust.then(|| RustText::new(path, text)),
        }
    }

    /// Whether this is a markdown page.
    pub(crate) fn is_markdown(&self) -> bool {
        has_extension(&self.path, "md")
    }
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|e| e == extension)
}

/// The root of the repository.
pub(crate) fn repository() -> Result<PathBuf, TaskError> {
    let root = git(Path::new("."), &["rev-parse", "--show-toplevel"])?;
    Ok(PathBuf::from(root.trim_end_matches('\n')))
}

/// The paths of every file below `root` that git tracks or would track, in order.
pub(crate) fn files(root: &Path) -> Result<Vec<String>, TaskError> {
    let listed = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let listed = git(root, &listed)?;
    // A tracked file may be gone from the working tree, and a link is not a file.
    let is_file = |path: &&str| {
        let found = root.join(path).symlink_metadata();
        found.is_ok_and(|found| found.is_file())
    };
    let mut paths: Vec<String> = listed.lines().filter(is_file).map(str::to_owned).collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Every text file below `root` that git tracks or would track.
pub(crate) fn load(root: &Path) -> Result<Vec<Source>, TaskError> {
    let mut sources = Vec::new();
    for path in files(root)? {
        let full = root.join(&path);
        let bytes = std::fs::read(&full).map_err(|cause| TaskError::Read { path: full, cause })?;
        if !bytes.contains(&0) {
            sources.push(Source::new(&path, &String::from_utf8_lossy(&bytes)));
        }
    }
    Ok(sources)
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String, TaskError> {
    let mut git = Command::new("git");
    // A build machine often checks out as one user and builds as another.
    git.args(["-c", "safe.directory=*", "-c", "core.quotePath=false"]);
    text(git.args(arguments).current_dir(folder))
}
