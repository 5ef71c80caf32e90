use super::*;
use crate::request::ObjectId;
use forebay_base::sync::{Mutex, lock};

type End = (Result<(), Failure>, Vec<u8>, bool);

/// What a submitter gets back: the result and the bytes of the pages.
#[derive(Default)]
struct Heard(Mutex<Vec<End>>);

impl Finish for Heard {
    #[allow(unsafe_code)]
    fn finished(&self, io: FinishedIo) {
        let mut bytes = vec![0; io.pages.len() * PAGE_BYTES];
        for (page, chunk) in io.pages.iter().zip(bytes.chunks_mut(PAGE_BYTES)) {
            let to = NonNull::from(chunk).cast();
            // SAFETY: the request has ended, so the page is this test's alone.
            unsafe { page.address().copy_to_nonoverlapping(to, PAGE_BYTES) };
        }
        let result = io.result.map_err(|error| error.failure);
        lock(&self.0).push((result, bytes, io.is_durable));
    }
}

impl Heard {
    fn only(&self) -> (Result<(), Failure>, Vec<u8>) {
        let mut heard = std::mem::take(&mut *lock(&self.0));
        assert_eq!(heard.len(), 1, "a request ends once");
        let (result, bytes, _) = heard.remove(0);
        (result, bytes)
    }
}

fn request(kind: IoKind, length_bytes: u64) -> Request {
    Request {
        kind,
        object: ObjectId(3),
        offset_bytes: 0,
        length_bytes,
    }
}

/// A request for pages full of the bytes 0xEE.
fn io(kind: IoKind, pages: usize) -> (Io, Arc<Heard>) {
    let heard = Arc::new(Heard::default());
    let request = request(kind, (pages * PAGE_BYTES) as u64);
    let io = Io::new(request, leaked_pages(pages), heard.clone(), 7);
    (io, heard)
}

#[test]
fn what_is_not_filled_is_zeros() {
    let (done, heard) = io(IoKind::Read, 2);
    done.succeed();
    assert_eq!(heard.only(), (Ok(()), vec![0; 2 * PAGE_BYTES]));
}

#[test]
fn fills_in_any_order_leave_zeros_between() {
    let orders: [&[(usize, usize, usize)]; 4] = [
        &[(0, 0, 10), (2, 100, 50)],
        &[(2, 100, 50), (0, 0, 10)],
        &[(2, 0, 4096), (1, 4000, 96), (0, 1, 1)],
        &[(1, 4095, 1), (1, 0, 1), (2, 0, 0)],
    ];
    for order in orders {
        let (mut filled, heard) = io(IoKind::Read, 3);
        let mut expected = vec![0; 3 * PAGE_BYTES];
        for &(page, start, length) in order {
            filled.fill_page(page, start, &vec![7; length]);
            let at = page * PAGE_BYTES + start;
            expected[at..at + length].fill(7);
        }
        filled.succeed();
        assert!(heard.only() == (Ok(()), expected), "{order:?}");
    }
}

#[test]
#[allow(unsafe_code)]
fn what_a_store_vouches_for_stays_and_the_rest_is_zeros() {
    let (mut read, heard) = io(IoKind::Read, 2);
    // SAFETY: the pages were filled with 0xEE when they were made, and nobody writes them.
    unsafe { read.assume_filled(5000) };
    read.succeed();
    let mut expected = vec![0xEE; 2 * PAGE_BYTES];
    expected[5000..].fill(0);
    assert!(heard.only() == (Ok(()), expected));
}

#[test]
fn a_dropped_request_fails() {
    for kind in [IoKind::Read, IoKind::Write] {
        let (dropped, heard) = io(kind, 1);
        drop(dropped);
        assert_eq!(heard.only().0, Err(Failure::Dropped));
    }
}

#[test]
fn a_request_that_a_panic_drops_fails() {
    let (dropped, heard) = io(IoKind::Read, 1);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _dropped = dropped;
        panic!("a panic of this test");
    }));
    assert!(panicked.is_err());
    assert_eq!(heard.only().0, Err(Failure::Panicked));
}

#[test]
fn a_fill_out_of_bounds_changes_nothing() {
    for (page, start, length) in [(1, 0, 1), (0, 4096, 1), (0, usize::MAX, 2), (0, 1, 4096)] {
        let (mut read, heard) = io(IoKind::Read, 1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            read.fill_page(page, start, &vec![7; length]);
        }));
        assert!(panicked.is_err(), "{page}, {start}, {length}");
        let (result, bytes) = heard.only();
        assert_eq!(result, Err(Failure::Panicked));
        assert!(bytes == [0xEE; PAGE_BYTES]);
    }
}

