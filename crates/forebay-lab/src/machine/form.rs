//! The form of a machine's text: the keys that it may have.

use super::costs::Costs;
use crate::device::figures::whole_size;
use serde::{Deserialize, Deserializer};
use std::ops::Range;
use toml::Spanned;

/// A size in bytes, written as `512M` or as a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        whole_size(deserializer).map(Size)
    }
}

/// The form of a machine's text. A scenario may carry one as a table of its own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineText {
    /// Its name.
    pub name: String,
    /// One line that says what it is.
    #[serde(default)]
    pub summary: String,
    /// The machine that ships and has what this one leaves out.
    pub(super) base: Option<Spanned<String>>,
    pub(super) processors: Option<Spanned<u64>>,
    pub(super) costs: Option<Costs>,
    pub(super) tick_ms: Option<Spanned<u64>>,
    pub(super) kernel_share_percent: Option<Spanned<u64>>,
    pub(super) marks_scale: Option<bool>,
    pub(super) swappiness: Option<Spanned<u64>>,
    pub(super) at_risk_ms: Option<Spanned<u64>>,
    pub(super) elastic: Option<Spanned<ElasticText>>,
    pub(super) dirty: Option<DirtyText>,
    pub(super) nodes: Option<Vec<Spanned<NodeText>>>,
    pub(super) swap: Option<Spanned<SwapText>>,
    pub(super) devices: Option<Vec<Spanned<DeviceText>>>,
    pub(super) file_systems: Option<Vec<Spanned<FileSystemText>>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ElasticText {
    pub(super) floor: Size,
    pub(super) group: Size,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DirtyText {
    pub(super) ratio_percent: Option<Spanned<u64>>,
    pub(super) background_percent: Option<Spanned<u64>>,
    pub(super) limit: Option<Spanned<Size>>,
    pub(super) background: Option<Size>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeText {
    pub(super) zones: Vec<Spanned<ZoneText>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ZoneText {
    pub(super) name: String,
    pub(super) size: Size,
    pub(super) taken: Option<Size>,
    pub(super) min_pages: Option<u64>,
    pub(super) low_pages: Option<u64>,
    pub(super) high_pages: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SwapText {
    pub(super) device: String,
    pub(super) size: Size,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct DeviceText {
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) rest: toml::Table,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct FileSystemText {
    pub(super) name: String,
    pub(super) device: String,
    #[serde(flatten)]
    pub(super) rest: toml::Table,
}

impl MachineText {
    /// Takes what is missing here from `base`, as if it were in `line`.
    pub(super) fn take_over(&mut self, base: MachineText, line: &Range<usize>) {
        let number = |value: Option<Spanned<u64>>| value.map(|it| placed(line, it));
        self.processors = self.processors.take().or(number(base.processors));
        self.costs = self.costs.or(base.costs);
        self.tick_ms = self.tick_ms.take().or(number(base.tick_ms));
        let share = number(base.kernel_share_percent);
        self.kernel_share_percent = self.kernel_share_percent.take().or(share);
        self.marks_scale = self.marks_scale.or(base.marks_scale);
        self.swappiness = self.swappiness.take().or(number(base.swappiness));
        self.at_risk_ms = self.at_risk_ms.take().or(number(base.at_risk_ms));
        let elastic = base.elastic.map(|it| placed(line, it));
        self.elastic = self.elastic.take().or(elastic);
        self.dirty = self.dirty.take().or(base.dirty);
        self.nodes = self.nodes.take().or(base.nodes.map(|nodes| {
            let nodes = nodes.into_iter().map(|node| {
                let zones = node.into_inner().zones.into_iter();
                let zones = zones.map(|zone| placed(line, zone)).collect();
                Spanned::new(line.clone(), NodeText { zones })
            });
            nodes.collect()
        }));
        self.swap = self.swap.take().or(base.swap.map(|it| placed(line, it)));
        self.devices = self.devices.take().or(all_placed(line, base.devices));
        let file_systems = all_placed(line, base.file_systems);
        self.file_systems = self.file_systems.take().or(file_systems);
    }
}

/// `value` as if it were in `line`.
fn placed<T>(line: &Range<usize>, value: Spanned<T>) -> Spanned<T> {
    Spanned::new(line.clone(), value.into_inner())
}

fn all_placed<T>(line: &Range<usize>, tables: Option<Vec<Spanned<T>>>) -> Option<Vec<Spanned<T>>> {
    tables.map(|tables| tables.into_iter().map(|it| placed(line, it)).collect())
}
