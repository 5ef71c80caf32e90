//! The bench of the library: the main job on real files, by Forebay, by the kernel's page cache and
//! by the bare hardware, in turns, and a table of the results.

use crate::arguments::BenchArguments;
use crate::contender::{Phase, Preparation, Sample, Step, Who};
use crate::error::BenchError;
use crate::files::write_files;
use crate::json::{self, RowFile};
use crate::layout::Layout;
use crate::machine::machine;
use crate::memory_group::MemoryGroup;
use crate::phases::slow::SLOW_BYTES_PER_SECOND;
use crate::plan::{QUICK_LIMIT_MS, Stage, stages};
use crate::progress::Progress;
use crate::results::Results;
use crate::table::{self, Heading};
use crate::worker::{Setting, Worker};
use forebay_base::units::show_bytes;
use forebay_host::Interrupts;
use forebay_host::LoopDisk;
use forebay_host::Scratch;
use forebay_rt::thread::Stopwatch;
use std::io::{self, Write};

/// Seed of every choice of a bench: two benches with one budget use the same pages.
const SEED: u64 = 0x000f_0eba_0001;

const QUICK_REMARK: &str = "--quick: one short round of everything; neither the slow disk nor the \
                            cache of the zipf reader has settled";

/// Measures the library and prints the table.
pub(crate) fn run(arguments: &BenchArguments) -> Result<(), BenchError> {
    let watch = Stopwatch::start();
    let interrupts = Interrupts::listen()?;
    let row_file = RowFile::asked(arguments)?;
    let scratch = Scratch::create(&arguments.parent_folder)?;
    let layout = Layout::new(scratch.folder(), arguments.memory_bytes);
    scratch.check_room(layout.room_bytes())?;
    let setting = Setting {
        layout: &layout,
        folder: scratch.folder(),
        seed: SEED,
        interrupts: &interrupts,
    };
    let (heading, results) = measure(&setting, arguments, watch)?;
    io::stdout()
        .write_all(table::render(&heading, &results).as_bytes())
        .map_err(BenchError::system("print the table"))?;
    row_file.map_or(Ok(()), |file| {
        file.write(results.figures().iter().map(json::row))
    })
}

/// Writes the files and runs every stage for which there is time, as measured by `watch`.
fn measure(
    setting: &Setting<'_>,
    arguments: &BenchArguments,
    watch: Stopwatch,
) -> Result<(Heading, Results), BenchError> {
    let layout = setting.layout;
    let mut stages = stages(layout, arguments, setting.seed);
    let is_wanted = |phase: Phase| {
        let mut wanted = arguments.phases.iter();
        arguments.phases.is_empty() || wanted.any(|name| name == phase.word())
    };
    stages.retain(|stage| is_wanted(stage.phase));
    let runs: u64 = stages.iter().map(Stage::runs).sum();
    let progress = Progress::new(runs * Who::ALL.len() as u64);
    progress.begin(&format!(
        "writing {} into {}",
        show_bytes(layout.files().iter().map(|(_, bytes)| bytes).sum()),
        setting.folder.display()
    ));
    write_files(layout, setting.interrupts)?;
    let mut bench = Bench::start(setting, &progress)?;
    if arguments.quick {
        bench.heading.lines.push(QUICK_REMARK.to_owned());
    }
    for stage in &stages {
        let ends_ms = watch.elapsed().as_millis() + stage.least_ms();
        if arguments.quick && ends_ms > QUICK_LIMIT_MS {
            bench.leave_out(stage);
        } else {
            bench.run(stage)?;
        }
    }
    Ok((bench.heading, bench.results))
}

/// A bench that is running.
///
/// The fields end in their order. The slow disk is first, because a contender with pages for it
/// cannot end before its throttle is lifted. Then follow the contenders, and the cgroup once nobody
/// is in it.
struct Bench<'a> {
    slow_disk: Option<LoopDisk>,
    workers: Vec<(Who, Worker)>,
    group: Option<MemoryGroup>,
    /// The last state that the contenders were brought into.
    preparation: Option<Preparation>,
    setting: &'a Setting<'a>,
    progress: &'a Progress,
    heading: Heading,
    results: Results,
}

