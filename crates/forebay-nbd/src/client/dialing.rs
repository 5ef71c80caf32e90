//! The way to a server: a connection, and the handshake on it.
//!
//! The thread that dials has requests that wait, and may have to stop. So nothing here waits for
//! longer than [`LOOK`] before it asks its caller whether to go on. Only the resolver of the system
//! takes as long as it likes to find the addresses of a host.

use super::address::Place;
use super::conversation::INPUT_BYTES;
use super::greeting::{Facts, Greeting};
use super::line::Line;
use super::refusal::ClientError;
use super::trust::Trust;
use crate::socket::{Moved, Socket};
use forebay_base::Span;
use forebay_rt::thread::{Stopwatch, pause_current};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Longest sleep of a thread that waits for its server to come back.
pub(crate) const LOOK: Span = Span::from_millis(200);
/// Sleep of a thread before it tries again to enter the queue of a local server.
const QUEUE_LOOK: Span = Span::from_millis(20);
/// How long a server may take for a connection, and for the handshake on it.
const PATIENCE: Span = Span::from_secs(10);
/// A host that answers nothing for this long, while bytes are on their way to it, is gone.
const SILENCE_MS: u32 = 20_000;

/// Says whether to go on. It is called again and again during a wait for a server.
pub(crate) type GoesOn<'a> = dyn FnMut() -> bool + 'a;

