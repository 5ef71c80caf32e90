//! A proxy in front of a server that spoils what passes: replies are dropped after the server
//! has acted, requests are answered in its place or reset, bytes pass slowly.

#![allow(dead_code, reason = "each test file uses a part")]

use forebay_base::sync::{Mutex, lock};
use forebay_base::{Prng, Span};
use forebay_rt::thread::{Stopwatch, pause_current, spawn};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// The server answers.
    Pass,
    /// The server answers a request without this header.
    PassWithout(&'static str),
    /// The server answers a request whose keys are replaced by these, at the end of its query.
    PassSigned(&'static str),
    /// The server acts, and nobody hears of it.
    DropReply,
    /// The server hears nothing, and the connection ends.
    Reset,
    /// The server hears nothing, and this is the answer.
    Answer(u16, String),
}

/// From the head of a request to what becomes of it.
pub(crate) type Rule = dyn FnMut(&str) -> Deed + Send;

/// A proxy that runs until the program ends.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    server_port: u16,
    rule: Mutex<Box<Rule>>,
    pace: Option<Pace>,
}

impl Proxy {
    /// Stands in front of the server at `server_port`.
    pub(crate) fn before(server_port: u16) -> Proxy {
        Proxy::with_pace(server_port, None)
    }

    /// The same; all bodies together pass with so many bytes a second each way.
    pub(crate) fn paced(server_port: u16, bytes_per_s: u64) -> Proxy {
        Proxy::with_pace(server_port, Some(Pace::new(bytes_per_s)))
    }

    fn with_pace(server_port: u16, pace: Option<Pace>) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it has an address").port();
        let shared = Arc::new(Shared {
            server_port,
            rule: Mutex::new(Box::new(|_: &str| Deed::Pass)),
            pace,
        });
        let serving = shared.clone();
        let accepting = move || {
            for client in listener.incoming().flatten() {
                let shared = serving.clone();
                let served = move || {
                    // A client or server that goes away ends its request.
                    let _ = shared.serve(&client);
                    let _ = client.shutdown(Shutdown::Both);
                };
                drop(spawn("proxy", served).expect("a thread can be started"));
            }
        };
        drop(spawn("proxy-accepts", accepting).expect("a thread can be started"));
        Proxy { port, shared }
    }

    /// Asks `rule` about each request from now on.
    pub(crate) fn rule(&self, rule: impl FnMut(&str) -> Deed + Send + 'static) {
        *lock(&self.shared.rule) = Box::new(rule);
    }

    /// Spoils one request of three, as `seed` says.
    pub(crate) fn spoil_by(&self, seed: u64) {
        let mut prng = Prng::from_seed(seed);
        self.rule(move |_| match prng.below(18) {
            0 | 1 => Deed::DropReply,
            2 => Deed::Reset,
            3 => Deed::error(503, "SlowDown"),
            4 => Deed::error(409, "ConditionalRequestConflict"),
            5 => Deed::error(500, "InternalError"),
            _ => Deed::Pass,
        });
    }
}

impl Deed {
    /// The answer of a server that refuses; all of them answer in this form.
    pub(crate) fn error(status: u16, code: &str) -> Deed {
        let text = format!("<Error><Code>{code}</Code><Message>by the proxy</Message></Error>");
        Deed::Answer(status, text)
    }
}

impl Shared {
    /// One request of a client, and its answer.
    fn serve(&self, mut client: &TcpStream) -> io::Result<()> {
        let (head, body) = read_message(client)?;
        if let Some(pace) = &self.pace {
            pace.pass(body.len());
        }
        let deed = (lock(&self.rule))(&head);
        let (without, keys) = match deed {
            Deed::Reset => return Ok(()),
            Deed::Answer(status, text) => {
                let length = text.len();
                return client.write_all(
                    format!(
                        "HTTP/1.1 {status} Proxy\r\nContent-Length: {length}\r\n\
                         Content-Type: application/xml\r\nConnection: close\r\n\r\n{text}"
                    )
                    .as_bytes(),
                );
            }
            Deed::PassWithout(header) => (header, None),
            Deed::PassSigned(keys) => ("authorization", Some(keys)),
            Deed::Pass | Deed::DropReply => ("connection", None),
        };
        let head = keys.map_or_else(|| head.clone(), |keys| with_query(&head, keys));
        let reply = self.ask(&head, without, &body)?;
        if deed == Deed::DropReply {
            return Ok(());
        }
        let step = if self.pace.is_some() {
            64 << 10
        } else {
            reply.len()
        };
        for part in reply.chunks(step.max(1)) {
            if let Some(pace) = &self.pace {
                pace.pass(part.len());
            }
            client.write_all(part)?;
        }
        Ok(())
    }

    /// The server's whole answer to a request without the header `without`.
    fn ask(&self, head: &str, without: &str, body: &[u8]) -> io::Result<Vec<u8>> {
        let mut server = TcpStream::connect(("127.0.0.1", self.server_port))?;
        let mut text = String::new();
        for line in head.trim_end().split("\r\n") {
            let name = line.split(':').next().unwrap_or_default();
            if !name.eq_ignore_ascii_case(without) {
                text += line;
                text += "\r\n";
            }
        }
        text += "connection: close\r\n\r\n";
        server.write_all(text.as_bytes())?;
        server.write_all(body)?;
        let mut reply = Vec::new();
        server.read_to_end(&mut reply)?;
        Ok(reply)
    }
}

/// `head` with `more` at the end of the query.
fn with_query(head: &str, more: &str) -> String {
    let (line, rest) = head.split_once("\r\n").expect("a head has lines");
    let (target, version) = line.rsplit_once(' ').expect("it ends with a version");
    let sign = if target.contains('?') { '&' } else { '?' };
    format!("{target}{sign}{more} {version}\r\n{rest}")
}

/// The head of a request with the empty line at its end, and its body.
pub(crate) fn read_message(mut stream: &TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut part = vec![0; 64 << 10];
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        let count = stream.read(&mut part)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend(&part[..count]);
    };
    let mut body = bytes.split_off(end);
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let length = header_of(&head, "content-length").and_then(|value| value.parse().ok());
    let known = body.len();
    body.resize(length.unwrap_or(0), 0);
    if body.len() > known {
        stream.read_exact(&mut body[known..])?;
    }
    Ok((head, body))
}

/// The value of a header.
pub(crate) fn header_of<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.split("\r\n").find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// A link that all connections share.
struct Pace {
    bytes_per_s: u64,
    clock: Stopwatch,
    /// When it is free again.
    free: Mutex<Span>,
}

impl Pace {
    fn new(bytes_per_s: u64) -> Pace {
        Pace {
            bytes_per_s,
            clock: Stopwatch::start(),
            free: Mutex::new(Span::ZERO),
        }
    }

    /// Waits until `bytes` have passed.
    fn pass(&self, bytes: usize) {
        let takes_ns = bytes as u64 * 1_000_000_000 / self.bytes_per_s;
        let passed = {
            let mut free = lock(&self.free);
            *free = (*free).max(self.clock.elapsed()) + Span::from_nanos(takes_ns);
            *free
        };
        pause_current(passed.saturating_sub(self.clock.elapsed()));
    }
}
