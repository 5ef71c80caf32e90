//! The first program of a fresh clone: `cargo run --release`. It is `forebay demo` without the
//! servers, so that little has to be built before the picture.

use clap::Parser;
use forebay_demo::{CONTENDER_COMMAND, DemoArguments, DemoError, be_contender};
use forebay_rt::say;
use std::process::ExitCode;

/// Watch four writers on a slow disk: the kernel's page cache beside Forebay
///
/// Each contender writes for some seconds, shown live in the terminal; then follow one line for
/// each and a page with pictures. The kernel's part needs root, for a disk with a limited rate and
/// for a limit on dirty data; without root it is left out. Only the page remains afterwards, even
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
