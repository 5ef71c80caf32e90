//! The first program of a fresh clone: `cargo run --release`. It is `forebay demo` without the
//! servers, so that little has to be built before the picture.

use clap::Parser;
use forebay_demo::{CONTENDER_COMMAND, DemoArguments, DemoError, be_contender};
use forebay_rt::say;
use std::process::ExitCode;

/// Watch four writers flood a slow disk, and a reader that shares it
///
/// Compares Forebay with what its users have today: a write-back cache that stops its writers at
/// a limit, direct I/O, and the kernel's page cache. Each has a disk of its own, and all run at
/// the same time. The kernel needs root, for a disk held to a rate and for a limit on dirty
/// data; without root it takes no part. Only the page with the pictures remains afterwards, even
/// after an interrupt.
#[derive(Parser)]
#[command(name = "forebay-demo", version)]
struct Typed {
    /// What the forebay command calls it
    #[arg(hide = true, value_parser = only_the_demo)]
    _word: Option<String>,
    #[command(flatten)]
    arguments: DemoArguments,
}

/// Takes the word `demo`, and says where every other command is.
fn only_the_demo(word: &str) -> Result<String, String> {
    if word == "demo" {
        return Ok(word.to_owned());
    }
    Err(format!(
        "this program is the demo alone; for the others: cargo run --release -p forebay-cli -- \
         {word}, and for the lab: cargo run --release -p forebay-lab-cli"
    ))
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let outcome = match (words.next().as_deref(), words.next()) {
        (Some(CONTENDER_COMMAND), Some(assignment)) => be_contender(&assignment),
        _ => forebay_demo::run(&Typed::parse().arguments),
    };
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    say(&error);
    if let DemoError::Host(error) = &error {
        error.end_by_signal();
    }
    ExitCode::FAILURE
}
