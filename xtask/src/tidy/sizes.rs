//! Files and functions stay small enough to be read at once.

use super::Finding;
use crate::rust_text::{item_end, line_at};
use crate::source::Source;
use std::fmt::Write;

/// Lines that a file or a function mostly stays under, and never passes.
struct Limit {
    usual: usize,
    hard: usize,
}

const FILE: Limit = Limit {
    usual: 400,
    hard: 800,
};
const FUNCTION: Limit = Limit {
    usual: 40,
    hard: 70,
};

/// How many of the largest the report shows.
const SHOWN: usize = 10;

/// A file or a function and its length.
struct Size<'a> {
    source: &'a Source,
    line: usize,
    name: String,
    length_lines: usize,
}

/// The files and functions that pass the hard limit.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let files = files(sources).into_iter().map(|size| (size, FILE.hard));
    let functions = functions(sources)
        .into_iter()
        .map(|size| (size, FUNCTION.hard));
    files
        .chain(functions)
        .filter(|(size, hard)| size.length_lines > *hard)
        .map(|(size, hard)| {
            let message = format!(
                "{} has {} lines; at most {hard}",
                size.name, size.length_lines
            );
            Finding::new(size.source, size.line, message)
        })
        .collect()
}

/// The largest files and functions as a table; those past what is usual are marked.
pub(super) fn report(sources: &[Source]) -> String {
    let mut text = String::new();
    table(&mut text, "files", files(sources), &FILE);
    table(&mut text, "functions", functions(sources), &FUNCTION);
    text
}

fn table(text: &mut String, title: &str, mut sizes: Vec<Size<'_>>, limit: &Limit) {
    sizes.sort_by_key(|size| std::cmp::Reverse(size.length_lines));
    let large = sizes.iter().filter(|size| size.length_lines > limit.usual);
    let written = writeln!(
        text,
        "largest {title} in lines ({} of {} above {}, at most {})",
        large.count(),
        sizes.len(),
        limit.usual,
        limit.hard
    );
    written.expect("a string takes every write");
    for size in sizes.iter().take(SHOWN) {
        let mark = if size.length_lines > limit.usual {
            "warn"
        } else {
            ""
        };
        let place = format!("{}:{}", size.source.path, size.line);
        writeln!(
            text,
            "{mark:4} {:5}  {place}  {}",
            size.length_lines, size.name
        )
        .expect("a string takes every write");
    }
}

fn files(sources: &[Source]) -> Vec<Size<'_>> {
    let rust = sources.iter().filter(|source| source.rust.is_some());
    rust.map(|source| Size {
        source,
        line: 1,
        name: "file".to_owned(),
        length_lines: source.text.lines().count(),
    })
    .collect()
}

fn functions(sources: &[Source]) -> Vec<Size<'_>> {
    let mut sizes = Vec::new();
    for source in sources {
        let Some(rust) = &source.rust else { continue };
        for (start, _) in rust.code.match_indices("fn ") {
            let before = rust.code[..start].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let Some((end, Some(_))) = item_end(&rust.code, start) else {
                continue;
            };
            let line = line_at(&rust.code, start);
            let name = rust.code[start + 3..end].split(|c: char| !c.is_alphanumeric() && c != '_');
            sizes.push(Size {
                source,
                line,
                name: name.take(1).collect(),
                length_lines: line_at(&rust.code, end) + 1 - line,
            });
        }
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    fn function(lines: usize) -> String {
        format!("fn long(\n) {{\n{}}}\n", "    // {\n".repeat(lines - 3))
    }

    #[test]
    fn long_functions_are_found() {
        let code = format!("mod m;\n{}", function(FUNCTION.hard + 1));
        assert_eq!(
            found(check, &[("a.rs", &code)]),
            ["a.rs:2: long has 71 lines; at most 70"]
        );
        assert_eq!(found(check, &[("a.rs", &function(FUNCTION.hard))]), [""; 0]);
    }

    #[test]
    fn long_files_are_found() {
        let lines = |count| "//\n".repeat(count);
        assert_eq!(
            found(
                check,
                &[
                    ("a.rs", &lines(FILE.hard + 1)),
                    ("a.md", &lines(FILE.hard + 1))
                ]
            ),
            ["a.rs:1: file has 801 lines; at most 800"]
        );
        assert_eq!(found(check, &[("a.rs", &lines(FILE.hard))]), [""; 0]);
    }

    #[test]
    fn declarations_and_function_types_have_no_length() {
        let code = "trait A { fn a(&self); }\nstatic B: fn (u8) = c;\n";
        assert_eq!(functions(&[Source::new("a.rs", code)]).len(), 0);
    }

    #[test]
    fn the_report_marks_what_is_larger_than_usual() {
        let sources = [
            Source::new("a.rs", &function(FUNCTION.usual + 1)),
            Source::new("b.rs", &function(FUNCTION.usual)),
        ];
        let report = report(&sources);
        assert!(report.contains("largest functions in lines (1 of 2 above 40, at most 70)"));
        assert!(report.contains("warn    41  a.rs:1  long"), "{report}");
        assert!(report.contains("        40  b.rs:1  long"), "{report}");
    }
}
