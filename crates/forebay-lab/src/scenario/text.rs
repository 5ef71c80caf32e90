//! The form of a scenario's text.

use crate::expect::ExpectationText;
use crate::machine::{MachineText, Size};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, de};
use std::collections::BTreeMap;
use std::fmt;
use toml::Spanned;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioText {
    pub(super) name: String,
    pub(super) summary: String,
    pub(super) policy: Option<Spanned<String>>,
    #[serde(default = "one")]
    pub(super) seed: u64,
    pub(super) length_s: Spanned<f64>,
    pub(super) warm_up_s: Option<Spanned<f64>>,
    pub(super) latencies_from_s: Option<Spanned<f64>>,
    pub(super) sample_ms: Option<Spanned<u64>>,
    #[serde(default)]
    pub(super) sampled: Vec<Spanned<String>>,
    pub(super) machine: Spanned<MachineChoice>,
    #[serde(default)]
    pub(super) set: BTreeMap<String, Spanned<toml::Value>>,
    #[serde(default)]
    pub(super) files: Vec<Spanned<FileText>>,
    pub(super) processes: Vec<Spanned<ProcessText>>,
    #[serde(default)]
    pub(super) events: Vec<Spanned<EventText>>,
    #[serde(default)]
    pub(super) expect: Vec<Spanned<ExpectationText>>,
}

fn one() -> u64 {
    1
}

/// A machine that ships, or one that is spelled out.
#[derive(Clone, Debug)]
pub(super) enum MachineChoice {
    Named(String),
    Spelled(Box<MachineText>),
}

/// Distinguishes the two without keeping the value, which would lose the positions of its parts.
impl<'de> Deserialize<'de> for MachineChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MachineChoice, D::Error> {
        struct NameOrTable;
        impl<'de> Visitor<'de> for NameOrTable {
            type Value = MachineChoice;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a machine, or a table [machine] that spells one out")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<MachineChoice, E> {
                Ok(MachineChoice::Named(name.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MachineChoice, A::Error> {
                let spelled = MachineText::deserialize(MapAccessDeserializer::new(map))?;
                Ok(MachineChoice::Spelled(Box::new(spelled)))
            }
        }
        deserializer.deserialize_any(NameOrTable)
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileText {
    pub(super) name: String,
    pub(super) size: Size,
    pub(super) file_system: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProcessText {
    pub(super) name: String,
    #[serde(default = "one")]
    pub(super) count: u64,
    #[serde(default)]
    pub(super) start_s: f64,
    pub(super) stop_s: Option<f64>,
    #[serde(default)]
    pub(super) node: usize,
    pub(super) file_system: Option<String>,
    pub(super) file: Option<String>,
    pub(super) writes: Option<AccessText>,
    pub(super) writes_randomly: Option<AccessText>,
    pub(super) reads: Option<AccessText>,
    pub(super) reads_randomly: Option<AccessText>,
    #[serde(default)]
    pub(super) bound: bool,
    pub(super) hogs: Option<MemoryText>,
    pub(super) pins: Option<MemoryText>,
    pub(super) maps: Option<MemoryText>,
}

/// How a file is written or read.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccessText {
    pub(super) block: Option<Size>,
    /// Bytes a second.
    pub(super) rate: Option<Size>,
    pub(super) size: Option<Size>,
    /// Bytes after which it syncs.
    pub(super) sync_every: Option<Size>,
    #[serde(default)]
    pub(super) goes_on: bool,
    /// A turn whose time has passed is left out.
    #[serde(default)]
    pub(super) loses_late_turns: bool,
}

/// How memory is used.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoryText {
    pub(super) size: Size,
    #[serde(default)]
    pub(super) every_ms: u64,
    /// Between two rounds of a hog.
    pub(super) rest_ms: Option<u64>,
    /// Bytes that a hog touches in a second.
    pub(super) rate: Option<Size>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventText {
    pub(super) at_s: f64,
    pub(super) kill: Option<String>,
    pub(super) rate: Option<RateText>,
    pub(super) pace: Option<PaceText>,
    pub(super) fault: Option<FaultText>,
    pub(super) mend: Option<String>,
    pub(super) memory: Option<SurroundingsText>,
    pub(super) tune: Option<TuneText>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RateText {
    pub(super) device: String,
    pub(super) bytes_per_s: Option<u64>,
    pub(super) operations_per_s: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PaceText {
    pub(super) device: String,
    pub(super) percent: u32,
}

/// What goes wrong in a file system.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultText {
    pub(super) file_system: String,
    pub(super) of: RequestsText,
    pub(super) delay_ms: Option<u64>,
    pub(super) answer: Option<AnswerText>,
}

/// The requests that go wrong.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RequestsText {
    Reads,
    Writes,
    Commits,
}

/// What is answered to them.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AnswerText {
    Error,
    Nothing,
}

/// The memory around an elastic cache.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SurroundingsText {
    pub(super) limit: Option<Size>,
    pub(super) others: Option<Size>,
    #[serde(default)]
    pub(super) over_s: f64,
}

/// Knobs that are turned.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TuneText {
    pub(super) memory: Option<Size>,
    pub(super) dirty_bytes: Option<Size>,
    pub(super) background_bytes: Option<Size>,
    pub(super) dirty_ratio: Option<u64>,
    pub(super) background_ratio: Option<u64>,
}
