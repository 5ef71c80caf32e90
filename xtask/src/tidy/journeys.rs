//! The journeys of the code map are those of the code: each drawing names the files that are
//! passed, the list below them is what `cargo xtask calls --journeys` prints, and none is too wide.

use super::Finding;
use crate::calls::Code;
use crate::calls::journeys::{
    HEADING, Journey, LIST, MAP, MOST_FILES, MOST_METHODS, block, written,
};
use crate::source::Source;

/// What is wrong about the journeys in the code map, if there is a list of them.
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
    words.filter(|word| word.rsplit_once('.').is_some_and(|(_, end)| end == "rs"))
}

#[cfg(test)]
mod tests {
    use super::super::{found, of_calls};
    use super::*;

    const MANIFEST: (&str, &str) = (
        "crates/forebay/Cargo.toml",
        "[package]\nname = \"forebay\"\n",
    );
    const ROOT: (&str, &str) = (
        "crates/forebay/src/lib.rs",
        "mod file; mod engine; mod flow; mod state;\n",
    );
    const FACE: (&str, &str) = (
        "crates/forebay/src/file.rs",
        "use crate::engine::Engine;\npub struct File;\n\
         impl File { pub fn read(&self, engine: &Engine) { engine.look(); } }",
    );
    const ENGINE: (&str, &str) = ("crates/forebay/src/engine.rs", "pub struct Engine;\n");
    const FLOW: (&str, &str) = (
        "crates/forebay/src/flow/mod.rs",
        "mod look; mod fill; mod history;\n",
    );
    const LOOK: (&str, &str) = (
        "crates/forebay/src/flow/look.rs",
        "use crate::engine::Engine;\nimpl Engine { pub fn look(&self) {\n\
         crate::state::find(); self.fill(); self.past(); } }",
    );
    const FILL: (&str, &str) = (
        "crates/forebay/src/flow/fill.rs",
        "use crate::engine::Engine;\nimpl Engine { pub fn fill(&self) { plan(); } }\n\
         fn plan() {}\n",
    );
    const PAST: (&str, &str) = (
        "crates/forebay/src/flow/history.rs",
        "use crate::engine::Engine;\nimpl Engine { pub fn past(&self) {} }",
    );
    const STATE: (&str, &str) = ("crates/forebay/src/state.rs", "pub fn find() {}");
    const ORDER: &str = "## The order of the flows\n\n```text\nlook\nfill\nhistory\n```\n";
    const WHOLE: &str = "[[journey]]\nname = \"A read\"\nfrom = \"File::read\"\nup_to = []\n";
    const CUT: &str =
        "[[journey]]\nname = \"A read\"\nfrom = \"File::read\"\nup_to = [\"Engine::fill\"]\n";
    const WHOLE_LIST: &str = "A read: 4 methods in 3 files\n  from File::read\n  \
         file.rs       read\n  flow/fill.rs  fill plan\n  flow/look.rs  look\n";
    const CUT_LIST: &str = "A read: 2 methods in 2 files\n  from File::read, up to Engine::fill\n  \
         file.rs       read\n  flow/look.rs  look\n";

    fn of_page(plan: &str, drawn: &str, list: &str) -> Vec<String> {
        let map = format!(
            "### A read\n\n```text\n{drawn}\n```\n\n{HEADING}\n\n```text\n{list}```\n\n{ORDER}"
        );
        let files = [MANIFEST, ROOT, FACE, ENGINE, FLOW, LOOK, FILL, PAST, STATE];
        let page = [(LIST, plan), (MAP, map.as_str())];
        found(of_calls, &[&files[..], &page[..]].concat())
    }

    #[test]
    fn what_is_true_passes() {
        let drawn = "file.rs flow/look.rs: state.rs, then flow/fill.rs";
        assert_eq!(of_page(WHOLE, drawn, WHOLE_LIST), [""; 0]);
        assert_eq!(of_page(CUT, "file.rs flow/look.rs", CUT_LIST), [""; 0]);
    }

    #[test]
    fn a_list_that_is_not_of_the_code_is_found() {
        let stale = of_page(WHOLE, "file.rs flow/look.rs flow/fill.rs", CUT_LIST);
        let message = "not what the journeys pass; see `cargo xtask calls --journeys --write`";
        assert_eq!(stale, [format!("{MAP}:9: {message}")]);
    }

    #[test]
    fn a_drawing_that_names_too_few_or_too_many_is_found() {
        let drawn = "file.rs flow/look.rs\nflow/fill.rs flow/history.rs";
        assert_eq!(
            of_page(CUT, drawn, CUT_LIST),
            [
                format!("{MAP}:5: A read: does not pass flow/fill.rs"),
                format!("{MAP}:5: A read: does not pass flow/history.rs"),
            ]
        );
        assert_eq!(
            of_page(CUT, "file.rs", CUT_LIST),
            [format!(
                "{MAP}:3: A read: the drawing does not name flow/look.rs"
            )]
        );
    }

    #[test]
    fn an_end_that_is_not_called_is_found() {
        let plan = CUT.replace("Engine::fill", "state::find");
        let plan = plan.replace("File::read", "Engine::fill");
        assert_eq!(
            of_page(&plan, "flow/fill.rs", ""),
            [format!("{LIST}:1: A read does not call state::find")]
        );
    }

    #[test]
    fn a_journey_that_is_too_wide_is_found() {
        let each = |text: &str| {
            let numbered = (0..=MOST_METHODS).map(|at| text.replace('N', &at.to_string()));
            numbered.collect::<Vec<_>>().concat()
        };
        let (calls, more) = (each("more_N();"), each("fn more_N() {}\n"));
        let fill = FILL.1.replace("plan(); }", &format!("plan(); {calls} }}")) + &more;
        let map = format!("### A read\n\n```text\n```\n\n{HEADING}\n\n```text\n```\n\n{ORDER}");
        let files = [
            MANIFEST,
            ROOT,
            FACE,
            ENGINE,
            FLOW,
            LOOK,
            PAST,
            STATE,
            (FILL.0, fill.as_str()),
            (LIST, WHOLE),
            (MAP, map.as_str()),
        ];
        let wide = found(of_calls, &files);
        let message = "A read: 65 methods in 3 files; at most 60 in 8";
        assert!(wide.contains(&format!("{LIST}:1: {message}")), "{wide:?}");
    }
}
