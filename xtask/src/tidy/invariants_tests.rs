use super::super::found;
use super::*;

const DECLARED: (&str, &str) = (
    "crates/forebay-engine/src/state/frame.rs",
    "//! - invariant F1: a frame is on one list.\n",
);

fn with_test(text: &str) -> Vec<String> {
    found(
        check,
        &[DECLARED, ("crates/forebay-engine/tests/frame.rs", text)],
    )
}

#[test]
fn a_declared_invariant_needs_a_test() {
    assert_eq!(
        found(check, &[DECLARED]),
        ["crates/forebay-engine/src/state/frame.rs:1: no test cites invariant F1"]
    );
    let outside = ("crates/forebay-engine/src/a.rs", "// by invariant F1\n");
    assert_eq!(found(check, &[DECLARED, outside]).len(), 1);
}

#[test]
fn every_way_to_cite_counts() {
    for text in [
        "// holds by invariant F1.\n",
        "/// Invariant F1 (the list).\n",
        "assert!(a, \"invariant F1\");\n",
        "fn invariant_f1_a_frame_is_on_one_list() {}\n",
        "let message = \"invariant F1: broken\";\n",
    ] {
        assert_eq!(with_test(text), [""; 0], "{text}");
    }
}

#[test]
fn a_citation_of_nothing_is_found() {
    let message = |name: &str| {
        format!("crates/forebay-engine/tests/frame.rs:2: no comment declares invariant {name}")
    };
    for text in ["// invariant Z9\n", "fn invariant_z9_holds() {}\n"] {
        let text = format!("// invariant F1\n{text}");
        assert_eq!(with_test(&text), [message("Z9")], "{text}");
    }
    assert_eq!(
        with_test("// invariant F1\n// invariants F1, Y8 and Z9 hold\n"),
        [message("Y8"), message("Z9")]
    );
}

#[test]
fn a_name_is_declared_once() {
    let again = (
        "crates/forebay-engine/src/state/zone.rs",
        "/// invariant F1: another\n",
    );
    let test = ("crates/forebay-engine/tests/frame.rs", "// invariant F1\n");
    assert_eq!(
        found(check, &[DECLARED, again, test]),
        [
            "crates/forebay-engine/src/state/zone.rs:1: invariant F1 is declared in \
          crates/forebay-engine/src/state/frame.rs:1 too"
        ]
    );
}

#[test]
fn other_uses_of_the_word_are_left_alone() {
    let text = "// invariant F1\n// an invariant: the invariants of F1x; invariant u64\n";
    assert_eq!(with_test(text), [""; 0]);
}
