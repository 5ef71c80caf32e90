//! One contract, held over every store and every wrapper.

mod support;

use forebay_base::{PAGE_BYTES, Prng};
use forebay_rt::block_on;
use forebay_store::{Failure, IoKind, ObjectId, Store};
use std::sync::Arc;
use support::fixtures::{self, Fixture};

const PAGE: u64 = PAGE_BYTES as u64;

/// Runs `check` over a fixture of each kind.
fn over_all(check: impl Fn(&mut Fixture)) {
    for mut fixture in fixtures::all() {
        eprintln!("over {}", fixture.name);
        check(&mut fixture);
    }
}

/// Bytes that no other `salt` has in the same places.
fn pattern(salt: u64, length: usize) -> Vec<u8> {
    let mut prng = Prng::from_seed(salt);
    (0..length).map(|_| prng.next_u64() as u8).collect()
}

#[test]
fn what_was_written_is_read() {
    over_all(|fixture| {
        let object = fixture.object();
        let driver = &fixture.driver;
        for (salt, offset, length) in [(1, 0, 4096), (2, 8192, 65_536), (3, 40_960, 262_144)] {
            let bytes = pattern(salt, length);
            driver.write(object, offset, &bytes).expect("it is written");
            let read = driver.read(object, offset, length as u64);
            assert!(read == bytes, "{}: {length} at {offset}", fixture.name);
        }
    });
}

#[test]
fn scattered_pages_keep_their_order() {
    over_all(|fixture| {
        let object = fixture.object();
        let driver = &fixture.driver;
        // Lent pages come back in reverse, so after a few rounds no two are neighbours in order.
        for salt in 0..20 {
            let bytes = pattern(salt, 7 * PAGE_BYTES);
            driver.write(object, 0, &bytes).expect("it is written");
            assert!(
                driver.read(object, 0, 7 * PAGE) == bytes,
                "{}",
                fixture.name
            );
        }
    });
}

#[test]
fn a_tail_ends_where_it_ends() {
    over_all(|fixture| {
        let driver = fixture.driver.clone();
        for (salt, length) in [(1, 1), (2, 511), (3, 4097), (4, 5000), (5, 70_001)] {
            let object = fixture.object();
            let bytes = pattern(salt, length);
            driver.write(object, 0, &bytes).expect("it is written");
            let whole_pages = (length as u64).next_multiple_of(PAGE);
            let mut expected = bytes.clone();
            expected.resize(whole_pages as usize + PAGE_BYTES, 0);
            let read = driver.read(object, 0, whole_pages + PAGE);
            assert!(read == expected, "{}: length {length}", fixture.name);
            // Grow it: what follows the old end is zeros, then the new bytes.
            driver
                .write(object, whole_pages + PAGE, &bytes)
                .expect("it is written");
            let read = driver.read(object, 0, whole_pages + PAGE);
            assert!(read == expected, "{}: grown, {length}", fixture.name);
            // Overwrite the whole last page: the direct way after the buffered one.
            let page = pattern(salt + 100, PAGE_BYTES);
            let last = whole_pages - PAGE;
            driver.write(object, last, &page).expect("it is written");
            assert!(driver.read(object, last, PAGE) == page, "{}", fixture.name);
        }
    });
}

#[test]
fn what_a_read_does_not_ask_for_is_zeros() {
    over_all(|fixture| {
        let object = fixture.object();
        let driver = &fixture.driver;
        let bytes = pattern(1, 2 * PAGE_BYTES);
        driver.write(object, 0, &bytes).expect("it is written");
        let read = driver.read(object, 0, PAGE + 100);
        assert!(read[..4196] == bytes[..4196], "{}", fixture.name);
        assert!(
            read[4196..].iter().all(|&byte| byte == 0),
            "{}",
            fixture.name
        );
    });
}

