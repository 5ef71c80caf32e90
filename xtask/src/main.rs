//! The checks of this repository that no compiler makes.
//!
//! - `cargo xtask tidy`: the house style, as far as a program can see it; see `STYLE.md`.
//! - `cargo xtask deny`: licences, duplicate crates and sources of the dependencies.
//! - `cargo xtask mutations [--blind] [NAME..]`: makes small wrong changes to the engine in a copy
//!   of the tree, and checks whether the swarm notices each one.
//!
//! Exit status: 0 means clean, 1 means that something was found or failed, 2 means a bad call.

mod command;
mod deny;
mod error;
mod mutations;
mod rust_text;
mod source;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy | deny | mutations [--blind] [NAME..]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let clean = match words.as_slice() {
        ["tidy"] => tidy::run(),
        ["deny"] => deny::run(),
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
