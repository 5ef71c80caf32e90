//! Handles and stores that end up at the wrong cache, and lengths that are not those of the store.

use forebay_engine::settings::BackingSettings;
use forebay_engine::{BuildError, Cache, Changes, Settings, StoreChanges, StoreKey};
use forebay_rt::{Rt, block_on};
use forebay_store::{
    CountStore, FileStore, FileStoreSettings, MemoryStore, ObjectId, OpenMode, Store,
};
use std::sync::Arc;

const FILE: ObjectId = ObjectId(1);
const LENGTH: u64 = 1 << 20;

fn cache() -> Cache {
    let settings = Settings {
        memory_bytes: 8 << 20,
        ..Settings::default()
    };
    Cache::new(settings).expect("the settings are good")
}

fn filled() -> Arc<MemoryStore> {
    let store = MemoryStore::new();
    store.fill(FILE, &vec![7; LENGTH as usize]);
    Arc::new(store)
}

#[test]
fn a_store_of_another_cache_is_refused() {
    let (logs, users) = (cache(), cache());
    let of_logs = logs.attach(filled()).expect("it is new");
    let users_store = filled();
    let of_users = users.attach(users_store.clone()).expect("it is new");
    let foreign = BuildError::ForeignStore { bdi: 0 };
    let opened = users.open(&of_logs, FILE, LENGTH);
    assert_eq!(opened.err(), Some(foreign.clone()));
    let opened = users.open_read_only(&of_logs, FILE, LENGTH);
    assert_eq!(opened.err(), Some(foreign.clone()));
    let caller = forebay_engine::Caller::named("a caller of this test");
    let opened = users.open_for(&of_logs, FILE, LENGTH, &caller);
    assert_eq!(opened.err(), Some(foreign.clone()));
    let swap = users.set_swap(&of_logs, ObjectId(2), LENGTH);
    assert_eq!(swap, Err(foreign));
    let file = users.open(&of_users, FILE, LENGTH).expect("its own");
    block_on(file.write_at(&[9; 10], 0)).expect("there is memory");
    block_on(file.sync()).expect("it is written");
    assert_eq!(
        users_store.snapshot(FILE)[..11],
        [9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 7]
    );
}

/// The number of the other cache's store may be one that this cache does not have.
#[test]
fn a_store_with_a_number_that_is_not_there_is_refused() {
    let (one, two) = (cache(), cache());
    let _first = two.attach(filled()).expect("it is new");
    let second = two.attach(filled()).expect("it is new");
    let opened = one.open(&second, FILE, LENGTH);
    assert_eq!(opened.err(), Some(BuildError::ForeignStore { bdi: 1 }));
}

#[test]
fn a_store_has_one_cache_at_a_time() {
    let store = filled();
    let first = cache();
    let attached = first.attach(store.clone()).expect("it is new");
    let again = first.attach(store.clone());
    assert_eq!(again.err(), Some(BuildError::AlreadyAttached));
    let second = cache();
    let under_two = second.attach(store.clone());
    assert_eq!(under_two.err(), Some(BuildError::AlreadyAttached));
    block_on(first.close()).expect("nothing is dirty");
    drop(attached);
    second.attach(store).expect("the first cache is closed");
}

#[test]
fn a_knob_or_a_name_of_another_caches_store_is_refused() {
    let (logs, users) = (cache(), cache());
    let of_logs = logs.attach(filled()).expect("it is new").key();
    let of_users = users.attach(filled()).expect("it is new").key();
    let half = |store| Changes {
        stores: vec![StoreChanges {
            max_ratio_percent: Some(50),
            ..StoreChanges::of_store(store)
        }],
        ..Changes::default()
    };
    let foreign = BuildError::ForeignStore { bdi: 0 };
    let before = users.tuned();
    assert_eq!(users.retune(&half(of_logs)), Err(foreign.clone()));
    assert_eq!(users.name_store(of_logs, "logs"), Err(foreign.clone()));
    assert_eq!(users.tuned(), before);
    assert_eq!(users.store_name(0), "store 0");
    let old = users.retune(&half(of_users)).expect("its own");
    // What one cache had is not for the other.
    assert_eq!(logs.retune(&old), Err(foreign.clone()));
    assert_eq!(logs.retune(&users.tuned()), Err(foreign));
    users.retune(&old).expect("its own");
    assert_eq!(users.tuned(), before);
    // A person who types a number means the cache that is asked.
    let typed = StoreKey::numbered(0);
    logs.retune(&half(typed)).expect("it has one");
    assert!(logs.retune(&half(StoreKey::numbered(1))).is_err());
}

