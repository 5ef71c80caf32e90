//! TCP addresses as users type them. A host is looked up when its address is used.

use std::fmt::{self, Display};
use std::io;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// The host of an address that is a port alone.
const THIS_MACHINE: &str = "127.0.0.1";
const EXPECTED: &str = "write HOST:PORT, such as localhost:10809 or [::1]:10809, or only a PORT \
                        of this machine";

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// A name or an IP address, without brackets.
    host: String,
    port: u16,
}

impl Address {
    /// All addresses of the host, at least one, in the order of the system.
    ///
    /// # Errors
    /// The host is unknown, or it cannot be looked up now.
    pub(crate) fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<_> = (&*self.host, self.port).to_socket_addrs()?.collect();
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "it has no address"));
        }
        Ok(found)
    }
}

impl FromStr for Address {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Address, &'static str> {
        let (host, port) = text.rsplit_once(':').unwrap_or((THIS_MACHINE, text));
        let port = port.parse().map_err(|_| EXPECTED)?;
        let in_brackets = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let host = match in_brackets {
            Some(host) => {
                let (number, _scope) = host.split_once('%').unwrap_or((host, ""));
                number.parse::<Ipv6Addr>().map_err(|_| EXPECTED)?;
                host
            }
            None if host.is_empty() || host.contains([':', '[', ']', '/', ' ']) => {
                return Err(EXPECTED);
            }
            None => host,
        };
        Ok(Address {
            host: host.to_owned(),
            port,
        })
    }
}

impl Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { host, port } = self;
        if host.contains(':') {
            write!(out, "[{host}]:{port}")
        } else {
            write!(out, "{host}:{port}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Address {
        text.parse().expect(text)
    }

    #[test]
    fn hosts_and_ports_are_read_and_shown() {
        for text in [
            "localhost:10809",
            "10.0.0.1:1",
            "[::1]:9100",
            "a-b.example:0",
        ] {
            assert_eq!(read(text).to_string(), text);
        }
        assert_eq!(read("10809"), read("127.0.0.1:10809"));
        for refused in [
            "",
            "localhost",
            ":1",
            "::1:10809",
            "[::1]",
            "[here]:1",
            "http://a:1",
            "a:70000",
            "a:-1",
        ] {
            assert_eq!(refused.parse::<Address>(), Err(EXPECTED), "{refused}");
        }
    }

    #[test]
    fn a_host_is_looked_up_and_one_that_is_unknown_is_refused() {
        let found = read("127.0.0.1:7").resolve().unwrap();
        assert_eq!(found, ["127.0.0.1:7".parse().unwrap()]);
        let local = read("localhost:7").resolve().unwrap();
        assert!(local.iter().all(|address| address.ip().is_loopback()));
        assert!(read("no.such.host.invalid:7").resolve().is_err());
    }
}
