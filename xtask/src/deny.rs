//! Licences, duplicate crates and sources of the dependencies, held to `deny.toml`.
//!
//! The file is in the format of cargo-deny, which takes minutes to build from source. What of it is
//! used here is little: `[licenses] allow`, `[bans] skip` and `deny`, `[sources] allow-registry`.

use crate::command::text;
use crate::error::TaskError;
use crate::source::repository;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The registry of a crate beside which `cargo tree` names none.
const CRATES_IO: &str = "https://github.com/rust-lang/crates.io-index";

#[derive(Deserialize)]
struct Rules {
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    skip: Vec<Named>,
    deny: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
    /// The crates that may use it all the same.
    #[serde(default)]
    wrappers: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

/// A crate of the tree of dependencies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Package<'a> {
    name: &'a str,
    version: &'a str,
    /// Where it comes from; none for a crate of this repository.
    source: Option<&'a str>,
    license: &'a str,
}

/// Checks the dependencies of every target in `deny.toml`, and prints what is against it; true if
/// nothing is.
pub(crate) fn run() -> Result<bool, TaskError> {
    let root = repository()?;
    let path = root.join("deny.toml");
    let rules = std::fs::read_to_string(&path).map_err(|cause| TaskError::Read { path, cause })?;
    let rules: Rules = toml::from_str(&rules).map_err(|error| TaskError::Failed {
        command: "deny.toml".to_owned(),
        message: error.to_string(),
    })?;
    let mut findings = BTreeSet::new();
    for target in &rules.graph.targets {
        let mut tree = Command::new("cargo");
        tree.args(["tree", "--workspace", "--all-features", "--target", target]);
        tree.args(["--prefix", "depth", "--format", "|{p}|{l}"]);
        findings.extend(check(&rules, &text(tree.current_dir(&root))?));
    }
    for finding in &findings {
        println!("{finding}");
    }
    println!("dependencies: {} findings", findings.len());
    Ok(findings.is_empty())
}

/// What is against `rules` in a tree of lines as `2|syn v2.0.1 (proc-macro)|MIT (*)`: how deep the
/// crate is, its name, where it comes from if that is not crates.io, its licence, and whether what
/// it uses is shown elsewhere.
fn check(rules: &Rules, tree: &str) -> BTreeSet<String> {
    let (mut packages, mut findings) = (BTreeSet::new(), BTreeSet::new());
    let mut users: Vec<&str> = Vec::new();
    for line in tree.lines() {
        let Some((depth, package)) = package(line) else {
            continue;
        };
        users.truncate(depth);
        let ban = rules.bans.deny.iter().find(|ban| ban.name == package.name);
        if let (Some(user), Some(ban)) = (users.last(), ban)
            && !ban.wrappers.iter().any(|it| it == user)
        {
            findings.insert(format!("{user} uses {}: {}", ban.name, ban.reason));
        }
        users.push(package.name);
        packages.insert(package);
    }
    for package in &packages {
        findings.extend(package.faults(rules));
    }
    findings.extend(twice(rules, &packages));
    findings
}

fn package(line: &str) -> Option<(usize, Package<'_>)> {
    let mut fields = line.split('|');
    let depth = fields.next()?.parse().ok()?;
    let (name, rest) = fields.next()?.split_once(" v")?;
    let (version, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let source = rest.strip_prefix("(proc-macro)").unwrap_or(rest).trim();
    let source = source.trim_start_matches('(').trim_end_matches(')');
    let license = fields.next()?.trim_end_matches(" (*)");
    let package = Package {
        name,
        version,
        source: match source {
            "" => Some(CRATES_IO),
            source => (!source.starts_with('/')).then_some(source),
        },
        license,
    };
    Some((depth, package))
}

impl Package<'_> {
    fn faults(&self, rules: &Rules) -> Vec<String> {
        let Package {
            name,
            version,
            license,
            ..
        } = self;
        let Some(source) = self.source else {
            return Vec::new();
        };
        let mut faults = Vec::new();
        if !allows(&rules.licenses.allow, license) {
            faults.push(format!("{name} {version}: its licence is {license}"));
        }
        if !rules.sources.allow_registry.iter().any(|it| it == source) {
            faults.push(format!("{name} {version}: it comes from {source}"));
        }
        faults
    }
}

