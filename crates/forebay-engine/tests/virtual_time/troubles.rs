//! A store that refuses or is silent is named while it lasts, and whatever ends in an error for a
//! caller has a counter; a wait counts from its first moment.

use crate::support::{
    Bench, FILE, OfSize, PAGE, has_page, pages, simulate, sync_failure, write_pages,
};
use forebay_base::Span;
use forebay_engine::trouble::Trouble;
use forebay_engine::why::Cause;
use forebay_engine::{AccessError, Caller, Counter, Settings};
use forebay_store::{
    Failure, Fault, FaultAction, FaultStore, IoKind, MemoryStore, ObjectId, Store,
};
use std::sync::Arc;

fn fails(kind: IoKind, failure: Failure) -> Fault {
    Fault::each(kind, FaultAction::Fail(failure))
}

fn trouble(bench: &Bench, kind: IoKind) -> Option<Trouble> {
    let store = bench.cache.statistics().backings[0];
    let troubles = store.troubles.into_iter().flatten();
    troubles
        .filter(|trouble| !trouble.is_over)
        .find(|trouble| trouble.kind == kind)
}

fn why(bench: &Bench) -> String {
    bench.cache.why(None).to_string()
}

#[test]
fn a_store_without_room_is_named_until_everything_is_written() {
    simulate(1, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        let named = bench.cache.name_store(bench.store.key(), "disk.img");
        named.expect("it is its own");
        let file = bench.open(0);
        write_pages(&file, 0..100).await.expect("memory takes it");
        assert!(why(&bench).starts_with("no caller has waited"));
        faults.inject(fails(IoKind::Write, Failure::NoSpace));
        assert_eq!(sync_failure(file.sync().await), Some(Failure::NoSpace));
        bench.rt.sleep(Span::from_secs(20)).await;
        let found = trouble(&bench, IoKind::Write).expect("it goes on");
        assert_eq!(found.failure, Failure::NoSpace);
        assert!(found.lasted >= Span::from_secs(20), "{found:?}");
        let text = why(&bench);
        let begin = "store 0 (disk.img) has refused writes for 20.";
        assert!(text.starts_with(begin), "{text}");
        assert!(
            text.contains("no space is left; 400 KiB are kept in memory"),
            "{text}"
        );
        let store = bench.cache.statistics().backings[0];
        assert_eq!(
            (store.failed_pages, store.written),
            (100, 0),
            "nothing was taken"
        );
        assert_eq!(store.refused.of_kind(IoKind::Write), found.requests);
        assert_eq!(bench.count(Counter::SyncErrors), 1);
        faults.clear();
        // The tries meanwhile failed too, and the handle was open.
        let _ = file.sync().await;
        assert_eq!(file.sync().await, Ok(()));
        bench.rt.sleep(Span::from_secs(11)).await;
        assert_eq!(trouble(&bench, IoKind::Write), None);
        assert!(!why(&bench).contains("refused"), "{}", why(&bench));
        let store = bench.cache.statistics().backings[0];
        assert_eq!((store.failed_pages, store.written), (0, 100));
    });
}

#[test]
fn reads_that_fail_move_the_counters_of_the_store_and_of_the_callers() {
    simulate(2, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        bench.memory.fill(FILE, &pages(0..100));
        let file = bench.open(100 * PAGE as u64);
        faults.inject(fails(IoKind::Read, Failure::Device(5)));
        for page in 0..10 {
            let read = has_page(&file, page).await;
            assert!(matches!(read, Err(AccessError::Store(_))), "{read:?}");
        }
        assert_eq!(bench.count(Counter::ReadErrors), 10);
        assert!(bench.count(Counter::NrReadFailed) >= 10);
        assert_eq!(bench.count(Counter::Pgpgin), 0, "nothing came");
        let refused = bench.cache.statistics().backings[0].refused;
        assert!(
            refused
                .iter()
                .all(|(kind, why, _)| (kind, why) == ("read", "device"))
        );
        assert!(refused.of_kind(IoKind::Read) >= 10);
        let text = why(&bench);
        assert!(text.contains("has refused reads"), "{text}");
        assert!(text.contains("error 5; readers get the error"), "{text}");
        faults.clear();
        assert_eq!(has_page(&file, 50).await, Ok(true));
        assert!(
            trouble(&bench, IoKind::Read).is_some(),
            "it is too early to say"
        );
        bench.rt.sleep(Span::from_secs(11)).await;
        assert_eq!(trouble(&bench, IoKind::Read), None);
    });
}

#[test]
fn every_call_that_ends_in_an_error_is_counted_once() {
    simulate(3, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        let (file, far) = (bench.open(0), u64::MAX - 1);
        assert!(file.write_at(&[1], far).await.is_err());
        assert_eq!(bench.count(Counter::WriteErrors), 1);
        assert!(file.page(7).await.is_err());
        assert_eq!(bench.count(Counter::OtherErrors), 1);
        assert!(file.truncate(far).await.is_err());
        assert_eq!(bench.count(Counter::OtherErrors), 2);
        write_pages(&file, 0..4).await.expect("memory takes it");
        faults.inject(fails(IoKind::Discard, Failure::Device(5)));
        let discarded = file.discard(0..4 * PAGE as u64).await;
        assert!(discarded.is_err(), "{discarded:?}");
        assert_eq!(bench.count(Counter::OtherErrors), 3);
        faults.clear();
        faults.inject(fails(IoKind::Write, Failure::NoSpace));
        assert!(bench.cache.sync().await.is_err());
        assert_eq!(bench.count(Counter::SyncErrors), 1);
        assert_eq!(bench.count(Counter::ReadErrors), 0);
        assert_eq!(bench.count(Counter::WriteErrors), 1);
        faults.clear();
        assert_eq!(bench.cache.sync().await, Ok(()));
    });
}

