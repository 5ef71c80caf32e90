//! Whether the swarm or the explored schedules notice small wrong changes to the engine.
//!
//! The changes of `mutations.toml` are made one after the other in a copy of the tree. For each
//! change the example `swarm` of the lab is built and runs seeds until one finds something, or the
//! tests of schedules are built and run their orders. A seed or an order that also finds something
//! in the unchanged engine proves nothing, so it is run there as well.

mod list;
mod schedules;
mod trial;

pub(crate) use list::{BLIND_PATH, Mutation, PATH, parse};

use crate::error::TaskError;
use crate::source::repository;
use list::SeenBy;
use std::fmt;
use trial::Workshop;

/// What became of a mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// An oracle saw it at a seed, or a test at an order.
    Caught { oracle: String, seed: u64 },
    /// The program ended before it could report anything.
    Died,
    /// No seed found anything.
    Missed,
    /// The seed finds something without the mutation too.
    AlsoWithout { seed: u64 },
    /// It does not compile.
    NotBuilt,
}

impl Verdict {
    fn is_caught(&self) -> bool {
        matches!(self, Verdict::Caught { .. } | Verdict::Died)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Caught { oracle, seed } => write!(f, "{oracle} | {seed}"),
            Verdict::Died => f.write_str("the program died | "),
            Verdict::Missed => f.write_str("MISSED | "),
            Verdict::AlsoWithout { seed } => write!(f, "NOTHING: {seed} fails anyway | {seed}"),
            Verdict::NotBuilt => f.write_str("DOES NOT COMPILE | "),
        }
    }
}

/// Tries the mutations called `names` of the list in the file `list`, or all of them, and prints a
/// table; true if each was caught.
pub(crate) fn run(list: &str, names: &[&str]) -> Result<bool, TaskError> {
    let root = repository()?;
    let path = root.join(list);
    let text = std::fs::read_to_string(&path).map_err(|cause| TaskError::Read {
        path: path.clone(),
        cause,
    })?;
    let mutations = parse(&text).map_err(|message| TaskError::Failed {
        command: format!("read {list}"),
        message,
    })?;
    let is_known = |name: &&&str| mutations.iter().any(|mutation| mutation.name == **name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        let known: Vec<&str> = mutations.iter().map(|of| of.name.as_str()).collect();
        return Err(TaskError::Failed {
            command: format!("find the mutation {unknown}"),
            message: format!("there are {}", known.join(", ")),
        });
    }
    let is_asked = |of: &&Mutation| names.is_empty() || names.contains(&of.name.as_str());
    let for_swarm = |of: &Mutation| of.seen_by == SeenBy::Swarm;
    let needs_swarm = mutations.iter().filter(is_asked).any(for_swarm);
    let workshop = Workshop::open(&root, needs_swarm)?;
    println!("| mutation | what it breaks | caught by | at seed |");
    println!("|---|---|---|---|");
    let (mut tried, mut caught) = (0, 0);
    for mutation in mutations.iter().filter(is_asked) {
        let verdict = workshop.try_out(mutation)?;
        println!("| {} | {} | {verdict} |", mutation.name, mutation.breaks);
        tried += 1;
        caught += u32::from(verdict.is_caught());
    }
    println!("\n{caught} of {tried} caught");
    Ok(caught == tried)
}