/// Whether `expression`, as in a manifest, can be met with the `allowed` licences.
fn allows(allowed: &BTreeSet<String>, expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ");
    let expression = spaced.trim();
    let (any, all) = (parts(expression, " OR "), parts(expression, " AND "));
    if any.len() > 1 {
        return any.iter().any(|part| allows(allowed, part));
    }
    if all.len() > 1 {
        return all.iter().all(|part| allows(allowed, part));
    }
    let inner = expression.strip_prefix('(');
    match inner.and_then(|inner| inner.strip_suffix(')')) {
        Some(inner) => allows(allowed, inner),
        // An exception makes another text of a licence, which would be listed itself.
        None => allowed.contains(expression),
    }
}

/// The parts of `expression` between those of the `separator` that are outside of parentheses.
fn parts<'a>(expression: &'a str, separator: &str) -> Vec<&'a str> {
    let (mut parts, mut from) = (Vec::new(), 0);
    for (at, _) in expression.match_indices(separator) {
        let before = &expression[from..at];
        if before.matches('(').count() == before.matches(')').count() {
            parts.push(before);
            from = at + separator.len();
        }
    }
    parts.push(&expression[from..]);
    parts
}

/// Crates that are there in several versions, of which more than one has no reason.
fn twice(rules: &Rules, packages: &BTreeSet<Package<'_>>) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        let known = versions.entry(package.name).or_default();
        known.insert(package.version);
    }
    let has_reason = |name: &str, version: &str| {
        let mut skipped = rules
            .bans
            .skip
            .iter()
            .filter_map(|it| it.name.split_once('@'));
        skipped.any(|(of, prefix)| of == name && is_version(version, prefix))
    };
    let mut findings = Vec::new();
    for (name, versions) in versions {
        let without = versions.iter().filter(|version| !has_reason(name, version));
        if without.count() > 1 {
            let all: Vec<&str> = versions.into_iter().collect();
            findings.push(format!("{name}: there are versions {}", all.join(" and ")));
        }
    }
    findings
}

fn is_version(version: &str, prefix: &str) -> bool {
    let rest = version.strip_prefix(prefix);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        toml::from_str(
            "[graph]\ntargets = []\n[licenses]\nallow = ['MIT', 'Zlib']\n[bans]\n\
             skip = [{ crate = 'old@1', reason = 'r' }]\n\
             deny = [{ crate = 'tokio', reason = 'no', wrappers = ['h2'] }]\n\
             [sources]\nallow-registry = ['https://github.com/rust-lang/crates.io-index']\n",
        )
        .unwrap()
    }

    fn found(tree: &[&str]) -> Vec<String> {
        check(&rules(), &tree.join("\n")).into_iter().collect()
    }

    #[test]
    fn a_licence_is_met_by_one_alternative_with_all_its_parts() {
        let allowed = rules().licenses.allow;
        for met in [
            "MIT",
            "GPL-3.0 OR MIT",
            "GPL-3.0/MIT",
            "(GPL-3.0 OR MIT) AND Zlib",
            "MIT AND Zlib",
        ] {
            assert!(allows(&allowed, met), "{met}");
        }
        for refused in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT",
            "MIT WITH X",
            "",
            "MIT Zlib",
        ] {
            assert!(!allows(&allowed, refused), "{refused}");
        }
    }

    #[test]
    fn a_foreign_licence_or_source_is_found() {
        let elsewhere = "1|b v1.0.0 (proc-macro) (https://example.org#1)|MIT (*)";
        let ours = "0|ours v0.1.0 (/here)|none";
        assert_eq!(
            found(&[ours, "1|a v1.0.0 (proc-macro)|GPL-3.0", elsewhere]),
            [
                "a 1.0.0: its licence is GPL-3.0",
                "b 1.0.0: it comes from https://example.org#1",
            ]
        );
    }

    #[test]
    fn a_second_version_needs_a_reason() {
        let two = |name: &str| {
            let lines = ["1.2.0", "2.0.0"].map(|version| format!("1|{name} v{version}|MIT"));
            found(&lines.each_ref().map(String::as_str))
        };
        assert_eq!(two("old"), [""; 0]);
        assert_eq!(two("new"), ["new: there are versions 1.2.0 and 2.0.0"]);
    }

    #[test]
    fn a_banned_crate_is_for_its_wrappers_alone() {
        let tree = [
            "0|a v0.1.0 (/a)|MIT",
            "1|h2 v1.0.0|MIT",
            "2|tokio v1.0.0|MIT",
        ];
        assert_eq!(found(&tree), [""; 0]);
        let user = ["1|x v1.0.0|MIT", "2|tokio v1.0.0|MIT (*)"];
        assert_eq!(found(&[&tree[..], &user].concat()), ["x uses tokio: no"]);
    }
}