/// Connects to `place`.
pub(crate) fn connect(place: &Place, goes_on: &mut GoesOn<'_>) -> io::Result<Socket> {
    let (host, port) = match place {
        Place::Unix(path) => {
            let address = SocketAddrUnix::new(path)?;
            let socket = reach(AddressFamily::UNIX, &address, goes_on)?;
            return Ok(Socket::Unix(UnixStream::from(socket)));
        }
        Place::Tcp { host, port } => (host.as_str(), *port),
    };
    let mut refused = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        let family = if address.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        match reach(family, &address, goes_on) {
            Ok(socket) => {
                let stream = TcpStream::from(socket);
                watch_over(&stream)?;
                return Ok(Socket::Tcp(stream));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// A socket that is connected to `address`.
fn reach(
    family: AddressFamily,
    address: &impl SocketAddrArg,
    goes_on: &mut GoesOn<'_>,
) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    let clock = Stopwatch::start();
    loop {
        match rustix::net::connect(&socket, address) {
            Ok(()) | Err(Errno::ISCONN) => return Ok(socket),
            Err(Errno::INPROGRESS | Errno::ALREADY) => sleep(&socket, PollFlags::OUT),
            // The queue of a local server is full, and nothing reports when it has room again.
            Err(Errno::AGAIN) => pause_current(QUEUE_LOOK),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        check(&clock, goes_on)?;
    }
}

/// Has the system notice a host that vanishes silently. Otherwise nothing would show that its
/// unanswered requests should be sent again.
fn watch_over(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    sockopt::set_tcp_user_timeout(stream, SILENCE_MS)?;
    Ok(())
}

/// The handshake, through TLS if there is `trust`. What the server sent after it is left in
/// `input`.
pub(crate) fn greet(
    line: &mut Line,
    export: &str,
    trust: Option<&Trust>,
    input: &mut Vec<u8>,
    goes_on: &mut GoesOn<'_>,
) -> Result<Facts, ClientError> {
    let mut greeting = match trust {
        Some(_) => Greeting::with_tls(export),
        None => Greeting::new(export),
    };
    let (mut output, mut room) = (Vec::new(), vec![0; INPUT_BYTES]);
    let clock = Stopwatch::start();
    loop {
        let (taken, facts) = greeting.advance(input, &mut output)?;
        input.drain(..taken);
        if let Some(facts) = facts {
            return Ok(facts);
        }
        if let Some(trust) = trust.filter(|_| greeting.begins_tls()) {
            greeting.secured(input, &mut output)?;
            let begun = line.begin_tls(trust);
            begun.map_err(|error| ClientError::Untrusted(trust.reason_of(&error)))?;
        }
        if taken > 0 {
            continue;
        }
        check(&clock, goes_on).map_err(ClientError::Away)?;
        let mut wanted = PollFlags::IN;
        wanted.set(PollFlags::OUT, !output.is_empty() || line.has_unsent());
        sleep(line, wanted);
        if exchange(line, &mut output, input, &mut room).is_err() {
            return Err(lost(line, trust));
        }
    }
}

/// The connection is gone.
struct Gone;

/// Sends and receives once.
fn exchange(
    line: &mut Line,
    output: &mut Vec<u8>,
    input: &mut Vec<u8>,
    room: &mut [u8],
) -> Result<(), Gone> {
    let sent = if output.is_empty() {
        line.flush()
    } else {
        line.send(output)
    };
    match sent {
        Moved::Bytes(count) if !output.is_empty() => drop(output.drain(..count)),
        Moved::Bytes(_) | Moved::WouldBlock => {}
        // What the server said of it may be there to be read.
        Moved::Closed | Moved::Broken if line.is_tls() => {}
        Moved::Closed | Moved::Broken => return Err(Gone),
    }
    match line.receive(room) {
        Moved::Bytes(count) => input.extend(&room[..count]),
        Moved::WouldBlock => {}
        Moved::Closed | Moved::Broken => return Err(Gone),
    }
    Ok(())
}

/// Why the connection is gone.
fn lost(line: &Line, trust: Option<&Trust>) -> ClientError {
    let kind = io::ErrorKind::ConnectionReset;
    match (trust, line.failure()) {
        (Some(trust), Some(failure)) => ClientError::Untrusted(trust.reason_of(failure)),
        // An alert can be lost with its connection.
        _ if line.is_tls() => ClientError::Away(io::Error::new(
            kind,
            "it ended the connection during TLS; it may not accept this client's certificate",
        )),
        _ => ClientError::Away(kind.into()),
    }
}

/// An error if the attempt that began with `clock` takes too long or is to stop.
fn check(clock: &Stopwatch, goes_on: &mut GoesOn<'_>) -> io::Result<()> {
    if clock.elapsed() > PATIENCE {
        Err(io::ErrorKind::TimedOut.into())
    } else if !goes_on() {
        Err(io::ErrorKind::Interrupted.into())
    } else {
        Ok(())
    }
}

/// Sleeps until `socket` is ready for what is `wanted`, or for a while.
fn sleep(socket: &impl AsFd, wanted: PollFlags) {
    let longest = Timespec {
        tv_sec: 0,
        tv_nsec: LOOK.as_nanos() as i64,
    };
    // A signal is no reason to give up: the socket is checked all the same.
    let _ = poll(&mut [PollFd::new(socket, wanted)], Some(&longest));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    /// A server that accepts nobody, and the connections that fill its queue.
    fn full(path: &Path) -> (UnixListener, Vec<OwnedFd>) {
        let listener = UnixListener::bind(path).expect("a socket in a fresh folder");
        rustix::net::listen(&listener, 0).expect("it listens already");
        let mut waiting = Vec::new();
        loop {
            let address = SocketAddrUnix::new(path).expect("a short path");
            match reach(AddressFamily::UNIX, &address, &mut || false) {
                Ok(socket) => waiting.push(socket),
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::Interrupted);
                    return (listener, waiting);
                }
            }
        }
    }

    #[test]
    fn a_caller_before_a_full_queue_is_asked_whether_to_go_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("far.sock");
        let (listener, waiting) = full(&path);
        let place = Place::Unix(path);
        let mut asked = 0;
        let given_up = connect(&place, &mut || {
            asked += 1;
            asked < 3
        });
        let kind = given_up.map_err(|error| error.kind()).err();
        assert_eq!((kind, asked), (Some(io::ErrorKind::Interrupted), 3));
        // It gets in once there is room.
        let mut accepted = Vec::new();
        let reached = connect(&place, &mut || {
            accepted.push(listener.accept().expect("somebody waits"));
            true
        });
        assert!(reached.is_ok());
        drop(waiting);
    }

    #[test]
    fn a_caller_before_a_silent_server_is_asked_whether_to_go_on() {
        let (socket, _silent) = UnixStream::pair().expect("two sockets");
        let mut asked = 0;
        let mut line = Line::new(Socket::Unix(socket));
        let facts = greet(&mut line, "disk", None, &mut Vec::new(), &mut || {
            asked += 1;
            asked < 3
        });
        let Err(ClientError::Away(error)) = facts else {
            panic!("{facts:?}");
        };
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        assert_eq!(asked, 3);
    }

    #[test]
    fn a_tcp_server_is_reached_and_a_closed_port_is_refused() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let host = "127.0.0.1".to_owned();
        let place = Place::Tcp { host, port };
        assert!(connect(&place, &mut || true).is_ok());
        drop(listener);
        let refused = connect(&place, &mut || true).map_err(|error| error.kind());
        assert_eq!(refused.err(), Some(io::ErrorKind::ConnectionRefused));
    }
}
