//! The code map names every crate.

use super::Finding;
use crate::source::Source;

const MAP: &str = "ARCHITECTURE.md";

/// The crates that the code map does not name, if there is a map.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let Some(map) = sources.iter().find(|source| source.path == MAP) else {
        return Vec::new();
    };
    let crates = sources.iter().filter_map(|source| {
        let path = source.path.strip_suffix("/Cargo.toml")?;
        path.rsplit('/').next()
    });
    crates
        .filter(|name| !names(&map.text, name))
        .map(|name| Finding::new(map, 1, format!("the code map does not name {name}")))
        .collect()
}

/// Whether `text` contains the name `name`, and not only a longer name that starts with it.
fn names(text: &str, name: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_')
        .any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    const CRATES: [(&str, &str); 2] = [
        ("crates/forebay/Cargo.toml", ""),
        ("crates/forebay-rt/Cargo.toml", ""),
    ];

    #[test]
    fn a_crate_that_is_not_named_is_found() {
        let files = [CRATES[0], CRATES[1], (MAP, "# Map\n`forebay-rt`\n")];
        assert_eq!(
            found(check, &files),
            ["ARCHITECTURE.md:1: the code map does not name forebay"]
        );
    }

    #[test]
    fn a_whole_map_passes() {
        let files = [
            CRATES[0],
            CRATES[1],
            (MAP, "# Map\n`forebay-rt`, `forebay`\n"),
        ];
        assert_eq!(found(check, &files), [""; 0]);
    }
}
