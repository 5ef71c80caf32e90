//! Settings by name: of the workload, of the machine, of the policy.

use super::Workload;
use crate::machine::{Machine, MachineError, NFS, TWO_PAGES_BYTES, VOLUME};
use forebay_base::Span;
use forebay_base::units::parse_size;
use forebay_kernels::Policy;
use std::collections::BTreeMap;

/// One setting of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// Its name.
    pub name: &'static str,
    /// Its default value.
    pub usual: &'static str,
    /// What it is, with its unit.
    pub what: &'static str,
}

/// The setting `name`.
pub(super) const fn knob(name: &'static str, usual: &'static str, what: &'static str) -> Knob {
    Knob { name, usual, what }
}

/// A setting of the machine.
struct MachineKnob {
    knob: Knob,
    turn: fn(&mut Machine, u64),
    allowed: Bounds,
}

/// The numbers that a knob may have.
#[derive(Clone, Copy)]
struct Bounds {
    least: u64,
    most: u64,
    /// Whether 0, which has a meaning of its own, is allowed below the least.
    or_none: bool,
}

const fn bounds(least: u64, most: u64) -> Bounds {
    Bounds {
        least,
        most,
        or_none: false,
    }
}

const fn none_or_at_least(least: u64) -> Bounds {
    Bounds {
        least,
        most: u64::MAX,
        or_none: true,
    }
}

/// Settings that every run has.
const MACHINE_KNOBS: [MachineKnob; 7] = [
    MachineKnob {
        knob: knob("processors", "the machine's", "processors"),
        turn: |machine, value| machine.processors = value as usize,
        allowed: bounds(1, 1024),
    },
    MachineKnob {
        knob: knob(
            "dirty_ratio",
            "the machine's",
            "percent of the available memory that may be dirty",
        ),
        turn: |machine, value| machine.dirty.dirty_ratio_percent = value,
        allowed: bounds(0, 100),
    },
    MachineKnob {
        knob: knob(
            "background_ratio",
            "the machine's",
            "percent of the available memory from which the flusher writes",
        ),
        turn: |machine, value| machine.dirty.background_ratio_percent = value,
        allowed: bounds(0, 100),
    },
    MachineKnob {
        knob: knob(
            "dirty_limit",
            "0",
            "bytes that may be dirty, instead of dirty_ratio",
        ),
        turn: |machine, value| machine.dirty.dirty_bytes = value,
        allowed: none_or_at_least(TWO_PAGES_BYTES),
    },
    MachineKnob {
        knob: knob(
            "background_limit",
            "0",
            "bytes from which the flusher writes, instead of background_ratio",
        ),
        turn: |machine, value| machine.dirty.background_bytes = value,
        allowed: bounds(0, u64::MAX),
    },
    MachineKnob {
        knob: knob(
            "swappiness",
            "60",
            "0 to 200: how strongly anonymous pages are preferred to file pages",
        ),
        turn: |machine, value| machine.swappiness = value,
        allowed: bounds(0, 200),
    },
    MachineKnob {
        knob: knob(
            "tick_ms",
            "the machine's",
            "length of the tick in which short waits and a kernel's pauses are counted, ms",
        ),
        turn: |machine, value| {
            machine.tick = Span::from_millis(value);
            machine.pause_tick = machine.tick;
        },
        allowed: bounds(1, 100),
    },
];

/// Divides the machine; listed here with the others, applied separately.
const SCALE: Knob = knob(
    "scale",
    "1",
    "divides all memory except the DMA zones, swap, and what workloads take from them",
);

/// Puts another file system on the main device.
const FILE_SYSTEM: Knob = knob(
    "file_system",
    "the machine's",
    "xfs, ext3, ext4, btrfs or ntfs on the machine's main device",
);

/// Most bytes of one call.
pub(crate) const MOST_BLOCK: u64 = 16 << 20;

/// Most processes of one kind, and most calls at once.
pub(crate) const MOST_PROCESSES: u64 = 10_000;

