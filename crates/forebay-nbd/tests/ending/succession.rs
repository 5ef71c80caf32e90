//! A client that comes back: requests from its old connection never overwrite what it writes over
//! the new one.
//!
//! The first write of each test begins in the middle of a page, so the page must be read first, and
//! the store holds that read back. The write waits there with most of its bytes still to be copied.

use super::held::HeldStore;
use super::served::{Served, expect_done, request};
use forebay_base::Span;
use forebay_nbd::wire::command;
use forebay_rt::thread;
use forebay_store::IoKind;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// The start of the page that both clients write to.
const PAGE_AT: u64 = 5 * 4096;
const PAGE_BYTES: u32 = 4096;
/// Shorter than the cache's own timeout for a store that does not answer, which would end the wait
/// too.
const SOON: Duration = Duration::from_secs(20);
const FIRST: u8 = 1;
const SECOND: u8 = 2;

struct Scene {
    served: Served,
    store: Arc<HeldStore>,
}

impl Scene {
    fn new(patience: Span) -> Scene {
        let store = Arc::new(HeldStore::of(&[IoKind::Read]));
        let served = Served::with(store.clone(), patience);
        Scene { served, store }
    }

    /// A client whose write of sixty thousand bytes waits for the store.
    fn client_that_waits(&self) -> UnixStream {
        let mut client = self.served.client();
        ask_write(&mut client, 512, 60_000, FIRST);
        self.store.await_request();
        client
    }

    /// A second client, which expects to be served soon.
    fn next_client(&self) -> UnixStream {
        next_client(&self.served)
    }

    /// What the page holds once only the reader is connected.
    fn page_at_the_end(self) -> Vec<u8> {
        self.store.release();
        while self.served.server.connections() > 0 {
            thread::pause_current(Span::from_millis(1));
        }
        let found = self.served.read(PAGE_AT, PAGE_BYTES);
        self.served.end();
        found
    }
}

fn next_client(served: &Served) -> UnixStream {
    let client = served.client();
    client.set_read_timeout(Some(SOON)).expect("it is no zero");
    client
}

fn ask_write(client: &mut UnixStream, offset_bytes: u64, length_bytes: u32, byte: u8) {
    let mut asked = request(command::WRITE, offset_bytes, length_bytes);
    asked.resize(asked.len() + length_bytes as usize, byte);
    client.write_all(&asked).expect("the server hears");
}

fn ask_second_write(client: &mut UnixStream) {
    ask_write(client, PAGE_AT, PAGE_BYTES, SECOND);
}

#[test]
fn invariant_n5_a_write_of_a_client_that_is_gone_does_not_overwrite_the_next_one() {
    let scene = Scene::new(Span::from_secs(600));
    drop(scene.client_that_waits());
    let mut again = scene.next_client();
    ask_second_write(&mut again);
    expect_done(&mut again);
    drop(again);
    assert_eq!(scene.page_at_the_end(), [SECOND; PAGE_BYTES as usize]);
}

#[test]
fn a_client_that_sends_no_more_is_answered_before_the_next_one_begins() {
    let scene = Scene::new(Span::from_secs(600));
    let mut first = scene.client_that_waits();
    first.shutdown(Shutdown::Write).expect("it is connected");
    let mut again = scene.next_client();
    ask_second_write(&mut again);
    // Long enough for an answer from a server that does not wait. One that waits has not answered
    // by then.
    let patience = Some(Duration::from_millis(100));
    again.set_read_timeout(patience).expect("it is no zero");
    assert!(again.read(&mut [0; 16]).is_err(), "it did not wait");
    again.set_read_timeout(Some(SOON)).expect("it is no zero");
    scene.store.release();
    expect_done(&mut first);
    assert_eq!(first.read(&mut [0]).expect("an end in order"), 0);
    expect_done(&mut again);
    drop(again);
    assert_eq!(scene.page_at_the_end(), [SECOND; PAGE_BYTES as usize]);
}

#[test]
fn the_wait_for_a_client_that_sends_no_more_is_bounded() {
    let scene = Scene::new(Span::from_millis(20));
    let mut first = scene.client_that_waits();
    first.shutdown(Shutdown::Write).expect("it is connected");
    let mut again = scene.next_client();
    ask_second_write(&mut again);
    expect_done(&mut again);
    // Its write was broken off, so it gets no answer.
    assert_eq!(first.read(&mut [0]).expect("an end"), 0);
    drop(again);
    assert_eq!(scene.page_at_the_end(), [SECOND; PAGE_BYTES as usize]);
}

#[test]
fn the_next_client_does_not_wait_for_one_that_is_still_there() {
    let scene = Scene::new(Span::from_secs(600));
    let mut first = scene.client_that_waits();
    let mut other = scene.next_client();
    ask_second_write(&mut other);
    expect_done(&mut other);
    drop(other);
    scene.store.release();
    expect_done(&mut first);
    drop(first);
    // Both were connected at once, so the order of their writes was up to them.
    assert_eq!(scene.page_at_the_end(), [FIRST; PAGE_BYTES as usize]);
}

#[test]
fn the_next_client_does_not_wait_for_a_flush_of_one_that_is_gone() {
    let store = Arc::new(HeldStore::of(&[IoKind::Write, IoKind::Commit]));
    let served = Served::with(store.clone(), Span::from_secs(600));
    served.fill(PAGE_BYTES);
    let mut flusher = served.client();
    flusher
        .write_all(&request(command::FLUSH, 0, 0))
        .expect("the server hears");
    store.await_request();
    flusher.shutdown(Shutdown::Write).expect("it is connected");
    let mut again = next_client(&served);
    ask_second_write(&mut again);
    expect_done(&mut again);
    store.release();
    expect_done(&mut flusher);
    served.end();
}
