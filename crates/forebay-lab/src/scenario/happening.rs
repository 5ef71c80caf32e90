//! What happens to a machine while a scenario runs: events, checked.

use super::check::{Checked, Checker};
use super::script::{Change, Group, Happening, MemoryChange};
use super::text::{
    AnswerText, EventText, FaultText, PaceText, RateText, RequestsText, SurroundingsText, TuneText,
};
use crate::device::DeviceSettings;
use crate::machine::{DeviceKind, Size};
use forebay_base::{PAGE_BYTES, Span};
use forebay_engine::Changes;
use forebay_store::{Failure, Fault, FaultAction, IoKind, Rate};
use toml::Spanned;

/// The longest delay of a request: an hour.
const LONGEST_DELAY_MS: u64 = 3_600_000;

/// The errno of a device that fails.
const EIO: i32 = 5;

impl Checker<'_> {
    pub(super) fn event(&self, event: &Spanned<EventText>, groups: &[Group]) -> Checked<Happening> {
        let (start, event) = (event.span().start, event.get_ref());
        let at = self.time(start, "at_s", event.at_s)?;
        let mut changes = Vec::new();
        if let Some(name) = &event.kill {
            changes.push(self.kill(start, name, groups)?);
        }
        if let Some(change) = &event.rate {
            changes.push(self.rate(start, change)?);
        }
        if let Some(change) = &event.pace {
            changes.push(self.pace(start, change)?);
        }
        if let Some(fault) = &event.fault {
            changes.push(self.fault(start, fault)?);
        }
        if let Some(name) = &event.mend {
            let file_system = self.file_system(start, Some(name))?;
            changes.push(Change::Mend { file_system });
        }
        if let Some(change) = &event.memory {
            changes.push(self.surroundings(start, change)?);
        }
        if let Some(knobs) = &event.tune {
            changes.push(self.tune(start, knobs)?);
        }
        let (Some(what), true) = (changes.pop(), changes.is_empty()) else {
            let problem = "an event is one of kill, rate, pace, fault, mend, memory and tune";
            return Err(self.source.wrong_field(start, "at_s", problem));
        };
        Ok(Happening { at, what })
    }

    fn kill(&self, start: usize, name: &str, groups: &[Group]) -> Checked<Change> {
        let found = groups.iter().position(|group| group.name == *name);
        let known: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let known = known.join(", ");
        let problem = format!("there is no process '{name}'; there are: {known}");
        let found = found.ok_or_else(|| self.source.wrong_field(start, "kill", problem));
        found.map(Change::Kill)
    }

    fn pace(&self, start: usize, change: &PaceText) -> Checked<Change> {
        self.device(start, "pace", &change.device)?;
        if change.percent > 1_000 {
            let problem = format!("percent is {}; 0 to 1000 are allowed", change.percent);
            return Err(self.source.wrong_field(start, "pace", problem));
        }
        Ok(Change::Pace {
            device: change.device.clone(),
            thousandths: change.percent * 10,
        })
    }

    fn fault(&self, start: usize, text: &FaultText) -> Checked<Change> {
        let kind = match text.of {
            RequestsText::Reads => IoKind::Read,
            RequestsText::Writes => IoKind::Write,
            RequestsText::Commits => IoKind::Commit,
        };
        let action = match (text.delay_ms, text.answer) {
            (Some(ms), None) if ms <= LONGEST_DELAY_MS => FaultAction::Delay(Span::from_millis(ms)),
            (None, Some(AnswerText::Error)) => FaultAction::Fail(Failure::Device(EIO)),
            (None, Some(AnswerText::Nothing)) => FaultAction::NeverAnswer,
            _ => {
                let problem = format!(
                    "a fault has one of delay_ms, up to {LONGEST_DELAY_MS}, and answer, which is \
                     error or nothing"
                );
                return Err(self.source.wrong_field(start, "fault", problem));
            }
        };
        Ok(Change::Fault {
            file_system: self.file_system(start, Some(&text.file_system))?,
            fault: Fault::each(kind, action),
        })
    }

    fn surroundings(&self, start: usize, text: &SurroundingsText) -> Checked<Change> {
        let refuse = |problem: &str| Err(self.source.wrong_field(start, "memory", problem));
        if self.machine.elastic.is_none() {
            return refuse("the machine has no elastic = { floor, group }: nobody looks");
        }
        if text.limit.is_none() && text.others.is_none() {
            return refuse("memory has limit, others or both");
        }
        if text.over_s != 0.0 && text.others.is_none() {
            return refuse("over_s is how long the others take for their memory");
        }
        Ok(Change::Memory(MemoryChange {
            limit_bytes: text.limit.map(|size| size.0),
            others_bytes: text.others.map(|size| size.0),
            over: self.time(start, "over_s", text.over_s)?,
        }))
    }

    fn tune(&self, start: usize, knobs: &TuneText) -> Checked<Change> {
        let refuse = |problem: String| Err(self.source.wrong_field(start, "tune", problem));
        let size = |size: &Option<Size>| size.as_ref().map(|size| size.0);
        let changes = Changes {
            memory_bytes: size(&knobs.memory),
            dirty_bytes: size(&knobs.dirty_bytes),
            background_bytes: size(&knobs.background_bytes),
            dirty_ratio_percent: knobs.dirty_ratio,
            background_ratio_percent: knobs.background_ratio,
            ..Changes::default()
        };
        if changes == Changes::default() {
            return refuse("tune turns at least one knob".into());
        }
        let most = self.machine.memory.all_managed_pages() * PAGE_BYTES as u64;
        if changes.memory_bytes.is_some_and(|bytes| bytes > most) {
            return refuse(format!(
                "memory is at most {most} bytes, those of the machine"
            ));
        }
        let ratios = [knobs.dirty_ratio, knobs.background_ratio];
        if ratios.into_iter().flatten().any(|percent| percent > 100) {
            return refuse("a ratio is 0 to 100 percent".into());
        }
        Ok(Change::Tune(changes))
    }

    fn device(&self, start: usize, field: &str, name: &str) -> Checked<&DeviceKind> {
        let devices = &self.machine.storage.devices;
        let found = devices.iter().find(|device| device.name == name);
        found.map(|device| &device.kind).ok_or_else(|| {
            let known: Vec<&str> = devices.iter().map(|it| it.name.as_str()).collect();
            let known = known.join(", ");
            let problem = format!("there is no device '{name}'; there are: {known}");
            self.source.wrong_field(start, field, problem)
        })
    }

    fn rate(&self, start: usize, change: &RateText) -> Checked<Change> {
        let kind = self.device(start, "rate", &change.device)?;
        let refuse = |problem: String| self.source.wrong_field(start, "rate", problem);
        let DeviceKind::Local(DeviceSettings::Rated(rated)) = kind else {
            let name = &change.device;
            return Err(refuse(format!(
                "device '{name}' is not rated; pace slows a device of any kind"
            )));
        };
        let rate = Rate {
            bytes_per_s: change.bytes_per_s.unwrap_or(rated.bytes_per_s),
            operations_per_s: change.operations_per_s.unwrap_or(rated.operations_per_s),
            burst_bytes: rated.burst_bytes,
        };
        if rate.bytes_per_s == 0 || rate.operations_per_s == 0 {
            let problem = "a rate is at least 1; pace with 0 percent stops a device";
            return Err(refuse(problem.into()));
        }
        Ok(Change::Rate {
            device: change.device.clone(),
            rate,
        })
    }
}
