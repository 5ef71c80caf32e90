//! Addresses of servers as people write them.

use std::ffi::OsString;
use std::fmt::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use thiserror::Error;

/// The port of NBD, if none is given.
const PORT: u16 = 10_809;

/// Where a server is, and which of its exports is meant.
///
/// ```
/// use forebay_nbd::client::Address;
/// let address: Address = "nbd://storage/disk%201".parse()?;
/// assert_eq!(address.export(), "disk 1");
/// assert_eq!(address.to_string(), "disk 1 of storage:10809");
/// let local: Address = "nbd+unix:///?socket=/run/nbd.sock".parse()?;
/// assert_eq!(local.to_string(), "the default export of /run/nbd.sock");
/// # Ok::<(), forebay_nbd::client::AddressError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub(crate) place: Place,
    /// Not without TLS, if it is there.
    pub(crate) tls: Option<TlsWishes>,
    export: String,
}

/// What an address says of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsWishes {
    /// The folder with the authority of the server and the certificate of the client.
    pub(crate) certificates: Option<PathBuf>,
    /// The name in the server's certificate, if it is not that of the host.
    pub(crate) host: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Unix(PathBuf),
    Tcp { host: String, port: u16 },
}

/// Why an address cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It does not begin with a known scheme.
    #[error("it must begin with nbd://, nbds://, nbd+unix:// or nbds+unix://")]
    Scheme,
    /// It has no host where one belongs.
    #[error("it names no host; write nbd://HOST[:PORT]/EXPORT")]
    NoHost,
    /// The port is not the number of a port.
    #[error("{0} is not a port; write nbd://HOST[:PORT]/EXPORT")]
    Port(String),
    /// It has no socket where one belongs.
    #[error("it names no socket; write nbd+unix:///EXPORT?socket=PATH")]
    NoSocket,
    /// It has a parameter that is not known here.
    #[error(
        "{0} is not known here; known are socket=PATH after nbd+unix:// and nbds+unix://, and \
         tls-certificates=DIR and tls-hostname=NAME after nbds:// and nbds+unix://"
    )]
    Unknown(String),
    /// A percent sign is not followed by two hexadecimal digits, or the name is not UTF-8.
    #[error("{0} is not text; write a special character as % and two hexadecimal digits")]
    Text(String),
}

impl Address {
    /// The name of the export; empty for the server's default one.
    pub fn export(&self) -> &str {
        &self.export
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.export.as_str() {
            "" => f.write_str("the default export")?,
            export => f.write_str(export)?,
        }
        write!(f, " of {}", self.place)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Unix(path) => write!(f, "{}", path.display()),
            Place::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Place::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

impl std::str::FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let (scheme, rest) = text.split_once("://").ok_or(AddressError::Scheme)?;
        let (rest, query) = rest
            .split_once('?')
            .map_or((rest, None), |(a, b)| (a, Some(b)));
        let (host, export) = rest.split_once('/').unwrap_or((rest, ""));
        let (is_unix, is_tls) = match scheme {
            "nbd" => (false, false),
            "nbds" => (false, true),
            "nbd+unix" => (true, false),
            "nbds+unix" => (true, true),
            _ => return Err(AddressError::Scheme),
        };
        let said = Parameters::read(query.unwrap_or_default(), is_unix, is_tls)?;
        let place = match said.socket {
            _ if !is_unix => tcp_place(host)?,
            Some(path) if host.is_empty() && !path.as_os_str().is_empty() => Place::Unix(path),
            _ => return Err(AddressError::NoSocket),
        };
        let export = String::from_utf8(decoded(export)?);
        Ok(Address {
            place,
            tls: is_tls.then_some(said.tls),
            export: export.map_err(|_| AddressError::Text(rest.to_owned()))?,
        })
    }
}

fn tcp_place(host: &str) -> Result<Place, AddressError> {
    let (host, port) = if let Some(bracketed) = host.strip_prefix('[') {
        let (host, after) = bracketed.split_once(']').ok_or(AddressError::NoHost)?;
        (host, after.strip_prefix(':'))
    } else {
        host.split_once(':')
            .map_or((host, None), |(a, b)| (a, Some(b)))
    };
    if host.is_empty() {
        return Err(AddressError::NoHost);
    }
    let port = port.map_or(Ok(PORT), |port| {
        port.parse()
            .map_err(|_| AddressError::Port(port.to_owned()))
    });
    Ok(Place::Tcp {
        host: host.to_owned(),
        port: port?,
    })
}

/// What stands after the question mark.
#[derive(Default)]
struct Parameters {
    socket: Option<PathBuf>,
    tls: TlsWishes,
}

