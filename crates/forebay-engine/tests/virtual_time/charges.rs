//! Processor time of reclaim on a simulated machine, and what passes while it is taken.

use crate::support::scan::endless;
use crate::support::void::Void;
use crate::support::{Bench, OfSize, PAGE};
use forebay_base::Span;
use forebay_engine::{Counter, Settings};
use forebay_rt::{Virtual, VirtualSettings, WorkCosts};
use std::sync::Arc;

fn machine(costs: WorkCosts) -> Virtual {
    Virtual::new(VirtualSettings {
        processors: 2,
        costs,
        ..VirtualSettings::default()
    })
}

#[test]
fn reclaim_takes_the_time_of_what_it_looks_at_and_frees() {
    let costs = WorkCosts {
        scan_page_ns: 400,
        free_page_ns: 800,
        ..WorkCosts::default()
    };
    let machine = machine(costs);
    let rt = machine.rt();
    let counts = machine.run(async {
        let bench = Bench::with(rt, Settings::of_mib(8), |_, _| Arc::new(Void));
        let file = endless(&bench).await;
        crate::support::scan::touch(&file, 0..10_000).await;
        let scanned = [
            Counter::PgscanKswapd,
            Counter::PgscanDirect,
            Counter::Pgrefill,
        ];
        let freed = [Counter::PgstealKswapd, Counter::PgstealDirect];
        let sum = |counters: &[Counter]| -> u64 {
            counters.iter().map(|&counter| bench.count(counter)).sum()
        };
        (sum(&scanned), sum(&freed))
    });
    let busy: u64 = machine
        .processor_busy()
        .iter()
        .map(|busy| busy.as_nanos())
        .sum();
    assert!(counts.1 > 5_000, "{counts:?}");
    let expected = 400 * counts.0 + 800 * counts.1;
    // The last batch may still be under way.
    assert!(
        busy.abs_diff(expected) < 64 * 1_200,
        "{busy} and {expected}"
    );
}

#[test]
fn pages_are_off_their_lists_while_they_are_looked_at_and_go_back_if_nobody_does() {
    let costs = WorkCosts {
        scan_page_ns: 50_000,
        ..WorkCosts::default()
    };
    let machine = machine(costs);
    let rt = machine.rt();
    machine.run(async {
        let bench = Bench::with(rt.clone(), Settings::of_mib(8), |_, _| Arc::new(Void));
        let file = endless(&bench).await;
        let (mut given_up, mut most_isolated) = (0, 0);
        for round in 0..4_000 {
            let mut buffer = vec![0; 8 * PAGE];
            let reading = file.read_at(&mut buffer, round * 8 * PAGE as u64);
            let result = rt.timeout(Span::from_micros(700), reading).await;
            given_up += u32::from(result.is_err());
            let zones = bench.cache.statistics().zones;
            most_isolated = most_isolated.max(zones[0].isolated_file);
        }
        assert!(given_up > 20, "{given_up}");
        assert!(most_isolated > 0, "kswapd was seen at work");
        rt.sleep(Span::from_secs(1)).await;
        let zones = bench.cache.statistics().zones;
        assert_eq!(zones[0].isolated_file, 0);
        bench.assert_consistent();
    });
}
