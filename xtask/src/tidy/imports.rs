//! No circle of imports within a crate: the files of a crate have an order, and one can read them
//! from below.
//!
//! A file depends on another one if it names it in a path that begins with `crate`, `super` or
//! `self`. A module and what is inside it are one thing here: neither depends on the other.

use super::Finding;
use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// The path of a module from the root of its crate.
type Module = Vec<String>;
type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// The circles of each crate.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, BTreeMap<Module, &Source>> = BTreeMap::new();
    for source in sources {
        if let Some((name, module)) = module_of(&source.path) {
            crates.entry(name).or_default().insert(module, source);
        }
    }
    let mut findings = Vec::new();
    for modules in crates.values() {
        for circle in circles(&graph(modules)) {
            let files: Vec<String> = circle.iter().map(|module| module.join("/")).collect();
            let message = format!("a circle of imports: {}", files.join(", "));
            findings.push(Finding::new(modules[&circle[0]], 1, message));
        }
    }
    findings
}

/// The crate and the module of the file at `path`, if it is part of a library or a program and no
/// file of tests.
fn module_of(path: &str) -> Option<(&str, Module)> {
    let (name, file) = path.strip_prefix("crates/")?.split_once("/src/")?;
    let file = file.strip_suffix(".rs")?;
    if file.ends_with("_tests") || file.ends_with("/tests") {
        return None;
    }
    let mut module: Module = file.split('/').map(str::to_owned).collect();
    module.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
    Some((name, module))
}

fn graph(modules: &BTreeMap<Module, &Source>) -> Graph {
    let mut graph = Graph::new();
    for (module, source) in modules {
        let Some(rust) = &source.rust else { continue };
        let lines = rust.code.lines().enumerate();
        let code = lines.filter(|(index, _)| !rust.is_test(index + 1));
        let code: String = code.flat_map(|(_, line)| [line, "\n"]).collect();
        let named = paths_in(&code);
        let targets = named
            .iter()
            .filter_map(|path| target(modules, module, path));
        let others = targets.filter(|it| !it.starts_with(module) && !module.starts_with(it));
        graph.insert(module.clone(), others.collect());
    }
    graph
}

/// The paths in `code` that begin within its crate, those in braces one by one.
fn paths_in(code: &str) -> Vec<Vec<&str>> {
    let mut paths = Vec::new();
    // What stands before the braces that are open.
    let mut open: Vec<Vec<&str>> = Vec::new();
    let mut path: Vec<&str> = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(|c: char| !c.is_whitespace()) {
        rest = &rest[at..];
        let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let word = &rest[..length.unwrap_or(rest.len())];
        if let Some(after) = rest.strip_prefix("::{") {
            open.push(std::mem::take(&mut path));
            path.clone_from(&open[open.len() - 1]);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("::") {
            rest = after;
        } else if word.is_empty() {
            paths.push(std::mem::take(&mut path));
            let mut characters = rest.chars();
            if characters.next() == Some('}') {
                open.pop();
            }
            path = open.last().cloned().unwrap_or_default();
            rest = characters.as_str();
        } else {
            let is_first = path.is_empty() && open.is_empty();
            if !is_first || ["crate", "super", "self"].contains(&word) {
                path.push(word);
            }
            rest = &rest[word.len()..];
        }
    }
    paths.push(path);
    paths.retain(|path| {
        path.first()
            .is_some_and(|it| ["crate", "super", "self"].contains(it))
    });
    paths
}

/// The module in which `path` ends, as it is read in `module`.
fn target(modules: &BTreeMap<Module, &Source>, module: &[String], path: &[&str]) -> Option<Module> {
    let up = path.iter().take_while(|word| **word == "super").count();
    let words = path
        .iter()
        .skip_while(|word| ["super", "self", "crate"].contains(*word));
    let mut full = match path.first() {
        Some(&"crate") => Module::new(),
        _ => module[..module.len().checked_sub(up)?].to_vec(),
    };
    full.extend(words.map(|&word| word.to_owned()));
    while !modules.contains_key(&full) {
        full.pop()?;
    }
    Some(full)
}

/// The sets of modules of which each reaches each other one.
fn circles(graph: &Graph) -> Vec<Vec<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = graph
        .keys()
        .map(|from| {
            let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
            while let Some(module) = next.pop() {
                let new = graph[module].iter().filter(|it| reached.insert(*it));
                next.extend(new.collect::<Vec<_>>());
            }
            (from, reached)
        })
        .collect();
    let mut circles: Vec<Vec<Module>> = Vec::new();
    for (from, to) in &reached {
        if to.contains(from) && !circles.iter().any(|circle| circle.contains(from)) {
            let back = to.iter().filter(|it| reached[*it].contains(from));
            circles.push(back.map(|it| (*it).clone()).collect());
        }
    }
    circles
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        let paths: Vec<String> = files
            .iter()
            .map(|(file, _)| format!("crates/a/src/{file}"))
            .collect();
        let files: Vec<(&str, &str)> = paths
            .iter()
            .zip(files)
            .map(|(path, (_, text))| (path.as_str(), *text))
            .collect();
        found(check, &files)
    }

    #[test]
    fn a_circle_is_found_whatever_its_paths_look_like() {
        for path in [
            "use crate::b::c::It;",
            "use super::b::c;",
            "use crate::{d, b::{c::{self, It}, e}};",
            "fn f() { crate::b::c::g() }",
        ] {
            let files = [
                ("a.rs", path),
                ("b/mod.rs", ""),
                ("b/c.rs", "use crate::a::f;"),
            ];
            let expected = ["crates/a/src/a.rs:1: a circle of imports: a, b/c"];
            assert_eq!(messages(&files), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_circle_is_left_alone() {
        for (first, second) in [
            ("use crate::b::c;", ""),
            (
                "use crate::b::c;",
                "#[cfg(test)]\nmod tests { use crate::a; }",
            ),
            ("use crate::b::c;", "use super::It;"),
            ("use other::b::c;", "use crate::a;"),
            ("// use crate::b::c;", "use crate::a;"),
        ] {
            let files = [
                ("a.rs", first),
                ("b/mod.rs", "mod c; pub use c::It;"),
                ("b/c.rs", second),
            ];
            assert_eq!(messages(&files), [""; 0], "{first} {second}");
        }
    }
}
