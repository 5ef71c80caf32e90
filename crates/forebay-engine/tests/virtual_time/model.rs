//! The cache against arrays of bytes, for many seeds; and that a seed decides everything.

use crate::support::model::{Plan, run};
use forebay_store::Durability;

/// Runs the plans of a range of seeds and names the plan that fails.
fn run_all(seeds: std::ops::Range<u64>, change: impl Fn(Plan) -> Plan) {
    for seed in seeds {
        let plan = change(Plan::of(seed));
        let outcome = std::panic::catch_unwind(|| run(plan));
        assert!(outcome.is_ok(), "{plan:?} failed; see above");
    }
}

#[test]
fn bytes_are_what_was_written() {
    run_all(0..100, |plan| Plan {
        faulty: false,
        ..plan
    });
}

#[test]
fn bytes_are_what_was_written_though_requests_fail() {
    run_all(100..180, |plan| Plan {
        faulty: true,
        ..plan
    });
}

#[test]
fn bytes_are_what_was_written_to_an_unstable_store() {
    run_all(200..240, |plan| Plan {
        durability: Durability::Unstable,
        memory_bytes: 2 << 20,
        ..plan
    });
}

#[test]
fn a_seed_decides_everything() {
    for seed in 300..310 {
        assert_eq!(run(Plan::of(seed)), run(Plan::of(seed)), "seed {seed}");
    }
    assert_ne!(
        run(Plan::of(300)),
        run(Plan {
            seed: 1,
            ..Plan::of(300)
        })
    );
}
