//! Licences, duplicate crates and sources of the dependencies, held to `deny.toml`.
//!
//! The file is in the format of cargo-deny, which takes minutes to build from source. What of it is
//! used here is little: `[licenses] allow`, `[bans] skip` and `deny`, `[sources] allow-registry`.

use crate::error::TaskError;
use crate::source::repository;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

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

/// What `cargo metadata` prints.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    /// None for a crate of this repository.
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    dependencies: Vec<String>,
}

/// Checks the dependencies of every target in `deny.toml`, and prints what is against it; true if
/// nothing is.
pub(crate) fn run() -> Result<bool, TaskError> {
    let root = repository()?;
    let path = root.join("deny.toml");
    let text = std::fs::read_to_string(&path).map_err(|cause| TaskError::Read { path, cause })?;
    let rules: Rules = toml::from_str(&text).map_err(|error| TaskError::Failed {
        command: "deny.toml".to_owned(),
        message: error.to_string(),
    })?;
    let mut findings = BTreeSet::new();
    for target in &rules.graph.targets {
        findings.extend(check(&rules, &metadata(&root, target)?));
    }
    for finding in &findings {
        println!("{finding}");
    }
    println!("dependencies: {} findings", findings.len());
    Ok(findings.is_empty())
}

fn metadata(root: &Path, target: &str) -> Result<Metadata, TaskError> {
    let command = "cargo metadata --all-features --format-version 1 --filter-platform";
    let text = cargo_output(root, &format!("{command} {target}"))?;
    let mut metadata: Metadata =
        serde_json::from_str(&text).map_err(|error| TaskError::Metadata(error.to_string()))?;
    // The resolved graph has crates that a feature only names; the tree has those that are built.
    let command = "cargo tree --workspace --all-features --prefix none --format {p} --target";
    let tree = cargo_output(root, &format!("{command} {target}"))?;
    let built: BTreeSet<(&str, &str)> = tree.lines().filter_map(name_and_version).collect();
    metadata
        .packages
        .retain(|it| built.contains(&(it.name.as_str(), it.version.as_str())));
    Ok(metadata)
}

/// Of a line as `syn v2.0.1 (proc-macro)`.
fn name_and_version(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split(' ');
    let (name, version) = (words.next()?, words.next()?);
    Some((name, version.strip_prefix('v')?))
}

/// What `command`, one of cargo's, prints at `root`.
pub(crate) fn cargo_output(root: &Path, command: &str) -> Result<String, TaskError> {
    let mut words = command.split(' ');
    let output = Command::new(words.next().unwrap_or_default())
        .args(words)
        .current_dir(root)
        .output()
        .map_err(|cause| TaskError::Start {
            command: command.to_owned(),
            cause,
        })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if !output.status.success() {
        return Err(TaskError::Failed {
            command: command.to_owned(),
            message: text(&output.stderr),
        });
    }
    Ok(text(&output.stdout))
}

fn check(rules: &Rules, metadata: &Metadata) -> Vec<String> {
    let packages: Vec<&Package> = metadata.packages.iter().collect();
    let mut findings = Vec::new();
    for package in &packages {
        findings.extend(package.faults(rules));
    }
    findings.extend(twice(rules, &packages));
    findings.extend(banned(rules, metadata, &packages));
    findings
}

impl Package {
    fn faults(&self, rules: &Rules) -> Vec<String> {
        let Some(source) = &self.source else {
            return Vec::new();
        };
        let (name, version) = (&self.name, &self.version);
        let mut faults = Vec::new();
        let license = self.license.as_deref().unwrap_or("none");
        if !allows(&rules.licenses.allow, license) {
            faults.push(format!("{name} {version}: its licence is {license}"));
        }
        let registries = &rules.sources.allow_registry;
        let comes_from = |registry: &String| source == &format!("registry+{registry}");
        if !registries.iter().any(comes_from) {
            faults.push(format!("{name} {version}: it comes from {source}"));
        }
        faults
    }
}

/// Whether `expression`, as in a manifest, can be met with the `allowed` licences.
fn allows(allowed: &BTreeSet<String>, expression: &str) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (is_met, rest) = any_of(allowed, &words);
    is_met && rest.is_empty()
}

/// Reads alternatives from the start of `words`; returns whether one is met, and what follows them.
fn any_of<'a, 'b>(allowed: &BTreeSet<String>, words: &'a [&'b str]) -> (bool, &'a [&'b str]) {
    let (mut is_met, mut rest) = all_of(allowed, words);
    while let ["OR", more @ ..] = rest {
        let (other, after) = all_of(allowed, more);
        (is_met, rest) = (is_met || other, after);
    }
    (is_met, rest)
}

