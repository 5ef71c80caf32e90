use super::*;
use crate::daemon::control::Feed;
use crate::daemon::control::listener::Audience;
use crate::daemon::history::History;
use crate::daemon::metrics::Beside;
use forebay::event::{Event, EventSink};
use forebay::{Cache, Settings};
use forebay_base::sync::Arc;
use forebay_rt::Rt;
use rustix::net::sockopt::set_socket_send_buffer_size;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// Turns without a listener, whose clients are made here.
struct Bench {
    turns: Turns<UnixStream>,
    source: Source,
}

impl Bench {
    fn with_limit(unread_limit_bytes: usize) -> Bench {
        let settings = Settings {
            memory_bytes: 8 << 20,
            prefault: false,
            ..Settings::default()
        };
        Bench {
            turns: Turns {
                clients: Vec::new(),
                accepts_from: Instant::ZERO,
                unread_limit_bytes,
            },
            source: Source {
                cache: Cache::new(settings).expect("the settings are good"),
                rt: Rt::real(),
                feed: Arc::new(Feed::default()),
                history: History::default(),
                served: String::new(),
                socket: PathBuf::new(),
                beside: Box::new(Beside::default),
            },
        }
    }

    /// The other end of a new client, to which the server can send little at once.
    fn client(&mut self) -> UnixStream {
        self.client_of(Audience::Owner)
    }

    fn client_of(&mut self, audience: Audience) -> UnixStream {
        let (theirs, ours) = UnixStream::pair().expect("the test set it up");
        set_socket_send_buffer_size(&ours, 4 << 10).expect("the test set it up");
        ours.set_nonblocking(true).expect("the test set it up");
        let client = Client::new(ours, audience, Instant::ZERO);
        self.turns.clients.push(client);
        theirs
    }

    fn go_round(&mut self) {
        self.go_round_at(Span::ZERO);
    }

    fn go_round_at(&mut self, after: Span) {
        self.turns.go_round(Instant::ZERO + after, &self.source);
    }

    fn does_not_wait(&self) -> bool {
        self.turns.timeout(Instant::ZERO) == Some(Span::ZERO)
    }
}

fn ask(stream: &mut UnixStream, target: &str) {
    let request = format!("GET {target} HTTP/1.1\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .expect("the test set it up");
}

fn status(stream: &mut UnixStream) -> String {
    let mut bytes = [0; 12];
    stream.read_exact(&mut bytes).expect("there is an answer");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_client_that_waits_for_room_gets_its_turn_when_there_is_some() {
    let mut bench = Bench::with_limit(1);
    let (mut first, mut second) = (bench.client(), bench.client());
    // Not a byte of the answer fits.
    let mut full = &bench.turns.clients[1].stream;
    while full.write(&[0; 512]).is_ok() {}
    ask(&mut second, "/metrics");
    bench.go_round();
    assert!(bench.turns.unread_bytes() > 0);
    ask(&mut first, "/state");
    bench.go_round();
    assert!(!bench.does_not_wait(), "there is no room");
    // The first client is looked at before the second one has made room.
    drop(second);
    bench.go_round();
    assert!(bench.does_not_wait());
    bench.go_round();
    assert_eq!(status(&mut first), "HTTP/1.1 200");
}

#[test]
fn a_request_that_ends_its_stream_is_answered_if_it_is_whole() {
    let mut bench = Bench::with_limit(UNREAD_LIMIT_BYTES);
    for (request, answered) in [
        ("GET /why HTTP/1.1\r\n\r\n", "HTTP/1.1 200"),
        ("nonsense\r\n\r\n", "HTTP/1.1 400"),
        ("GET /why HTTP/1.1\r\n", ""),
        ("", ""),
    ] {
        let mut client = bench.client();
        client
            .write_all(request.as_bytes())
            .expect("the test set it up");
        client
            .shutdown(Shutdown::Write)
            .expect("the test set it up");
        bench.go_round();
        let mut reported = String::new();
        client.read_to_string(&mut reported).expect("it was let go");
        assert!(reported.starts_with(answered), "{request:?}: {reported}");
        assert_eq!(
            reported.is_empty(),
            answered.is_empty(),
            "{request:?}: {reported}"
        );
    }
    assert!(bench.turns.clients.is_empty());
}

#[test]
fn a_listener_that_reads_at_once_gets_a_part_in_each_turn() {
    let mut bench = Bench::with_limit(UNREAD_LIMIT_BYTES);
    let mut listener = bench.client();
    set_socket_send_buffer_size(&bench.turns.clients[0].stream, 1 << 20)
        .expect("the test set it up");
    listener.set_nonblocking(true).expect("the test set it up");
    ask(&mut listener, "/events");
    bench.go_round();
    for nid in 0..300 {
        let event = Event::MmVmscanKswapdSleep { nid };
        bench.source.feed.record(Instant::ZERO, &event);
    }
    let mut reported = |bench: &mut Bench| {
        bench.go_round();
        let mut bytes = Vec::new();
        // It ends with an error: there is no more to be read.
        let _ = listener.read_to_end(&mut bytes);
        bytes
            .split(|&byte| byte == b'\n')
            .filter(|line| line.starts_with(b"{"))
            .count()
    };
    assert_eq!(reported(&mut bench), 256);
    assert!(bench.does_not_wait());
    assert_eq!(reported(&mut bench), 44);
    assert!(!bench.does_not_wait());
}

#[test]
fn the_public_gets_metrics_and_the_status_page_and_nothing_else() {
    let mut bench = Bench::with_limit(UNREAD_LIMIT_BYTES);
    let mut answered = |request: &str| {
        let mut client = bench.client_of(Audience::Public);
        client
            .write_all(request.as_bytes())
            .expect("the test set it up");
        bench.go_round();
        status(&mut client)
    };
    assert_eq!(
        answered("GET /metrics?x=1 HTTP/1.1\r\n\r\n"),
        "HTTP/1.1 200"
    );
    assert_eq!(answered("GET / HTTP/1.1\r\n\r\n"), "HTTP/1.1 200");
    for target in ["/x", "/state", "/why", "/stalls", "/events"] {
        let request = format!("GET {target} HTTP/1.1\r\n\r\n");
        assert_eq!(answered(&request), "HTTP/1.1 404", "{target}");
    }
    assert_eq!(answered("POST /set HTTP/1.1\r\n\r\n"), "HTTP/1.1 403");
    assert_eq!(answered("PUT /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 400");
}

#[test]
fn a_public_client_that_is_idle_or_reads_slowly_is_disconnected() {
    let mut bench = Bench::with_limit(UNREAD_LIMIT_BYTES);
    let (_idle, mut slow) = (
        bench.client_of(Audience::Public),
        bench.client_of(Audience::Public),
    );
    ask(&mut slow, "/metrics");
    bench.go_round();
    assert_eq!(bench.turns.clients.len(), 2);
    // It takes a part each time, and the owner of the server could go on like that.
    for tenths in 1..10 {
        assert_eq!(status(&mut slow).len(), 12);
        bench.go_round_at(Span::from_millis(100 * tenths));
    }
    assert_eq!(bench.turns.clients.len(), 2);
    assert_eq!(bench.turns.timeout(Instant::ZERO), Some(Span::from_secs(1)));
    bench.go_round_at(Span::from_secs(1));
    assert!(bench.turns.clients.is_empty());
}
