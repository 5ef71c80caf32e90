//! A system that has no descriptor left for the ring of a thread.
//!
//! A program of its own, for the limit is that of the whole process.

mod support;

use forebay_rt::block_on;
use forebay_store::{FileStore, Io, IoKind, Method, OpenMode, Request, Store};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::Arc;
use support::FinishingThread;
use support::fixtures::settings;

#[test]
fn a_thread_that_gets_no_ring_is_woken_by_the_ring_thread() {
    let file = tempfile::NamedTempFile::new().expect("a file for the test");
    let store = match FileStore::new(settings(Method::Uring, true)) {
        Ok(store) => store,
        Err(refusal) => return eprintln!("skipped: {refusal}"),
    };
    let opened = store
        .open(file.path(), OpenMode::ReadWrite)
        .expect("it opens");
    let commit = || {
        let request = Request {
            kind: IoKind::Commit,
            object: opened.object,
            offset_bytes: 0,
            length_bytes: 0,
        };
        let place = Arc::new(FinishingThread::default());
        block_on(async {
            store.submit(Io::new(request, Vec::new(), place.clone(), 0).awaited());
            place.take().await
        })
    };
    let before = getrlimit(Resource::Nofile);
    let none_left = Rlimit {
        current: Some(3),
        ..before
    };
    setrlimit(Resource::Nofile, none_left).expect("a lower limit is always allowed");
    let here = std::thread::current().id();
    for _ in 0..3 {
        assert_ne!(commit(), here);
    }
    setrlimit(Resource::Nofile, before).expect("it is not above the upper limit");
    // What was refused once is not asked for at each request.
    assert_ne!(commit(), here);
}