impl Parameters {
    fn read(query: &str, is_unix: bool, is_tls: bool) -> Result<Parameters, AddressError> {
        let mut said = Parameters::default();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let bytes = decoded(value)?;
            match name {
                "socket" if is_unix => said.socket = Some(OsString::from_vec(bytes).into()),
                "tls-certificates" if is_tls => {
                    said.tls.certificates = Some(OsString::from_vec(bytes).into());
                }
                "tls-hostname" if is_tls => {
                    let host = String::from_utf8(bytes);
                    let host = host.map_err(|_| AddressError::Text(value.to_owned()))?;
                    said.tls.host = Some(host);
                }
                _ => return Err(AddressError::Unknown(part.to_owned())),
            }
        }
        Ok(said)
    }
}

/// `bytes` as they stand in an address: letters, digits, slashes and a few signs as they are.
pub(crate) fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // A string takes everything.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// `text` with its percent signs resolved.
fn decoded(text: &str) -> Result<Vec<u8>, AddressError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || (rest.next().map(char::from)).and_then(|digit| digit.to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => return Err(AddressError::Text(text.to_owned())),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_any_name_is_found_by_its_address() {
        let nasty: [&[u8]; 7] = [
            b"/run/nbd.sock",
            b"/run/a b&c=d",
            b"/run/100%?#",
            b"/run/new\nline\t",
            b"/run/\xff\xfe",
            "/run/\u{e9}t\u{e9}".as_bytes(),
            b"/run/%41",
        ];
        for name in nasty {
            let address = format!("nbd+unix:///?socket={}", encoded(name));
            assert!(
                address.bytes().all(|byte| byte.is_ascii_graphic()),
                "{address}"
            );
            let read: Address = address.parse().unwrap();
            let path = PathBuf::from(OsString::from_vec(name.to_vec()));
            assert_eq!(read.place, Place::Unix(path), "{address}");
        }
        assert_eq!(encoded(b"/run/nbd-1_2.sock"), "/run/nbd-1_2.sock");
    }

    #[test]
    fn addresses_are_read_as_libnbd_reads_them() {
        let tcp = |host: &str, port| Place::Tcp {
            host: host.to_owned(),
            port,
        };
        for (text, place, export) in [
            ("nbd://host", tcp("host", 10_809), ""),
            ("nbd://host/", tcp("host", 10_809), ""),
            ("nbd://host:1/a/b", tcp("host", 1), "a/b"),
            ("nbd://[::1]:7/x", tcp("::1", 7), "x"),
            ("nbd+unix:///?socket=/s", Place::Unix("/s".into()), ""),
            (
                "nbd+unix:///e%2F?socket=a%20b",
                Place::Unix("a b".into()),
                "e/",
            ),
        ] {
            let expected = Address {
                place,
                tls: None,
                export: export.to_owned(),
            };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn addresses_with_tls_name_certificates_and_the_server() {
        let address: Address = "nbds://host/disk?tls-certificates=/etc/pki%201&tls-hostname=other"
            .parse()
            .unwrap();
        let wishes = TlsWishes {
            certificates: Some("/etc/pki 1".into()),
            host: Some("other".to_owned()),
        };
        assert_eq!(
            (address.tls, address.export.as_str()),
            (Some(wishes), "disk")
        );
        let address: Address = "nbds+unix:///?socket=/s&tls-certificates=d"
            .parse()
            .unwrap();
        assert_eq!(address.place, Place::Unix("/s".into()));
        assert!(address.tls.is_some());
        let address: Address = "nbds://host".parse().unwrap();
        assert_eq!(address.tls, Some(TlsWishes::default()));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        let unknown = |what: &str| AddressError::Unknown(what.to_owned());
        for (text, error) in [
            ("nbd:///disk", AddressError::NoHost),
            ("nbd://:1/disk", AddressError::NoHost),
            (
                "nbd://host:port/disk",
                AddressError::Port("port".to_owned()),
            ),
            ("nbd://host:65536/", AddressError::Port("65536".to_owned())),
            ("nbd+unix:///disk", AddressError::NoSocket),
            ("nbd+unix:///disk?socket=", AddressError::NoSocket),
            ("nbd+unix://host/disk?socket=/s", AddressError::NoSocket),
            ("nbd+unix:///?tls=1", unknown("tls=1")),
            ("nbd://host/?socket=/s", unknown("socket=/s")),
            ("nbd://host/%4", AddressError::Text("%4".to_owned())),
            ("nbd://host/%xy", AddressError::Text("%xy".to_owned())),
            ("nbds://host/?tls-psk-file=k", unknown("tls-psk-file=k")),
            (
                "nbd://host/?tls-certificates=d",
                unknown("tls-certificates=d"),
            ),
            ("nbds+unix:///disk", AddressError::NoSocket),
            ("nbdx://host/", AddressError::Scheme),
            ("host", AddressError::Scheme),
        ] {
            assert_eq!(text.parse::<Address>(), Err(error), "{text}");
        }
    }
}
