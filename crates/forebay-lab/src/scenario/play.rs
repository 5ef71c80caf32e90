//! Playing a scenario: processes start and stop, devices change, levels are sampled.

use super::Scenario;
use super::known::latency_of;
use super::process::{Actor, note_latency};
use super::progress::Progress;
use super::sampling::Sampling;
use super::script::{Change, FilePlace};
use super::surroundings::Surroundings;
use crate::expect::RATE_OF_EACH;
use crate::probe::mean_and_deviation;
use crate::world::{Process, ProcessHandle, World, WorldError, WorldFile};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_rt::{Elapsed, Task};
use std::sync::Arc;

/// What is next in a scenario.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Measuring begins.
    Measure,
    /// Latencies and pauses begin to count.
    Latencies,
    Start(usize),
    Stop(usize),
    Event(usize),
}

/// Longest that the end waits for processes that were killed: one whose device stands still never
/// ends.
const LONGEST_DYING: Span = Span::from_secs(60);

/// A group that was killed.
struct Dying {
    group: usize,
    killed_at: Instant,
    /// When the last of its processes had ended.
    ended_at: Arc<Mutex<Option<Instant>>>,
    /// Ends once that is known.
    wait: Task,
}

/// A scenario under way.
struct Stage {
    world: World,
    script: Arc<Scenario>,
    progress: Arc<Progress>,
    files: Vec<WorldFile>,
    /// The processes of each group.
    cast: Vec<Vec<ProcessHandle>>,
    dying: Vec<Dying>,
    /// What each process of each group had moved when measuring began.
    before: Vec<Vec<u64>>,
    began: Instant,
    looks: Arc<Sampling>,
    /// The memory around the cache, if its budget gives way.
    surroundings: Option<Arc<Surroundings>>,
}

/// Plays `script` to its end.
pub(super) async fn play(
    world: World,
    script: Arc<Scenario>,
    progress: Arc<Progress>,
) -> Result<(), WorldError> {
    let files = open_shared(&world, &script).await?;
    let looks = Arc::new(Sampling::new(&world, &script, progress.clone()));
    drop(world.rt().spawn("looks", looks.clone().watch()));
    let surroundings = Surroundings::of(&world);
    if let Some(surroundings) = &surroundings {
        let watch = surroundings.clone().watch(world.clone());
        drop(world.rt().spawn("memory", watch));
    }
    let mut stage = Stage {
        began: world.now(),
        surroundings,
        looks,
        cast: script.groups.iter().map(|_| Vec::new()).collect(),
        dying: Vec::new(),
        before: Vec::new(),
        files,
        world,
        progress,
        script,
    };
    for (at, step) in timetable(&stage.script) {
        stage.go_on_until(at).await?;
        stage.take(step)?;
    }
    stage.go_on_until(stage.script.length).await?;
    stage.end().await
}

/// Opens the files that processes share. They stay open while anything uses them.
async fn open_shared(world: &World, script: &Arc<Scenario>) -> Result<Vec<WorldFile>, WorldError> {
    let opened = Arc::new(Mutex::new(Vec::new()));
    let (script, into) = (script.clone(), opened.clone());
    let opener = world.spawn("opener", |process| async move {
        for file in &script.files {
            let file_system = process.world().file_system(&file.file_system)?;
            let file = process.open_old(file_system, &file.name, file.length_bytes);
            let file = file.await?;
            lock(&into).push(file);
        }
        Ok(())
    });
    opener.wait().await?;
    let files = std::mem::take(&mut *lock(&opened));
    Ok(files)
}

/// Everything that happens, in order; events at one time are in the order of the file.
fn timetable(script: &Scenario) -> Vec<(Span, Step)> {
    let mut steps = vec![(script.warm_up, Step::Measure)];
    if script.latencies_from > script.warm_up {
        steps.push((script.latencies_from, Step::Latencies));
    }
    for (number, group) in script.groups.iter().enumerate() {
        steps.push((group.start, Step::Start(number)));
        steps.extend(group.stop.map(|stop| (stop, Step::Stop(number))));
    }
    let events = script.events.iter().enumerate();
    steps.extend(events.map(|(number, event)| (event.at, Step::Event(number))));
    steps.sort_by_key(|(at, _)| *at);
    steps
}

