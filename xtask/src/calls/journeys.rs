//! The journeys of the code map: the methods of the flows that each one passes.

use super::code::Code;
use super::graph::journey;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The file that lists where each journey begins and ends.
pub(crate) const LIST: &str = "xtask/journeys.toml";
/// The page that shows what they pass, and the heading of the block.
pub(crate) const MAP: &str = "ARCHITECTURE.md";
pub(crate) const HEADING: &str = "### What they pass";
/// Limits on methods and files: a reader cannot keep more in mind.
pub(crate) const MOST_METHODS: usize = 60;
pub(crate) const MOST_FILES: usize = 8;

/// The crate that has these journeys, its flows, the flows that no journey passes, and its faces.
const CRATE: &str = "forebay";
const FLOWS: &str = "flow/";
const HISTORY: &str = "flow/history";
const FACES: [&str; 2] = ["file.rs", "cache.rs"];
/// A flow file in which a journey passes no method of the engine holds only values. It does not
/// count, like what the owners have.
const ENGINE: &str = "Engine::";
/// Lines of the list are cut before this column.
const COLUMNS: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    journey: Vec<Plan>,
}

/// A journey as the list gives it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    name: String,
    /// The method that it begins with.
    from: String,
    /// The methods that it calls but that are not followed.
    up_to: Vec<String>,
}

/// The code that a journey passes.
pub(crate) struct Journey {
    /// The heading of its drawing.
    pub(crate) name: String,
    from: String,
    up_to: Vec<String>,
    /// The names of the methods that count, by file.
    pub(crate) counted: BTreeMap<String, BTreeSet<String>>,
    /// All files that it reaches: `law/a.rs` for those of the laws.
    pub(crate) files: BTreeSet<String>,
    /// All functions that its first method reaches if every call is followed, and their files.
    all: (usize, usize),
}

impl Journey {
    pub(crate) fn methods(&self) -> usize {
        self.counted.values().map(BTreeSet::len).sum()
    }

    /// The entry of the list in the code map.
    pub(crate) fn entry(&self) -> String {
        let (methods, files) = (self.methods(), self.counted.len());
        let up_to = self.up_to.join(" ");
        let stops = if up_to.is_empty() { "" } else { ", up to " };
        let mut lines = vec![
            format!("{}: {methods} methods in {files} files", self.name),
            format!("  from {}{stops}{up_to}", self.from),
        ];
        let width = self.counted.keys().map(String::len).max().unwrap_or(0);
        for (file, names) in &self.counted {
            let mut row = format!("  {file:width$} ");
            for name in names {
                if row.len() + 1 + name.len() > COLUMNS {
                    lines.push(row);
                    row = format!("  {:width$} ", "");
                }
                row.push(' ');
                row.push_str(name);
            }
            lines.push(row);
        }
        lines.join("\n") + "\n"
    }

    /// The numbers if every accessor and every error path counted.
    pub(crate) fn of_all(&self) -> String {
        let (functions, files) = self.all;
        format!("  (in all {functions} functions in {files} files)\n")
    }
}

impl Code {
    /// The journeys that `list` names; the error describes the problem.
    pub(crate) fn journeys(&self, list: &str) -> Result<Vec<Journey>, String> {
        let list = toml::from_str::<List>(list).map_err(|error| error.message().to_owned())?;
        list.journey
            .into_iter()
            .map(|plan| self.planned(plan))
            .collect()
    }

    fn planned(&self, plan: Plan) -> Result<Journey, String> {
        let start = self.function(&plan.from)?;
        let ends = plan.up_to.iter().map(|name| self.function(name));
        let ends = ends.collect::<Result<BTreeSet<usize>, String>>()?;
        let (definitions, own) = (&self.definitions, |index: usize| {
            self.definitions.krate(index) == CRATE
        });
        let functions = &definitions.functions;
        let mut met = BTreeSet::new();
        let is_past = |index: usize| {
            own(index) && self.short_path(functions[index].file).starts_with(HISTORY)
        };
        let passed = journey(&self.calls, start, |index| {
            if ends.contains(&index) {
                met.insert(index);
            }
            !ends.contains(&index) && !is_past(index)
        });
        if let Some(&end) = ends.difference(&met).next() {
            return Err(format!(
                "{} does not call {}",
                plan.name, functions[end].name
            ));
        }
        let all = journey(&self.calls, start, own);
        let of_all: BTreeSet<usize> = all.iter().map(|&index| functions[index].file).collect();
        let mut counted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let (mut files, mut flows) = (BTreeSet::new(), BTreeSet::new());
        for index in passed {
            let file = self.short_path(functions[index].file);
            let name = &functions[index].name;
            if !own(index) {
                let krate = definitions.krate(index).strip_prefix("forebay-");
                files.extend(krate.map(|krate| format!("{krate}/{file}")));
                continue;
            }
            files.insert(file.to_owned());
            let is_face = FACES.contains(&file);
            if file.starts_with(FLOWS) || is_face {
                if is_face || name.starts_with(ENGINE) {
                    flows.insert(file.to_owned());
                }
                let name = name.rsplit("::").next().unwrap_or_default();
                counted
                    .entry(file.to_owned())
                    .or_default()
                    .insert(name.to_owned());
            }
        }
        counted.retain(|file, _| flows.contains(file));
        Ok(Journey {
            name: plan.name,
            from: functions[start].name.clone(),
            up_to: plan.up_to,
            counted,
            files,
            all: (all.len(), of_all.len()),
        })
    }
}

/// The lines of the block of `page` below `heading`, as their range.
pub(crate) fn block(page: &str, heading: &str) -> Option<Range<usize>> {
    let lines: Vec<&str> = page.lines().collect();
    let heading = lines.iter().position(|line| *line == heading)?;
    let is_fence = |line: &&str| line.starts_with("```");
    let first = heading + 1 + lines[heading..].iter().skip(1).position(is_fence)? + 1;
    let count = lines[first..].iter().position(is_fence)?;
    Some(first..first + count)
}

/// `page` with the list of `journeys` in its block.
pub(crate) fn written(page: &str, journeys: &[Journey]) -> Option<String> {
    let range = block(page, HEADING)?;
    let lines: Vec<&str> = page.lines().collect();
    let list: String = journeys.iter().map(Journey::entry).collect();
    let before = lines[..range.start].iter().copied();
    let all: Vec<&str> = before
        .chain(list.lines())
        .chain(lines[range.end..].iter().copied())
        .collect();
    Some(all.join("\n") + "\n")
}
