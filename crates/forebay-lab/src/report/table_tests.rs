//! The printed shapes.

use super::*;
use crate::outcome::{Outcome, Stall};

fn runs() -> Vec<Outcome> {
    let one = |policy: &str, seed, elapsed_s, scanned| {
        let mut run = Outcome {
            elapsed_s,
            ..Outcome::default()
        };
        run.setting.workload = "fsmark".into();
        run.setting.machine = "amd4-512m".into();
        run.setting.policy = policy.into();
        run.setting.seed = seed;
        run.counters.insert("pgscan_direct".into(), scanned);
        run.stalls.push(Stall {
            context: "direct".into(),
            reason: "WRITEBACK".into(),
            delayed_us: 104_000,
            count: scanned,
        });
        run
    };
    vec![
        one("before", 1, 50.0, 1000),
        one("before", 2, 54.0, 1200),
        one("after", 1, 39.0, 0),
    ]
}

#[test]
fn a_table_has_a_value_and_a_percentage_for_each_policy() {
    let text = render(&Comparison::of(&runs()));
    let line = |part: &str| {
        let mut lines = text.lines().filter(|line| line.contains(part));
        lines.next().unwrap_or_else(|| panic!("{part} in {text}"))
    };
    assert!(text.starts_with("fsmark on amd4-512m\n"), "{text}");
    assert!(
        line("Elapsed").contains("52 +-   2.83 (   0.00%)"),
        "{text}"
    );
    assert!(line("Elapsed").ends_with("39 ( -25.00%)"), "{text}");
    assert!(line("Direct pages scanned").starts_with("Ops  "), "{text}");
    assert!(
        line("Direct pages scanned").ends_with("0 (-100.00%)"),
        "{text}"
    );
    assert!(
        line("usec_delayed").ends_with("2200 usec_delayed=104000 reason=WRITEBACK"),
        "{text}"
    );
    assert!(text.contains("summed over 2 runs"), "{text}");
}

#[test]
fn one_policy_alone_has_no_percentages() {
    let text = render(&Comparison::of(&runs()[..1]));
    assert!(!text.contains('%'), "{text}");
}

#[test]
fn a_grid_keeps_its_columns() {
    let rows = [
        vec!["a".into(), "1".into()],
        vec!["long".into(), "22".into()],
    ];
    assert_eq!(grid(&rows, 1), "a      1\nlong  22\n");
}
