//! Which knob would help a caller that waits, and what happened meanwhile.

use crate::support::void::Void;
use crate::support::writers::{Writer, first_line, medium, open_for, paced};
use crate::support::{Bench, OfSize, PAGE, simulate};
use forebay_base::Span;
use forebay_engine::incident::{Happening, Refusal};
use forebay_engine::settings::DirtyKnobs;
use forebay_engine::why::{Advice, AdviceReason, Suspect, WhyLine};
use forebay_engine::{Changes, Settings, StoreChanges, StoreKey};
use forebay_rt::Rt;
use forebay_store::{Failure, Fault, FaultAction, FaultStore, IoKind};
use std::sync::Arc;

fn blamed(line: &WhyLine) -> (Suspect, bool) {
    (line.verdict.first, line.verdict.is_clear())
}

/// The same with the number of each store alone, whichever cache it is of.
fn plain(changes: &Changes) -> Changes {
    let mut plain = changes.clone();
    for change in &mut plain.stores {
        change.store = StoreKey::numbered(change.store.number());
    }
    plain
}

fn drain(bdi: usize, promise: Span) -> Changes {
    let change = StoreChanges {
        drain: Some(Some(promise)),
        ..StoreChanges::of_store(StoreKey::numbered(bdi))
    };
    Changes {
        stores: vec![change],
        ..Changes::default()
    }
}

#[test]
fn a_limit_that_was_turned_down_is_blamed() {
    simulate(9, async |rt| {
        let bench = paced(rt.clone(), 64, 2_000);
        let file = open_for(&bench, &bench.store, 1, "log");
        // Bursts that fit the limit, and that the store takes in the time between them.
        let writer = Writer::start(&rt, file, 1_200, Span::from_secs(2));
        rt.sleep(Span::from_secs(20)).await;
        let before = bench.cache.why(None).waited;
        let lower = Changes {
            dirty_bytes: Some(1 << 20),
            background_bytes: Some(512 << 10),
            ..Changes::default()
        };
        let old = bench.cache.retune(&lower).expect("it is allowed");
        assert_eq!(old.dirty_bytes, Some(0));
        rt.sleep(Span::from_secs(30)).await;
        writer.end().await;
        let first = first_line(&bench);
        assert!(first.waited > before.saturating_mul(4), "{before}");
        assert_eq!(blamed(&first), (Suspect::Limit, true));
        let advice = first.advice.expect("it can be turned back");
        assert!(matches!(advice.reason, AdviceReason::TurnBack { .. }));
        assert_eq!(advice.changes, old);
    });
}

#[test]
fn memory_that_was_taken_away_is_blamed() {
    simulate(10, async |rt| {
        let bench = paced(rt.clone(), 64, 2_000);
        let file = open_for(&bench, &bench.store, 1, "log");
        let writer = Writer::start(&rt, file, 1_200, Span::from_secs(2));
        rt.sleep(Span::from_secs(20)).await;
        let less = Changes {
            memory_bytes: Some(4 << 20),
            ..Changes::default()
        };
        let old = bench.cache.retune(&less).expect("it is allowed");
        rt.sleep(Span::from_secs(30)).await;
        writer.end().await;
        let first = first_line(&bench);
        assert_eq!(blamed(&first), (Suspect::Memory, true));
        let advice = first.advice.expect("it can be turned back");
        assert_eq!(advice.changes, old);
    });
}

