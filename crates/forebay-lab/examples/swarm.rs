//! Runs seeds of the swarm, as `forebay-lab swarm` does, without the rest of that program: what
//! the check of the mutations builds again and again.
//!
//! `cargo run --release -p forebay-lab --example swarm -- 0 2000` runs the seeds below 2000 and
//! ends with status 1 at the first violation. A third number N lets it go on to the Nth violation.
//! With the word `worlds` it plays only the side worlds of these seeds, and with the name of a side
//! world, as `shares` or `pressure`, only this one, for each of the seeds.

use forebay_lab::swarm::{Campaign, Reduction, SideWorld, run_side_worlds};
use std::ops::Range;
use std::process::ExitCode;

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    let (first, end, most_violations) = match numbers[..] {
        [first, end] => (first, end, 1),
        [first, end, most] => (first, end, most as usize),
        _ => {
            eprintln!("usage: swarm FIRST END [VIOLATIONS] [worlds|WORLD]");
            return ExitCode::from(2);
        }
    };
    let alone = std::env::args().find_map(|word| SideWorld::named(&word));
    if alone.is_some() || std::env::args().any(|word| word == "worlds") {
        return side_worlds(first..end, most_violations, alone);
    }
    let campaign = Campaign {
        kept: Vec::new(),
        seeds: first..end,
        longest: None,
        twin_every: 16,
        threads: std::thread::available_parallelism().map_or(2, usize::from),
        most_violations,
        reduction: Reduction::default(),
    };
    let ran = campaign.run(|failed| {
        let violation = &failed.violation;
        println!(
            "seed {} {}: {}",
            failed.seed, violation.oracle, violation.what
        );
    });
    match ran {
        Ok(report) if report.failed.is_empty() => {
            println!(
                "{} seeds, {:.1} a second",
                report.seeds,
                report.seeds_per_s()
            );
            println!("trace {}", report.trace);
            let arms = report.marks.iter();
            for (name, _) in arms.filter(|(_, reached)| reached.seeds == 0) {
                println!("never reached: {name}");
            }
            ExitCode::SUCCESS
        }
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("swarm: no threads: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Plays the side worlds of `seeds` without their runs, one after the other, or `alone` of them.
fn side_worlds(seeds: Range<u64>, most_violations: usize, alone: Option<&SideWorld>) -> ExitCode {
    let found = seeds.filter_map(|seed| Some((seed, run_side_worlds(seed, alone).violation?)));
    let mut count = 0;
    for (seed, violation) in found.take(most_violations) {
        println!("seed {seed} {}: {}", violation.oracle, violation.what);
        count += 1;
    }
    if count == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
