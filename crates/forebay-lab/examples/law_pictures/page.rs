//! The page that shows all pictures. The text of a law is at the head of its source file, and
//! nowhere else.

use crate::curves::Law;

const HEAD: &str = "\
# The laws

A law is a pure function of whole numbers: the same inputs give the same decision on every machine.
The head of each source file has the same nine items, from the question to the lineage;
`cargo doc -p forebay-law --open` shows them with these pictures.
";

const ORIGIN: &str = "\
Written by `cargo run -p forebay-lab --example law_pictures`; change the sources, not this page.";

/// Every law with its subject and its picture.
pub(crate) fn gallery(laws: &[Law]) -> String {
    let sections = laws.iter().map(|Law { name, source, .. }| {
        let subject = source.lines().next().unwrap_or_default();
        let subject = subject.trim_start_matches("//! ");
        format!(
            "## {name}\n\n{subject} Source: `crates/forebay-law/src/{name}.rs`.\n\n\
             ![{name}]({name}.svg)\n\n"
        )
    });
    format!("{HEAD}\n{}---\n\n{ORIGIN}\n", sections.collect::<String>())
}

/// Whether the documentation of `law` shows its picture.
pub(crate) fn is_shown(law: &Law) -> bool {
    let line = format!(
        "#![doc = include_str!(\"../../../docs/laws/{}.svg\")]",
        law.name
    );
    law.source.lines().any(|it| it == line)
}
