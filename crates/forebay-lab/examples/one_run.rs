//! One run, summed up in a few lines, with what the simulation itself cost:
//! `cargo run --release -p forebay-lab --example one_run -- simple-wb amd4-512m forebay 1 scale=4`.
//! With the word `series` at the end the levels of each second follow.

use forebay_lab::outcome::Outcome;
use forebay_lab::run::{Plan, RunError, run};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match plan_of(&arguments).and_then(|plan| run(&plan)) {
        Ok(outcome) => {
            print_outcome(&outcome);
            if arguments.iter().any(|it| it == "series") {
                print_series(&outcome);
            }
        }
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(if error.is_bad_call() { 2 } else { 1 });
        }
    }
}

fn plan_of(arguments: &[String]) -> Result<Plan, RunError> {
    let named = |at: usize, usual: &'static str| arguments.get(at).map_or(usual, String::as_str);
    let mut plan = Plan::new(named(0, "simple-wb"), named(1, "amd4-512m"))?;
    plan = plan.under(named(2, "forebay"));
    plan.seed = named(3, "1").parse().unwrap_or(1);
    let knobs = arguments.iter().skip(4).filter_map(|it| it.split_once('='));
    Ok(knobs.fold(plan, |plan, (knob, value)| plan.with(knob, value)))
}

fn print_series(outcome: &Outcome) {
    let columns = &outcome.series.columns;
    let names: Vec<&str> = columns.iter().map(|it| it.name.as_str()).collect();
    println!("at_s {}", names.join(" "));
    for (row, at_s) in outcome.series.at_s.iter().enumerate() {
        let values = columns.iter().filter_map(|it| it.values.get(row));
        let shown: Vec<String> = values.map(|it| format!("{it:.0}")).collect();
        println!("{at_s:.1} {}", shown.join(" "));
    }
}

fn print_outcome(outcome: &Outcome) {
    for (name, value) in &outcome.figures {
        println!("{name:<40} {value:>16.3}");
    }
    for (name, samples) in &outcome.samples {
        let shown: Vec<String> = samples.values.iter().map(|it| format!("{it:.2}")).collect();
        println!("{name:<40} {} {}", shown.join(" "), samples.unit);
    }
    for (name, spread) in &outcome.distributions {
        let (count, mean, max) = (spread.count, spread.mean, spread.max);
        println!(
            "{name:<40} {count} values, mean {mean:.2}, max {max:.2} {}",
            spread.unit
        );
    }
    for device in &outcome.devices {
        println!("{device:?}");
    }
    for (name, count) in &outcome.counters {
        println!("{name:<40} {count:>16}");
    }
    let cost = &outcome.cost;
    println!(
        "{:.1} s of machine in {:.2} s: {:.0} x; {:.2} M page events/s; hash {:016x}",
        outcome.elapsed_s,
        cost.real_s,
        outcome.elapsed_s / cost.real_s,
        cost.page_events as f64 / cost.real_s / 1e6,
        outcome.trace_hash
    );
}
