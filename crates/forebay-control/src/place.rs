//! Where control sockets are by default.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The folder of this user's control sockets; none if the user has no runtime folder.
fn folder() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR")?;
    let runtime = PathBuf::from(runtime);
    runtime.is_absolute().then(|| runtime.join("forebay"))
}

/// The socket of this process. Its folder is made if it is missing.
pub fn of_this_process() -> Option<io::Result<PathBuf>> {
    let folder = folder()?;
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder);
    Some(made.map(|()| folder.join(format!("{}.sock", std::process::id()))))
}

/// The sockets at which a server answers.
pub fn answering() -> Vec<PathBuf> {
    let entries = folder().and_then(|folder| std::fs::read_dir(folder).ok());
    let paths = entries.into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = paths
        .map(|entry| entry.path())
        .filter(|path| is_answered(path))
        .collect();
    paths.sort();
    paths
}

fn is_answered(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "sock") && UnixStream::connect(path).is_ok()
}
