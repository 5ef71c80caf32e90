//! Where clients find the server.

use crate::client::encoded;
use crate::private_socket::{ListenError, PrivateSocket, at};
use crate::socket::Socket;
use crate::tls::TlsCredentials;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::sockopt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

/// After this long without a word, a client's machine is asked whether it is still there.
const ASK_AFTER: Duration = Duration::from_mins(1);
/// The pause between two such questions.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// This many questions without an answer end the connection.
const ASK_TIMES: u32 = 6;

/// A socket that clients can connect to.
#[derive(Debug)]
pub struct Listener {
    kind: Kind,
    credentials: Option<TlsCredentials>,
}

#[derive(Debug)]
enum Kind {
    Unix(PrivateSocket),
    /// Made by whoever started this process, who also removes its path.
    Given(UnixListener),
    Tcp(TcpListener),
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
        let socket = PrivateSocket::bind(path)?;
        Listener::ready(Kind::Unix(socket)).map_err(at(path))
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
        Listener::check_tcp(address)?;
        Listener::bind(address)
    }

    /// Refuses an address that [`Listener::tcp`] refuses, and does not listen.
    ///
    /// # Errors
    /// [`ListenError::NotLoopback`].
    ///
    /// ```
    /// assert!(forebay_nbd::Listener::check_tcp("0.0.0.0:10809".parse()?).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_tcp(address: SocketAddr) -> Result<(), ListenError> {
        if address.ip().to_canonical().is_loopback() {
            return Ok(());
        }
        Err(ListenError::NotLoopback { address })
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

    /// A unix socket that whoever started this process made. Its path, and who may connect to it,
    /// are that program's matter.
    ///
    /// # Errors
    /// What the system says.
    pub fn given_unix(listener: UnixListener) -> io::Result<Listener> {
        Listener::ready(Kind::Given(listener))
    }

    /// A TCP socket that whoever started this process made. Without `credentials`, it is one that
    /// only this machine can reach.
    ///
    /// # Errors
    /// [`ListenError::NotLoopback`], `System`.
    pub fn given_tcp(
        listener: TcpListener,
        credentials: Option<TlsCredentials>,
    ) -> Result<Listener, ListenError> {
        let failed = |source| ListenError::System {
            place: "the socket that was handed over".to_owned(),
            source,
        };
        let address = listener.local_addr().map_err(failed)?;
        if credentials.is_none() {
            Listener::check_tcp(address)?;
        }
        let listener = Listener::ready(Kind::Tcp(listener)).map_err(failed)?;
        Ok(Listener {
            credentials,
            ..listener
        })
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
            Kind::Unix(socket) => socket.listener().set_nonblocking(true)?,
            Kind::Given(listener) => listener.set_nonblocking(true)?,
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
            Kind::Unix(socket) => unix_uri(socket.path()),
            Kind::Given(listener) => listener
                .local_addr()
                .ok()
                .and_then(|address| address.as_pathname().map(unix_uri))
                .unwrap_or_default(),
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
        let accept_unix = |listener: &UnixListener| {
            let accepted = listener.accept();
            accepted.map(|(stream, _)| Socket::Unix(stream))
        };
        let accepted = match &self.kind {
            Kind::Unix(socket) => accept_unix(socket.listener()),
            Kind::Given(listener) => accept_unix(listener),
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
            Kind::Unix(socket) => socket.listener().as_fd(),
            Kind::Given(listener) => listener.as_fd(),
            Kind::Tcp(listener) => listener.as_fd(),
        }
    }
}

fn unix_uri(path: &Path) -> String {
    format!(
        "nbd+unix:///?socket={}",
        encoded(path.as_os_str().as_bytes())
    )
}

/// Without this, a machine that vanishes silently would keep its client's place for ever. A machine
/// whose guest is stopped still answers, because its kernel does.
fn notice_absence(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_tcp_keepidle(stream, ASK_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, ASK_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, ASK_TIMES)?;
    Ok(sockopt::set_socket_keepalive(stream, true)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

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
