//! The text of a page, taken from the head of the law's source file.

use crate::curves::Law;

const ORIGIN: &str =
    "Written by `cargo run -p forebay-law --example pictures`; change the source, not this page.";

const INDEX_HEAD: &str = "\
# The laws

A law is a pure function of whole numbers: the same inputs give the same decision on every machine.
Each page has the same nine items, from the question to the lineage.

| law | what it decides |
|---|---|";

/// The page of one law.
pub(crate) fn text(law: &Law) -> String {
    let name = law.name;
    let mut lines = vec![format!("# {name}"), String::new()];
    let mut in_code = false;
    for line in head(law.source) {
        if line.starts_with("```") {
            in_code = !in_code;
            let opens_rust = in_code && line == "```";
            lines.push(if opens_rust { "```rust" } else { line }.to_owned());
        } else if in_code {
            lines.push(line.to_owned());
        } else if let Some(title) = line.strip_prefix("# ") {
            lines.push(format!("## {title}"));
            if title == "Picture" {
                lines.extend([String::new(), format!("![{name}]({name}.svg)")]);
            }
        } else {
            lines.push(line.replace("[`", "`").replace("`]", "`"));
        }
    }
    lines.push(format!(
        "\n---\n\nSource: [`{name}.rs`](../../crates/forebay-law/src/{name}.rs). {ORIGIN}\n"
    ));
    lines.join("\n")
}

/// The list of all laws.
pub(crate) fn index(laws: &[Law]) -> String {
    let mut lines = vec![INDEX_HEAD.to_owned()];
    for law in laws {
        let subject = head(law.source).next().unwrap_or_default();
        lines.push(format!("| [{0}]({0}.md) | {subject} |", law.name));
    }
    lines.push(format!("\n{ORIGIN}\n"));
    lines.join("\n")
}

/// The lines of the comment at the head of `source`, without the marks of a comment.
fn head(source: &str) -> impl Iterator<Item = &str> {
    source
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
}