fn all_of<'a, 'b>(allowed: &BTreeSet<String>, words: &'a [&'b str]) -> (bool, &'a [&'b str]) {
    let (mut is_met, mut rest) = one(allowed, words);
    while let ["AND", more @ ..] = rest {
        let (other, after) = one(allowed, more);
        (is_met, rest) = (is_met && other, after);
    }
    (is_met, rest)
}

fn one<'a, 'b>(allowed: &BTreeSet<String>, words: &'a [&'b str]) -> (bool, &'a [&'b str]) {
    match words {
        ["(", inner @ ..] => {
            let (is_met, rest) = any_of(allowed, inner);
            let closed = rest.first() == Some(&")");
            (is_met && closed, rest.get(1..).unwrap_or_default())
        }
        // An exception makes another text of a licence, which would be listed itself.
        [licence, "WITH", exception, rest @ ..] => (
            allowed.contains(&format!("{licence} WITH {exception}")),
            rest,
        ),
        [licence, rest @ ..] => (allowed.contains(*licence), rest),
        [] => (false, &[]),
    }
}

/// Crates that are there in several versions, of which more than one has no reason.
fn twice(rules: &Rules, packages: &[&Package]) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        versions
            .entry(&package.name)
            .or_default()
            .insert(&package.version);
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

/// Crates that only some may use, and who else does.
fn banned(rules: &Rules, metadata: &Metadata, packages: &[&Package]) -> Vec<String> {
    let names: BTreeMap<&str, &str> = packages
        .iter()
        .map(|it| (it.id.as_str(), it.name.as_str()))
        .collect();
    let mut findings = Vec::new();
    for node in &metadata.resolve.nodes {
        for dependency in &node.dependencies {
            let name = |id: &String| names.get(id.as_str()).copied();
            let (Some(user), Some(used)) = (name(&node.id), name(dependency)) else {
                continue;
            };
            let ban = rules.bans.deny.iter().find(|ban| ban.name == used);
            if let Some(ban) = ban.filter(|ban| !ban.wrappers.iter().any(|it| it == user)) {
                findings.push(format!("{user} uses {used}: {}", ban.reason));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        toml::from_str(
            "[graph]\ntargets = []\n[licenses]\nallow = ['MIT', 'Zlib']\n[bans]\n\
             skip = [{ crate = 'old@1', reason = 'r' }]\n\
             deny = [{ crate = 'tokio', reason = 'no', wrappers = ['h2'] }]\n\
             [sources]\nallow-registry = ['https://index']\n",
        )
        .unwrap()
    }

    fn package(name: &str, version: &str, license: &str) -> Package {
        Package {
            id: format!("{name}@{version}"),
            name: name.into(),
            version: version.into(),
            license: Some(license.into()),
            source: Some("registry+https://index".into()),
        }
    }

    fn found(packages: Vec<Package>, arrows: &[(&str, &str)]) -> Vec<String> {
        let node = |package: &Package| Node {
            id: package.id.clone(),
            dependencies: arrows
                .iter()
                .filter(|(user, _)| *user == package.id)
                .map(|(_, used)| (*used).to_owned())
                .collect(),
        };
        let nodes = packages.iter().map(node).collect();
        let resolve = Resolve { nodes };
        check(&rules(), &Metadata { packages, resolve })
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
        let mut elsewhere = package("b", "1.0.0", "MIT");
        elsewhere.source = Some("git+https://example.org".into());
        let found = found(vec![package("a", "1.0.0", "GPL-3.0"), elsewhere], &[]);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn a_second_version_needs_a_reason() {
        let two = |name: &str| vec![package(name, "1.2.0", "MIT"), package(name, "2.0.0", "MIT")];
        assert_eq!(found(two("old"), &[]), [""; 0]);
        assert_eq!(
            found(two("new"), &[]),
            ["new: there are versions 1.2.0 and 2.0.0"]
        );
    }

    #[test]
    fn a_banned_crate_is_for_its_wrappers_alone() {
        let all = || {
            vec![
                package("tokio", "1.0.0", "MIT"),
                package("h2", "1.0.0", "MIT"),
                package("x", "1.0.0", "MIT"),
            ]
        };
        assert_eq!(found(all(), &[("h2@1.0.0", "tokio@1.0.0")]), [""; 0]);
        assert_eq!(
            found(all(), &[("x@1.0.0", "tokio@1.0.0")]),
            ["x uses tokio: no"]
        );
    }
}
