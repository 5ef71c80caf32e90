//! What advice costs, and which pages.

use crate::support::{Bench, PAGE, simulate, write_pages};
use forebay_base::Span;
use forebay_engine::Advice;
use forebay_engine::lab::LabCache;
use forebay_store::ObjectId;

/// Neither the rest of the object nor another one is written.
#[test]
fn a_range_that_is_not_needed_is_all_that_is_written() {
    simulate(1, |rt| async move {
        let bench = Bench::plain(rt.clone(), 8);
        let (file, other) = (bench.open(0), bench.open_object(ObjectId(2), 0));
        write_pages(&file, 0..10).await.expect("memory takes it");
        file.sync().await.expect("the store is well");
        write_pages(&file, 10..30).await.expect("memory takes it");
        write_pages(&other, 0..20).await.expect("memory takes it");
        let at = |page: u64| page * PAGE as u64;
        let dirty = || (file.dirty_pages(), other.dirty_pages());
        let before = bench.cache.statistics().free();
        // The clean pages.
        assert_eq!(file.advise(Advice::DontNeed, 0..at(10)).await, Ok(()));
        rt.sleep(Span::from_secs(1)).await;
        assert_eq!(dirty(), (20, 20));
        assert_eq!(bench.cache.statistics().free(), before + 10);
        // Some of the dirty pages.
        assert_eq!(file.advise(Advice::DontNeed, at(5)..at(20)).await, Ok(()));
        rt.sleep(Span::from_secs(1)).await;
        assert_eq!(dirty(), (10, 20));
        assert!(bench.has_stored(0..20));
        bench.assert_consistent();
    });
}

/// A page that is held and clean has no write whose end would take the mark of reclaim away.
#[test]
fn a_page_that_is_held_and_not_needed_gets_no_mark_that_stays() {
    simulate(2, |rt| async move {
        let bench = Bench::plain(rt.clone(), 8);
        let file = bench.open(0);
        write_pages(&file, 0..4).await.expect("memory takes it");
        file.sync().await.expect("the store is well");
        let guard = file.page(1).await.expect("it is there");
        let at = |page: u64| page * PAGE as u64;
        assert_eq!(file.advise(Advice::DontNeed, 0..at(4)).await, Ok(()));
        drop(guard);
        assert_eq!(bench.cache.check_marks(), Vec::<String>::new());
        bench.assert_consistent();
    });
}