/// Knobs of workloads that cannot have every number. If 0 is allowed, it has a meaning of its own.
const OF_A_WORKLOAD: [(&str, Bounds); 23] = [
    // Nothing would be measured.
    ("seconds", bounds(1, u64::MAX)),
    ("iterations", bounds(1, u64::MAX)),
    ("memories", bounds(1, u64::MAX)),
    ("bytes", bounds(1, u64::MAX)),
    ("mapping", bounds(1, u64::MAX)),
    ("file_passes", bounds(1, u64::MAX)),
    ("anonymous_passes", bounds(1, u64::MAX)),
    ("block", bounds(1, MOST_BLOCK)),
    ("calls_at_once", bounds(1, MOST_PROCESSES)),
    ("jobs", bounds(1, MOST_PROCESSES)),
    ("writers", bounds(0, MOST_PROCESSES)),
    ("late_writers", bounds(0, MOST_PROCESSES)),
    ("processes", bounds(0, MOST_PROCESSES)),
    ("workers", bounds(0, MOST_PROCESSES)),
    // Those of the first step.
    ("most_workers", none_or_at_least(4)),
    ("readers", bounds(0, MOST_PROCESSES)),
    ("files_per_writer", bounds(0, MOST_PROCESSES)),
    ("subdirectories", bounds(1, 1_000_000)),
    ("files_per_subdirectory", bounds(1, u64::MAX)),
    ("requests_per_metadata", bounds(1, u64::MAX)),
    ("use_seconds", bounds(1, u64::MAX)),
    // Time would stand still between two reports.
    ("report_seconds", bounds(1, 86_400)),
    ("anonymous_percent", bounds(0, 100)),
];

/// Knobs of workloads that take words.
const WORDS_OF_A_WORKLOAD: [(&str, &[&str]); 1] =
    [("test", &["all", "fsmark", "simple-wb", "mmap-strm"])];

