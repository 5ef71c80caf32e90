//! What advice costs, and which pages.

mod support;

use forebay::Advice;
use forebay_base::Span;
use forebay_store::ObjectId;
use support::{Bench, PAGE, simulate, write_pages};

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
