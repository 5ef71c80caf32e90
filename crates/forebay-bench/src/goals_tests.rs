use super::*;
use crate::contender::{Load, Sample};
use crate::results::tests::named_step;

fn verdict(results: &Results, text: &str) -> Verdict {
    verdicts(results)
        .into_iter()
        .find(|verdict| verdict.goal.text == text)
        .unwrap()
}

fn add(results: &mut Results, who: Who, threads: u32, value: f64) {
    let step = named_step(Phase::Hit, Load::ReadByCopy, threads, threads);
    results.add(&step, who, vec![Sample::plain("copy", "ns a page", value)]);
}

#[test]
fn nothing_measured_is_no_verdict() {
    assert!(
        verdicts(&Results::default())
            .iter()
            .all(|v| v.word() == "not measured")
    );
}

#[test]
fn ratios_are_within_one_run() {
    let mut results = Results::default();
    add(&mut results, Who::Forebay, 1, 300.0);
    add(&mut results, Who::Floor, 1, 250.0);
    add(&mut results, Who::Kernel, 1, 510.0);
    add(&mut results, Who::Forebay, 2, 320.0);
    let copy = verdict(&results, "a copy, against the plain copy of a page");
    assert_eq!(copy.word(), "met");
    assert!(copy.to_string().contains("1.20 x"), "{copy}");
    let pread = verdict(&results, "the kernel's pread, against a copy");
    assert_eq!(pread.word(), "MISSED");
    assert!(pread.to_string().contains("MISSED"), "{pread}");
    let scaling = verdict(&results, "2 threads, against 1");
    assert_eq!(scaling.word(), "met");
    assert!(scaling.to_string().contains("1.88 x"), "{scaling}");
}

#[test]
fn goals_of_a_phase_have_texts_of_their_own() {
    let mut seen = std::collections::BTreeSet::new();
    assert!(
        GOALS
            .iter()
            .all(|goal| seen.insert((goal.phase, goal.text)))
    );
}