/// Notes who heard of the end, in that order.
struct Named(&'static str, Arc<Mutex<Vec<&'static str>>>);

impl Intercept for Named {
    fn ended(&self, ending: Ending) {
        lock(&self.1).push(self.0);
        assert_ne!(self.0, "panics", "a panic of this test");
        ending.pass();
    }
}

#[test]
fn the_last_wrapper_hears_first() {
    let (mut read, heard) = io(IoKind::Read, 1);
    let order = Arc::default();
    read.intercept(Arc::new(Named("outer", Arc::clone(&order))));
    read.intercept(Arc::new(Named("inner", Arc::clone(&order))));
    read.succeed();
    assert_eq!(*lock(&order), ["inner", "outer"]);
    assert_eq!(heard.only().0, Ok(()));
}

#[test]
fn a_wrapper_that_panics_fails_its_request_and_harms_no_other() {
    let (mut read, heard) = io(IoKind::Read, 1);
    let order = Arc::default();
    read.intercept(Arc::new(Named("outer", Arc::clone(&order))));
    read.intercept(Arc::new(Named("panics", Arc::clone(&order))));
    read.succeed();
    assert_eq!(*lock(&order), ["panics", "outer"]);
    assert_eq!(heard.only().0, Err(Failure::Panicked));
}

/// A destructor may sync a file, and a store may answer on the thread that asks.
#[test]
fn a_request_of_a_thread_that_unwinds_ends_as_any_other() {
    struct EndsAtDrop(Option<Io>);
    impl Drop for EndsAtDrop {
        fn drop(&mut self) {
            self.0.take().expect("it is dropped once").succeed();
        }
    }
    let (mut read, heard) = io(IoKind::Read, 1);
    let order = Arc::default();
    read.intercept(Arc::new(Named("outer", Arc::clone(&order))));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _at_drop = EndsAtDrop(Some(read));
        panic!("a panic of this test");
    }));
    assert!(panicked.is_err());
    assert_eq!(*lock(&order), ["outer"]);
    assert_eq!(heard.only().0, Ok(()));
}

#[test]
fn both_parts_of_a_split_request_end_it() {
    for first_to_end in [0, 1] {
        let (whole, heard) = io(IoKind::Read, 3);
        let (mut first, mut rest) = whole.split(1);
        assert_eq!(first.request().length_bytes, 4096);
        assert_eq!(rest.request().offset_bytes, 4096);
        first.fill_page(0, 0, &[1; PAGE_BYTES]);
        rest.fill_page(1, 0, &[2; 100]);
        let mut parts = [Some(first), Some(rest)];
        parts[first_to_end].take().expect("it is there").succeed();
        assert!(lock(&heard.0).is_empty(), "the other part is under way");
        parts[1 - first_to_end].take().expect("so is it").succeed();
        let mut expected = vec![0; 3 * PAGE_BYTES];
        expected[..PAGE_BYTES].fill(1);
        expected[2 * PAGE_BYTES..][..100].fill(2);
        assert!(heard.only() == (Ok(()), expected));
    }
}

#[test]
fn a_part_that_fails_fails_the_whole() {
    let (whole, heard) = io(IoKind::Write, 3);
    let (first, rest) = whole.split(2);
    drop(rest);
    first.fail(Failure::NoSpace);
    assert_eq!(heard.only().0, Err(Failure::Dropped));
}

#[test]
fn a_split_keeps_what_was_filled() {
    let (mut whole, heard) = io(IoKind::Read, 2);
    whole.fill_page(1, 0, &[5; 10]);
    let (first, rest) = whole.split(1);
    first.succeed();
    rest.succeed();
    let mut expected = vec![0; 2 * PAGE_BYTES];
    expected[PAGE_BYTES..][..10].fill(5);
    assert!(heard.only() == (Ok(()), expected));
}

#[test]
fn a_whole_is_durable_if_both_parts_are() {
    for both in [true, false] {
        let (whole, heard) = io(IoKind::Write, 2);
        let (first, rest) = whole.durable().split(1);
        assert!(first.asks_durable() && rest.asks_durable());
        first.succeed_durably();
        if both {
            rest.succeed_durably();
        } else {
            rest.succeed();
        }
        let is_durable = lock(&heard.0)
            .iter()
            .map(|(.., it)| *it)
            .collect::<Vec<_>>();
        assert_eq!(is_durable, [both]);
    }
}

#[test]
fn a_page_that_may_change_is_copied_as_well() {
    let (write, heard) = io(IoKind::Write, 1);
    let write = write.changing();
    let mut bytes = [0; 100];
    write.copy_page(0, 3996, &mut bytes);
    assert_eq!(bytes, [0xEE; 100]);
    write.succeed();
    assert_eq!(heard.only().0, Ok(()));
}
