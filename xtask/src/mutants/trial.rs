//! Runs the tests with one mutant switched on.

use super::list::Mutant;
use super::part::Part;
use crate::error::TaskError;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program that takes longer than this, or so much processor time or memory, is stopped: most
/// such mutants never end.
const MOST_SECONDS: u64 = 240;
const PROCESSOR_SECONDS: &str = "40";
const MEMORY_BYTES: &str = "8589934592";
/// One that takes so many times the time that it takes without a mutant, and this many seconds
/// more, is stopped before. The machine may have other work.
const TIMES: u64 = 15;
const MORE_SECONDS: u64 = 30;

/// A program of tests, or one module of a program that has several, and the time that it may take.
pub(super) struct Program {
    path: PathBuf,
    module: Option<String>,
    longest_s: u64,
}

/// The draws that properties failed with, as the tree has them. A property that fails with a mutant
/// adds its own, and would try that first with every mutant after it.
struct KnownDraws {
    folder: PathBuf,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl KnownDraws {
    fn of(tree: &Path, part: Part) -> KnownDraws {
        let folder = tree.join(part.folder()).join("proptest-regressions");
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let read = |path: PathBuf| fs::read(&path).ok().map(|content| (path, content));
        let files = entries.filter_map(|entry| read(entry.path())).collect();
        KnownDraws { folder, files }
    }

    fn restore(&self) {
        let _ = fs::remove_dir_all(&self.folder);
        if !self.files.is_empty() {
            let _ = fs::create_dir_all(&self.folder);
        }
        for (path, content) in &self.files {
            let _ = fs::write(path, content);
        }
    }
}

/// Runs `programs` without a mutant. Returns those that took least time first, but the unit tests
/// before all; none if one of them fails.
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "how long a program takes says how long one with a mutant may take"
)]
pub(super) fn quickest_first(
    tree: &Path,
    part: Part,
    programs: &[PathBuf],
) -> Result<Option<Vec<Program>>, TaskError> {
    let mut timed = Vec::new();
    let mut parts = Vec::new();
    for (place, path) in programs.iter().enumerate() {
        // The unit tests are one: those of the changed file come first anyway.
        let modules = match place {
            0 => vec![None],
            _ => modules_in(path)?,
        };
        parts.extend(modules.into_iter().map(|module| (place, path, module)));
    }
    for (place, path, module) in parts {
        let began = std::time::Instant::now();
        let mut program = Program {
            path: path.clone(),
            module,
            longest_s: MOST_SECONDS,
        };
        if !run(tree, part, &program, 0, &[])? {
            return Ok(None);
        }
        let took = began.elapsed();
        let longest_s = MORE_SECONDS + TIMES * took.as_secs();
        program.longest_s = longest_s.min(MOST_SECONDS);
        timed.push((place > 0, took, program));
    }
    timed.sort_by_key(|(comes_later, took, _)| (*comes_later, *took));
    Ok(Some(timed.into_iter().map(|of| of.2).collect()))
}

/// Whether all tests pass with mutant `number` switched on.
pub(super) fn passes(
    tree: &Path,
    part: Part,
    programs: &[Program],
    (number, mutant): (usize, &Mutant),
) -> Result<bool, TaskError> {
    // Those of the changed file are quick, and often enough.
    if let Some(unit_tests) = programs.first() {
        let module = module_of(&mutant.file, part.folder());
        if !run(tree, part, unit_tests, number, &[&module])? {
            return Ok(false);
        }
    }
    for program in programs {
        if !run(tree, part, program, number, &[])? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn run(
    tree: &Path,
    part: Part,
    program: &Program,
    number: usize,
    filter: &[&str],
) -> Result<bool, TaskError> {
    let draws = KnownDraws::of(tree, part);
    let status = Command::new("timeout")
        .args(["--signal=KILL", &program.longest_s.to_string(), "prlimit"])
        .arg(format!("--cpu={PROCESSOR_SECONDS}"))
        .arg(format!("--as={MEMORY_BYTES}"))
        .arg("--core=0")
        .arg(&program.path)
        .arg("--quiet")
        .args(filter.iter().copied().chain(program.module.as_deref()))
        .current_dir(tree.join(part.folder()))
        .env("FOREBAY_MUTANT", number.to_string())
        // A failing property need not be shrunk to a small case.
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let status = status.map_err(|cause| TaskError::Start {
        command: "timeout prlimit".to_owned(),
        cause,
    })?;
    if !status.success() {
        draws.restore();
    }
    Ok(status.success())
}

/// The modules of the tests in a program, as their names begin, or the whole of it.
fn modules_in(program: &Path) -> Result<Vec<Option<String>>, TaskError> {
    let listed = Command::new(program).arg("--list").output();
    let listed = listed.map_err(|cause| TaskError::Start {
        command: format!("{} --list", program.display()),
        cause,
    })?;
    let modules = modules_of_tests(&String::from_utf8_lossy(&listed.stdout));
    Ok(if modules.is_empty() {
        vec![None]
    } else {
        modules.into_iter().map(Some).collect()
    })
}

/// Those of the tests that a program lists; none if one has no module, or all have the same.
fn modules_of_tests(listed: &str) -> Vec<String> {
    let tests = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    let modules = tests.map(|test| Some(format!("{}::", test.split_once("::")?.0)));
    // A test outside of all modules would be left out: then the program is run as a whole.
    let modules: Option<BTreeSet<String>> = modules.collect();
    let modules = modules.filter(|modules| modules.len() > 1);
    modules.into_iter().flatten().collect()
}

/// The module of the file at `path`, as the names of its tests begin.
fn module_of(path: &str, folder: &str) -> String {
    let below = path.strip_prefix(folder).unwrap_or(path);
    let below = below.strip_prefix("/src/").unwrap_or(below);
    let name = below.strip_suffix(".rs").unwrap_or(below);
    let name = name.strip_suffix("/mod").unwrap_or(name);
    format!("{}::", name.replace('/', "::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_of_a_mutant_are_forgotten() {
        let tree = std::env::temp_dir().join(format!("forebay-draws-{}", std::process::id()));
        let folder = tree.join(Part::Laws.folder()).join("proptest-regressions");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("kept.txt"), "one").unwrap();
        let known = KnownDraws::of(&tree, Part::Laws);
        fs::write(folder.join("kept.txt"), "one and two").unwrap();
        fs::write(folder.join("new.txt"), "three").unwrap();
        known.restore();
        assert_eq!(fs::read(folder.join("kept.txt")).unwrap(), b"one");
        assert!(!folder.join("new.txt").exists());
        let _ = fs::remove_dir_all(&tree);
    }

    #[test]
    fn a_program_with_modules_is_run_module_by_module() {
        let two = "drain::a: test\nwhy::b: test\nwhy::c::d: test\n\n3 tests, 0 benchmarks\n";
        assert_eq!(modules_of_tests(two), ["drain::", "why::"]);
        assert!(modules_of_tests("why::b: test\n").is_empty());
        assert!(modules_of_tests("why::b: test\na: test\nc::d: test\n").is_empty());
    }

    #[test]
    fn the_tests_of_a_file_are_those_of_its_module() {
        let folder = Part::Flows.folder();
        let of = |path| module_of(path, folder);
        assert_eq!(of("crates/forebay/src/flow/pause.rs"), "flow::pause::");
        assert_eq!(of("crates/forebay/src/lists/mod.rs"), "lists::");
    }
}
