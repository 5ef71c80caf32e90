//! How connections end: every request is answered, whichever side ends the connection.

#[path = "ending/held.rs"]
mod held;
#[path = "ending/served.rs"]
mod served;
#[path = "ending/succession.rs"]
mod succession;

use forebay_base::Span;
use forebay_nbd::wire::command;
use forebay_nbd::{Listener, ServerSettings};
use forebay_rt::{Rt, block_on, thread};
use forebay_store::{IoKind, MemoryStore};
use held::HeldStore;
use served::{Served, expect_done, request};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::pin::pin;
use std::sync::Arc;

const READ_BYTES: u32 = 1 << 20;

/// The rest of what `stream` receives.
fn rest(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream
        .read_to_end(&mut bytes)
        .expect("the server ends in order");
    bytes
}

#[test]
fn a_long_read_is_answered_in_full_to_a_client_that_sends_no_more() {
    let served = Served::start();
    served.fill(READ_BYTES);
    // All requests are there, and the end of the stream too, before the server reads the first one.
    let mut client = served.greet();
    let asked = [served::hello(), request(command::READ, 0, READ_BYTES)].concat();
    client.write_all(&asked).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let found = rest(&mut client);
    assert_eq!(found.len(), 10 + 16 + READ_BYTES as usize);
    assert!(found[26..].iter().all(|&byte| byte == 7));
    served.end();
}

#[test]
fn every_request_is_answered_to_a_client_that_sends_no_more() {
    let served = Served::start();
    served.fill(READ_BYTES);
    let mut client = served.greet();
    let mut asked = served::hello();
    for piece in 0..8 {
        asked.extend(request(command::READ, piece << 16, 1 << 16));
    }
    asked.extend(request(command::WRITE, 0, 512));
    asked.extend([8; 512]);
    client.write_all(&asked).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let found = rest(&mut client);
    assert_eq!(found.len(), 10 + 8 * (16 + (1 << 16)) + 16);
    assert_eq!(served.read(0, 513), [&[8; 512][..], &[7]].concat());
    served.end();
}

#[test]
fn what_came_before_the_drain_is_answered() {
    let served = Served::start();
    served.fill(READ_BYTES);
    let mut client = served.client();
    for _ in 0..4 {
        client
            .write_all(&request(command::READ, 0, READ_BYTES))
            .unwrap();
    }
    // The first answer shows that the later requests have come too, or lie in the socket.
    client.read_exact(&mut [0; 16]).unwrap();
    served.server.drain();
    let found = rest(&mut client);
    assert_eq!(found.len(), 4 * (16 + READ_BYTES as usize) - 16);
    served.end();
}

/// A TCP socket accepts bytes even after it was shut down, so a busy one never runs empty.
#[test]
fn a_client_that_never_stops_asking_does_not_keep_the_server_alive() {
    const PIECE_BYTES: u32 = 64 << 10;
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let uri = listener.uri();
    let (server, cache) = served::serve(listener, Arc::new(MemoryStore::new()), Span::from_secs(5));
    let mut client = TcpStream::connect(uri.strip_prefix("nbd://").unwrap()).unwrap();
    client.read_exact(&mut [0; 18]).unwrap();
    client.write_all(&served::hello()).unwrap();
    client.read_exact(&mut [0; 10]).unwrap();
    let mut asker = client.try_clone().unwrap();
    let mut asked = request(command::WRITE, 0, PIECE_BYTES);
    asked.resize(asked.len() + PIECE_BYTES as usize, 7);
    asked.extend(request(command::READ, 0, PIECE_BYTES));
    let asks = move || while asker.write_all(&asked).is_ok() {};
    let asks = thread::spawn("nbd-asks", asks).unwrap();
    let mut answers = vec![0; PIECE_BYTES as usize];
    client.read_exact(&mut answers).unwrap();
    let hears = thread::spawn("nbd-hears", move || {
        while client.read(&mut answers).is_ok_and(|count| count > 0) {
            thread::pause_current(Span::from_millis(10));
        }
    });
    server.drain();
    let ended = Rt::real().timeout(Span::from_secs(30), server.ended());
    block_on(ended).expect("it still reads from a client");
    asks.join();
    hears.unwrap().join();
    block_on(cache.close()).expect("memory takes everything");
}

/// The store may take longer than the server waits for a client that does not read its answers.
#[test]
fn a_client_waiting_for_the_store_is_answered_and_a_deaf_one_is_cut_off() {
    let store = Arc::new(HeldStore::of(&[IoKind::Write, IoKind::Commit]));
    let served = Served::before(store.clone());
    served.fill(READ_BYTES);
    let mut flusher = served.client();
    flusher.write_all(&request(command::FLUSH, 0, 0)).unwrap();
    store.await_request();
    let mut stalled = served.client();
    for _ in 0..8 {
        stalled
            .write_all(&request(command::READ, 0, READ_BYTES))
            .unwrap();
    }
    served.server.drain();
    let (rt, patience) = (Rt::real(), Span::from_millis(20));
    let cut = block_on(async {
        let mut ended = pin!(served.server.ended());
        let mut cut = 0;
        // Until the first client is gone, and then for several times the patience.
        let mut rounds_left = 10;
        while rounds_left > 0 {
            let early = rt.timeout(patience, ended.as_mut()).await;
            assert!(early.is_err(), "a flush is under way");
            cut += served.server.cut_stalled(patience);
            rounds_left -= u32::from(served.server.connections() == 1);
        }
        cut
    });
    assert_eq!(cut, 1);
    store.release();
    expect_done(&mut flusher);
    assert_eq!(flusher.read(&mut [0]).unwrap(), 0, "ended in order");
    drop(stalled);
    served.end();
}

#[test]
fn a_client_takes_the_place_of_a_connection_that_says_nothing() {
    let served = Served::start();
    let limit = ServerSettings::default().connections_limit;
    let mut silent: Vec<_> = (0..limit).map(|_| served.greet()).collect();
    assert_eq!(served.server.connections(), 0, "nobody has spoken");
    let mut client = served.client();
    client.write_all(&request(command::FLUSH, 0, 0)).unwrap();
    expect_done(&mut client);
    // The first that came is the one that went.
    assert_eq!(rest(&mut silent.remove(0)), []);
    let mut second = silent.remove(0);
    second.write_all(&served::hello()).unwrap();
    second.read_exact(&mut [0; 10]).expect("it spoke after all");
    assert_eq!(served.server.connections(), 2);
    drop((client, second, silent));
    served.end();
}
