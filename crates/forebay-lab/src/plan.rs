//! What to run: names and knobs, and the same looked up.

use crate::device;
use crate::look::Look;
use crate::machine::{Machine, MachineError};
use crate::scenario::{self, Scenario};
use crate::workload::{self, KnobError, Knobs, Workload};
use crate::world::{Platform, WorldError};
use forebay_base::PAGE_BYTES;
use forebay_base::sync::Arc;
use forebay_engine::BuildError;
use forebay_kernels::Policy;
use std::collections::BTreeMap;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// A workload's name.
    pub workload: String,
    /// The machine.
    pub machine: Machine,
    /// A policy's name.
    pub policy: String,
    /// Settings of the workload, the machine or the policy, by name.
    pub knobs: BTreeMap<String, String>,
    /// The seed of every random choice.
    pub seed: u64,
    /// Where it runs.
    pub platform: Platform,
    /// How it ends on a simulated machine.
    pub ending: Ending,
    /// The scenario that is run instead of a workload.
    pub scenario: Option<Arc<Scenario>>,
    /// Looks at the cache when the workload has ended.
    pub look: Option<Look>,
}

/// How a run on a simulated machine ends, once the workload has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// What is left dirty is written, and the figure `final_sync` says how long that took.
    #[default]
    Synced,
    /// At once, with dirty pages left: for callers that need only the workload.
    AtOnce,
}

/// Why there was no run, or why it did not come to its end.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// No workload has this name.
    #[error("there is no workload '{name}'; there are: {known}")]
    UnknownWorkload {
        /// What was asked for.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// No policy has this name.
    #[error("there is no policy '{name}'; there are: {known}")]
    UnknownPolicy {
        /// What was asked for.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// A knob is unknown or has a value that it cannot have.
    #[error("{0}")]
    Knob(#[from] KnobError),
    /// The machine is impossible.
    #[error("{0}")]
    Machine(#[from] MachineError),
    /// A device of the machine is impossible.
    #[error("{0}")]
    Device(#[from] device::SettingError),
    /// The engine refused the machine's memory.
    #[error("{0}")]
    Build(#[from] BuildError),
    /// The workload failed.
    #[error("{0}")]
    World(#[from] WorldError),
    /// A folder or a thread of the real system was not available.
    #[error("{0}")]
    System(String),
}

impl RunError {
    /// Whether the caller asked for something that does not exist, as opposed to work that failed.
    pub fn is_bad_call(&self) -> bool {
        match self {
            RunError::World(error) => matches!(
                error,
                WorldError::NoRoom { .. }
                    | WorldError::NoSwap { .. }
                    | WorldError::NoFileSystem { .. }
                    | WorldError::Impossible(_)
            ),
            RunError::System(_) | RunError::Build(BuildError::NoMemory { .. }) => false,
            _ => true,
        }
    }
}

impl Plan {
    /// A workload on a machine that ships, with the policy `forebay` and seed 1.
    ///
    /// # Errors
    /// [`RunError::Machine`] if there is none of that name.
    pub fn new(workload: &str, machine: &str) -> Result<Plan, RunError> {
        Ok(Plan::on(Machine::named(machine)?, workload))
    }

    /// The same on any machine.
    pub fn on(machine: Machine, workload: &str) -> Plan {
        Plan {
            workload: workload.into(),
            machine,
            policy: "forebay".into(),
            knobs: BTreeMap::new(),
            seed: 1,
            platform: Platform::Simulated,
            ending: Ending::Synced,
            scenario: None,
            look: None,
        }
    }

    /// `scenario` as its file says.
    pub fn of_scenario(scenario: Scenario) -> Plan {
        let plan = Plan::on(scenario.machine.clone(), &scenario.name);
        Plan {
            policy: scenario.policy.clone(),
            knobs: scenario.knobs.clone(),
            seed: scenario.seed,
            scenario: Some(Arc::new(scenario)),
            ..plan
        }
    }

    /// The same with a knob set.
    #[must_use]
    pub fn with(mut self, knob: &str, value: &str) -> Plan {
        self.knobs.insert(knob.into(), value.into());
        self
    }

    /// The same under another policy.
    #[must_use]
    pub fn under(mut self, policy: &str) -> Plan {
        self.policy = policy.into();
        self
    }

    /// The plan with all names looked up.
    ///
    /// # Errors
    /// [`RunError`] with the known names.
    pub fn check(&self) -> Result<Ready, RunError> {
        let workload = match &self.scenario {
            Some(_) => &scenario::SCENARIO,
            None => workload::named(&self.workload).ok_or_else(|| RunError::UnknownWorkload {
                name: self.workload.clone(),
                known: workload::ALL.map(|workload| workload.name).join(", "),
            })?,
        };
        let mut policy = Policy::preset(&self.policy).ok_or_else(|| RunError::UnknownPolicy {
            name: self.policy.clone(),
            known: Policy::presets().join(", "),
        })?;
        let mut machine = self.machine.clone();
        let knobs = Knobs::resolve(&self.knobs, workload, &mut machine, &mut policy)?;
        if let Some(scenario) = &self.scenario {
            scenario.expect_room(&machine)?;
        }
        Ok(Ready {
            workload,
            machine,
            policy,
            knobs,
        })
    }
}

/// A plan whose names were looked up.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The workload.
    pub workload: &'static Workload,
    /// The machine, with its knobs turned.
    pub machine: Machine,
    /// The policy, with its switches thrown.
    pub policy: Policy,
    /// The workload's own knobs.
    pub knobs: Knobs,
}

/// What the engine takes of this computer's memory for each page of a machine: its frame, its
/// places in the index and among the shadows, and its part of the dirty blocks. All of it is used
/// from the start.
const BOOKS_OF_A_PAGE_BYTES: u64 = 60;

impl Ready {
    /// Memory of this computer that the machine's pages take on `platform`. Files, devices and
    /// processes take more, which is little compared with this on a large machine.
    pub fn memory_bytes(&self, platform: &Platform) -> u64 {
        let page_bytes = match platform {
            Platform::Simulated => 0,
            Platform::SimulatedWithBytes | Platform::Real(_) => PAGE_BYTES as u64,
        };
        let pages = self.machine.memory.all_managed_pages();
        pages.saturating_mul(page_bytes + BOOKS_OF_A_PAGE_BYTES)
    }
}