impl<'a> Bench<'a> {
    fn start(setting: &'a Setting<'a>, progress: &'a Progress) -> Result<Bench<'a>, BenchError> {
        let memory_bytes = setting.layout.memory_bytes();
        let group = MemoryGroup::create(memory_bytes);
        let in_group = match &group {
            Ok(group) => group.remark(memory_bytes),
            Err(reason) => format!("kernel: NOT in a cgroup, it uses all memory ({reason})"),
        };
        let mut workers = Vec::new();
        for who in Who::ALL {
            let its_group = group.as_ref().ok().filter(|_| who == Who::Kernel);
            workers.push((who, Worker::start(who, setting, its_group)?));
        }
        let heading = Heading {
            lines: vec![
                machine(),
                format!(
                    "budget {}, data {}, in {}",
                    show_bytes(memory_bytes),
                    show_bytes(setting.layout.data_bytes()),
                    setting.folder.display()
                ),
                in_group,
            ],
            phases: Vec::new(),
        };
        Ok(Bench {
            slow_disk: None,
            workers,
            group: group.ok(),
            preparation: None,
            setting,
            progress,
            heading,
            results: Results::default(),
        })
    }

    /// Brings all contenders into the stage's state, then lets them take turns.
    fn run(&mut self, stage: &Stage) -> Result<(), BenchError> {
        self.setting.interrupts.check()?;
        let notes = self.prepare(stage)?;
        self.note(stage.phase, notes);
        let watch = Stopwatch::start();
        let mut rounds = 0;
        while rounds < stage.rounds {
            if watch.elapsed().as_millis() > stage.budget_ms {
                let left = u64::from(stage.rounds - rounds) * stage.steps.len() as u64;
                self.progress.skip(left * self.workers.len() as u64);
                break;
            }
            if stage.is_prepared_anew && rounds > 0 {
                let notes = self.prepare(stage)?;
                self.note(stage.phase, notes);
            }
            rounds += 1;
            self.round(stage, rounds)?;
        }
        let counted = match rounds {
            1 => "one round".to_owned(),
            _ => format!("median of {rounds} rounds and half their spread"),
        };
        let title = format!("{} ({counted})", stage.title(self.setting.layout));
        self.note(stage.phase, vec![title]);
        Ok(())
    }

    /// Records that there is no time left for `stage`.
    fn leave_out(&mut self, stage: &Stage) {
        self.progress.skip(stage.runs() * self.workers.len() as u64);
        let title = stage.title(self.setting.layout);
        let note = format!("{title} (left out: no time for it on this machine)");
        self.note(stage.phase, vec![note]);
    }

    fn prepare(&mut self, stage: &Stage) -> Result<Vec<String>, BenchError> {
        self.progress
            .begin(&format!("{}: preparing", stage.phase.name()));
        let mut notes = Vec::new();
        if matches!(stage.phase, Phase::Slow | Phase::Mix) && self.slow_disk.is_none() {
            self.make_slow_disk(&mut notes);
        }
        let preparation = Preparation {
            phase: stage.phase,
            set_files: stage.set_files,
            growth_bytes: stage.growth_bytes,
            slow_device: self.slow_disk.as_ref().map(LoopDisk::slow_device),
        };
        self.preparation = Some(preparation.clone());
        for index in 0..self.workers.len() {
            let remarks = match self.workers[index].1.prepare(&preparation) {
                Err(BenchError::Ended { .. }) => self.replace(index)?,
                remarks => remarks?,
            };
            notes.extend(remarks.into_iter().map(|remark| format!("  {remark}")));
        }
        Ok(notes)
    }

    /// Starts the kernel's contender again after it was killed; returns its remarks.
    ///
    /// In a full cgroup of version 1, which has no limit on dirty pages, the kernel may find no
    /// clean page and kill the process. That is a result, not a failure of the bench.
    fn replace(&mut self, index: usize) -> Result<Vec<String>, BenchError> {
        if let Some(disk) = &self.slow_disk {
            // A process with pages for the slow disk ends only once they are written.
            disk.release()?;
        }
        let (who, worker) = &mut self.workers[index];
        if *who != Who::Kernel || !worker.was_killed()? {
            return Err(BenchError::Ended {
                contender: who.name(),
            });
        }
        *worker = Worker::start(*who, self.setting, self.group.as_ref())?;
        let mut remarks = match &self.preparation {
            Some(preparation) => worker.prepare(preparation)?,
            None => Vec::new(),
        };
        remarks.push(
            "kernel: its process was KILLED for want of memory in its cgroup, all of it dirty; \
             what it then did is not measured"
                .to_owned(),
        );
        Ok(remarks)
    }

    fn make_slow_disk(&mut self, notes: &mut Vec<String>) {
        let layout = self.setting.layout;
        let (file, bytes) = (layout.slow_file(), layout.data_bytes());
        match LoopDisk::create(&file, bytes, SLOW_BYTES_PER_SECOND) {
            Ok(disk) => self.slow_disk = Some(disk),
            Err(reason) => notes.push(format!("  kernel: not measured, no slow disk ({reason})")),
        }
    }

    fn round(&mut self, stage: &Stage, round: u32) -> Result<(), BenchError> {
        for step in &stage.steps {
            for index in turns(self.workers.len(), round) {
                self.setting.interrupts.check()?;
                let who = self.workers[index].0;
                self.progress.step(step, round, who);
                let samples = self.step(index, step)?;
                self.progress.done(step, round, who, &samples);
                self.results.add(step, who, samples);
            }
        }
        Ok(())
    }

    fn step(&mut self, index: usize, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let slow_disk = self.slow_disk.as_ref();
        let overdue = || Ok(slow_disk.map_or(Ok(()), LoopDisk::release)?);
        match self.workers[index].1.run(step, overdue) {
            Err(BenchError::Ended { .. }) => {
                let remarks = self.replace(index)?;
                let notes = remarks.into_iter().map(|remark| format!("  {remark}"));
                self.note(step.phase, notes.collect());
                Ok(Vec::new())
            }
            samples => samples,
        }
    }

    /// Adds the notes about `phase`, each one once. Remarks are indented and follow the titles.
    fn note(&mut self, phase: Phase, notes: Vec<String>) {
        let phases = &mut self.heading.phases;
        let at = phases.iter().position(|(other, _)| *other == phase);
        let at = at.unwrap_or_else(|| {
            phases.push((phase, Vec::new()));
            phases.len() - 1
        });
        let known = &mut phases[at].1;
        for note in notes {
            if !known.contains(&note) {
                known.push(note);
            }
        }
        known.sort_by_key(|note| note.starts_with(' '));
    }
}

/// The order of the contenders in a round: each round begins with a different one, because a
/// contender finds the disk still busy with the work of the one before it.
fn turns(contenders: usize, round: u32) -> impl Iterator<Item = usize> {
    // Rounds are counted from 1.
    let first = round.saturating_sub(1) as usize;
    (0..contenders).map(move |turn| (first + turn) % contenders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_contender_is_the_first_of_a_round() {
        let orders = [1, 2, 3, 4].map(|round| turns(3, round).collect::<Vec<_>>());
        assert_eq!(orders, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
    }
}