#[test]
fn holes_and_what_lies_behind_the_end_are_zeros() {
    over_all(|fixture| {
        let object = fixture.object();
        let driver = &fixture.driver;
        assert!(
            driver
                .read(object, 1 << 20, 65_536)
                .iter()
                .all(|&byte| byte == 0)
        );
        driver
            .write(object, 1 << 20, &[7; 4096])
            .expect("it is written");
        let read = driver.read(object, (1 << 20) - 2 * PAGE, 5 * PAGE);
        let written = 2 * PAGE_BYTES..3 * PAGE_BYTES;
        let expected = |at| if written.contains(&at) { 7 } else { 0 };
        assert!(
            (0..read.len()).all(|at| read[at] == expected(at)),
            "{}",
            fixture.name
        );
    });
}

#[test]
fn a_discarded_range_is_zeros_and_the_rest_stays() {
    over_all(|fixture| {
        let object = fixture.object();
        let driver = &fixture.driver;
        let mut bytes = pattern(1, 16 * PAGE_BYTES);
        driver.write(object, 0, &bytes).expect("it is written");
        for (start, length) in [
            (0, 4096),
            (12_288, 20_480),
            (40_000, 300),
            (61_440, 8192),
            (5, 0),
        ] {
            driver
                .order(IoKind::Discard, object, start, length)
                .expect("it is discarded");
            let end = bytes.len().min((start + length) as usize);
            bytes[start as usize..end].fill(0);
            let read = driver.read(object, 0, 16 * PAGE);
            assert!(read == bytes, "{}: {length} at {start}", fixture.name);
        }
        // Past the end there is nothing to discard, and a discard there does not make the object
        // grow.
        driver
            .order(IoKind::Discard, object, 1 << 21, 1 << 20)
            .expect("nothing to do");
    });
}

#[test]
fn a_shortened_object_has_forgotten_its_end() {
    over_all(|fixture| {
        let object = fixture.object();
        let driver = &fixture.driver;
        let mut bytes = pattern(1, 4 * PAGE_BYTES);
        driver.write(object, 0, &bytes).expect("it is written");
        for length in [10_000, 50_000, 4096, 0] {
            driver
                .order(IoKind::SetLength, object, length, 0)
                .expect("its length changes");
            bytes.truncate(length as usize);
            bytes.resize(16 * PAGE_BYTES, 0);
            let read = driver.read(object, 0, 16 * PAGE);
            assert!(read == bytes, "{}: length {length}", fixture.name);
        }
    });
}

#[test]
fn a_commit_finishes_after_the_writes_before_it() {
    over_all(|fixture| {
        let object = fixture.object();
        let driver = &fixture.driver;
        driver
            .order(IoKind::Commit, object, 0, 0)
            .expect("an empty object is durable");
        driver
            .write(object, 0, &pattern(1, 9000))
            .expect("it is written");
        driver
            .order(IoKind::Commit, object, 0, 0)
            .expect("it is made durable");
        assert!(driver.read(object, 0, 9000)[..9000] == pattern(1, 9000));
    });
}

#[test]
fn nothing_to_do_is_done() {
    over_all(|fixture| {
        let object = fixture.object();
        let driver = &fixture.driver;
        assert_eq!(driver.write(object, 8192, &[]), Ok(()));
        assert_eq!(driver.read(object, 0, 0), []);
    });
}

#[test]
fn objects_do_not_touch_each_other() {
    over_all(|fixture| {
        let (one, other) = (fixture.object(), fixture.object());
        let driver = &fixture.driver;
        driver.write(one, 0, &[1; 8192]).expect("it is written");
        driver.write(other, 0, &[2; 8192]).expect("it is written");
        driver
            .order(IoKind::SetLength, one, 0, 0)
            .expect("it is emptied");
        assert!(driver.read(other, 0, 8192) == [2; 8192], "{}", fixture.name);
    });
}

