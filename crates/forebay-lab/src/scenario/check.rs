//! From a scenario's text to what it does; everything impossible is refused with its line.

use super::capacity::{self, Unfit};
use super::error::{ScenarioError, Source};
use super::script::{Access, AccessRate, Action, FilePlace, Group, Hog, SharedFile};
use super::text::{AccessText, FileText, MachineChoice, MemoryText, ProcessText, ScenarioText};
use super::{Scenario, known};
use crate::expect::Names;
use crate::machine::{Machine, explained_in};
use crate::workload::{MOST_BLOCK, MOST_PROCESSES};
use forebay_base::Span;
use forebay_kernels::Policy;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use toml::Spanned;

/// Longest simulated time of a scenario: a day.
const LONGEST_S: f64 = 86_400.0;

/// Most rows of a series.
const MOST_ROWS: f64 = 100_000.0;

/// The bytes of one call if the text does not say.
const SEQUENTIAL_BLOCK: u64 = 64 << 10;
const RANDOM_BLOCK: u64 = 4 << 10;

/// The rest of a hog that has touched all its memory, and the longest: an hour.
const HOG_REST_MS: u64 = 10;
const MOST_REST_MS: u64 = 3_600_000;

pub(super) type Checked<T> = Result<T, ScenarioError>;

/// What names of the text stand for.
pub(super) struct Checker<'a> {
    pub(super) source: Source<'a>,
    pub(super) machine: Machine,
    pub(super) length_s: f64,
    files: Vec<SharedFile>,
}

/// The scenario that `text` describes.
pub(super) fn parse(text: &str) -> Checked<Scenario> {
    let source = Source(text);
    let parsed: ScenarioText = toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        source.wrong(offset, explained_in(text, offset, error.message()))
    })?;
    let machine = machine(&parsed.machine, &source)?;
    let length_s = within(&source, "length_s", &parsed.length_s, 0.1..=LONGEST_S)?;
    let mut checker = Checker {
        source,
        machine,
        length_s,
        files: Vec::new(),
    };
    let files = parsed.files.iter().map(|file| checker.file(file));
    let files: Vec<SharedFile> = files.collect::<Checked<_>>()?;
    for (number, file) in files.iter().enumerate() {
        if files[..number].iter().any(|other| other.name == file.name) {
            let problem = format!("there are two files called '{}'; one is allowed", file.name);
            let start = parsed.files[number].span().start;
            return Err(checker.source.wrong_field(start, "name", problem));
        }
    }
    checker.files = files;
    checker.scenario(&parsed)
}

fn machine(choice: &Spanned<MachineChoice>, source: &Source<'_>) -> Checked<Machine> {
    let machine = match choice.get_ref() {
        MachineChoice::Named(name) => Machine::named(name),
        MachineChoice::Spelled(spelled) => spelled.check(source.0),
    };
    machine.map_err(|error| source.machine(choice.span().start, error))
}

fn within(
    source: &Source<'_>,
    what: &str,
    given: &Spanned<f64>,
    allowed: RangeInclusive<f64>,
) -> Checked<f64> {
    let value = *given.get_ref();
    if allowed.contains(&value) {
        return Ok(value);
    }
    let (least, most) = (allowed.start(), allowed.end());
    let problem = format!("{what} is {value}; {least} to {most} are allowed");
    Err(source.wrong(given.span().start, problem))
}

/// What a process reads or writes, as the text says it.
struct GivenAccess {
    name: &'static str,
    text: AccessText,
    writes: bool,
    at_random: bool,
}