#[test]
fn a_sync_that_takes_long_is_to_find_less_dirty() {
    simulate(3, async |rt| {
        let bench = paced(rt.clone(), 64, 1_500);
        let file = open_for(&bench, &bench.store, 1, "mail");
        let bytes = vec![1; 2_200 * PAGE];
        // Another caller writes until the store's rate is known.
        let tape = open_for(&bench, &bench.store, 2, "tape");
        let writer = Writer::start(&rt, tape.clone(), 4, Span::ZERO);
        rt.sleep(Span::from_secs(20)).await;
        writer.end().await;
        tape.sync().await.expect("the store is well");
        file.write_at(&bytes, 0).await.expect("there is room");
        file.sync().await.expect("the store is well");
        let lines = bench.cache.why(None).lines;
        let is_mail = |line: &WhyLine| line.caller.name() == "mail";
        let first = lines.into_iter().find(is_mail).expect("it waited");
        assert_eq!(blamed(&first), (Suspect::Sync, true));
        let advice = first.advice.clone().expect("a promise helps");
        assert_eq!(advice.reason, AdviceReason::ShorterSync);
        assert_eq!(plain(&advice.changes), drain(0, Span::from_millis(800)));
        let text = bench.cache.why(None).text(|_| "turn it".into());
        assert!(
            text.contains("would take half as long: turn it\n"),
            "{text}"
        );
        bench.cache.retune(&advice.changes).expect("it is possible");
        file.write_at(&bytes, 0).await.expect("there is room");
        let began = rt.now();
        file.sync().await.expect("the store is well");
        let took = rt.now().since(began);
        assert!(took < Span::from_secs(1), "{took}");
    });
}

#[test]
fn the_store_of_another_caller_is_to_keep_less() {
    simulate(4, async |rt| {
        let bench = paced(rt.clone(), 64, 500);
        let fast = bench.cache.attach(medium(rt.clone(), 2_000));
        let fast = fast.expect("a store is attached");
        let tape = open_for(&bench, &bench.store, 1, "tape");
        let tape = Writer::start(&rt, tape, 16, Span::ZERO);
        let log = open_for(&bench, &fast, 1, "log");
        let log = Writer::start(&rt, log, 1, Span::from_millis(20));
        rt.sleep(Span::from_secs(60)).await;
        tape.end().await;
        log.end().await;
        let lines = bench.cache.why(None).lines;
        let accuses = |line: &&WhyLine| blamed(line) == (Suspect::OthersDirty, true);
        let line = lines
            .iter()
            .find(accuses)
            .expect("the log waited for the tape");
        let advice = line.advice.clone().expect("it would be held back");
        assert_eq!(advice.reason, AdviceReason::HoldBack { bdi: 0 });
        assert_eq!(plain(&advice.changes), drain(0, Span::from_secs(2)));
    });
}

/// A writer of a burst of 2,000 pages, in front of a store of 2,000 pages a second whose rate is
/// known: the knob that is advised, and by how many thousandths of its wait it waits less after
/// that knob was turned.
async fn advised_to_a_burst(rt: Rt, settings: Settings, first: &Changes) -> Option<(Advice, u64)> {
    let bench = Bench::with(rt.clone(), settings, |rt, _| medium(rt, 2_000));
    bench.cache.retune(first).expect("it is allowed");
    let tape = open_for(&bench, &bench.store, 2, "tape");
    let writer = Writer::start(&rt, tape.clone(), 4, Span::ZERO);
    rt.sleep(Span::from_secs(20)).await;
    writer.end().await;
    tape.sync().await.expect("the store is well");
    let burst = async |name: &str| {
        let file = open_for(&bench, &bench.store, 1, name);
        let began = rt.now();
        let written = file.write_at(&vec![1; 2_000 * PAGE], 0).await;
        written.expect("there is room");
        let took = rt.now().since(began).as_micros();
        file.sync().await.expect("the store is well");
        let lines = bench.cache.why(None).lines;
        let line = lines.into_iter().find(|line| line.caller.name() == name);
        (took, line.expect("it waited"))
    };
    let (took, line) = burst("log").await;
    let advice = line.advice?;
    bench.cache.retune(&advice.changes).expect("it is possible");
    let (now, _) = burst("later").await;
    Some((advice, took.saturating_sub(now) * 1_000 / took))
}

fn of_store(change: StoreChanges) -> Changes {
    Changes {
        stores: vec![change],
        ..Changes::default()
    }
}