#[test]
fn a_request_too_large_or_too_far_is_refused_and_the_next_one_succeeds() {
    over_all(|fixture| {
        let object = fixture.object();
        let driver = &fixture.driver;
        let too_many = u64::from(driver.store.geometry().max_io_pages) + 1;
        let refused = driver.try_read(object, 0, too_many * PAGE);
        assert_eq!(refused, Err(Failure::OutOfRange), "{}", fixture.name);
        for offset in [u64::MAX - PAGE + 1, (1 << 63) - PAGE] {
            let refused = driver.write(object, offset, &[1; 8192]);
            assert_eq!(refused, Err(Failure::OutOfRange), "{}", fixture.name);
        }
        driver.write(object, 0, &[1; 4096]).expect("it is written");
        assert!(driver.read(object, 0, PAGE) == [1; 4096]);
    });
}

#[test]
fn hundreds_of_requests_from_four_threads_are_each_finished_once() {
    over_all(|fixture| {
        let object = fixture.object();
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                let driver = fixture.driver.clone();
                let ended = Arc::new(forebay_rt::wait::Slot::new());
                let end = Arc::clone(&ended);
                let work = move || {
                    crowd(&driver, object, worker);
                    end.set(());
                };
                let joiner = forebay_rt::thread::spawn("crowd", work).expect("a thread starts");
                (joiner, ended)
            })
            .collect();
        for (joiner, ended) in workers {
            joiner.join();
            assert!(ended.is_set(), "{}: a worker has failed", fixture.name);
        }
    });
}

/// Writes 150 ranges at once, reads them at once, and compares. Workers use ranges of their own.
fn crowd(driver: &support::Driver, object: ObjectId, worker: u64) {
    const RANGES: u64 = 150;
    let offset = |range: u64| (worker + 4 * range) * 4 * PAGE;
    let bytes = |range: u64| pattern(worker * 1000 + range, (range as usize % 4 + 1) * PAGE_BYTES);
    let writes: Vec<u64> = (0..RANGES)
        .map(|range| driver.submit_write(object, offset(range), &bytes(range)))
        .collect();
    for token in writes {
        block_on(driver.finish(token)).expect("it is written");
    }
    let reads: Vec<u64> = (0..RANGES)
        .map(|range| driver.submit_read(object, offset(range), bytes(range).len() as u64))
        .collect();
    for (range, token) in (0..RANGES).zip(reads) {
        let read = block_on(driver.finish(token)).expect("it is read");
        assert!(read == bytes(range), "worker {worker}, range {range}");
    }
}

#[test]
fn memory_that_is_forgotten_can_still_be_used() {
    over_all(|fixture| {
        let object = fixture.object();
        let driver = &fixture.driver;
        let memory = driver.arena.memory();
        for round in 0..4 {
            driver.store.register_memory(memory);
            let bytes = pattern(round, 3 * PAGE_BYTES);
            driver.write(object, 0, &bytes).expect("it is written");
            driver.store.forget_memory(memory);
            assert!(
                driver.read(object, 0, 3 * PAGE) == bytes,
                "{}",
                fixture.name
            );
        }
    });
}

#[test]
fn a_store_dropped_in_the_middle_finishes_what_it_was_given() {
    for Fixture { driver, .. } in with_objects() {
        let object = ObjectId(1);
        let tokens: Vec<u64> = (0..200)
            .map(|range| driver.submit_write(object, range * PAGE, &[range as u8; 4096]))
            .collect();
        let support::Driver {
            store, desk, arena, ..
        } = driver;
        drop(store);
        for token in tokens {
            let finished = block_on(desk.take(token));
            arena.take_back(finished.pages);
        }
    }
}

/// Every fixture, with one object opened.
fn with_objects() -> Vec<Fixture> {
    let mut all = fixtures::all();
    for fixture in &mut all {
        fixture.object();
    }
    all
}

#[test]
fn wrappers_keep_the_geometry() {
    let plain = forebay_store::MemoryStore::new().geometry();
    for fixture in fixtures::all() {
        let geometry = fixture.driver.store.geometry();
        assert!(geometry.max_io_pages >= 1 && geometry.queue_depth >= 1);
        assert!((512..=4096).contains(&geometry.block_bytes));
        assert!(geometry.block_bytes.is_power_of_two());
        let is_file = fixture.name.starts_with("uring") || fixture.name.starts_with("positioned");
        assert!(is_file || geometry == plain, "{}", fixture.name);
    }
}
