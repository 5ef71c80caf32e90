//! A law computes, state remembers, a flow waits: which words must not be in which room.

use super::Finding;
use crate::rust_text::words;
use crate::source::Source;

/// A folder and the words that its code, tests aside, does not know.
struct Room {
    folder: &'static str,
    absent: &'static [&'static str],
    reason: &'static str,
}

const ROOMS: &[Room] = &[
    Room {
        folder: "crates/forebay-engine/src/state/",
        absent: &["async", "await", "Future", "Rt", "submit"],
        reason: "state never waits, knows no clock and does no I/O",
    },
    Room {
        folder: "crates/forebay-engine/src/lists/",
        absent: &[
            "async", "await", "Future", "Rt", "Engine", "Memory", "Store", "submit",
        ],
        reason: "lists know neither the clock nor the engine nor a store, and never wait",
    },
    Room {
        folder: "crates/forebay-engine/src/memory/",
        absent: &["async", "await", "Future", "Rt", "Engine", "submit"],
        reason: "memory knows neither the clock nor the engine, and never waits",
    },
    Room {
        folder: "crates/forebay-engine/src/stores.rs",
        absent: &["async", "await", "Future", "Rt", "Engine", "submit"],
        reason: "the list of stores knows neither the clock nor the engine, and never waits",
    },
    Room {
        folder: "crates/forebay-engine/src/accounting/",
        absent: &["async", "await", "Future", "submit"],
        reason: "accounting never waits and does no I/O",
    },
    Room {
        folder: "crates/forebay-engine/src/accounting/records.rs",
        absent: &["Engine", "Rt"],
        reason: "the records know neither the engine nor the clock",
    },
    Room {
        folder: "crates/forebay-law/src/",
        absent: &[
            "async", "await", "Cell", "RefCell", "Mutex", "RwLock", "OnceLock", "LazyLock",
        ],
        reason: "a law keeps nothing and waits for nothing",
    },
    Room {
        folder: "crates/forebay-law/src/",
        absent: &["f32", "f64"],
        reason: "a law gives the same bits on every machine",
    },
];

/// The words that are in a room that does not know them.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for room in ROOMS {
        for source in sources.iter().filter(|s| s.path.starts_with(room.folder)) {
            let Some(rust) = &source.rust else { continue };
            for (line, word) in words(&rust.code) {
                if room.absent.contains(&word) && !rust.is_test(line) {
                    let message = format!("`{word}`: {}", room.reason);
                    findings.push(Finding::new(source, line, message));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn what_a_room_does_not_know_is_found() {
        for room in ROOMS {
            for word in room.absent {
                let is_file = !room.folder.ends_with('/');
                let path = format!("{}{}", room.folder, if is_file { "" } else { "a.rs" });
                let code = format!("fn a() {{\n {word};\n}}\n");
                assert_eq!(
                    found(check, &[(&path, &code)]),
                    [format!("{path}:2: `{word}`: {}", room.reason)]
                );
            }
        }
    }

    #[test]
    fn comments_tests_and_other_rooms_are_free() {
        let code = "/// never async\nfn a() {}\n#[cfg(test)]\nmod tests { fn b(rt: Rt) {} }\n";
        assert_eq!(
            found(check, &[("crates/forebay-engine/src/state/a.rs", code)]),
            [""; 0]
        );
        assert_eq!(
            found(
                check,
                &[("crates/forebay-engine/src/flow/a.rs", "async fn a() {}")]
            ),
            [""; 0]
        );
    }
}
