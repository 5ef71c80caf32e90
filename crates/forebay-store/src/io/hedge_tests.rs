use super::super::leaked_pages;
use super::*;
use crate::request::{ObjectId, Request};

type End = (Result<(), Failure>, u8, u8);

/// How the read ended.
#[derive(Default)]
struct Heard(Mutex<Vec<End>>);

impl Finish for Heard {
    #[allow(unsafe_code)]
    fn finished(&self, io: FinishedIo) {
        let last = io.pages.last().expect("it has pages").address();
        // SAFETY: the request has ended, so the page is this test's alone.
        let (first, end) = unsafe { (last.read(), last.add(PAGE_BYTES - 1).read()) };
        lock(&self.0).push((io.result.map_err(|error| error.failure), first, end));
    }
}

fn hedge() -> (Hedge, Arc<Heard>) {
    let heard = Arc::new(Heard::default());
    let request = Request {
        kind: IoKind::Read,
        object: ObjectId(1),
        offset_bytes: 0,
        length_bytes: 2 * PAGE_BYTES as u64,
    };
    let io = Io::new(request, leaked_pages(2), heard.clone(), 0);
    (io.hedge(), heard)
}

fn answer(mut attempt: Io, byte: u8) {
    attempt.fill_page(1, 0, &[byte; 100]);
    attempt.succeed();
}

#[test]
fn the_first_good_answer_counts_and_a_late_one_changes_nothing() {
    let (hedge, heard) = hedge();
    let [failed, late, good] = [(); 3].map(|()| hedge.attempt().expect("nobody has answered"));
    failed.fail(Failure::NoAnswer);
    assert!(lock(&heard.0).is_empty(), "others are under way");
    answer(good, 7);
    assert_eq!(*lock(&heard.0), [(Ok(()), 7, 0)]);
    assert!(hedge.attempt().is_none());
    answer(late, 9);
    drop(hedge);
    assert_eq!(lock(&heard.0).len(), 1, "it has ended before");
}

#[test]
fn it_fails_once_every_attempt_has_failed() {
    let (hedge, heard) = hedge();
    let [first, second] = [(); 2].map(|()| hedge.attempt().expect("nobody has answered"));
    drop(hedge);
    first.fail(Failure::NoAnswer);
    assert!(lock(&heard.0).is_empty());
    second.fail(Failure::Gone);
    assert_eq!(lock(&heard.0)[0].0, Err(Failure::Gone));
}

#[test]
fn a_read_without_an_attempt_fails() {
    let (hedge, heard) = hedge();
    drop(hedge);
    assert_eq!(lock(&heard.0)[0].0, Err(Failure::Dropped));
}
