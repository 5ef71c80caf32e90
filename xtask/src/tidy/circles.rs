//! Files call each other in one direction, except in the circles that are known; those can only
//! become fewer and smaller.

use super::Finding;
use crate::calls::Code;
use crate::source::Source;
use serde::Deserialize;
use std::collections::BTreeSet;

/// The circles that still exist.
pub(super) const LIST: &str = "xtask/known-circles.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    circle: Vec<Known>,
}

/// A circle that existed when the check was added.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    #[serde(rename = "crate")]
    krate: String,
    /// Its files, below `src`.
    files: BTreeSet<String>,
}

/// The circles that are not known, and the known ones that are no longer what the list says.
pub(super) fn check(sources: &[Source], code: &Code) -> Vec<Finding> {
    let at = |path: &str, line: usize, message: String| Finding {
        path: path.to_owned(),
        line,
        message,
    };
    let text = sources.iter().find(|source| source.path == LIST);
    let text = text.map_or("", |source| source.text.as_str());
    let known = match toml::from_str::<List>(text) {
        Ok(list) => list.circle,
        Err(error) => return vec![at(LIST, 1, error.message().to_owned())],
    };
    let mut findings = Vec::new();
    let mut left: Vec<Vec<BTreeSet<String>>> = vec![Vec::new(); known.len()];
    for krate in &code.crates {
        for circle in code.graph(krate).circles() {
            let files: BTreeSet<String> = circle
                .iter()
                .map(|&file| code.short_path(file).to_owned())
                .collect();
            let within = |known: &Known| known.krate == *krate && files.is_subset(&known.files);
            if let Some(index) = known.iter().position(within) {
                left[index].push(files);
            } else {
                let path = &code.definitions.files[circle[0]].path;
                findings.push(at(path, 1, unknown(krate, &files, &known)));
            }
        }
    }
    let headings = text
        .lines()
        .enumerate()
        .filter(|(_, line)| *line == "[[circle]]");
    let mut lines = headings.map(|(index, _)| index + 1);
    for (known, left) in known.iter().zip(&left) {
        let line = lines.next().unwrap_or(1);
        if let Some(message) = outdated(known, left) {
            findings.push(at(LIST, line, format!("{}: {message}", known.krate)));
        }
    }
    findings
}

/// What is wrong with an entry of the list, if the circles `left` remain of it.
fn outdated(known: &Known, left: &[BTreeSet<String>]) -> Option<String> {
    match left {
        [] => Some("no circle any more; take it out".to_owned()),
        [circle] => {
            let gone: Vec<&str> = known.files.difference(circle).map(String::as_str).collect();
            let message = || format!("no longer in the circle; take out {}", gone.join(", "));
            (!gone.is_empty()).then(message)
        }
        circles => {
            let count = circles.len();
            Some(format!(
                "came apart; make {count} entries of it, see `cargo xtask calls`"
            ))
        }
    }
}

/// The message about a circle that is not known.
fn unknown(krate: &str, files: &BTreeSet<String>, known: &[Known]) -> String {
    let meets = |known: &&Known| known.krate == krate && !known.files.is_disjoint(files);
    let what = if let Some(known) = known.iter().find(meets) {
        let new: Vec<&str> = files.difference(&known.files).map(String::as_str).collect();
        format!("the circle grew by {}", new.join(", "))
    } else {
        let all: Vec<&str> = files.iter().map(String::as_str).collect();
        format!("a circle of calls: {}", all.join(", "))
    };
    format!("{what}; see `cargo xtask calls --circles {krate}`")
}

#[cfg(test)]
mod tests {
    use super::super::{found, of_calls};
    use super::*;

