//! The journeys of the code map are those of the code: each drawing names the files that are passed,
//! the list below them is what `cargo xtask calls --journeys` prints, and none is too wide.

use super::Finding;
use crate::calls::Code;
use crate::calls::journeys::{
    HEADING, Journey, LIST, MAP, MOST_FILES, MOST_METHODS, block, written,
};
use crate::source::Source;

/// What is not true of the journeys in the code map, if there is a list of them.
pub(super) fn check(sources: &[Source], code: &Code) -> Vec<Finding> {
    let source = |path: &str| sources.iter().find(|source| source.path == path);
    let (Some(list), Some(map)) = (source(LIST), source(MAP)) else {
        return Vec::new();
    };
    let journeys = match code.journeys(&list.text) {
        Ok(journeys) => journeys,
        Err(message) => return vec![Finding::new(list, 1, message)],
    };
    let mut findings = Vec::new();
    for journey in &journeys {
        let (methods, files) = (journey.methods(), journey.counted.len());
        if methods > MOST_METHODS || files > MOST_FILES {
            let message = format!(
                "{}: {methods} methods in {files} files; at most {MOST_METHODS} in {MOST_FILES}",
                journey.name
            );
            findings.push(Finding::new(list, 1, message));
        }
        findings.extend(drawing(map, journey));
    }
    match written(&map.text, &journeys) {
        Some(page) if page == map.text => {}
        Some(_) => {
            let line = block(&map.text, HEADING).map_or(1, |lines| lines.start);
            let message = "not what the journeys pass; see `cargo xtask calls --journeys --write`";
            findings.push(Finding::new(map, line, message));
        }
        None => {
            let message = format!("no block below \"{HEADING}\"");
            findings.push(Finding::new(map, 1, message));
        }
    }
    findings
}

/// Where the drawing of a journey differs from what it passes.
fn drawing(map: &Source, journey: &Journey) -> Vec<Finding> {
    let heading = format!("### {}", journey.name);
    let Some(lines) = block(&map.text, &heading) else {
        return vec![Finding::new(
            map,
            1,
            format!("no drawing below \"{heading}\""),
        )];
    };
    let text = map.text.lines().enumerate();
    let rows = text.skip(lines.start).take(lines.len());
    let named: Vec<(usize, &str)> = rows
        .flat_map(|(line, row)| files(row).map(move |file| (line, file)))
        .collect();
    let unknown = named
        .iter()
        .filter(|(_, file)| !journey.files.contains(*file));
    let mut findings: Vec<Finding> = unknown
        .map(|(line, file)| {
            let message = format!("{}: does not pass {file}", journey.name);
            Finding::new(map, line + 1, message)
        })
        .collect();
    let is_named = |file: &&String| named.iter().any(|(_, known)| known == file);
    for file in journey.counted.keys().filter(|file| !is_named(file)) {
        let message = format!("{}: the drawing does not name {file}", journey.name);
        findings.push(Finding::new(map, lines.start, message));
    }
    findings
}

/// The files that a row names.
fn files(row: &str) -> impl Iterator<Item = &str> {
    let words = row.split(|c: char| !c.is_ascii_alphanumeric() && !"_/.".contains(c));
    words.filter(|word| word.ends_with(".rs"))
}