/// Each of two caches would keep bytes that the other has changed, whatever is in between.
#[test]
fn a_wrapper_counts_as_the_store_inside() {
    let store = filled();
    let wrapped = || Arc::new(CountStore::new(Rt::real(), store.clone()));
    let first = cache();
    first.attach(wrapped()).expect("it is new");
    let (same, second) = (first.attach(wrapped()), cache());
    assert_eq!(same.err(), Some(BuildError::AlreadyAttached));
    for again in [second.attach(wrapped()), second.attach(store.clone())] {
        assert_eq!(again.err(), Some(BuildError::AlreadyAttached));
    }
    block_on(first.close()).expect("nothing is dirty");
    second.attach(store).expect("the first cache is closed");
}

#[test]
fn a_cache_that_is_dropped_lets_its_stores_go() {
    let store = filled();
    drop(cache().attach(store.clone()).expect("it is new"));
    cache().attach(store).expect("the first cache is gone");
}

#[test]
fn an_attachment_that_is_refused_leaves_the_store_free() {
    let store = filled();
    let greedy = BackingSettings {
        min_ratio_percent: 60,
        ..BackingSettings::default()
    };
    let first = cache();
    first
        .attach_with(filled(), greedy)
        .expect("it is the first");
    let refused = first.attach_with(store.clone(), greedy);
    assert!(
        matches!(refused, Err(BuildError::BadSetting { .. })),
        "{refused:?}"
    );
    cache().attach(store).expect("nobody has it");
}

#[test]
fn an_object_is_not_opened_as_shorter_than_it_is() {
    let cache = cache();
    let store = filled();
    let attached = cache.attach(store.clone()).expect("it is new");
    for length_bytes in [0, 10, LENGTH - 1] {
        let opened = cache.open(&attached, FILE, length_bytes);
        let refused = BuildError::WrongLength {
            object: FILE.0,
            length_bytes,
            stored_bytes: LENGTH,
        };
        assert_eq!(opened.err(), Some(refused));
    }
    let file = cache.open(&attached, FILE, LENGTH).expect("its length");
    // Its store may learn of a new length late.
    block_on(file.truncate(10)).expect("it is cut");
    let again = cache.open(&attached, FILE, 10).expect("it is known");
    assert_eq!(again.len(), 10);
}

#[test]
fn a_file_is_not_opened_as_shorter_than_it_is() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = folder.path().join("data");
    std::fs::write(&path, vec![7; LENGTH as usize]).expect("it is written");
    let store = FileStore::new(FileStoreSettings::default()).expect("it starts");
    let opened = store.open(&path, OpenMode::ReadWrite).expect("it opens");
    assert_eq!(Store::length_bytes(&*store, opened.object), Some(LENGTH));
    let cache = cache();
    let attached = cache.attach(store).expect("it is new");
    let refused = cache.open(&attached, opened.object, 0);
    assert!(
        matches!(refused, Err(BuildError::WrongLength { .. })),
        "{refused:?}"
    );
    let file = cache.open(&attached, opened.object, LENGTH);
    let file = file.expect("its length");
    block_on(file.write_at(&[9; 10], 0)).expect("there is memory");
    block_on(file.sync()).expect("it is written");
    let stored = std::fs::read(&path).expect("it is there");
    assert!(stored.len() == LENGTH as usize && stored[..10] == [9; 10]);
    assert!(stored[10..].iter().all(|&byte| byte == 7));
}
