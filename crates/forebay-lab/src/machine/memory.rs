//! Nodes and zones, and the settings of the engine for them (spec/workloads.md 4.2).

use forebay_base::units::pages_for;
use forebay_engine::settings::{NodeSettings, Watermarks, ZoneSettings};
use forebay_law::watermark::{self, MarkSpacing};

/// The most that is ever kept free.
const MIN_FREE_CAP_KIB: u64 = 64 << 10;

/// A zone below a request's own keeps one page for this many pages of the zones between.
const LOWMEM_RESERVE_RATIO: u64 = 256;

/// Pages of the smallest zone that the engine works in: its marks and two batches.
const SMALLEST_ZONE_PAGES: u64 = 128;

/// The zone that the kernel takes nothing from at boot, and that does not scale.
pub(crate) const DMA: &str = "DMA";

/// One zone of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// `DMA`, `DMA32`, `Normal`.
    pub name: String,
    /// Its size as booted.
    pub bytes: u64,
    /// What the kernel took of it at boot, unless that is its part of the machine's share.
    pub taken_bytes: Option<u64>,
    /// Its watermarks, unless they follow from the sizes.
    pub marks: Option<Watermarks>,
}

/// One node: zones in order of scarcity, the most preferred last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its zones.
    pub zones: Vec<Zone>,
}

/// All of a machine's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Its nodes.
    pub nodes: Vec<Node>,
    /// Taken by the kernel at boot, percent of all, none of it from `DMA`, nor from zones that say
    /// themselves what was taken.
    pub kernel_share_percent: u64,
    /// Whether marks lie at least a thousandth of the zone apart (4.6 and later).
    pub marks_scale: bool,
}

/// A cache whose budget gives way in a memory group that it shares with other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElasticPlan {
    /// The least budget.
    pub floor_bytes: u64,
    /// What the group may have at first.
    pub group_bytes: u64,
}

/// An impossible zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ZoneProblem {
    /// Its place among all zones, node by node.
    pub(super) number: usize,
    /// The field of its text that is wrong.
    pub(super) field: &'static str,
    /// What is wrong and what is allowed.
    pub(super) problem: String,
}

fn percent_of(bytes: u64, percent: u64) -> u64 {
    let part = u128::from(bytes) * u128::from(percent) / 100;
    u64::try_from(part).unwrap_or(u64::MAX)
}

impl Memory {
    /// All zones together, bytes.
    pub fn bytes(&self) -> u64 {
        self.zones().map(|zone| zone.bytes).sum()
    }

    /// Every zone, node by node.
    pub fn zones(&self) -> impl Iterator<Item = &Zone> {
        self.nodes.iter().flat_map(|node| &node.zones)
    }

    /// Divides every zone except `DMA` by `divisor`: some effects depend on the reserve that the
    /// small zone keeps from others.
    pub(crate) fn scale_down(&mut self, divisor: u64) {
        for zone in self.nodes.iter_mut().flat_map(|node| &mut node.zones) {
            if zone.name != DMA {
                zone.bytes /= divisor;
                zone.taken_bytes = zone.taken_bytes.map(|taken| taken / divisor);
            }
        }
    }

    /// Makes every zone except `DMA` `percent` of its size, in whole pages. Marks that are given
    /// stay.
    pub(crate) fn scale_by(&mut self, percent: u64) {
        for zone in self.nodes.iter_mut().flat_map(|node| &mut node.zones) {
            if zone.name != DMA {
                zone.bytes = percent_of(zone.bytes, percent);
                zone.taken_bytes = zone.taken_bytes.map(|taken| percent_of(taken, percent));
            }
        }
    }

    /// Pages of `zone` that are left after boot.
    fn managed_pages(&self, zone: &Zone) -> u64 {
        if let Some(taken_bytes) = zone.taken_bytes {
            return pages_for(zone.bytes.saturating_sub(taken_bytes));
        }
        if zone.name == DMA {
            return pages_for(zone.bytes);
        }
        let dma: u64 = self
            .zones()
            .filter(|zone| zone.name == DMA)
            .map(|zone| zone.bytes)
            .sum();
        let share = self.bytes() * self.kernel_share_percent / 100;
        let others = (self.bytes() - dma).max(1);
        let taken = u128::from(share) * u128::from(zone.bytes) / u128::from(others);
        pages_for(zone.bytes.saturating_sub(taken as u64))
    }

    /// Pages of the zones of node `number` that are left after boot.
    pub(crate) fn managed_pages_of(&self, number: usize) -> u64 {
        let zones = self.nodes[number].zones.iter();
        zones.map(|zone| self.managed_pages(zone)).sum()
    }

    /// Pages of all zones that are left after boot.
    pub fn all_managed_pages(&self) -> u64 {
        self.zones().map(|zone| self.managed_pages(zone)).sum()
    }

    /// The first zone that is too small to work in, or whose marks leave nothing of it.
    pub(super) fn wrong_zone(&self) -> Option<ZoneProblem> {
        self.zones().enumerate().find_map(|(number, zone)| {
            let (name, pages) = (&zone.name, self.managed_pages(zone));
            let (field, problem) = if zone.bytes > 0 && pages < SMALLEST_ZONE_PAGES {
                let problem = format!(
                    "zone '{name}' has {} bytes, {pages} pages after boot; none at all or at least \
                     {SMALLEST_ZONE_PAGES} pages are allowed",
                    zone.bytes
                );
                let is_said = zone.taken_bytes.is_some();
                (if is_said { "taken" } else { "size" }, problem)
            } else {
                let high = zone.marks.map(|marks| marks.high);
                let high = high.filter(|high| *high >= pages)?;
                let problem = format!(
                    "zone '{name}': high_pages is {high}; less than its {pages} pages after boot \
                     are allowed"
                );
                ("high_pages", problem)
            };
            Some(ZoneProblem {
                number,
                field,
                problem,
            })
        })
    }

    /// The engine's settings.
    pub(crate) fn settings(&self) -> Vec<NodeSettings> {
        let all_pages = self.all_managed_pages();
        let min_free_kib = watermark::min_free_kib(all_pages * 4, MIN_FREE_CAP_KIB);
        let spacing = if self.marks_scale {
            MarkSpacing::default()
        } else {
            MarkSpacing::Quarter
        };
        let of_zone = |zone: &Zone| {
            let managed = self.managed_pages(zone);
            let marks = watermark::watermarks(min_free_kib, managed, all_pages, spacing);
            ZoneSettings {
                name: zone.name.clone(),
                lowmem_reserve_ratio: LOWMEM_RESERVE_RATIO,
                managed_pages: Some(managed),
                marks: Some(zone.marks.unwrap_or(marks)),
                ..ZoneSettings::default()
            }
        };
        self.nodes
            .iter()
            .map(|node| NodeSettings {
                zones: node.zones.iter().map(of_zone).collect(),
            })
            .collect()
    }
}
