//! The checks of this repository that no compiler makes.
//!
//! - `cargo xtask tidy`: the house style, as far as a program can see it; see `STYLE.md`.
//! - `cargo xtask calls [CRATE | FILE]`: which file calls which, in order, and what closes circles;
//!   `--journey Type::method` prints what a method reaches; `--journeys` what the journeys of the
//!   code map pass.
//! - `cargo xtask deny`: licences, duplicate crates and sources of the dependencies.
//! - `cargo xtask mutations [--blind] [NAME..]`: makes small wrong changes to the engine in a copy
//!   of the tree, and checks whether the swarm notices each one.
//! - `cargo xtask mutants [--today | --sample N [--seed S]] [--file END] [--listed] [--swarm N]
//!   [PART]`: makes the changes of `cargo-mutants` to laws, state, flows, engine (both) or stores:
//!   all, a sample, those of some files, or those that are listed as survivors. It checks that the
//!   tests of the part notice each one, or N seeds of the swarm if these miss it, or that a list
//!   says why not.
//!
//! Exit status: 0 means clean, 1 means that something was found or failed, 2 means a bad call.

mod calls;
mod deny;
mod error;
mod mutants;
mod mutations;
mod rust_text;
mod source;
mod tidy;
mod tree_copy;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy | calls .. | deny | mutations [--blind] [NAME..] | \
                     mutants [--today | --sample N [--seed S]] [--file END] [--listed] [--swarm N] \
                     [laws | state | flows | engine | stores]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let clean = match words.as_slice() {
        ["tidy"] => tidy::run(),
        ["calls", words @ ..] => match calls::run(words) {
            Ok(Ok(())) => Ok(true),
            Ok(Err(message)) => {
                eprintln!("xtask: {message}");
                return ExitCode::from(2);
            }
            Err(error) => Err(error),
        },
        ["deny"] => deny::run(),
        ["mutants", words @ ..] => {
            if let Some(tried) = mutants::run(words) {
                tried
            } else {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
        ["mutations", "--blind", names @ ..] => mutations::run(mutations::BLIND_PATH, names),
        ["mutations", names @ ..] => mutations::run(mutations::PATH, names),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match clean {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
