//! Where clients find the server.

use crate::socket::Socket;
use crate::tls::TlsCredentials;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, chmod};
use rustix::net::sockopt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// After this long without a word, a client's machine is asked whether it is still there.
const ASK_AFTER: Duration = Duration::from_mins(1);
/// The pause between two such questions.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// This many questions without an answer end the connection.
const ASK_TIMES: u32 = 6;

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

/// A socket that clients can connect to.
#[derive(Debug)]
pub struct Listener {
    kind: Kind,
    credentials: Option<TlsCredentials>,
}

#[derive(Debug)]
enum Kind {
    Unix { listener: UnixListener, name: Name },
    Tcp(TcpListener),
}

/// The name of a unix socket in the file system. It is removed with the listener if it is still
/// ours.
#[derive(Debug)]
struct Name {
    path: PathBuf,
    inode: (u64, u64),
}

impl Drop for Name {
    fn drop(&mut self) {
        if inode(&self.path).is_ok_and(|found| found == self.inode) {
            // Another program may have removed it just now; then it is gone, as intended.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Listener {
    /// A unix socket at `path` that only this user may connect to. A socket on which nobody answers
    /// any more is replaced, so that a server that was killed can come back.
    ///
    /// # Errors
    /// [`ListenError::InUse`], `NotASocket`, `System`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("nbd.sock");
    /// let listener = forebay_nbd::Listener::unix(&path)?;
    /// assert!(forebay_nbd::Listener::unix(&path).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unix(path: &Path) -> Result<Listener, ListenError> {
        check_free(path)?;
        // The socket is made under another name, closed to other users, and only then moved to its
        // place. So nobody can connect in between, and an old socket is replaced in one step.
        let mut fresh = path.as_os_str().to_owned();
        fresh.push(format!(".{}", std::process::id()));
        let fresh = PathBuf::from(fresh);
        let listener = UnixListener::bind(&fresh).map_err(at(path))?;
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
        let name = Name {
            path: path.to_owned(),
            inode,
        };
        Listener::ready(Kind::Unix { listener, name }).map_err(at(path))
    }

    /// A TCP address that only this machine can reach. Port 0 takes a free port.
    ///
    /// # Errors
    /// [`ListenError::NotLoopback`], `System`.
    ///
    /// ```
    /// use forebay_nbd::{Listener, ListenError};
    /// let open = Listener::tcp("0.0.0.0:10809".parse()?);
    /// assert!(matches!(open, Err(ListenError::NotLoopback { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tcp(address: SocketAddr) -> Result<Listener, ListenError> {
        if !address.ip().to_canonical().is_loopback() {
            return Err(ListenError::NotLoopback { address });
        }
        Listener::bind(address)
    }

    /// A TCP address of any kind, for clients that use TLS and show a certificate that
    /// `credentials` accept.
    ///
    /// # Errors
    /// [`ListenError::System`].
    pub fn tls(address: SocketAddr, credentials: TlsCredentials) -> Result<Listener, ListenError> {
        let mut listener = Listener::bind(address)?;
        listener.credentials = Some(credentials);
        Ok(listener)
    }

    fn bind(address: SocketAddr) -> Result<Listener, ListenError> {
        let failed = |source| ListenError::System {
            place: address.to_string(),
            source,
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        Listener::ready(Kind::Tcp(listener)).map_err(failed)
    }

    fn ready(kind: Kind) -> io::Result<Listener> {
        match &kind {
            Kind::Unix { listener, .. } => listener.set_nonblocking(true)?,
            Kind::Tcp(listener) => listener.set_nonblocking(true)?,
        }
        Ok(Listener {
            kind,
            credentials: None,
        })
    }

    /// The credentials that clients must match, if TLS is demanded.
    pub(crate) fn credentials(&self) -> Option<&TlsCredentials> {
        self.credentials.as_ref()
    }

    /// The address for clients: an NBD URI.
    pub fn uri(&self) -> String {
        match &self.kind {
            Kind::Unix { name, .. } => format!("nbd+unix:///?socket={}", name.path.display()),
            Kind::Tcp(listener) => listener
                .local_addr()
                .map_or_else(|_| String::new(), |address| self.uri_of(address)),
        }
    }

    fn uri_of(&self, address: SocketAddr) -> String {
        let scheme = if self.credentials.is_some() {
            "nbds"
        } else {
            "nbd"
        };
        format!("{scheme}://{address}")
    }

    /// The next client, if one is waiting.
    pub(crate) fn accept(&self) -> io::Result<Option<Socket>> {
        let accepted = match &self.kind {
            Kind::Unix { listener, .. } => {
                listener.accept().map(|(stream, _)| Socket::Unix(stream))
            }
            Kind::Tcp(listener) => listener.accept().and_then(|(stream, _)| {
                stream.set_nodelay(true)?;
                notice_absence(&stream)?;
                Ok(Socket::Tcp(stream))
            }),
        };
        match accepted {
            Ok(socket) => Ok(Some(socket)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::Interrupted
                | io::ErrorKind::ConnectionAborted => Ok(None),
                _ => Err(error),
            },
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Unix { listener, .. } => listener.as_fd(),
            Kind::Tcp(listener) => listener.as_fd(),
        }
    }
}

/// Without this, a machine that vanishes silently would keep its client's place for ever. A machine
/// whose guest is stopped still answers, because its kernel does.
fn notice_absence(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_tcp_keepidle(stream, ASK_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, ASK_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, ASK_TIMES)?;
    Ok(sockopt::set_socket_keepalive(stream, true)?)
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

fn at(path: &Path) -> impl Fn(io::Error) -> ListenError {
    let place = path.display().to_string();
    move |source| ListenError::System {
        place: place.clone(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_socket_is_closed_to_others_and_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nbd.sock");
        let listener = Listener::unix(&path).unwrap();
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
        let listener = Listener::unix(&path).unwrap();
        UnixStream::connect(&path).unwrap();
        drop(listener);
    }

    #[test]
    fn what_is_no_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        std::fs::write(&path, "data").unwrap();
        let refused = Listener::unix(&path).unwrap_err();
        assert!(matches!(refused, ListenError::NotASocket { .. }));
        assert_eq!(std::fs::read(&path).unwrap(), b"data");
    }

    #[test]
    fn a_client_over_tcp_whose_machine_vanishes_is_noticed() {
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let uri = listener.uri();
        let _client = TcpStream::connect(uri.strip_prefix("nbd://").unwrap()).unwrap();
        poll(&mut [PollFd::new(&listener, PollFlags::IN)], None).unwrap();
        let socket = listener.accept().unwrap().unwrap();
        assert!(sockopt::socket_keepalive(&socket).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&socket).unwrap().as_secs(), 60);
        assert_eq!(sockopt::tcp_keepintvl(&socket).unwrap().as_secs(), 10);
        assert_eq!(sockopt::tcp_keepcnt(&socket).unwrap(), 6);
    }

    #[test]
    fn only_loopback_addresses_are_served() {
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let refused = Listener::tcp(address.parse().unwrap()).unwrap_err();
            assert!(
                matches!(refused, ListenError::NotLoopback { .. }),
                "{address}"
            );
        }
        assert!(Listener::tcp("127.0.0.1:0".parse().unwrap()).is_ok());
    }
}
