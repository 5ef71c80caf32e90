//! The names that a scenario may use.

use super::Scenario;
use super::script::Action;
use crate::machine::Machine;
use crate::probe::{FIGURES, RATES, rate_unit};
use crate::workload::{Knobs, Work, Workload};
use crate::world::WorldError;
use forebay_engine::Counter;
use forebay_kernels::Policy;
use std::collections::{BTreeMap, BTreeSet};

/// A scenario as a workload: it has no knobs of its own.
pub(crate) static SCENARIO: Workload = Workload {
    name: "scenario",
    summary: "what a file of processes, events and expectations says",
    knobs: &[],
    expects: None,
    run: |_, _| -> Work {
        let problem = "a scenario is run from its file".to_owned();
        Box::pin(async move { Err(WorldError::Impossible(problem)) })
    },
};

/// Whether `machine` and a policy know the knob `name` and it can have this value.
pub(super) fn try_knob(machine: &Machine, name: &str, value: &str) -> Result<(), String> {
    let given = BTreeMap::from([(name.to_owned(), value.to_owned())]);
    turned(machine, &given).map(|_| ())
}

/// `machine` changed by these knobs.
pub(super) fn turned(
    machine: &Machine,
    knobs: &BTreeMap<String, String>,
) -> Result<Machine, String> {
    let (mut machine, mut policy) = (machine.clone(), Policy::default());
    let resolved = Knobs::resolve(knobs, &SCENARIO, &mut machine, &mut policy);
    resolved.map_err(|error| error.to_string())?;
    Ok(machine)
}

const LEVELS: [&str; 13] = [
    "dirty",
    "writeback",
    "thresh",
    "background",
    "setpoint",
    "dirty_limit",
    "free",
    "inactive_file",
    "active_file",
    "inactive_anon",
    "active_anon",
    "pause_mean",
    "pause_max",
];

/// The budget, and what was left in its group at the last look.
const OF_AN_ELASTIC_CACHE: [&str; 2] = ["memory_target", "headroom"];

const OF_A_ZONE: [&str; 5] = ["free", "dirty", "writeback", "inactive_file", "active_file"];

const OF_A_STORE: [&str; 5] = [
    "write_bandwidth",
    "dirty_ratelimit",
    "dirty",
    "thresh",
    "written",
];

const OF_A_DEVICE: [&str; 3] = ["device_rate", "await", "seeks"];

/// Every column of the series of `scenario`.
pub(super) fn columns(scenario: &Scenario) -> Vec<String> {
    let machine = &scenario.machine;
    let mut columns: Vec<String> = LEVELS.map(Into::into).into();
    if machine.elastic.is_some() {
        columns.extend(OF_AN_ELASTIC_CACHE.map(Into::into));
    }
    columns.extend(RATES.iter().map(|counter| counter.name().to_owned()));
    for (number, node) in machine.memory.nodes.iter().enumerate() {
        for zone in node.zones.iter().filter(|zone| zone.bytes > 0) {
            let place = match number {
                0 => zone.name.clone(),
                _ => format!("{number}.{}", zone.name),
            };
            columns.extend(OF_A_ZONE.map(|level| format!("{level}@{place}")));
        }
    }
    let file_systems = machine.storage.file_systems.iter();
    let swap = machine.storage.swap.map(|_| "swap");
    for store in file_systems.map(|it| it.name.as_str()).chain(swap) {
        columns.extend(OF_A_STORE.map(|level| format!("{level}@{store}")));
    }
    for device in &machine.storage.devices {
        let name = &device.name;
        columns.extend(OF_A_DEVICE.map(|rate| format!("{rate}@{name}")));
    }
    columns.extend(scenario.groups.iter().map(|it| format!("rate@{}", it.name)));
    columns
}

/// The unit of a column of the series.
pub(super) fn unit_of(column: &str) -> &'static str {
    let family = column.split('@').next().unwrap_or(column);
    match family {
        "rate" | "device_rate" | "write_bandwidth" | "dirty_ratelimit" => "bytes/s",
        "await" | "pause_mean" | "pause_max" => "ms",
        "seeks" => "times/s",
        _ => RATES
            .iter()
            .find(|counter| counter.name() == family)
            .map_or("pages", |counter| rate_unit(*counter)),
    }
}

/// Figures that each group of processes may have; the name of the group follows that of the figure.
pub(super) const OF_A_GROUP: [&str; 6] = [
    "bytes_per_s",
    "bytes_per_s_coeffvar",
    "pos_ratio",
    "task_ratelimit",
    "time_to_kill",
    "turns_lost",
];

/// Every counter and every figure, without the part after `@` or `;`.
pub(super) fn figures() -> Vec<String> {
    let counters = Counter::ALL.iter().map(|counter| counter.name());
    let figures = FIGURES.into_iter().chain(OF_A_GROUP);
    let all: BTreeSet<&str> = figures.chain(counters).collect();
    all.into_iter().map(Into::into).collect()
}

/// Every distribution that `scenario` may leave.
pub(super) fn distributions(scenario: &Scenario) -> Vec<String> {
    let mut names = vec!["pause".to_owned()];
    let file_systems = scenario.machine.storage.file_systems.iter();
    names.extend(file_systems.map(|store| format!("store_pause@{}", store.name)));
    for group in &scenario.groups {
        if matches!(&group.action, Action::Access(access) if access.writes) {
            names.push(format!("pause@{}", group.name));
        }
        if let Some(latency) = latency_of(&group.action) {
            if !names.iter().any(|name| name == latency) {
                names.push(latency.into());
            }
            names.push(format!("{latency}@{}", group.name));
        }
    }
    names
}

/// What the latency of an action is called.
pub(super) fn latency_of(action: &Action) -> Option<&'static str> {
    match action {
        Action::Access(access) if access.writes => Some("write_latency"),
        Action::Access(_) => Some("read_latency"),
        Action::Map { .. } => Some("map_latency"),
        Action::Hog(_) | Action::Pin { .. } => None,
    }
}