/// A bench whose second store takes everything, with a file in each.
fn beside_another(bench: &Bench) -> forebay_engine::File {
    let other: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let other = bench.cache.attach(other).expect("it is new");
    bench
        .cache
        .open(&other, ObjectId(9), 0)
        .expect("it is short")
}

/// A reader that waits for a page that its store will not answer for.
fn read_in_vain(bench: &Bench, faults: &FaultStore) -> forebay_rt::Task {
    bench.memory.fill(FILE, &pages(0..100));
    let file = bench
        .open(100 * PAGE as u64)
        .for_caller(&Caller::named("reader"));
    faults.inject(Fault::each(IoKind::Read, FaultAction::NeverAnswer));
    bench.rt.spawn("reader", async move {
        assert_eq!(has_page(&file, 50).await, Ok(true));
    })
}

fn patient() -> Settings {
    Settings {
        answer_timeout: Span::from_secs(1_000_000),
        ..Settings::of_mib(8)
    }
}

#[test]
fn a_wait_counts_from_its_first_millisecond() {
    simulate(4, |rt| async move {
        let (bench, faults) = Bench::faulty_over(rt, patient(), MemoryStore::new());
        let reader = read_in_vain(&bench, &faults);
        bench.rt.sleep(Span::from_millis(2)).await;
        let open = bench.cache.open_waits();
        assert_eq!(
            (open.len(), open[0].bdi, open[0].cause),
            (1, Some(0), Cause::StoreRead)
        );
        assert!(open[0].waited >= Span::from_millis(1), "{open:?}");
        bench.rt.sleep(Span::from_secs(25)).await;
        let line = &bench.cache.why(None).lines[0];
        assert_eq!(line.caller.name(), "reader");
        assert!(line.waited >= Span::from_secs(25), "{line:?}");
        assert!(line.waits_now.is_some_and(|now| now >= Span::from_secs(25)));
        let text = why(&bench);
        assert!(text.contains("it waits now, for 25.0 s so far"), "{text}");
        // Of a window it has the part that lies in it.
        let last = bench.cache.why(Some(Span::from_secs(10)));
        assert!(
            last.waited <= last.window && last.waited >= Span::from_secs(10),
            "{last:?}"
        );
        for _ in 0..3 {
            assert_eq!(
                bench.count(Counter::WaitsOverdue),
                1,
                "once, while it goes on"
            );
        }
        faults.clear();
        faults.release();
        reader.join().await;
        assert_eq!(bench.cache.open_waits(), []);
        assert_eq!(bench.count(Counter::WaitsOverdue), 1, "it was counted");
        let rows = bench.cache.wait_rows(None);
        let calls: u64 = rows.iter().map(|row| row.calls).sum();
        assert_eq!(calls, 1, "{rows:?}");
    });
}

#[test]
fn a_silent_store_is_told_by_its_name_and_age_beside_one_that_is_busy() {
    simulate(5, |rt| async move {
        let (bench, faults) = Bench::faulty_over(rt, patient(), MemoryStore::new());
        let named = bench.cache.name_store(bench.store.key(), "disk.img");
        named.expect("it is its own");
        let busy = beside_another(&bench);
        let reader = read_in_vain(&bench, &faults);
        for round in 0..16 {
            busy.write_at(&[round; PAGE], 0)
                .await
                .expect("memory takes it");
            busy.sync().await.expect("the store is well");
            bench.rt.sleep(Span::from_secs(1)).await;
        }
        let stores = bench.cache.statistics().backings;
        assert!(
            (16_000_000..17_000_000).contains(&stores[0].silent_us),
            "{}",
            stores[0].silent_us
        );
        assert_eq!(stores[1].silent_us, 0);
        let text = why(&bench);
        assert!(
            text.starts_with("store 0 (disk.img) has not answered for 16.0 s"),
            "{text}"
        );
        faults.clear();
        faults.release();
        reader.join().await;
        let store = bench.cache.statistics().backings[0];
        assert_eq!((store.silent_us, store.silences), (0, 1));
        assert!(
            store.last_silence_us >= 16_000_000,
            "{}",
            store.last_silence_us
        );
        assert!(!why(&bench).contains("has not answered"));
    });
}

#[test]
fn why_of_twenty_seconds_covers_twenty_seconds() {
    simulate(6, |rt| async move {
        let (bench, faults) = Bench::faulty_over(rt, patient(), MemoryStore::new());
        let reader = read_in_vain(&bench, &faults);
        bench.rt.sleep(Span::from_secs(3)).await;
        faults.clear();
        faults.release();
        reader.join().await;
        let last = |secs| bench.cache.why(Some(Span::from_secs(secs)));
        bench.rt.sleep(Span::from_secs(10)).await;
        assert!(last(20).waited >= Span::from_secs(3));
        bench.rt.sleep(Span::from_secs(20)).await;
        let twenty = last(20);
        assert_eq!(twenty.lines, []);
        let covers = Span::from_secs(20)..=Span::from_secs(25);
        assert!(covers.contains(&twenty.window), "{:?}", twenty.window);
        assert!(last(40).waited >= Span::from_secs(3));
    });
}