    const MANIFEST: (&str, &str) = ("crates/one/Cargo.toml", "[package]\nname = \"one\"\n");
    const ROOT: (&str, &str) = ("crates/one/src/lib.rs", "mod a; mod b; mod c;\n");
    const A: (&str, &str) = (
        "crates/one/src/a.rs",
        "pub struct A;\nimpl A { pub fn start(&self) { crate::b::B.turn(self); }\n\
         fn back(&self) {} }",
    );
    const BACK: (&str, &str) = (
        "crates/one/src/b.rs",
        "use crate::a::A;\npub struct B;\nimpl B { pub fn turn(&self, a: &A) { a.back(); } }",
    );
    const FORTH: (&str, &str) = (
        "crates/one/src/b.rs",
        "use crate::a::A;\npub struct B;\nimpl B { pub fn turn(&self, _: &A) {} }",
    );
    const AROUND: (&str, &str) = (
        "crates/one/src/b.rs",
        "use crate::a::A;\npub struct B;\n\
         impl B { pub fn turn(&self, a: &A) { crate::c::go(a); } }",
    );
    const C: (&str, &str) = (
        "crates/one/src/c.rs",
        "pub fn go(a: &crate::a::A) { a.back(); }",
    );
    const NONE: (&str, &str) = ("crates/one/src/c.rs", "");
    const TWO: (&str, &str) = (
        LIST,
        "# Known.\n[[circle]]\ncrate = \"one\"\nfiles = [\"a.rs\", \"b.rs\"]\n",
    );
    const THREE: (&str, &str) = (
        LIST,
        "[[circle]]\ncrate = \"one\"\nfiles = [\"a.rs\", \"b.rs\", \"c.rs\"]\n",
    );

    #[test]
    fn a_circle_of_method_calls_is_found() {
        let at = "crates/one/src/a.rs:1: a circle of calls: a.rs, b.rs";
        assert_eq!(
            found(of_calls, &[MANIFEST, ROOT, A, BACK, NONE]),
            [format!("{at}; see `cargo xtask calls --circles one`")]
        );
        assert_eq!(found(of_calls, &[MANIFEST, ROOT, A, FORTH, NONE]), [""; 0]);
    }

    #[test]
    fn a_known_circle_passes_until_it_grows() {
        assert_eq!(
            found(of_calls, &[MANIFEST, ROOT, A, BACK, NONE, TWO]),
            [""; 0]
        );
        let grown = found(of_calls, &[MANIFEST, ROOT, A, AROUND, C, TWO]);
        let grew = "crates/one/src/a.rs:1: the circle grew by c.rs";
        assert!(grown[0].starts_with(grew), "{grown:?}");
    }

    #[test]
    fn the_list_shrinks_with_its_circles() {
        assert_eq!(
            found(of_calls, &[MANIFEST, ROOT, A, BACK, C, THREE]),
            [format!(
                "{LIST}:1: one: no longer in the circle; take out c.rs"
            )]
        );
        assert_eq!(
            found(of_calls, &[MANIFEST, ROOT, A, FORTH, NONE, TWO]),
            [format!("{LIST}:2: one: no circle any more; take it out")]
        );
    }

    #[test]
    fn a_circle_that_came_apart_is_two_entries() {
        let root = ("crates/one/src/lib.rs", "mod a; mod b; mod c; mod d;\n");
        let c = ("crates/one/src/c.rs", "pub fn c() { crate::d::d() }");
        let d = ("crates/one/src/d.rs", "pub fn d() { crate::c::c() }");
        let one = "[[circle]]\ncrate = \"one\"\nfiles = [\"a.rs\", \"b.rs\", \"c.rs\", \"d.rs\"]\n";
        let parts = found(of_calls, &[MANIFEST, root, A, BACK, c, d, (LIST, one)]);
        let apart = format!("{LIST}:1: one: came apart; make 2 entries of it");
        assert!(parts[0].starts_with(&apart), "{parts:?}");
    }

    #[test]
    fn what_cannot_be_read_is_found() {
        let broken = ("crates/one/src/a.rs", "fn {");
        for files in [
            [MANIFEST, ROOT, broken, BACK, NONE],
            [MANIFEST, ROOT, A, BACK, (LIST, "circles = 1")],
            [(MANIFEST.0, "["), ROOT, A, BACK, NONE],
        ] {
            assert_eq!(found(of_calls, &files).len(), 1, "{:?}", files[4]);
        }
        assert_eq!(
            found(of_calls, &[MANIFEST, ROOT, A, BACK]).len(),
            1,
            "c.rs is missing"
        );
    }
}
