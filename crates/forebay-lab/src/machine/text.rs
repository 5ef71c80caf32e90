//! From the text of a machine to the machine, and what is refused on the way.

use super::Machine;
use super::base::complete;
use super::error::{MachineError, SourceLine, explained_in};
use super::form::{
    DeviceText, DirtyText, FileSystemText, MachineText, NodeText, SwapText, ZoneText,
};
use super::memory::{ElasticPlan, Memory, Node, Zone};
use super::ships::text_of;
use super::storage::{DeviceKind, DevicePlan, FileSystemPlan, Storage, SwapPlan, TWO_PAGES_BYTES};
use forebay_base::Span;
use forebay_base::units::pages_for;
use forebay_engine::settings::{DirtyKnobs, Watermarks};
use std::ops::RangeInclusive;
use toml::Spanned;

/// The engine has frames for it; sums of pages and percents of it fit in 64 bits.
const MOST_MEMORY_BYTES: u64 = 15 << 40;

/// The ticks of a machine whose text has none: those of the traces in spec/reclaim.md, and of the
/// vectors in spec/writeback.md.
const RECLAIM_TICK_MS: u64 = 4;
const PAUSE_TICK_MS: u64 = 1;

/// The engine's shadows have four bits for a zone.
const MOST_ZONES: usize = 16;
/// What a cache refuses, and a day.
const LEAST_AT_RISK_MS: u64 = 300;
const MOST_AT_RISK_MS: u64 = 86_400_000;

/// Reads the text of a machine.
pub(super) fn parse(text: &str) -> Result<Machine, MachineError> {
    let parsed: MachineText = toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        wrong(
            SourceLine::of_offset(text, offset),
            explained_in(text, offset, error.message()),
        )
    })?;
    parsed.check(text)
}

fn wrong(place: SourceLine, problem: impl Into<String>) -> MachineError {
    MachineError::Text {
        place,
        problem: problem.into(),
    }
}

/// The text around a value, to say where it is.
struct Checker<'a> {
    text: &'a str,
}

impl Checker<'_> {
    /// A number that the text gives, or `usual` if it gives none.
    fn within(
        &self,
        what: &str,
        value: Option<&Spanned<u64>>,
        usual: u64,
        allowed: RangeInclusive<u64>,
    ) -> Result<u64, MachineError> {
        let Some(value) = value else {
            return Ok(usual);
        };
        let given = *value.get_ref();
        if allowed.contains(&given) {
            return Ok(given);
        }
        let (least, most) = (allowed.start(), allowed.end());
        let problem = format!("{what} is {given}; {least} to {most} are allowed");
        Err(wrong(
            SourceLine::of_offset(self.text, value.span().start),
            problem,
        ))
    }

    /// Refuses the second of two tables, each with its start and name, that have the same name.
    fn different<'b>(
        &self,
        what: &str,
        tables: impl IntoIterator<Item = (usize, &'b str)>,
    ) -> Result<(), MachineError> {
        let mut seen = std::collections::BTreeSet::new();
        for (start, name) in tables {
            if !seen.insert(name) {
                let problem = format!("there are two {what} called '{name}'; one is allowed");
                return Err(self.field(start, "name", problem));
            }
        }
        Ok(())
    }

    fn field(&self, table_start: usize, field: &str, problem: String) -> MachineError {
        wrong(SourceLine::of_field(self.text, table_start, field), problem)
    }
}

impl MachineText {
    /// The machine of this text; `text` is what it was read from, to say where something is
    /// wrong.
    ///
    /// # Errors
    /// [`MachineError::Text`] with the line and what is allowed.
    pub fn check(&self, text: &str) -> Result<Machine, MachineError> {
        complete(self.clone(), text, text_of)?.check_whole(&Checker { text })
    }

    fn check_whole(&self, checker: &Checker<'_>) -> Result<Machine, MachineError> {
        let processors = given("processors", self.processors.as_ref())?;
        let share = self.kernel_share_percent.as_ref();
        let tick_ms = |usual| checker.within("tick_ms", self.tick_ms.as_ref(), usual, 1..=100);
        let at_risk = self.at_risk_ms.as_ref().map(|given| {
            let allowed = LEAST_AT_RISK_MS..=MOST_AT_RISK_MS;
            let checked = checker.within("at_risk_ms", Some(given), 0, allowed);
            checked.map(Span::from_millis)
        });
        let costs = *given("costs", self.costs.as_ref())?;
        let memory = self.memory(
            checker.within("kernel_share_percent", share, 3, 0..=90)?,
            checker,
        )?;
        Ok(Machine {
            name: self.name.clone(),
            summary: self.summary.clone(),
            processors: checker.within("processors", Some(processors), 1, 1..=1024)? as usize,
            costs,
            costs_percent: 100,
            tick: Span::from_millis(tick_ms(RECLAIM_TICK_MS)?),
            pause_tick: Span::from_millis(tick_ms(PAUSE_TICK_MS)?),
            swappiness: checker.within("swappiness", self.swappiness.as_ref(), 60, 0..=200)?,
            at_risk: at_risk.transpose()?,
            elastic: self.elastic(&memory, checker)?,
            dirty: self.dirty.clone().unwrap_or_default().check(checker)?,
            memory,
            storage: self.storage(checker)?,
        })
    }

