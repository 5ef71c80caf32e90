//! Any text as a machine and as a scenario of the lab: it is accepted, or refused with a line that
//! it has and a reason.
#![no_main]

use forebay_lab::machine::{Machine, MachineError, SourceLine};
use forebay_lab::run::Plan;
use forebay_lab::scenario::Scenario;
use libfuzzer_sys::fuzz_target;

/// A refusal has a line of `text` and a reason.
fn judge_refusal(text: &str, place: SourceLine, problem: &str) {
    let lines = 1 + text.matches('\n').count();
    assert!(
        (1..=lines).contains(&place.line),
        "{place} of {lines}: {problem}"
    );
    assert!(!problem.is_empty(), "{place} is refused without a reason");
}

/// An accepted machine has memory and processors, also after it is scaled down.
fn judge_machine(machine: Machine) {
    assert!(machine.memory.bytes() > 0 && machine.processors > 0);
    assert!(machine.memory.all_managed_pages() <= machine.memory.bytes().div_ceil(4096));
    let most_bytes = machine.memory.bytes();
    match machine.scaled(4) {
        Ok(smaller) => assert!(smaller.memory.bytes() <= most_bytes),
        Err(MachineError::Impossible { problem, .. }) => assert!(!problem.is_empty()),
        Err(other) => panic!("too small for a quarter, and reported as {other}"),
    }
}

fuzz_target!(|text: &str| {
    match Machine::parse(text) {
        Ok(machine) => judge_machine(machine),
        Err(MachineError::Text { place, problem }) => judge_refusal(text, place, &problem),
        Err(MachineError::Impossible { problem, .. }) => assert!(!problem.is_empty()),
        Err(other) => panic!("a text is not looked up by name: {other}"),
    }
    match Scenario::parse(text) {
        Ok(scenario) => {
            assert!(scenario.expectations() <= text.len());
            let plan = Plan::of_scenario(scenario);
            judge_machine(plan.machine);
        }
        Err(error) => judge_refusal(text, error.place, &error.problem),
    }
});
