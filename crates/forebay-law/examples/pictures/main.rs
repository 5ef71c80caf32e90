//! Writes the pages of the laws, `docs/laws`: the text is that at the head of each source file and
//! the picture is drawn from the law itself, so that neither can drift from the code.
//!
//! `cargo run -p forebay-law --example pictures` writes them. With `--check` nothing is written,
//! and the exit status is 1 if a page on disk is not what would be written.

mod curves;
mod page;
mod svg;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let outcome = match arguments.as_slice() {
        [] => write_pages(),
        [only] if only == "--check" => check_pages(),
        _ => {
            eprintln!("usage: pictures [--check]");
            return ExitCode::from(2);
        }
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("docs/laws: {error}");
        ExitCode::FAILURE
    })
}

/// Every file of the folder and what belongs into it.
fn pages() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/laws");
    let mut files = vec![(folder.join("README.md"), page::index(&curves::LAWS))];
    for law in &curves::LAWS {
        files.push((folder.join(law.name).with_extension("md"), page::text(law)));
        let picture = (law.picture)();
        files.push((
            folder.join(law.name).with_extension("svg"),
            svg::drawn(&picture),
        ));
    }
    files
}

fn write_pages() -> io::Result<ExitCode> {
    for (path, content) in pages() {
        fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        fs::write(path, content)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn check_pages() -> io::Result<ExitCode> {
    let mut status = ExitCode::SUCCESS;
    for (path, content) in pages() {
        let on_disk = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        if on_disk != content {
            let name = path.file_name().unwrap_or_default().display();
            eprintln!(
                "docs/laws/{name} differs from the law: run `cargo run -p forebay-law --example \
                 pictures` and look at the change"
            );
            status = ExitCode::FAILURE;
        }
    }
    Ok(status)
}
