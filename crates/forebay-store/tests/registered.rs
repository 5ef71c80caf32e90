//! Memory that is registered with a store and forgotten while requests are under way.

mod support;

use forebay_base::PAGE_BYTES;
use forebay_rt::block_on;
use forebay_store::{Finish, FinishedIo, Io, IoKind, ObjectId, Request};
use std::sync::Arc;
use support::Driver;
use support::fixtures::{self, Fixture};

/// The request from whose end everything follows.
const BEGIN: u64 = 1 << 32;
/// A read of a page, asked for when that has ended.
const READ: u64 = BEGIN + 1;
/// A read of nothing, asked for next. When it has ended, memory is forgotten.
const FORGET: u64 = BEGIN + 2;

/// Asks for what comes next on the thread that ends what was before. So a store that begins
/// requests in the order in which it got them has begun the read, but perhaps not finished it, when
/// it is asked to forget the memory.
#[derive(Clone)]
struct Forgetter {
    driver: Driver,
    object: ObjectId,
}

impl Forgetter {
    fn read(&self, pages: usize, finish: Arc<dyn Finish>, token: u64) {
        let request = Request {
            kind: IoKind::Read,
            object: self.object,
            offset_bytes: 0,
            length_bytes: (pages * PAGE_BYTES) as u64,
        };
        let pages = self.driver.arena.lend(pages, 0xAA);
        let io = Io::new(request, pages, finish, token).in_memory(self.driver.arena.memory());
        self.driver.store.submit(io);
    }
}

impl Finish for Forgetter {
    fn finished(&self, io: FinishedIo) {
        let arena = &self.driver.arena;
        if io.token == BEGIN {
            self.read(1, self.driver.desk.clone(), READ);
            self.read(0, Arc::new(self.clone()), FORGET);
        } else {
            let store = &self.driver.store;
            store.forget_memory(arena.memory());
        }
        self.driver.desk.finished(io);
    }
}

/// What the kernel has pinned of this process for rings.
fn pinned_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("it can be read");
    let line = status.lines().find_map(|line| line.strip_prefix("VmPin:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.map_or(0, |kib| kib.parse().expect("it is a number"))
}

#[test]
fn a_read_that_has_begun_when_its_memory_is_forgotten_is_carried_out() {
    for mut fixture in fixtures::all() {
        let object = fixture.object();
        let Fixture { name, driver, .. } = &fixture;
        driver
            .write(object, 0, &[7; PAGE_BYTES])
            .expect("it is written");
        let forgetter = Arc::new(Forgetter {
            driver: driver.clone(),
            object,
        });
        let before_kib = pinned_kib();
        // The same memory is registered and forgotten again and again.
        for round in 0..4 {
            driver.store.register_memory(driver.arena.memory());
            forgetter.read(1, forgetter.clone(), BEGIN);
            for (token, pages) in [(BEGIN, 1), (READ, 1), (FORGET, 0)] {
                let read = block_on(driver.finish(token));
                let expected = Ok(vec![7; pages * PAGE_BYTES]);
                assert!(read == expected, "{name}, round {round}: {:?}", read.err());
            }
        }
        // The store lets go of it when it looks for requests next.
        for _ in 0..1_000 {
            if pinned_kib() <= before_kib {
                break;
            }
            forgetter.read(0, driver.desk.clone(), READ);
            assert_eq!(block_on(driver.finish(READ)), Ok(Vec::new()), "{name}");
        }
        let pinned_kib = pinned_kib();
        assert!(
            pinned_kib <= before_kib,
            "{name}: {pinned_kib} KiB are pinned, {before_kib} before"
        );
    }
}