/// Waits until all processes that were killed have ended, and notes when the last did.
async fn wait_for_all(
    world: World,
    handles: Vec<ProcessHandle>,
    ended_at: Arc<Mutex<Option<Instant>>>,
) {
    let mut last = Instant::ZERO;
    for handle in handles {
        // Errors of a process that was killed already do not matter.
        let ended = handle.wait_for_time().await;
        last = last.max(ended.unwrap_or_else(|_| world.now()));
    }
    *lock(&ended_at) = Some(last);
}

impl Stage {
    /// Waits until the scenario has run for this long, or a process cannot go on.
    async fn go_on_until(&self, at: Span) -> Result<(), WorldError> {
        let rest = at.saturating_sub(self.world.now() - self.began);
        if rest == Span::ZERO {
            return Ok(());
        }
        let failure = self.progress.failure();
        match self.world.rt().timeout(rest, failure).await {
            Ok(error) => Err(error),
            Err(Elapsed) => Ok(()),
        }
    }

    fn take(&mut self, step: Step) -> Result<(), WorldError> {
        match step {
            Step::Measure => {
                self.before = self.moved();
                self.world.open_window();
            }
            Step::Latencies => self.world.begin_latencies(),
            Step::Start(group) => self.start(group),
            Step::Stop(group) => self.kill(group),
            Step::Event(number) => self.change(number)?,
        }
        Ok(())
    }

    fn moved(&self) -> Vec<Vec<u64>> {
        let groups = 0..self.script.groups.len();
        groups.map(|group| self.progress.of_group(group)).collect()
    }

    fn start(&mut self, number: usize) {
        let group = &self.script.groups[number];
        let measured_from = self.began + self.script.latencies_from;
        for place in 0..group.count as usize {
            let (name, progress) = (group.name.clone(), self.progress.clone());
            let action = group.action.clone();
            let shared = match action.place() {
                Some(FilePlace::Shared(file)) => Some(&self.files[*file]),
                _ => None,
            };
            let is_bound = group.is_bound;
            let body = |process: Process| {
                let process = process.called(&name);
                let process = if is_bound { process.bound() } else { process };
                let file = shared.map(|file| file.for_process(&process));
                let actor = Actor {
                    process,
                    group: number,
                    name,
                    number: place,
                    progress,
                    measured_from,
                };
                actor.act(action, file)
            };
            let handle = self.world.spawn_on(group.node, "process", body);
            self.cast[number].push(handle);
        }
    }

    /// Kills a group. Its processes end when they can; this does not wait for them.
    fn kill(&mut self, group: usize) {
        let handles = std::mem::take(&mut self.cast[group]);
        if handles.is_empty() {
            return;
        }
        self.report_pending(group);
        self.progress.end_group(group);
        handles.iter().for_each(ProcessHandle::kill);
        let ended_at = Arc::new(Mutex::new(None));
        let wait = wait_for_all(self.world.clone(), handles, ended_at.clone());
        self.dying.push(Dying {
            group,
            killed_at: self.world.now(),
            ended_at,
            wait: self.world.rt().spawn("kill", wait),
        });
    }

    /// Waits for the killed processes, and records how long each group took; if a group has not
    /// ended within [`LONGEST_DYING`], the time until then.
    async fn see_them_end(&mut self) {
        let until = self.world.now() + LONGEST_DYING;
        for dying in std::mem::take(&mut self.dying) {
            let rest = until - self.world.now();
            // The time at which it ended shows whether it ended in time.
            let _ = self.world.rt().timeout(rest, dying.wait.join()).await;
            let ended_at = lock(&dying.ended_at).unwrap_or(self.world.now());
            let name = format!("time_to_kill@{}", self.script.groups[dying.group].name);
            let spent = ended_at - dying.killed_at;
            self.world.measures().figure(&name, spent.as_secs_f64());
        }
    }

