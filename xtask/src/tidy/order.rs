//! The order of the flows in the code map is the one in which they call each other.

use super::Finding;
use crate::calls::Code;
use crate::source::Source;

const MAP: &str = "ARCHITECTURE.md";
const HEADING: &str = "## The order of the flows";
const CRATE: &str = "forebay";
const FOLDER: &str = "flow/";

/// The flows that the code map does not list, or below one that they call.
pub(super) fn check(sources: &[Source], code: &Code) -> Vec<Finding> {
    let Some(map) = sources.iter().find(|source| source.path == MAP) else {
        return Vec::new();
    };
    let graph = code.graph(CRATE);
    let paths = || {
        graph
            .files
            .iter()
            .map(|&file| (file, code.short_path(file)))
    };
    let mut findings = Vec::new();
    let mut order = Vec::new();
    for (line, path) in listed(&map.text) {
        match paths().find(|(_, known)| *known == path) {
            Some((file, _)) => order.push(file),
            None => findings.push(Finding::new(map, line, format!("there is no {path}"))),
        }
    }
    let line = 1 + map.text.lines().take_while(|line| *line != HEADING).count();
    for (file, path) in paths().filter(|(_, path)| path.starts_with(FOLDER)) {
        if !order.contains(&file) && path != "flow/mod.rs" {
            let message = format!("the order of the flows does not list {path}");
            findings.push(Finding::new(map, line, message));
        }
    }
    for ((from, to), _) in graph.back(&order) {
        let (from, to) = (code.short_path(from), code.short_path(to));
        let message = format!("{from} calls {to} and is listed after it");
        findings.push(Finding::new(map, line, message));
    }
    findings
}

/// The files of the list, with their lines: the first word of each line of the block.
fn listed(text: &str) -> impl Iterator<Item = (usize, String)> {
    let lines = text
        .lines()
        .enumerate()
        .skip_while(|(_, line)| *line != HEADING);
    let block = lines
        .skip_while(|(_, line)| !line.starts_with("```"))
        .skip(1);
    let block = block.take_while(|(_, line)| !line.starts_with("```"));
    block.filter_map(|(index, line)| {
        let path = line.split_whitespace().next()?;
        Some((index + 1, format!("{FOLDER}{path}.rs")))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{found, of_calls};
    use super::*;

    const MANIFEST: (&str, &str) = (
        "crates/forebay/Cargo.toml",
        "[package]\nname = \"forebay\"\n",
    );
    const ROOT: (&str, &str) = ("crates/forebay/src/lib.rs", "mod flow;\n");
    const FLOW: (&str, &str) = ("crates/forebay/src/flow/mod.rs", "mod read;\nmod fill;\n");
    const READ: (&str, &str) = (
        "crates/forebay/src/flow/read.rs",
        "pub fn read() { crate::flow::fill::fill(); }",
    );
    const FILL: (&str, &str) = ("crates/forebay/src/flow/fill.rs", "pub fn fill() {}");

    fn of_map(list: &str) -> Vec<String> {
        let map = format!("{HEADING}\n\n```text\n{list}```\n");
        found(of_calls, &[MANIFEST, ROOT, FLOW, READ, FILL, (MAP, &map)])
    }

    #[test]
    fn callers_come_first() {
        assert_eq!(of_map("read   a hit copies\nfill   requests\n"), [""; 0]);
    }

    #[test]
    fn a_caller_below_what_it_calls_is_found() {
        assert_eq!(
            of_map("fill\nread\n"),
            ["ARCHITECTURE.md:1: flow/read.rs calls flow/fill.rs and is listed after it"]
        );
    }

    #[test]
    fn a_file_that_is_missing_or_too_many_is_found() {
        assert_eq!(
            of_map("read\nfull\n"),
            [
                "ARCHITECTURE.md:5: there is no flow/full.rs",
                "ARCHITECTURE.md:1: the order of the flows does not list flow/fill.rs",
            ]
        );
    }
}