    fn elastic(
        &self,
        memory: &Memory,
        checker: &Checker<'_>,
    ) -> Result<Option<ElasticPlan>, MachineError> {
        let Some(given) = &self.elastic else {
            return Ok(None);
        };
        let (floor_bytes, group_bytes) = (given.get_ref().floor.0, given.get_ref().group.0);
        let most = memory.bytes().min(group_bytes);
        if floor_bytes <= most {
            return Ok(Some(ElasticPlan {
                floor_bytes,
                group_bytes,
            }));
        }
        let problem = format!(
            "elastic has a floor of {floor_bytes} bytes; at most {most} are allowed, the memory \
             and the group"
        );
        let place = SourceLine::of_offset(checker.text, given.span().start);
        Err(wrong(place, problem))
    }

    fn memory(
        &self,
        kernel_share_percent: u64,
        checker: &Checker<'_>,
    ) -> Result<Memory, MachineError> {
        let nodes = given("nodes", self.nodes.as_ref())?;
        let memory = Memory {
            kernel_share_percent,
            marks_scale: self.marks_scale.unwrap_or(false),
            nodes: nodes
                .iter()
                .map(|node| check_node(node, checker))
                .collect::<Result<_, _>>()?,
        };
        let nowhere = |problem: &str| Err(wrong(SourceLine { line: 1 }, problem));
        let sizes = memory.zones().map(|zone| zone.bytes);
        match sizes.fold(0, u64::saturating_add) {
            0 => return nowhere("a machine has a node with a zone of memory"),
            bytes if bytes > MOST_MEMORY_BYTES => {
                return nowhere("all zones together are too large; up to 15T are allowed");
            }
            _ if memory.zones().count() > MOST_ZONES => {
                return nowhere("there are too many zones; up to 16 in all are allowed");
            }
            _ => {}
        }
        if let Some(wrong) = memory.wrong_zone() {
            let mut zones = nodes.iter().flat_map(|node| &node.get_ref().zones);
            let start = zones.nth(wrong.number).map_or(0, |zone| zone.span().start);
            return Err(checker.field(start, wrong.field, wrong.problem));
        }
        Ok(memory)
    }

    fn storage(&self, checker: &Checker<'_>) -> Result<Storage, MachineError> {
        let devices = given("devices", self.devices.as_ref())?;
        let systems = given("file_systems", self.file_systems.as_ref())?;
        let names = devices.iter();
        let names = names.map(|it| (it.span().start, it.get_ref().name.as_str()));
        checker.different("devices", names)?;
        let names = systems.iter();
        let names = names.map(|it| (it.span().start, it.get_ref().name.as_str()));
        checker.different("file systems", names)?;
        let devices = devices.iter().map(|it| device(it, checker));
        let devices: Vec<DevicePlan> = devices.collect::<Result<_, _>>()?;
        let find = |start: usize, name: &str| {
            let known: Vec<&str> = devices.iter().map(|it| it.name.as_str()).collect();
            known
                .iter()
                .position(|known| *known == name)
                .ok_or_else(|| {
                    let problem = format!(
                        "there is no device '{name}'; there are: {}",
                        known.join(", ")
                    );
                    checker.field(start, "device", problem)
                })
        };
        let swap = self.swap.as_ref().map(|swap| {
            let device = find(swap.span().start, &swap.get_ref().device)?;
            swap_on(swap, device, &devices[device], checker)
        });
        let swap = swap.transpose()?;
        let mut file_systems: Vec<FileSystemPlan> = Vec::new();
        for it in systems {
            let start = it.span().start;
            let FileSystemText { name, device, rest } = it.get_ref();
            let device = find(start, device)?;
            let plan = FileSystemPlan::read(name, device, rest)
                .and_then(|plan| plan.on(&devices[device]))
                .map_err(|(field, problem)| checker.field(start, &field, problem))?;
            if let Some(other) = file_systems.iter().find(|other| other.device == device) {
                let problem = format!(
                    "device '{}' has the file system '{}' already; one is allowed",
                    devices[device].name, other.name
                );
                return Err(checker.field(start, "device", problem));
            }
            file_systems.push(plan);
        }
        if file_systems.is_empty() {
            return Err(wrong(
                SourceLine { line: 1 },
                "a machine has at least one file system",
            ));
        }
        Ok(Storage {
            devices,
            swap,
            file_systems,
        })
    }
}

