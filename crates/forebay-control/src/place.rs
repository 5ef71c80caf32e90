//! Where control sockets are by default.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Where services of the system have theirs: `/run/forebay/NAME/control.sock`.
const SERVICES: &str = "/run/forebay";

/// The folder of this user's control sockets; none if the user has no runtime folder.
fn folder() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR")?;
    let runtime = PathBuf::from(runtime);
    runtime.is_absolute().then(|| runtime.join("forebay"))
}

/// The socket of this process. Its folder is made if it is missing, and sockets of processes that
/// were killed are removed from it.
pub fn of_this_process() -> Option<io::Result<PathBuf>> {
    let folder = folder()?;
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder);
    Some(made.map(|()| {
        drop(answering_in(&folder));
        folder.join(format!("{}.sock", std::process::id()))
    }))
}

/// The sockets at which a server answers: this user's, and those of services. This user's sockets
/// of processes that were killed are removed.
pub fn answering() -> Vec<PathBuf> {
    let own = folder().map_or_else(Vec::new, |folder| answering_in(&folder));
    let services = answering_services(Path::new(SERVICES)).into_iter();
    own.into_iter().chain(services).collect()
}

/// The control sockets one level below `folder` at which a server answers. A service makes its
/// folder, so none is removed here.
fn answering_services(folder: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = folders.map(|entry| entry.path().join("control.sock"));
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| UnixStream::connect(path).is_ok())
        .collect();
    paths.sort();
    paths
}

fn answering_in(folder: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = paths
        .map(|entry| entry.path())
        .filter(|path| is_answered(path))
        .collect();
    paths.sort();
    paths
}

/// A server listens before its socket has this name, so one that refuses has none any more.
fn is_answered(path: &Path) -> bool {
    if path.extension().is_none_or(|end| end != "sock") {
        return false;
    }
    match UnixStream::connect(path) {
        Ok(_) => true,
        Err(error) => {
            if error.kind() == io::ErrorKind::ConnectionRefused {
                // Another program may have removed it just now.
                let _ = std::fs::remove_file(path);
            }
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_service_is_found_by_its_control_socket_and_left_alone() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let path = |name: &str| folder.path().join(name);
        for name in ["gone", "here", "other"] {
            std::fs::create_dir(path(name)).expect("it is new");
        }
        drop(UnixListener::bind(path("gone/control.sock")).expect("it is free"));
        let _living = UnixListener::bind(path("here/control.sock")).expect("it is free");
        let _another = UnixListener::bind(path("other/nbd.sock")).expect("it is free");
        assert_eq!(
            answering_services(folder.path()),
            [path("here/control.sock")]
        );
        assert!(path("gone/control.sock").exists());
        assert!(answering_services(&path("none")).is_empty());
    }

    #[test]
    fn sockets_of_processes_that_were_killed_are_removed_and_others_stay() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let path = |name: &str| folder.path().join(name);
        drop(UnixListener::bind(path("1.sock")).expect("it is free"));
        let _living = UnixListener::bind(path("2.sock")).expect("it is free");
        std::fs::write(path("notes"), "mine").expect("there is room");
        assert_eq!(answering_in(folder.path()), [path("2.sock")]);
        assert!(!path("1.sock").exists());
        assert!(path("notes").exists());
    }
}