    /// Calls under way count with their age, or calls that never return would not count at all. But
    /// only calls that are already longer than all that returned count, or every end would add
    /// calls that look shorter than they are.
    fn report_pending(&self, number: usize) {
        let group = &self.script.groups[number];
        let Some(latency) = latency_of(&group.action) else {
            return;
        };
        let (now, measured_from) = (self.world.now(), self.began + self.script.latencies_from);
        let longest = self.progress.longest_call(number);
        for place in 0..group.count as usize {
            if let Some(began) = self.progress.end_call(number, place)
                && now >= measured_from
                && now - began > longest
            {
                note_latency(&self.world, latency, &group.name, now - began);
            }
        }
    }

    fn change(&mut self, number: usize) -> Result<(), WorldError> {
        let script = self.script.clone();
        match &script.events[number].what {
            Change::Kill(group) => self.kill(*group),
            Change::Rate { device, rate } => self.world.set_device_rate(device, *rate)?,
            Change::Pace {
                device,
                thousandths,
            } => self.world.set_device_pace(device, *thousandths)?,
            Change::Fault { file_system, fault } => {
                self.world.set_fault(file_system, Some(fault.clone()))?;
            }
            Change::Mend { file_system } => self.world.set_fault(file_system, None)?,
            Change::Memory(change) => {
                let now = self.world.now();
                let around = self.surroundings.iter();
                around.for_each(|around| around.change(*change, now));
            }
            Change::Tune(changes) => {
                self.world.cache().retune(changes)?;
            }
        }
        Ok(())
    }

    /// Measuring ends, rates are recorded, and all processes are killed before any is waited for.
    async fn end(mut self) -> Result<(), WorldError> {
        self.looks.last();
        self.world.close_window();
        let end = self.script.length;
        for (number, group) in self.script.groups.iter().enumerate() {
            let from = self.script.warm_up.max(self.progress.starts_at(number));
            let until = ends_at(&self.script, number).unwrap_or(end);
            let spent_s = until.saturating_sub(from).as_secs_f64();
            if spent_s > 0.0 {
                self.report(number, &group.name, spent_s);
            }
        }
        for group in 0..self.cast.len() {
            self.kill(group);
        }
        self.see_them_end().await;
        Ok(())
    }

    fn report(&self, group: usize, name: &str, spent_s: f64) {
        let measures = self.world.measures();
        if let Some(lost) = self.progress.turns_lost(group) {
            measures.figure(&format!("turns_lost@{name}"), lost as f64);
        }
        let now = self.progress.of_group(group);
        let moved = now.iter().zip(&self.before[group]);
        let rates: Vec<f64> = moved
            .map(|(now, before)| (now - before) as f64 / spent_s)
            .collect();
        for rate in &rates {
            measures.sample(&format!("{RATE_OF_EACH}@{name}"), "bytes/s", *rate);
        }
        measures.figure(&format!("bytes_per_s@{name}"), rates.iter().sum());
        let (mean, deviation) = mean_and_deviation(&rates);
        let spread = format!("bytes_per_s_coeffvar@{name}");
        measures.figure(&spread, deviation / mean.max(1e-9));
    }
}

/// When the processes of a group are killed before the end, by `stop_s` or by an event.
fn ends_at(script: &Scenario, number: usize) -> Option<Span> {
    let group = &script.groups[number];
    // A process that has not started cannot be killed.
    let kills = script.events.iter().filter(|event| {
        matches!(event.what, Change::Kill(killed) if killed == number) && event.at >= group.start
    });
    kills.map(|event| event.at).chain(group.stop).min()
}

#[cfg(test)]
#[path = "play_tests.rs"]
mod tests;
