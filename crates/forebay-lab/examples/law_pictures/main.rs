//! Draws the pictures of the laws, `docs/laws`, from the laws themselves, so that no picture can
//! drift from the code, and a page that shows them all.
//!
//! `cargo run -p forebay-lab --example law_pictures` writes them. With `--check` nothing is
//! written, and the exit status is 1 if a file on disk is not what would be written, or if a law
//! does not include its picture.

mod commits;
mod curves;
mod page;
mod picture;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let outcome = match arguments.as_slice() {
        [] => write_files(),
        [only] if only == "--check" => check_files(),
        _ => {
            eprintln!("usage: law_pictures [--check]");
            return ExitCode::from(2);
        }
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("docs/laws: {error}");
        ExitCode::FAILURE
    })
}

/// Every file of the folder and what belongs in it.
fn files() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/laws");
    let mut files = vec![(folder.join("README.md"), page::gallery(&curves::LAWS))];
    for law in &curves::LAWS {
        let path = folder.join(law.name).with_extension("svg");
        files.push((path, picture::drawn(&(law.picture)())));
    }
    files
}

fn write_files() -> io::Result<ExitCode> {
    for (path, content) in files() {
        fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        fs::write(path, content)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn check_files() -> io::Result<ExitCode> {
    let mut status = ExitCode::SUCCESS;
    for (path, content) in files() {
        let on_disk = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        if on_disk != content {
            let name = path.file_name().unwrap_or_default().display();
            eprintln!(
                "docs/laws/{name} differs from the law: run `cargo run -p forebay-lab --example \
                 law_pictures` and look at the change"
            );
            status = ExitCode::FAILURE;
        }
    }
    for law in curves::LAWS.iter().filter(|law| !page::is_shown(law)) {
        eprintln!("{0}.rs does not include docs/laws/{0}.svg", law.name);
        status = ExitCode::FAILURE;
    }
    Ok(status)
}