/// Whichever limit holds a burst, twice of that one is advised, and lets the next burst wait less.
#[test]
fn twice_the_limit_that_holds_a_burst_is_advised() {
    let strict = |percent| {
        of_store(StoreChanges {
            strict_limit: Some(true),
            max_ratio_percent: Some(percent),
            ..StoreChanges::of_store(StoreKey::numbered(0))
        })
    };
    let part = |percent| {
        of_store(StoreChanges {
            max_ratio_percent: Some(percent),
            ..StoreChanges::of_store(StoreKey::numbered(0))
        })
    };
    let age = |ms| Changes {
        at_risk: Some(Some(Span::from_millis(ms))),
        ..Changes::default()
    };
    let usual = Changes::default;
    let (higher, longer) = (AdviceReason::HigherLimit, AdviceReason::LongerPromise);
    let ratio = |percent| Changes {
        dirty_ratio_percent: Some(percent),
        ..usual()
    };
    let bytes = |bytes| Changes {
        dirty_bytes: Some(bytes),
        ..usual()
    };
    let promise = |ms| drain(0, Span::from_millis(ms));
    for (first, reason, expected) in [
        (usual(), higher, ratio(40)),
        (bytes(3 << 20), higher, bytes(6 << 20)),
        (strict(50), higher, part(100)),
        // All of the limit is its part, so the limit itself holds it.
        (strict(100), higher, ratio(40)),
        // 400 pages: half of what the ratio allows.
        (promise(200), longer, promise(400)),
        (age(1_000), longer, age(2_000)),
    ] {
        simulate(11, async |rt| {
            let settings = Settings::of_mib(16);
            let advised = advised_to_a_burst(rt, settings, &first).await;
            let (advice, saved) = advised.expect("a knob helps");
            assert_eq!((advice.reason, plain(&advice.changes)), (reason, expected));
            assert!(saved >= 100, "{first:?}: {saved} thousandths");
        });
    }
}

#[test]
fn a_limit_that_is_as_high_as_it_can_be_is_not_advised_to_be_higher() {
    simulate(12, async |rt| {
        let settings = Settings {
            dirty: DirtyKnobs {
                dirty_ratio_percent: 75,
                background_ratio_percent: 60,
                ..DirtyKnobs::default()
            },
            ..Settings::of_mib(4)
        };
        assert_eq!(
            advised_to_a_burst(rt, settings, &Changes::default()).await,
            None
        );
    });
}

#[test]
fn nothing_is_advised_to_a_writer_that_the_store_cannot_keep_up_with() {
    simulate(5, async |rt| {
        let bench = paced(rt.clone(), 32, 2_000);
        let file = open_for(&bench, &bench.store, 1, "log");
        let writer = Writer::start(&rt, file, 4, Span::ZERO);
        rt.sleep(Span::from_secs(60)).await;
        writer.end().await;
        let first = first_line(&bench);
        assert_eq!(blamed(&first), (Suspect::OwnRate, true));
        assert_eq!(first.advice, None);
    });
}

#[test]
fn refused_requests_and_other_budgets_are_kept_as_incidents() {
    simulate(6, async |rt| {
        let faults = Arc::new(FaultStore::new(rt.clone(), Arc::new(Void)));
        let bench = Bench::new(rt.clone(), 32, |_, _| faults.clone());
        let file = open_for(&bench, &bench.store, 1, "log");
        for (kind, failure) in [
            (IoKind::Write, Failure::NoSpace),
            (IoKind::Write, Failure::Fenced),
        ] {
            faults.inject(Fault::each(kind, FaultAction::Fail(failure)));
            file.write_at(&[1; PAGE], 0).await.expect("there is room");
            assert!(file.sync().await.is_err());
            faults.clear();
        }
        bench
            .cache
            .set_memory(16 << 20)
            .await
            .expect("it is enough");
        let happened = bench.cache.incidents(None).into_iter();
        let happened: Vec<_> = happened.map(|it| it.what).collect();
        let failures: Vec<_> = happened
            .iter()
            .filter_map(|what| match what {
                Happening::Failed(Refusal { kind, failure, .. }) => Some((*kind, *failure)),
                _ => None,
            })
            .collect();
        for expected in [
            (IoKind::Write, Failure::NoSpace),
            (IoKind::Write, Failure::Fenced),
        ] {
            assert!(failures.contains(&expected), "{failures:?}");
        }
        let budget = happened.iter().find_map(|what| match what {
            Happening::Memory { to_bytes, .. } => Some(*to_bytes),
            _ => None,
        });
        assert_eq!(budget, Some(16 << 20));
    });
}
