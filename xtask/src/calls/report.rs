//! What `cargo xtask calls` prints.

use super::code::Code;
use super::graph::{Call, Graph, journey};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

impl Code {
    pub(super) fn has(&self, krate: &str) -> bool {
        self.crates.iter().any(|name| name == krate)
    }

    /// The files of `krate`, callers first.
    pub(super) fn orders(&self, krate: &str) -> String {
        let mut text = format!("{krate}\n");
        for (level, groups) in self.graph(krate).layers().iter().enumerate().rev() {
            for group in groups {
                let names: Vec<&str> = group.iter().map(|&file| self.short_path(file)).collect();
                let mark = if group.len() > 1 { "circle: " } else { "" };
                line(
                    &mut text,
                    format_args!("  {level:>2}  {mark}{}", names.join(" ")),
                );
            }
        }
        text
    }

    /// The circles of `krate`, what would open each, and every call within it.
    pub(super) fn circles(&self, krate: &str) -> String {
        let graph = self.graph(krate);
        let circles = graph.circles();
        let mut text = format!("{krate}: {} circles\n", circles.len());
        for circle in circles {
            let order = graph.order(&circle);
            let names: Vec<&str> = order.iter().map(|&file| self.short_path(file)).collect();
            line(
                &mut text,
                format_args!("\n  circle of {} files, callers first:", order.len()),
            );
            for name in names {
                line(&mut text, format_args!("    {name}"));
            }
            let back: Vec<_> = graph.back(&order).collect();
            let count: usize = back.iter().map(|(_, calls)| calls.len()).sum();
            let edges = back.len();
            line(
                &mut text,
                format_args!("  opened by {edges} edges of {count} calls:"),
            );
            for ((from, to), calls) in back {
                self.edge(&mut text, (from, to), calls);
            }
            line(&mut text, format_args!("  all its edges:"));
            for (&(from, to), calls) in &graph.edges {
                if circle.contains(&from) && circle.contains(&to) {
                    let (from, to) = (self.short_path(from), self.short_path(to));
                    line(
                        &mut text,
                        format_args!("    {from} -> {to} ({})", calls.len()),
                    );
                }
            }
        }
        text
    }

    fn edge(&self, text: &mut String, (from, to): (usize, usize), calls: &[Call]) {
        let (from, to) = (self.short_path(from), self.short_path(to));
        line(text, format_args!("    {from} -> {to} ({})", calls.len()));
        let mut counts: BTreeMap<Call, usize> = BTreeMap::new();
        for &call in calls {
            *counts.entry(call).or_default() += 1;
        }
        for ((caller, callee), count) in counts {
            let times = if count > 1 {
                format!(" x{count}")
            } else {
                String::new()
            };
            let caller = &self.definitions.functions[caller].name;
            let callee = &self.definitions.functions[callee].name;
            line(text, format_args!("        {caller} -> {callee}{times}"));
        }
    }

    /// Who calls the file at `path` and whom it calls.
    pub(super) fn neighbours(&self, path: &str) -> Result<String, String> {
        let files = &self.definitions.files;
        let all = (0..files.len()).filter(|&file| Path::new(&files[file].path).ends_with(path));
        let found: Vec<usize> = all.collect();
        let [file] = found.as_slice() else {
            let names: Vec<&str> = found
                .iter()
                .map(|&file| files[file].path.as_str())
                .collect();
            return Err(match names.as_slice() {
                [] => format!("no crate and no file is named {path}"),
                names => format!("{path} may be {}", names.join(", ")),
            });
        };
        let graph = self.graph(&files[*file].krate);
        let mut text = format!("{}\n  called by\n", files[*file].path);
        self.edges(&mut text, &graph, |_, to| to == *file);
        text.push_str("  calls\n");
        self.edges(&mut text, &graph, |from, _| from == *file);
        Ok(text)
    }

    fn edges(&self, text: &mut String, graph: &Graph, wanted: impl Fn(usize, usize) -> bool) {
        for (&(from, to), calls) in &graph.edges {
            if wanted(from, to) {
                self.edge(text, (from, to), calls);
            }
        }
    }

    /// The methods that the one named `name` reaches in its crate, by file.
    pub(super) fn journey(&self, name: &str) -> Result<String, String> {
        let functions = &self.definitions.functions;
        let start = self.function(name)?;
        let is_own = |index| self.definitions.krate(index) == self.definitions.krate(start);
        let reached = journey(&self.calls, start, is_own);
        let mut by_file: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for &index in &reached {
            let file = self.short_path(functions[index].file);
            by_file
                .entry(file)
                .or_default()
                .insert(&functions[index].name);
        }
        let (methods, files) = (reached.len(), by_file.len());
        let mut text = format!("{name} reaches {methods} functions in {files} files\n");
        for (file, names) in by_file {
            let names: Vec<&str> = names.into_iter().collect();
            line(
                &mut text,
                format_args!("  {file} ({}): {}", names.len(), names.join(" ")),
            );
        }
        Ok(text)
    }

    /// The one function that is named `name`, or `name in path`.
    pub(super) fn function(&self, name: &str) -> Result<usize, String> {
        let functions = &self.definitions.functions;
        let shown = |index: usize| {
            let function = &functions[index];
            format!(
                "{} in {}",
                function.name, self.definitions.files[function.file].path
            )
        };
        let all = (0..functions.len()).filter(|&i| functions[i].name == name || shown(i) == name);
        let found: Vec<usize> = all.collect();
        if let [function] = found.as_slice() {
            return Ok(*function);
        }
        let names: Vec<String> = found.iter().map(|&index| shown(index)).collect();
        Err(match names.as_slice() {
            [] => format!("no function is named {name}; a name is `Type::method`"),
            names => format!("{name} may be \"{}\"", names.join("\" or \"")),
        })
    }

    /// How often a method was called that may be that of several types, by name.
    pub(super) fn unresolved(&self, krate: &str) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let mut known = 0;
        for (index, calls) in self.calls.iter().enumerate() {
            if self.definitions.krate(index) == krate {
                known += calls.known.len();
                for name in &calls.unknown {
                    *counts.entry(name).or_default() += 1;
                }
            }
        }
        let count: usize = counts.values().sum();
        let mut text = format!("{krate}: {known} calls followed, {count} not\n");
        for (name, count) in counts {
            line(&mut text, format_args!("  {name} {count}"));
        }
        text
    }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{arguments}");
}
