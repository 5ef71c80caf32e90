//! Serving allocates nothing: a server on its client's own machine must be able to answer when no
//! memory is left.
//!
//! A program of its own, because its allocator counts for every thread.

#[path = "../../forebay-store/tests/support/allocator.rs"]
mod allocator;

use allocator::ALLOCATIONS;
use forebay::{Cache, Settings};
use forebay_base::sync::atomic::Ordering;
use forebay_nbd::wire::{OPTION_MAGIC, Request, command, option};
use forebay_nbd::{Export, Listener, Server, ServerSettings};
use forebay_store::{FileStore, FileStoreSettings, OpenMode};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// Few enough pages that nothing is written back meanwhile; writeback is the cache's own business.
const PAGES: u64 = 256;

fn ask(stream: &mut UnixStream, kind: u16, page: u64, payload: &mut [u8; 4096 + 28]) {
    let request = Request {
        flags: 0,
        kind,
        cookie: 1,
        offset_bytes: page * 4096,
        length_bytes: 4096,
    };
    payload[..28].copy_from_slice(&request.encode());
    let sent = if kind == command::WRITE {
        28 + 4096
    } else {
        28
    };
    stream.write_all(&payload[..sent]).expect("it is served");
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).expect("it is served");
    assert_eq!(reply[4..8], [0; 4]);
    if kind == command::READ {
        stream.read_exact(&mut payload[28..]).expect("it is served");
    }
}

/// Writes and reads every page, and returns how often that allocated.
fn round(stream: &mut UnixStream, buffer: &mut [u8; 4096 + 28]) -> u64 {
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    for page in 0..PAGES {
        ask(stream, command::WRITE, page * 7 % PAGES, buffer);
        ask(stream, command::READ, page, buffer);
    }
    ALLOCATIONS.load(Ordering::SeqCst) - before
}

#[test]
fn serving_allocates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(Settings {
        memory_bytes: 16 << 20,
        ..Settings::default()
    })
    .unwrap();
    let files = FileStore::new(FileStoreSettings::default()).unwrap();
    let length_bytes = Some(PAGES * 4096);
    let image = folder.path().join("disk.img");
    let opened = files
        .open(&image, OpenMode::Create { length_bytes })
        .unwrap();
    let store = cache.attach(files).unwrap();
    let file = cache
        .open(&store, opened.object, opened.length_bytes)
        .unwrap();
    let socket = folder.path().join("nbd.sock");
    let listener = Listener::unix(&socket).unwrap();
    let exports = vec![Export::new("", file)];
    let server = Server::start(listener, exports, ServerSettings::default()).unwrap();
    let mut stream = UnixStream::connect(&socket).unwrap();
    let mut hello = vec![0, 0, 0, 3];
    hello.extend(OPTION_MAGIC.to_be_bytes());
    hello.extend(option::EXPORT_NAME.to_be_bytes());
    hello.extend([0; 4]);
    stream.write_all(&hello).unwrap();
    stream.read_exact(&mut [0; 28]).unwrap();
    let mut buffer = [7; 4096 + 28];
    // Threads, timers and queues take their memory when they are first used.
    for _ in 0..3 {
        round(&mut stream, &mut buffer);
    }
    let rounds: Vec<u64> = (0..8).map(|_| round(&mut stream, &mut buffer)).collect();
    server.drain();
    forebay_rt::block_on(server.ended());
    // A daemon of the cache may run in one round. Memory that serving takes would show in every
    // round.
    assert_eq!(rounds.iter().min(), Some(&0), "{rounds:?}");
}