/// The value of a key that a machine or its base has.
fn given<'a, T>(key: &str, value: Option<&'a T>) -> Result<&'a T, MachineError> {
    value.ok_or_else(|| {
        let problem = format!("missing field `{key}`; a machine has it, or its base does");
        wrong(SourceLine { line: 1 }, problem)
    })
}

fn device(it: &Spanned<DeviceText>, checker: &Checker<'_>) -> Result<DevicePlan, MachineError> {
    let DeviceText { name, rest } = it.get_ref();
    DevicePlan::read(name, rest)
        .map_err(|(field, problem)| checker.field(it.span().start, &field, problem))
}

/// Swap on `device`, which has that number: at its end, so that the device has room for both.
fn swap_on(
    it: &Spanned<SwapText>,
    number: usize,
    device: &DevicePlan,
    checker: &Checker<'_>,
) -> Result<SwapPlan, MachineError> {
    let (start, bytes) = (it.span().start, it.get_ref().size.0);
    let DeviceKind::Local(settings) = &device.kind else {
        let problem =
            "swap lies on a device of the machine, not on a server or in a bucket".to_owned();
        return Err(checker.field(start, "device", problem));
    };
    let room_bytes = settings.capacity_bytes();
    if (TWO_PAGES_BYTES..=room_bytes).contains(&bytes) {
        let device = number;
        return Ok(SwapPlan { device, bytes });
    }
    let problem = format!(
        "swap has {bytes} bytes; 8K to the {room_bytes} bytes of device '{}' are allowed",
        device.name
    );
    Err(checker.field(start, "size", problem))
}

impl DirtyText {
    fn check(&self, checker: &Checker<'_>) -> Result<DirtyKnobs, MachineError> {
        let usual = DirtyKnobs::default();
        if let Some(limit) = &self.limit
            && (1..TWO_PAGES_BYTES).contains(&limit.get_ref().0)
        {
            let place = SourceLine::of_offset(checker.text, limit.span().start);
            let bytes = limit.get_ref().0;
            let problem = format!("limit is {bytes} bytes; 0, for none, or at least 8K is allowed");
            return Err(wrong(place, problem));
        }
        Ok(DirtyKnobs {
            dirty_ratio_percent: checker.within(
                "ratio_percent",
                self.ratio_percent.as_ref(),
                usual.dirty_ratio_percent,
                0..=100,
            )?,
            background_ratio_percent: checker.within(
                "background_percent",
                self.background_percent.as_ref(),
                usual.background_ratio_percent,
                0..=100,
            )?,
            dirty_bytes: self.limit.as_ref().map_or(0, |size| size.get_ref().0),
            background_bytes: self.background.map_or(0, |size| size.0),
        })
    }
}

fn check_node(node: &Spanned<NodeText>, checker: &Checker<'_>) -> Result<Node, MachineError> {
    let zones = &node.get_ref().zones;
    if zones.is_empty() {
        let problem = "a node has at least one zone; it may have 0 bytes".to_owned();
        return Err(checker.field(node.span().start, "zones", problem));
    }
    let names = zones.iter();
    let names = names.map(|it| (it.span().start, it.get_ref().name.as_str()));
    checker.different("zones of a node", names)?;
    let zones = zones.iter().map(|zone| check_zone(zone, checker));
    Ok(Node {
        zones: zones.collect::<Result<_, _>>()?,
    })
}

fn check_zone(zone: &Spanned<ZoneText>, checker: &Checker<'_>) -> Result<Zone, MachineError> {
    let start = zone.span().start;
    let zone = zone.get_ref();
    let bytes = zone.size.0;
    let marks = match (zone.min_pages, zone.low_pages, zone.high_pages) {
        (None, None, None) => None,
        (Some(min), Some(low), Some(high))
            if min <= low && low <= high && high < pages_for(bytes) =>
        {
            Some(Watermarks { min, low, high })
        }
        _ => {
            let problem = format!(
                "zone '{}': min_pages, low_pages and high_pages are given together, in this order, \
                 and high_pages is less than the zone",
                zone.name
            );
            return Err(checker.field(start, "min_pages", problem));
        }
    };
    Ok(Zone {
        name: zone.name.clone(),
        bytes,
        taken_bytes: zone.taken.map(|size| size.0),
        marks,
    })
}