impl Checker<'_> {
    fn scenario(&self, parsed: &ScenarioText) -> Checked<Scenario> {
        let warm_up = self.warm_up(parsed)?;
        let latencies_from = self.latencies_from(parsed, warm_up)?;
        let mut groups: Vec<Group> = Vec::new();
        for process in &parsed.processes {
            let group = self.group(process)?;
            if groups.iter().any(|other| other.name == group.name) {
                let problem = format!("there are two processes called '{}'", group.name);
                return Err(self
                    .source
                    .wrong_field(process.span().start, "name", problem));
            }
            groups.push(group);
        }
        let knobs = self.knobs(&parsed.set)?;
        self.expect_room(parsed, &knobs, &groups)?;
        let events = parsed.events.iter().map(|event| self.event(event, &groups));
        let mut scenario = Scenario {
            name: parsed.name.clone(),
            summary: parsed.summary.clone(),
            policy: self.policy(parsed)?,
            seed: parsed.seed,
            knobs,
            machine: self.machine.clone(),
            length: span_of(self.length_s),
            warm_up,
            latencies_from,
            sample: self.sample(parsed)?,
            sampled: Vec::new(),
            files: self.files.clone(),
            events: events.collect::<Checked<_>>()?,
            groups,
            faulty: Vec::new(),
            expectations: Vec::new(),
        };
        let struck = scenario
            .events
            .iter()
            .filter_map(|event| event.what.struck());
        scenario.faulty = struck.cloned().collect();
        let names = Names {
            columns: known::columns(&scenario),
            unit_of: known::unit_of,
            figures: known::figures(),
            figures_of_groups: &known::OF_A_GROUP,
            groups: scenario.groups.iter().map(|it| it.name.clone()).collect(),
            distributions: known::distributions(&scenario),
            stores: self.file_system_names(),
            length_s: self.length_s,
        };
        for column in &parsed.sampled {
            if !names.columns.contains(column.get_ref()) {
                let (at, name) = (column.span().start, column.get_ref());
                return Err(self.source.unknown(at, "column", name, &names.columns));
            }
            scenario.sampled.push(column.get_ref().clone());
        }
        let expect = parsed.expect.iter();
        let expect = expect.map(|it| it.get_ref().check(it.span().start, &self.source, &names));
        scenario.expectations = expect.collect::<Checked<_>>()?;
        Ok(scenario)
    }

    /// When measuring begins: before the end, or nothing is measured.
    fn warm_up(&self, parsed: &ScenarioText) -> Checked<Span> {
        let Some(given) = &parsed.warm_up_s else {
            return Ok(Span::ZERO);
        };
        let (warm_up_s, length_s) = (*given.get_ref(), self.length_s);
        if (0.0..length_s).contains(&warm_up_s) {
            return Ok(span_of(warm_up_s));
        }
        let problem = format!(
            "warm_up_s is {warm_up_s}; 0 to less than the length of {length_s} s is allowed"
        );
        Err(self.source.wrong(given.span().start, problem))
    }

    /// When latencies and pauses begin to count: not before the rest.
    fn latencies_from(&self, parsed: &ScenarioText, warm_up: Span) -> Checked<Span> {
        let Some(given) = &parsed.latencies_from_s else {
            return Ok(warm_up);
        };
        let (from_s, least_s, length_s) = (*given.get_ref(), warm_up.as_secs_f64(), self.length_s);
        if (least_s..length_s).contains(&from_s) {
            return Ok(span_of(from_s));
        }
        let problem = format!(
            "latencies_from_s is {from_s}; from warm_up_s, {least_s}, to less than the length of \
             {length_s} s is allowed"
        );
        Err(self.source.wrong(given.span().start, problem))
    }

    /// Checks that the machine, changed by its own `knobs`, has room for its files and its memory.
    fn expect_room(
        &self,
        parsed: &ScenarioText,
        knobs: &BTreeMap<String, String>,
        groups: &[Group],
    ) -> Checked<()> {
        let machine = known::turned(&self.machine, knobs).map_err(|problem| {
            let first = parsed.set.values().next();
            let start = first.map_or(0, |value| value.span().start);
            self.source.wrong(start, problem)
        })?;
        let fits = capacity::expect_room(&machine, &self.files, groups);
        fits.map_err(|(unfit, problem)| match unfit {
            Unfit::File(number) => {
                let start = parsed.files[number].span().start;
                self.source.wrong_field(start, "size", problem)
            }
            Unfit::Group(number) => {
                let start = parsed.processes[number].span().start;
                let name = &groups[number].name;
                let problem = format!("process '{name}': {problem}");
                self.source
                    .wrong_field(start, groups[number].field(), problem)
            }
        })
    }

    fn policy(&self, parsed: &ScenarioText) -> Checked<String> {
        let Some(given) = &parsed.policy else {
            return Ok("forebay".into());
        };
        let name = given.get_ref();
        if Policy::preset(name).is_some() {
            return Ok(name.clone());
        }
        let known: Vec<String> = Policy::presets().into_iter().map(Into::into).collect();
        Err(self
            .source
            .unknown(given.span().start, "policy", name, &known))
    }

    /// Knobs of the machine and the policy; each is tried by itself, to find the line that is
    /// wrong.
    fn knobs(
        &self,
        given: &BTreeMap<String, Spanned<toml::Value>>,
    ) -> Checked<BTreeMap<String, String>> {
        let mut knobs = BTreeMap::new();
        for (name, value) in given {
            let text = match value.get_ref() {
                toml::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            known::try_knob(&self.machine, name, &text)
                .map_err(|problem| self.source.wrong(value.span().start, problem))?;
            knobs.insert(name.clone(), text);
        }
        Ok(knobs)
    }

    /// How often levels are sampled: a divisor of a second, so that samples fall on the seconds at
    /// which every run is sampled.
    fn sample(&self, parsed: &ScenarioText) -> Checked<Span> {
        let Some(given) = &parsed.sample_ms else {
            return Ok(Span::from_secs(1));
        };
        let ms = *given.get_ref();
        let allowed = (10..=1_000).contains(&ms) && 1_000 % ms == 0;
        if allowed && self.length_s * 1e3 / ms as f64 <= MOST_ROWS {
            return Ok(Span::from_millis(ms));
        }
        let problem = format!(
            "sample_ms is {ms}; a whole part of 1000 from 10 on is allowed, and {MOST_ROWS} \
             samples in all"
        );
        Err(self.source.wrong(given.span().start, problem))
    }

    fn file(&self, file: &Spanned<FileText>) -> Checked<SharedFile> {
        let (start, file) = (file.span().start, file.get_ref());
        if file.size.0 < RANDOM_BLOCK {
            let problem = "a file that processes share has at least 4K";
            return Err(self.source.wrong_field(start, "size", problem));
        }
        Ok(SharedFile {
            name: file.name.clone(),
            length_bytes: file.size.0,
            file_system: self.file_system(start, file.file_system.as_ref())?,
        })
    }

    fn group(&self, process: &Spanned<ProcessText>) -> Checked<Group> {
        let (start, process) = (process.span().start, process.get_ref());
        let refuse = |field: &str, problem: String| self.source.wrong_field(start, field, problem);
        if !(1..=MOST_PROCESSES).contains(&process.count) {
            let problem = format!(
                "count is {}; 1 to {MOST_PROCESSES} are allowed",
                process.count
            );
            return Err(refuse("count", problem));
        }
        let nodes = self.machine.memory.nodes.len();
        if process.node >= nodes {
            let most = nodes - 1;
            let problem = format!("node is {}; 0 to {most} are allowed", process.node);
            return Err(refuse("node", problem));
        }
        if process.bound && self.machine.memory.managed_pages_of(process.node) == 0 {
            let problem = format!("bound to node {}, which has no memory", process.node);
            return Err(refuse("bound", problem));
        }
        let begin = self.time(start, "start_s", process.start_s)?;
        let stop = process.stop_s.map(|stop| self.time(start, "stop_s", stop));
        let stop = stop.transpose()?;
        if stop.is_some_and(|stop| stop <= begin) {
            return Err(refuse("stop_s", "stop_s lies after start_s".into()));
        }
        Ok(Group {
            name: process.name.clone(),
            count: process.count,
            start: begin,
            stop,
            node: process.node,
            is_bound: process.bound,
            action: self.action(start, process)?,
        })
    }

    fn action(&self, start: usize, process: &ProcessText) -> Checked<Action> {
        let access = [
            ("writes", process.writes, true, false),
            ("writes_randomly", process.writes_randomly, true, true),
            ("reads", process.reads, false, false),
            ("reads_randomly", process.reads_randomly, false, true),
        ];
        let memory = [
            ("hogs", process.hogs),
            ("pins", process.pins),
            ("maps", process.maps),
        ];
        let mut actions = Vec::new();
        for (name, text, writes, at_random) in access {
            if let Some(text) = text {
                let given = GivenAccess {
                    name,
                    text,
                    writes,
                    at_random,
                };
                let access = self.access(start, process, &given)?;
                actions.push(Action::Access(access));
            }
        }
        for (name, text) in memory {
            if let Some(text) = text {
                actions.push(self.memory(start, process, name, text)?);
            }
        }
        if let (Some(action), true) = (actions.pop(), actions.is_empty()) {
            return Ok(action);
        }
        let problem = format!(
            "process '{}' does one of writes, writes_randomly, reads, reads_randomly, hogs, pins \
             and maps",
            process.name
        );
        Err(self.source.wrong_field(start, "name", problem))
    }

    fn access(&self, start: usize, process: &ProcessText, given: &GivenAccess) -> Checked<Access> {
        let GivenAccess {
            name,
            ref text,
            writes,
            at_random,
        } = *given;
        let refuse = |field: &str, problem: &str| {
            let problem = format!("process '{}': {problem}", process.name);
            self.source.wrong_field(start, field, problem)
        };
        let usual = if at_random {
            RANDOM_BLOCK
        } else {
            SEQUENTIAL_BLOCK
        };
        let block_bytes = text.block.map_or(usual, |size| size.0);
        if !(1..=MOST_BLOCK).contains(&block_bytes) {
            return Err(refuse(name, "block is 1 byte to 16M"));
        }
        if text.rate.is_some_and(|rate| rate.0 == 0) {
            return Err(refuse(name, "rate is at least 1 byte a second"));
        }
        if text.loses_late_turns && text.rate.is_none() {
            let problem = "loses_late_turns is for one with a rate: its turns have times";
            return Err(refuse(name, problem));
        }
        if text.sync_every.is_some_and(|size| size.0 == 0 || !writes) {
            let problem = "sync_every is for one that writes, and at least 1 byte";
            return Err(refuse(name, problem));
        }
        let place = if let Some(file) = &process.file {
            if text.size.is_some() || process.file_system.is_some() {
                return Err(refuse(
                    "file",
                    "a file of [[files]] has its own size and file_system",
                ));
            }
            FilePlace::Shared(self.shared_file(start, process, file)?)
        } else {
            FilePlace::Own {
                file_system: self.file_system(start, process.file_system.as_ref())?,
                length_bytes: text.size.map(|size| size.0),
            }
        };
        let length_bytes = match &place {
            FilePlace::Shared(number) => Some(self.files[*number].length_bytes),
            FilePlace::Own { length_bytes, .. } => *length_bytes,
        };
        match length_bytes {
            None if at_random || !writes => {
                Err(refuse(name, "size or file says how long the file is"))
            }
            Some(length) if length < block_bytes => {
                Err(refuse(name, "the file is at least as long as a block"))
            }
            _ => Ok(Access {
                writes,
                at_random,
                block_bytes,
                rate: text.rate.map(|rate| AccessRate {
                    bytes_per_s: rate.0,
                    loses_late_turns: text.loses_late_turns,
                }),
                place,
                sync_every_bytes: text.sync_every.map(|size| size.0),
                goes_on: text.goes_on,
            }),
        }
    }

    /// The number of the file of [[files]] that `process` uses.
    fn shared_file(&self, start: usize, process: &ProcessText, file: &str) -> Checked<usize> {
        let found = self.files.iter().position(|it| it.name == *file);
        found.ok_or_else(|| {
            let known: Vec<&str> = self.files.iter().map(|it| it.name.as_str()).collect();
            let (name, known) = (&process.name, known.join(", "));
            let problem =
                format!("process '{name}': there is no file '{file}'; there are: {known}");
            self.source.wrong_field(start, "file", problem)
        })
    }

    /// The file whose pages a process that pins holds.
    fn pinned(&self, start: usize, process: &ProcessText, length_bytes: u64) -> Checked<FilePlace> {
        let Some(file) = &process.file else {
            return Ok(FilePlace::Own {
                file_system: self.file_system(start, process.file_system.as_ref())?,
                length_bytes: Some(length_bytes),
            });
        };
        let number = self.shared_file(start, process, file)?;
        let most = self.files[number].length_bytes;
        if length_bytes <= most {
            return Ok(FilePlace::Shared(number));
        }
        let problem = format!(
            "process '{}': size is {length_bytes} bytes; file '{file}' has {most}",
            process.name
        );
        Err(self.source.wrong_field(start, "pins", problem))
    }

    fn memory(
        &self,
        start: usize,
        process: &ProcessText,
        name: &str,
        text: MemoryText,
    ) -> Checked<Action> {
        let refuse = |field: &str, problem: String| {
            let problem = format!("process '{}': {problem}", process.name);
            self.source.wrong_field(start, field, problem)
        };
        if process.file.is_some() && name != "pins" {
            return Err(refuse("file", format!("one that {name} has no file")));
        }
        if text.every_ms != 0 && name != "maps" {
            return Err(refuse(name, "every_ms is for one that maps".into()));
        }
        if (text.rest_ms.is_some() || text.rate.is_some()) && name != "hogs" {
            return Err(refuse(
                name,
                "rest_ms and rate are for one that hogs".into(),
            ));
        }
        let length_bytes = text.size.0;
        if length_bytes < RANDOM_BLOCK {
            let problem = format!("size is {length_bytes} bytes; at least 4K are allowed");
            return Err(refuse(name, problem));
        }
        Ok(match name {
            "hogs" => Action::Hog(hog(text).map_err(|problem| refuse(name, problem))?),
            "pins" => Action::Pin {
                length_bytes,
                place: self.pinned(start, process, length_bytes)?,
            },
            _ => Action::Map {
                length_bytes,
                every: Span::from_millis(text.every_ms.max(1)),
            },
        })
    }
}

/// How a hog keeps its memory in use.
fn hog(text: MemoryText) -> Result<Hog, String> {
    let rest_ms = text.rest_ms.unwrap_or(HOG_REST_MS);
    if !(1..=MOST_REST_MS).contains(&rest_ms) {
        return Err(format!(
            "rest_ms is {rest_ms}; 1 to {MOST_REST_MS} are allowed"
        ));
    }
    let rate = text.rate.map(|rate| AccessRate {
        bytes_per_s: rate.0,
        loses_late_turns: false,
    });
    if rate.is_some_and(|rate| rate.bytes_per_s == 0) {
        return Err("rate is 0; at least 1 byte a second is allowed".into());
    }
    Ok(Hog {
        length_bytes: text.size.0,
        rate,
        rest: Span::from_millis(rest_ms),
    })
}

pub(super) fn span_of(seconds: f64) -> Span {
    Span::from_nanos((seconds * 1e9).round() as u64)
}
