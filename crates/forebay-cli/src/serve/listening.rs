//! Where a server listens.

use super::arguments::{ListenAddress, TlsFiles};
use crate::daemon::address::Address;
use crate::daemon::say::say;
use crate::error::CommandError;
use forebay_nbd::{ListenError, Listener, TlsCredentials};
use listenfd::ListenFd;
use std::io;
use std::net::SocketAddr;

/// Refuses an address that other machines can reach if clients need no TLS. A host that cannot be
/// looked up may be known later: that is no mistake of the call.
pub(super) fn check(place: &ListenAddress) -> Result<(), CommandError> {
    let ListenAddress::Tcp(address) = place else {
        return Ok(());
    };
    for found in addresses(address)? {
        let refused = |error| CommandError::setting("nbd.listen", &not_listening(error));
        Listener::check_tcp(found).map_err(refused)?;
    }
    Ok(())
}

/// Listens.
pub(super) fn listen(place: &ListenAddress) -> Result<Listener, CommandError> {
    match place {
        ListenAddress::Unix(path) => Listener::unix(path).map_err(not_listening),
        ListenAddress::Tcp(address) => at_first(address, Listener::tcp),
        ListenAddress::Tls(address, files) => {
            let credentials = credentials(files)?;
            at_first(address, |found| Listener::tls(found, credentials.clone()))
        }
        ListenAddress::Given(files) => {
            let listener = given(files.as_ref().map(credentials).transpose()?)?;
            listener.map_err(|error| CommandError::Served(error.to_string()))
        }
    }
}

/// Listens at the first address of the host that can be used.
fn at_first(
    address: &Address,
    listen: impl Fn(SocketAddr) -> Result<Listener, ListenError>,
) -> Result<Listener, CommandError> {
    let found = addresses(address)?;
    let count = found.len();
    let mut refused = None;
    for one in found {
        match listen(one) {
            Ok(listener) => {
                if count > 1 {
                    say(format_args!(
                        "{address} has {count} addresses; listening on {one} only"
                    ));
                }
                return Ok(listener);
            }
            Err(error) => refused = Some(error),
        }
    }
    Err(not_listening(refused.expect("a host has an address")))
}

fn addresses(address: &Address) -> Result<Vec<SocketAddr>, CommandError> {
    address.resolve().map_err(|error| {
        CommandError::Served(format!("--listen: cannot look up {address}: {error}"))
    })
}

fn not_listening(error: ListenError) -> CommandError {
    match error {
        ListenError::NotLoopback { address } => CommandError::Served(format!(
            "--listen: {address} can be reached from other machines, which requires TLS: give \
             --tls-certificates DIR, a loopback address, or --socket"
        )),
        error => CommandError::Served(error.to_string()),
    }
}

/// The socket that systemd or a client passed.
fn given(
    credentials: Option<TlsCredentials>,
) -> Result<Result<Listener, ListenError>, CommandError> {
    let refused = |error: io::Error| {
        CommandError::Served(format!(
            "the socket that was handed over cannot be used: {error}"
        ))
    };
    let mut sockets = ListenFd::from_env();
    if sockets.len() != 1 {
        return Err(CommandError::Served(format!(
            "{} sockets were handed over to this process (LISTEN_FDS, LISTEN_PID), and it serves \
             one: hand over one, or give --socket or --listen",
            sockets.len()
        )));
    }
    if let Ok(Some(listener)) = sockets.take_unix_listener(0) {
        if credentials.is_some() {
            return Err(CommandError::Served(
                "TLS is for TCP, and the socket that was handed over is a Unix socket".into(),
            ));
        }
        return Ok(Ok(Listener::given_unix(listener).map_err(refused)?));
    }
    let listener = sockets.take_tcp_listener(0).map_err(refused)?;
    let listener = listener.expect("nothing else takes it");
    Ok(Listener::given_tcp(listener, credentials))
}

fn credentials(files: &TlsFiles) -> Result<TlsCredentials, CommandError> {
    let credentials = match files {
        TlsFiles::Folder(folder) => TlsCredentials::folder(folder),
        TlsFiles::Each {
            certificate,
            key,
            client_authority,
        } => TlsCredentials::load(certificate, key, client_authority),
    };
    credentials.map_err(|error| CommandError::Served(error.to_string()))
}
