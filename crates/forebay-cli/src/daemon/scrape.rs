//! The small part of HTTP that a scraper needs: one request and one answer for each connection, and
//! a few connections at a time.

use crate::daemon::say::say;
use crate::error::CommandError;
use forebay_base::sync::Arc;
use forebay_rt::thread::Stopwatch;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// A scraper that sends nothing for this long is disconnected, and so is one that takes longer to
/// read its answer, however it goes about it.
const PATIENCE: Duration = Duration::from_secs(1);
/// A request comes in one or two parts; a client that sends it byte by byte is disconnected.
const PIECES_LIMIT: usize = 4;
/// Connections that are served at a time, so an idle one does not hold up the others.
pub(crate) const CREW: usize = 4;
/// The longest part of a request that is read at once.
const PIECE_BYTES: usize = 2 << 10;
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers each request for /metrics at `address` with the text that `render` returns at that time,
/// until the program ends. Returns the address, with the port that was chosen if it was 0.
pub(crate) fn serve(
    address: SocketAddr,
    render: impl Fn() -> String + Send + Sync + 'static,
) -> Result<SocketAddr, CommandError> {
    let action = "listen for metrics";
    let listener = TcpListener::bind(address).map_err(CommandError::system(action))?;
    let bound = listener
        .local_addr()
        .map_err(CommandError::system(action))?;
    let render = Arc::new(render);
    for _ in 0..CREW {
        let listener = listener.try_clone().map_err(CommandError::system(action))?;
        let render = render.clone();
        let server = forebay_rt::thread::spawn_small("metrics", move || {
            for stream in listener.incoming() {
                // An error here concerns one scraper only; the next one is served.
                let _ = stream.and_then(|stream| answer(stream, &*render));
            }
        })
        .map_err(CommandError::system(action))?;
        // It serves until the program ends.
        drop(server);
    }
    Ok(bound)
}

/// Announces where metrics are served, and who can read them.
pub(crate) fn announce(address: SocketAddr) {
    say(format_args!("metrics at http://{address}/metrics"));
    if !address.ip().is_loopback() {
        say("everybody that can reach this address gets them, without a password");
    }
}

fn answer(mut stream: TcpStream, render: &impl Fn() -> String) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let head = read_head(&mut stream)?;
    let (status, kind, body) = match target(&head) {
        Some("/metrics") => ("200 OK", CONTENT_TYPE, render()),
        None if head.starts_with(b"POST /set") => (
            "403 Forbidden",
            "text/plain",
            "knobs are set over the control socket only\n".into(),
        ),
        Some(_) => ("404 Not Found", "text/plain", "try /metrics\n".into()),
        None => (
            "400 Bad Request",
            "text/plain",
            "only GET is served\n".into(),
        ),
    };
    let length = body.len();
    let reply = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    send(&mut stream, reply.as_bytes())
}

/// Sends everything, or as much as the other side takes in time.
fn send(stream: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    let clock = Stopwatch::start();
    while !bytes.is_empty() {
        let left = PATIENCE.saturating_sub(Duration::from_nanos(clock.elapsed().as_nanos()));
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        let count = stream.write(bytes)?;
        bytes = &bytes[count..];
    }
    Ok(())
}

/// Reads up to the empty line that ends a request's head.
fn read_head(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut part = [0; PIECE_BYTES];
    for _ in 0..PIECES_LIMIT {
        let count = stream.read(&mut part)?;
        head.extend_from_slice(&part[..count]);
        if head.windows(4).any(|window| window == b"\r\n\r\n") {
            return Ok(head);
        }
        if count == 0 {
            break;
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// What a GET asks for, without its query.
fn target(head: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(head).ok()?.lines().next()?;
    let asked = line.strip_prefix("GET ")?.split(' ').next()?;
    asked.split('?').next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_base::Span;
    use forebay_base::sync::atomic::{AtomicUsize, Ordering};
    use forebay_rt::thread::pause_current;

    fn ask(address: SocketAddr, head: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    #[test]
    fn a_scraper_gets_the_text_and_others_an_error() {
        let address = serve("127.0.0.1:0".parse().unwrap(), || "# EOF\n".into()).unwrap();
        let found = ask(address, "GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(found.starts_with("HTTP/1.1 200 OK\r\n"), "{found}");
        assert!(found.ends_with("\r\n\r\n# EOF\n"), "{found}");
        assert!(ask(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(address, "PUT /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400"));
    }

    #[test]
    fn idle_connections_do_not_hold_up_a_scraper() {
        let address = serve("127.0.0.1:0".parse().unwrap(), || "# EOF\n".into()).unwrap();
        let idle: Vec<_> = (1..CREW).map(|_| TcpStream::connect(address)).collect();
        let found = ask(address, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(found.starts_with("HTTP/1.1 200 OK\r\n"), "{found}");
        // They are disconnected after some time, without an answer.
        for stream in idle {
            let mut stream = stream.expect("the server listens");
            assert_eq!(stream.read(&mut [0; 1]).expect("it is closed"), 0);
        }
    }

    #[test]
    fn slow_readers_do_not_hold_up_a_scraper() {
        let text = "x".repeat(64 << 20);
        let address = serve("127.0.0.1:0".parse().unwrap(), move || text.clone()).unwrap();
        let slow: Vec<_> = (0..CREW)
            .map(|_| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
                stream
            })
            .collect();
        let count = Arc::new(AtomicUsize::new(0));
        let readers = slow.into_iter().map(|mut stream| {
            let counted = count.clone();
            forebay_rt::thread::spawn("reader", move || {
                // As slowly as to begin again each time, until the server hangs up.
                let mut part = [0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut part) {
                    counted.fetch_add(read, Ordering::Relaxed);
                    pause_current(Span::from_millis(1));
                }
            })
        });
        let readers: Vec<_> = readers.collect();
        assert!(ask(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        for reader in readers {
            reader.unwrap().join();
        }
        assert!(count.load(Ordering::Relaxed) < CREW * (64 << 20));
    }

    #[test]
    fn a_head_that_comes_byte_by_byte_is_not_read_to_its_end() {
        struct Slow(usize);
        impl Read for Slow {
            fn read(&mut self, part: &mut [u8]) -> io::Result<usize> {
                self.0 += 1;
                part[0] = b'a';
                Ok(1)
            }
        }
        let mut slow = Slow(0);
        assert!(read_head(&mut slow).is_err());
        assert_eq!(slow.0, PIECES_LIMIT);
    }

    #[test]
    fn a_head_without_end_is_not_read_for_ever() {
        let mut endless = io::repeat(b'a');
        assert!(read_head(&mut endless).is_err());
    }
}
