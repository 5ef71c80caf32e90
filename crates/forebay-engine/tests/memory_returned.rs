//! What a smaller budget gives up goes back to the system. A process of its own, because what other
//! tests take and give back meanwhile would count.

use forebay_base::PAGE_BYTES;
use forebay_engine::{Cache, Settings};
use forebay_store::MemoryStore;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// Pages of this process that are in memory.
fn resident_pages() -> u64 {
    let reported = std::fs::read_to_string("/proc/self/statm").expect("the system reports");
    let resident = reported.split(' ').nth(1).expect("a second field");
    resident.parse().expect("a number")
}

#[test]
fn memory_that_is_given_up_is_the_systems_again() {
    let settings = Settings {
        memory_bytes: 256 * MIB,
        ..Settings::default()
    };
    let cache = Cache::new(settings).expect("the settings are good");
    cache
        .attach(Arc::new(MemoryStore::new()))
        .expect("a store is attached");
    let before = resident_pages();
    let over = forebay_rt::block_on(cache.set_memory(32 * MIB)).expect("it is allowed");
    assert_eq!(over, 0);
    let after = resident_pages();
    let given_back = before.saturating_sub(after) * PAGE_BYTES as u64;
    assert!(given_back > 200 * MIB, "{given_back} bytes");
    forebay_rt::block_on(cache.close()).expect("nothing is dirty");
    drop(cache);
    locked_memory_is_given_up_too();
}

/// As a server with the privilege locks it. Without the privilege there is nothing to see.
fn locked_memory_is_given_up_too() {
    use rustix::mm::{MlockAllFlags, mlockall, munlockall};
    let settings = Settings {
        memory_bytes: 256 * MIB,
        ..Settings::default()
    };
    let cache = Cache::new(settings).expect("the settings are good");
    let locks = MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT;
    if mlockall(locks).is_err() {
        return;
    }
    let before = resident_pages();
    let over = forebay_rt::block_on(cache.set_memory(32 * MIB)).expect("it is allowed");
    let given_back = before.saturating_sub(resident_pages()) * PAGE_BYTES as u64;
    munlockall().expect("what is locked can be unlocked");
    assert_eq!(over, 0);
    assert!(given_back > 200 * MIB, "{given_back} bytes");
}
