//! What is simulated is what ships: code is switched by few conditions, and by no feature.

use super::Finding;
use crate::rust_text::{closing, line_at, words};
use crate::source::Source;

/// Conditions that may be asked anywhere: they separate tests and checks from the program. Loom and
/// shuttle are explorers of schedules, each with a build of its own that nobody ships.
const ANYWHERE: &[&str] = &[
    "all",
    "any",
    "not",
    "test",
    "loom",
    "shuttle",
    "miri",
    "debug_assertions",
];

/// Conditions about the machine, and where they may be asked: where it is touched.
const MACHINE: &[&str] = &[
    "target_arch",
    "target_endian",
    "target_env",
    "target_has_atomic",
    "target_os",
    "target_pointer_width",
    "unix",
];
const MACHINE_PLACES: &[&str] = &[
    "crates/forebay-base/",
    "crates/forebay-rt/",
    "crates/forebay-cli/src/daemon/heap.rs",
    "crates/forebay-engine/src/state/arena.rs",
];

/// The conditions that no table allows.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        let Some(rust) = &source.rust else { continue };
        let about_machine = MACHINE_PLACES.iter().any(|p| source.path.starts_with(p));
        let allowed =
            |word: &str| ANYWHERE.contains(&word) || (about_machine && MACHINE.contains(&word));
        for (at, condition) in conditions(&rust.code) {
            for (_, word) in words(condition).filter(|(_, word)| !allowed(word)) {
                let message = format!("code switched by `{word}`; see STYLE.md, switches");
                findings.push(Finding::new(source, line_at(&rust.code, at), message));
            }
        }
    }
    findings
}

/// The conditions of `cfg(...)`, `cfg!(...)` and `cfg_attr(..., _)` with their places.
fn conditions(code: &str) -> Vec<(usize, &str)> {
    let mut conditions = Vec::new();
    for opening in ["cfg(", "cfg!(", "cfg_attr("] {
        for (at, _) in code.match_indices(opening) {
            let start = at + opening.len();
            let Some(end) = closing(code, start - 1) else {
                continue;
            };
            let inside = &code[start..end];
            let condition = if opening == "cfg_attr(" {
                first_argument(inside)
            } else {
                inside
            };
            conditions.push((at, condition));
        }
    }
    conditions
}

fn first_argument(arguments: &str) -> &str {
    let mut depth = 0_usize;
    for (at, byte) in arguments.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => return &arguments[..at],
            _ => {}
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    const ENGINE: &str = "crates/forebay-engine/src/a.rs";

    #[test]
    fn a_feature_switches_nothing() {
        for code in [
            "#[cfg(feature = \"simulation\")]\nfn a() {}",
            "#[cfg(all(test, simulated))]\nfn a() {}",
            "fn a() -> bool { cfg!(lab) }",
            "#[cfg_attr(virtual_time, inline)]\nfn a() {}",
        ] {
            assert_eq!(found(check, &[(ENGINE, code)]).len(), 1, "{code}");
        }
    }

    #[test]
    fn tests_and_checks_may_be_switched() {
        for code in [
            "#[cfg(test)]\nmod tests;",
            "#[cfg(all(test, not(loom)))]\nmod tests;",
            "#[cfg(not(any(loom, shuttle)))]\nfn a() {}",
            "fn a() -> bool { cfg!(debug_assertions) }",
            "#[cfg_attr(not(debug_assertions), inline(never), doc = \"b\")]\nfn a() {}",
        ] {
            assert_eq!(found(check, &[(ENGINE, code)]), [""; 0], "{code}");
        }
    }

    #[test]
    fn only_what_touches_the_machine_asks_about_it() {
        let code = "#[cfg(target_os = \"linux\")]\nfn a() {}";
        let message = ":1: code switched by `target_os`; see STYLE.md, switches";
        let expected = format!("{ENGINE}{message}");
        assert_eq!(found(check, &[(ENGINE, code)]), [expected]);
        assert_eq!(
            found(check, &[("crates/forebay-rt/src/a.rs", code)]),
            [""; 0]
        );
    }
}