/// What is wrong with a knob.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KnobError {
    /// There is no such knob.
    #[error("there is no knob '{name}' for workload '{workload}'; there are: {known}")]
    Unknown {
        /// What was given.
        name: String,
        /// For which workload.
        workload: String,
        /// What there is.
        known: String,
    },
    /// It cannot have this value.
    #[error("knob {name}={value}: {allowed}")]
    Value {
        /// Its name.
        name: String,
        /// What was given.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// The machine would be impossible.
    #[error("{0}")]
    Machine(#[from] MachineError),
}

/// A workload's knobs as they stand in one run.
#[derive(Clone, Debug, Default)]
pub struct Knobs {
    values: BTreeMap<&'static str, String>,
    /// The divisor of the machine.
    pub scale: u64,
}

/// Every knob that belongs neither to a workload nor to a policy.
pub fn machine_knobs() -> Vec<Knob> {
    let mut knobs: Vec<Knob> = MACHINE_KNOBS.iter().map(|it| it.knob).collect();
    knobs.extend([SCALE, FILE_SYSTEM]);
    knobs
}

impl Knobs {
    /// Sorts `given`: applies the knobs of the machine and of the policy, and keeps the rest.
    ///
    /// # Errors
    /// [`KnobError`].
    pub fn resolve(
        given: &BTreeMap<String, String>,
        workload: &'static Workload,
        machine: &mut Machine,
        policy: &mut Policy,
    ) -> Result<Knobs, KnobError> {
        let usual = workload
            .knobs
            .iter()
            .map(|knob| (knob.name, knob.usual.to_owned()));
        let mut knobs = Knobs {
            values: usual.collect(),
            scale: 1,
        };
        for (name, value) in given {
            let own = workload.knobs.iter().find(|knob| knob.name == name);
            if let Some(knob) = own {
                if let Some((_, words)) = WORDS_OF_A_WORKLOAD.iter().find(|it| it.0 == name) {
                    one_of(name, value, words)?;
                } else {
                    let bounded = OF_A_WORKLOAD.iter().find(|(bounded, _)| bounded == name);
                    let allowed = bounded.map_or(bounds(0, u64::MAX), |(_, allowed)| *allowed);
                    within(name, value, allowed)?;
                }
                knobs.values.insert(knob.name, value.clone());
            } else if name == SCALE.name {
                knobs.scale = within(name, value, bounds(1, 1_024))?;
                *machine = machine.clone().scaled(knobs.scale)?;
            } else if name == FILE_SYSTEM.name {
                set_file_system(machine, value)?;
            } else if let Some(it) = MACHINE_KNOBS.iter().find(|it| it.knob.name == name) {
                (it.turn)(machine, within(name, value, it.allowed)?);
            } else {
                set_policy(workload, policy, name, value)?;
            }
        }
        if let Some(expects) = workload.expects {
            expects(&knobs, machine)?;
        }
        Ok(knobs)
    }

    /// Refuses 0 for `name`.
    pub(super) fn expect_one(&self, name: &str) -> Result<(), KnobError> {
        within(name, self.word(name), bounds(1, MOST_PROCESSES)).map(|_| ())
    }

    /// Refuses `name` unless it is less than `other`.
    pub(super) fn expect_less(&self, name: &str, other: &str) -> Result<(), KnobError> {
        if self.number(name) < self.number(other) {
            return Ok(());
        }
        let allowed = format!("less than {other}={}", self.word(other));
        Err(self.refused(name, &allowed))
    }

    /// The error that `name` cannot have its value.
    pub(super) fn refused(&self, name: &str, allowed: &str) -> KnobError {
        KnobError::Value {
            name: name.into(),
            value: self.word(name).into(),
            allowed: allowed.into(),
        }
    }

    /// The default values of `workload`, except for those that are `given`.
    pub(super) fn usual(
        workload: &'static Workload,
        given: &[(&'static str, u64)],
        scale: u64,
    ) -> Knobs {
        let usual = workload
            .knobs
            .iter()
            .map(|knob| (knob.name, knob.usual.to_owned()));
        let given = given.iter().map(|(name, value)| (*name, value.to_string()));
        Knobs {
            values: usual.chain(given).collect(),
            scale,
        }
    }

    /// The word that the knob `name` has, which the workload declares.
    ///
    /// # Panics
    /// If it declares none of that name.
    pub fn word(&self, name: &str) -> &str {
        let text = self.values.get(name);
        text.unwrap_or_else(|| panic!("the workload declares no knob '{name}'"))
    }

    /// The value of the knob `name`, which the workload declares.
    ///
    /// # Panics
    /// If it declares none of that name.
    pub fn number(&self, name: &str) -> u64 {
        number_of(name, self.word(name)).expect("values are checked when they are given")
    }
}

fn set_file_system(machine: &mut Machine, kind: &str) -> Result<(), KnobError> {
    let allowed = ["xfs", "ext3", "ext4", "btrfs", "ntfs"];
    one_of(FILE_SYSTEM.name, kind, &allowed)?;
    let main = &mut machine.storage.file_systems[0];
    if main.kind == NFS || main.kind == VOLUME {
        let allowed = format!(
            "the machine's main device is elsewhere, and its file system is {}",
            main.kind
        );
        return Err(KnobError::Value {
            name: FILE_SYSTEM.name.into(),
            value: kind.into(),
            allowed,
        });
    }
    main.kind = kind.into();
    Ok(())
}

/// Throws a switch of the policy.
fn set_policy(
    workload: &Workload,
    policy: &mut Policy,
    name: &str,
    value: &str,
) -> Result<(), KnobError> {
    if let Some(knob) = Policy::knobs().iter().find(|knob| knob.name == name) {
        let set = policy.set(&format!("{name}={value}"));
        return set.map_err(|_| KnobError::Value {
            name: name.into(),
            value: value.into(),
            allowed: knob.values.join(", "),
        });
    }
    let own = workload.knobs.iter().map(|knob| knob.name);
    let of_policy = Policy::knobs().iter().map(|knob| knob.name);
    let known: Vec<&str> = own
        .chain(machine_knobs().iter().map(|knob| knob.name))
        .chain(of_policy)
        .collect();
    Err(KnobError::Unknown {
        name: name.into(),
        workload: workload.name.into(),
        known: known.join(", "),
    })
}

/// A number, or a size as `512M`.
fn number_of(name: &str, text: &str) -> Result<u64, KnobError> {
    let number = text.parse::<u64>().or_else(|_| parse_size(text));
    number.map_err(|_| KnobError::Value {
        name: name.into(),
        value: text.into(),
        allowed: "a whole number, or a size as 512M".into(),
    })
}

fn one_of(name: &str, word: &str, allowed: &[&str]) -> Result<(), KnobError> {
    if allowed.contains(&word) {
        return Ok(());
    }
    Err(KnobError::Value {
        name: name.into(),
        value: word.into(),
        allowed: allowed.join(", "),
    })
}

fn within(name: &str, text: &str, allowed: Bounds) -> Result<u64, KnobError> {
    let number = number_of(name, text)?;
    let Bounds {
        least,
        most,
        or_none,
    } = allowed;
    if (least..=most).contains(&number) || or_none && number == 0 {
        return Ok(number);
    }
    let none = if or_none { "0 or " } else { "" };
    Err(KnobError::Value {
        name: name.into(),
        value: text.into(),
        allowed: match most {
            u64::MAX => format!("{none}at least {least}"),
            most => format!("{none}{least} to {most}"),
        },
    })
}
