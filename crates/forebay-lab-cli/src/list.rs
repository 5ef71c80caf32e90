//! `forebay-lab list`: every name that the other commands accept.

use forebay_kernels::Policy;
use forebay_lab::machine::{Machine, SHIPPED};
use forebay_lab::report::table::grid;
use forebay_lab::reproduction::{Change, Position, plan};
use forebay_lab::workload;

/// The whole list as text.
pub(crate) fn render() -> String {
    let blocks = [
        ("Workloads", workloads()),
        ("Machines", machines()),
        ("Policies", policies()),
        ("Knobs of every run, for --set", machine_knobs()),
        ("Knobs of a policy, for --set", policy_knobs()),
        ("Changes, for reproduce --only", changes()),
    ];
    let texts: Vec<String> = blocks
        .iter()
        .map(|(title, rows)| format!("{title}\n{}", grid(rows, usize::MAX)))
        .collect();
    texts.join("\n")
}

/// One row of texts, indented under its title.
fn line<const N: usize>(texts: [&str; N]) -> Vec<String> {
    let texts = texts.into_iter().map(String::from);
    [String::new()].into_iter().chain(texts).collect()
}

fn workloads() -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for workload in workload::ALL {
        rows.push(line([workload.name, "", workload.summary]));
        for knob in workload.knobs {
            rows.push(line([
                "",
                &format!("{}={}", knob.name, knob.usual),
                knob.what,
            ]));
        }
    }
    rows
}

fn machines() -> Vec<Vec<String>> {
    let summary = |name: &str| Machine::named(name).map(|machine| machine.summary);
    let rows = SHIPPED.iter().map(|(name, _)| {
        let summary = summary(name).expect("every machine that ships is read by its tests");
        line([name, &summary])
    });
    rows.collect()
}

fn policies() -> Vec<Vec<String>> {
    let presets = Policy::presets().into_iter();
    presets
        .map(|name| line([name, Policy::preset_summary(name).unwrap_or_default()]))
        .collect()
}

fn machine_knobs() -> Vec<Vec<String>> {
    let knobs = workload::machine_knobs();
    let rows = knobs.iter();
    rows.map(|knob| line([&format!("{}={}", knob.name, knob.usual), knob.what]))
        .collect()
}

fn policy_knobs() -> Vec<Vec<String>> {
    let rows = Policy::knobs().iter();
    rows.map(|knob| line([knob.name, &knob.values.join(", ")]))
        .collect()
}

fn changes() -> Vec<Vec<String>> {
    let rows = Change::ALL.iter().map(|change| {
        let before = plan::policy(*change, Position::Before);
        let after = plan::policy(*change, Position::After);
        line([change.name(), &format!("{before} against {after}")])
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_contains_all_kinds_of_names() {
        let text = render();
        for name in [
            "simple-wb",
            "amd4-512m",
            "linux-3.0",
            "3.3 to 3.10",
            "processors",
            "per-zone-dirty",
        ] {
            assert!(text.contains(name), "{name}");
        }
    }
}
