//! Pages without bytes: the same engine, for large simulated machines.

use forebay_engine::{BuildError, Cache, Counter, Parts, Settings};

use crate::support::void::Void;
use crate::support::{Bench, OfSize, PAGE, page_of, simulate, simulated};
use forebay_engine::settings::{NodeSettings, PageMemory, Watermarks, ZoneSettings};
use std::sync::Arc;

fn zone(name: &str, managed_pages: u64) -> ZoneSettings {
    ZoneSettings {
        name: name.into(),
        managed_pages: Some(managed_pages),
        lowmem_reserve_ratio: 256,
        ..ZoneSettings::default()
    }
}

fn phantom(zones: Vec<ZoneSettings>) -> Settings {
    Settings {
        page_memory: PageMemory::Phantom,
        nodes: vec![NodeSettings { zones }],
        ..Settings::default()
    }
}

#[test]
fn a_page_without_bytes_costs_at_most_64() {
    let zones = vec![
        zone("DMA", 3_840),
        zone("DMA32", 1_044_736),
        zone("Normal", 131_072),
    ];
    simulate(1, |rt| async move {
        let parts = Parts { rt, sink: None };
        let cache = Cache::with_parts(phantom(zones), parts).expect("the settings are good");
        let statistics = cache.statistics();
        assert_eq!(statistics.frames, 1_179_648, "4608 MiB");
        assert!(
            statistics.memory_bytes < 80 << 20,
            "{}",
            statistics.memory_bytes
        );
        let managed: Vec<u64> = statistics.zones.iter().map(|zone| zone.managed).collect();
        assert_eq!(managed, [3_840, 1_044_736, 131_072]);
        // Cumulative, as in spec/reclaim.md 1.4.
        assert_eq!(statistics.zones[0].lowmem_reserve, [0, 4_081, 4_593]);
    });
}

#[test]
fn pages_without_bytes_are_dirtied_written_and_reclaimed_like_others() {
    let run = |page_memory| {
        simulated(2, |rt| async move {
            let settings = Settings {
                page_memory,
                ..Settings::of_mib(8)
            };
            let bench = Bench::with(rt, settings, |_, _| Arc::new(Void));
            let file = bench.open(0);
            for number in 0..6_000 {
                let written = file.write_at(&page_of(number), number * PAGE as u64).await;
                assert_eq!(written, Ok(()));
            }
            let mut buffer = vec![7; PAGE];
            for number in 0..6_000 {
                let read = file.read_at(&mut buffer, number * PAGE as u64).await;
                assert_eq!(read, Ok(PAGE));
            }
            if page_memory == PageMemory::Phantom {
                assert!(
                    buffer.iter().all(|&byte| byte == 7),
                    "the buffer is left alone"
                );
            }
            assert_eq!(file.sync().await, Ok(()));
            assert_eq!(bench.count(Counter::NrDirtied), 6_000);
            let freed = [Counter::PgstealKswapd, Counter::PgstealDirect];
            assert!(
                freed
                    .map(|counter| bench.count(counter))
                    .iter()
                    .sum::<u64>()
                    > 3_000
            );
            bench.assert_consistent();
        })
    };
    assert_eq!(
        run(PageMemory::Phantom),
        run(PageMemory::Real),
        "the same run"
    );
}

#[test]
fn a_store_that_wants_bytes_finds_zeros() {
    simulate(3, |rt| async move {
        let settings = Settings {
            page_memory: PageMemory::Phantom,
            ..Settings::of_mib(8)
        };
        let bench = Bench::with(rt, settings, |_, memory| memory);
        let file = bench.open(0);
        assert_eq!(file.write_at(&[1; PAGE], 0).await, Ok(()));
        assert_eq!(file.sync().await, Ok(()));
        assert_eq!(bench.memory.snapshot(crate::support::FILE), vec![0; PAGE]);
        let page = file.page(0).await.expect("it is resident");
        assert!(page.iter().all(|&byte| byte == 0));
    });
}

#[test]
fn zones_say_their_frames_marks_and_reserves() {
    let marks = Watermarks {
        min: 10,
        low: 20,
        high: 30,
    };
    let zones = vec![
        ZoneSettings {
            lowmem_reserve_pages: Some(vec![0, 0, 77]),
            marks: Some(marks),
            ..zone("DMA", 500)
        },
        zone("DMA32", 0),
        zone("Normal", 2_000),
    ];
    simulate(4, |rt| async move {
        let bench = Bench::with(rt, phantom(zones), |_, _| Arc::new(Void));
        let zones = bench.cache.statistics().zones;
        assert_eq!((zones[0].min, zones[0].low, zones[0].high), (10, 20, 30));
        assert_eq!(zones[0].lowmem_reserve, [0, 0, 77]);
        assert_eq!((zones[1].managed, zones[1].free), (0, 0));
        let file = bench.open(0);
        for number in 0..4_000 {
            let written = file.write_at(&page_of(number), number * PAGE as u64).await;
            assert_eq!(written, Ok(()));
        }
        let zones = bench.cache.statistics().zones;
        assert!(zones[0].free >= 10 + 77, "{:?}", zones[0]);
        assert_eq!(file.sync().await, Ok(()));
        bench.assert_consistent();
    });
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let refused = |zones: Vec<ZoneSettings>| {
        matches!(
            Cache::new(phantom(zones)),
            Err(BuildError::BadSetting { .. })
        )
    };
    assert!(refused(vec![zone("DMA", 0)]));
    assert!(refused(vec![zone("DMA", 5)]));
    assert!(refused(vec![zone("DMA", 1 << 40)]));
    assert!(refused(vec![zone("DMA", 4_096), ZoneSettings::default()]));
    let marks = Watermarks {
        min: 3,
        low: 2,
        high: 4,
    };
    let crossed = ZoneSettings {
        marks: Some(marks),
        ..zone("DMA", 4_096)
    };
    assert!(refused(vec![crossed]));
}
