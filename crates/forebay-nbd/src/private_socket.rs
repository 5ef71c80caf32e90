//! A unix socket that only this user may connect to.

use rustix::fs::{Mode, OFlags, chmod};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The longest path of a socket, without the zero at its end.
const LONGEST_BYTES: usize = 107;

/// Why a server cannot listen.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Another server answers at this socket.
    #[error("another server answers on {}; stop it or give another socket", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// The path exists and is not a socket.
    #[error("{} exists and is not a socket; give another path", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The address can be reached from other machines.
    #[error(
        "{address} can be reached from other machines, and TLS is not set up: give credentials for \
         TLS, a loopback address or a unix socket"
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// The system refused.
    #[error("cannot listen on {place}: {source}")]
    System {
        /// Where.
        place: String,
        /// Why.
        source: io::Error,
    },
}

/// A unix socket at a path, closed to other users. The path is removed with it if it is still ours.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("control.sock");
/// let socket = forebay_nbd::PrivateSocket::bind(&path)?;
/// assert!(forebay_nbd::PrivateSocket::bind(&path).is_err());
/// drop(socket);
/// assert!(!path.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PrivateSocket {
    listener: UnixListener,
    path: PathBuf,
    inode: (u64, u64),
}

impl Drop for PrivateSocket {
    fn drop(&mut self) {
        if inode(&self.path).is_ok_and(|found| found == self.inode) {
            // Another program may have removed it just now; then it is gone, as intended.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl PrivateSocket {
    /// Refuses a path that is too long for a socket.
    ///
    /// # Errors
    /// [`ListenError::System`].
    ///
    /// ```
    /// let long = "x".repeat(108);
    /// assert!(forebay_nbd::PrivateSocket::check_path(long.as_ref()).is_err());
    /// ```
    pub fn check_path(path: &Path) -> Result<(), ListenError> {
        if path.as_os_str().len() <= LONGEST_BYTES {
            return Ok(());
        }
        Err(at(path)(io::Error::new(
            io::ErrorKind::InvalidFilename,
            "the path of a socket has at most 107 bytes; give a shorter one",
        )))
    }

    /// Listens at `path`. A socket on which nobody answers any more is replaced, so that a server
    /// that was killed can come back.
    ///
    /// # Errors
    /// [`ListenError::InUse`], `NotASocket`, `System`.
    pub fn bind(path: &Path) -> Result<PrivateSocket, ListenError> {
        PrivateSocket::check_path(path)?;
        check_free(path)?;
        // The socket is made under another name, closed to other users, and only then moved to its
        // place. So nobody can connect in between, and an old socket is replaced in one step.
        let fresh = path.with_file_name(format!(".{}", std::process::id()));
        let listener = bind_at(&fresh).map_err(at(path))?;
        let placed = chmod(&fresh, Mode::RUSR | Mode::WUSR)
            .map_err(io::Error::from)
            .and_then(|()| inode(&fresh))
            .and_then(|inode| std::fs::rename(&fresh, path).map(|()| inode));
        let inode = placed.map_err(|error| {
            // A socket that could not be moved is of no use. The error of the move is the one to
            // report.
            let _ = std::fs::remove_file(&fresh);
            at(path)(error)
        })?;
        Ok(PrivateSocket {
            listener,
            path: path.to_owned(),
            inode,
        })
    }

    /// What accepts clients.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Binds a socket to a path, which may be longer than the path of a socket.
fn bind_at(path: &Path) -> io::Result<UnixListener> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return UnixListener::bind(path);
    };
    if path.as_os_str().len() <= LONGEST_BYTES {
        return UnixListener::bind(path);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, flags, Mode::empty())?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    UnixListener::bind(short.join(name))
}

/// Refuses a path that is taken.
fn check_free(path: &Path) -> Result<(), ListenError> {
    let path_of = || path.to_owned();
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(at(path)(error)),
        Ok(found) if !found.file_type().is_socket() => {
            Err(ListenError::NotASocket { path: path_of() })
        }
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Ok(_) => Err(ListenError::InUse { path: path_of() }),
            Err(error) => Err(at(path)(error)),
        },
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

/// An error of the system about `path`.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> ListenError {
    let place = path.display().to_string();
    move |source| ListenError::System {
        place: place.clone(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_socket_is_closed_to_others_and_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nbd.sock");
        let listener = PrivateSocket::bind(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(listener);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_socket_that_nobody_answers_on_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nbd.sock");
        // The standard listener leaves its name behind, as a server that was killed does.
        drop(UnixListener::bind(&path).unwrap());
        let listener = PrivateSocket::bind(&path).unwrap();
        UnixStream::connect(&path).unwrap();
        drop(listener);
    }

    #[test]
    fn every_path_that_a_socket_can_have_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let left = LONGEST_BYTES - folder.path().as_os_str().len() - 1;
        let deep = folder.path().join("d".repeat(left - 2));
        std::fs::create_dir(&deep).unwrap();
        for path in [deep.join("s"), folder.path().join("s".repeat(left))] {
            assert_eq!(path.as_os_str().len(), LONGEST_BYTES);
            let socket = PrivateSocket::bind(&path).unwrap();
            UnixStream::connect(&path).unwrap();
            drop(socket);
            assert!(!path.exists());
            let mut longer = path.into_os_string();
            longer.push("s");
            let refused = PrivateSocket::bind(longer.as_ref()).unwrap_err();
            let said = refused.to_string();
            assert!(said.contains("at most 107 bytes"), "{said}");
        }
        assert_eq!(std::fs::read_dir(&deep).unwrap().count(), 0);
    }

    #[test]
    fn what_is_no_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        std::fs::write(&path, "data").unwrap();
        let refused = PrivateSocket::bind(&path).unwrap_err();
        assert!(matches!(refused, ListenError::NotASocket { .. }));
        assert_eq!(std::fs::read(&path).unwrap(), b"data");
    }
}
