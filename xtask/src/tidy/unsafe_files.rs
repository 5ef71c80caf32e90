//! Unsafe code lives in few files, each with a reason that can be checked.

use super::Finding;
use crate::rust_text::words;
use crate::source::Source;

/// The files that may hold unsafe code, and what for.
const ALLOWED: &str = "\
crates/forebay-cli/src/daemon/heap.rs: a setting of the allocator
crates/forebay-engine/src/state/arena.rs: the memory of the pages
crates/forebay-engine/src/state/content.rs: the bytes of the pages
crates/forebay-bench/src/contenders/floor/arena.rs: pages for the plain copy
crates/forebay-bench/src/contenders/floor/ring.rs: the ring of the kernel, bare
crates/forebay-store/examples/raw_read.rs: a bare ring to compare with
crates/forebay-cli/tests/mount_model/mapping.rs: a file mapped by a test
crates/forebay-store/src/io.rs: pages owned by a request
crates/forebay-store/src/io/page.rs: addresses that a submitter vouches for
crates/forebay-store/src/io/hedge.rs: pages of attempts to read
crates/forebay-store/src/io/mirror.rs: pages of a write, for its copies
crates/forebay-store/src/transfer.rs: bytes that the system has filled
crates/forebay-store/src/positioned.rs: pages handed to the system
crates/forebay-store/src/uring/ring.rs: the ring of the kernel
crates/forebay-store/src/uring/memory.rs: memory pinned for the ring
crates/forebay-store/tests/support/allocator.rs: an allocator that counts
crates/forebay-store/tests/support/arena.rs: pages for the contract
";

fn allowed() -> impl Iterator<Item = &'static str> {
    ALLOWED
        .lines()
        .filter_map(|row| Some(row.split_once(": ")?.0))
}

/// The files that hold unsafe code and are not in the table.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        let Some(rust) = &source.rust else { continue };
        if allowed().any(|path| belongs(&source.path, path)) {
            continue;
        }
        let first = rust.code.lines().position(is_unsafe);
        if let Some(index) = first {
            let message = "unsafe code outside the files that xtask names for it";
            findings.push(Finding::new(source, index + 1, message));
        }
    }
    findings
}

fn is_unsafe(line: &str) -> bool {
    let permits = [
        "allow(unsafe_code",
        "expect(unsafe_code",
        "warn(unsafe_code",
    ];
    permits.iter().any(|permit| line.contains(permit)) || words(line).any(|(_, w)| w == "unsafe")
}

/// Whether `path` is the file `allowed` or the one that holds its tests.
fn belongs(path: &str, allowed: &str) -> bool {
    path == allowed
        || path
            .strip_suffix("_tests.rs")
            .is_some_and(|stem| allowed.strip_suffix(".rs") == Some(stem))
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn unsafe_code_is_found() {
        for code in ["fn a() { unsafe { b() } }", "#![allow(unsafe_code)]"] {
            let path = "crates/forebay-engine/src/flow/read.rs";
            assert_eq!(found(check, &[(path, code)]).len(), 1, "{code}");
        }
    }

    #[test]
    fn the_named_files_and_their_tests_may_hold_it() {
        for path in allowed() {
            let tests = path.replace(".rs", "_tests.rs");
            for path in [path, &tests] {
                assert_eq!(
                    found(check, &[(path, "unsafe fn a() {}")]),
                    [""; 0],
                    "{path}"
                );
            }
        }
    }

    #[test]
    fn the_word_in_prose_is_no_code() {
        let code = "#![forbid(unsafe_code)]\n// unsafe in name only\nconst A: &str = \"unsafe\";";
        assert_eq!(
            found(check, &[("crates/forebay-engine/src/a.rs", code)]),
            [""; 0]
        );
    }
}
