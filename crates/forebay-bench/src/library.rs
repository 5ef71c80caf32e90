//! The bench of the library: the main job on real files, by Forebay, by the kernel's page cache and
//! by the bare hardware, in turns, and a table of the results.

use crate::arguments::BenchArguments;
use crate::contender::{Phase, Preparation, Sample, Step, Who};
use crate::error::BenchError;
use crate::files::write_files;
use crate::goals;
use crate::layout::Layout;
use crate::machine::machine;
use crate::memory_group::MemoryGroup;
use crate::phases::slow::SLOW_BYTES_PER_SECOND;
use crate::plan::{QUICK_LIMIT_MS, Stage, stages};
use crate::results::Results;
use crate::rounds::{Rounds, Turn};
use crate::table::Heading;
use crate::worker::{Setting, Worker};
use forebay_base::units::show_bytes;
use forebay_host::{Interrupts, LoopDisk, Scratch};
use forebay_rt::thread::Stopwatch;

/// Seed of every choice of a bench: two benches with one budget use the same pages.
const SEED: u64 = 0x000f_0eba_0001;

const QUICK_REMARK: &str = "--quick: one short round of everything; neither the slow disk nor the \
                            cache of the zipf reader has settled";

/// Measures every stage for which there is time, as measured by `watch`.
pub(crate) fn measure(
    arguments: &BenchArguments,
    scratch: &Scratch,
    interrupts: &Interrupts,
    watch: Stopwatch,
) -> Result<(Heading, Results), BenchError> {
    let layout = Layout::new(scratch.folder(), arguments.memory_bytes);
    scratch.check_room(layout.room_bytes())?;
    let setting = Setting {
        layout: &layout,
        folder: scratch.folder(),
        seed: SEED,
        interrupts,
    };
    let mut stages = stages(&layout, arguments, SEED);
    let is_wanted = |phase: Phase| {
        let mut wanted = arguments.phases.iter();
        arguments.phases.is_empty() || wanted.any(|name| name == phase.word())
    };
    stages.retain(|stage| is_wanted(stage.phase));
    let runs: u64 = stages.iter().map(Stage::runs).sum();
    let mut heading = heading(&setting);
    if arguments.quick {
        heading.lines.push(QUICK_REMARK.to_owned());
    }
    let mut rounds = Rounds::new(interrupts, runs * Who::LIBRARY.len() as u64, heading);
    rounds.progress.begin(&format!(
        "writing {} into {}",
        show_bytes(layout.files().iter().map(|(_, bytes)| bytes).sum()),
        setting.folder.display()
    ));
    write_files(&layout, interrupts)?;
    let mut contenders = Contenders::start(&setting, &mut rounds.heading)?;
    for stage in &stages {
        let ends_ms = watch.elapsed().as_millis() + stage.least_ms();
        if arguments.quick && ends_ms > QUICK_LIMIT_MS {
            let left = stage.runs() * Who::LIBRARY.len() as u64;
            rounds.progress.skip(left);
            let title = stage.title(&layout);
            let note = format!("{title} (left out: no time for it on this machine)");
            rounds.heading.note(stage.phase, note);
        } else {
            contenders.run(stage, &mut rounds)?;
        }
    }
    Ok((rounds.heading, rounds.results))
}

fn heading(setting: &Setting<'_>) -> Heading {
    let budget = format!(
        "budget {}, data {}, in {}",
        show_bytes(setting.layout.memory_bytes()),
        show_bytes(setting.layout.data_bytes()),
        setting.folder.display()
    );
    Heading::new(vec![machine(), budget], goals::LIBRARY)
}

/// The contenders and what is theirs.
///
/// The fields end in their order. The slow disk is first, because a contender with pages for it
/// cannot end before its throttle is lifted. Then follow the contenders, and the cgroup once nobody
/// is in it.
struct Contenders<'a> {
    slow_disk: Option<LoopDisk>,
    workers: Vec<(Who, Worker)>,
    group: Option<MemoryGroup>,
    /// The last state that they were brought into.
    preparation: Option<Preparation>,
    setting: &'a Setting<'a>,
}

impl<'a> Contenders<'a> {
    fn start(
        setting: &'a Setting<'a>,
        heading: &mut Heading,
    ) -> Result<Contenders<'a>, BenchError> {
        let memory_bytes = setting.layout.memory_bytes();
        let group = MemoryGroup::create(memory_bytes);
        heading.lines.push(match &group {
            Ok(group) => group.remark(memory_bytes),
            Err(reason) => format!("kernel: NOT in a cgroup, it uses all memory ({reason})"),
        });
        let mut workers = Vec::new();
        for who in Who::LIBRARY {
            let its_group = group.as_ref().ok().filter(|_| who == Who::Kernel);
            workers.push((who, Worker::start(who, setting, its_group)?));
        }
        Ok(Contenders {
            slow_disk: None,
            workers,
            group: group.ok(),
            preparation: None,
            setting,
        })
    }

    /// Brings all of them into the stage's state, then lets them take turns.
    fn run(&mut self, stage: &Stage, rounds: &mut Rounds<'_>) -> Result<(), BenchError> {
        self.setting.interrupts.check()?;
        self.prepare(stage, rounds)?;
        let watch = Stopwatch::start();
        let mut done = 0;
        while done < stage.rounds {
            if watch.elapsed().as_millis() > stage.budget_ms {
                let left = u64::from(stage.rounds - done) * stage.steps.len() as u64;
                rounds.progress.skip(left * self.workers.len() as u64);
                break;
            }
            if stage.is_prepared_anew && done > 0 {
                self.prepare(stage, rounds)?;
            }
            done += 1;
            for step in &stage.steps {
                let turn = Turn {
                    phase: stage.phase,
                    what: &step.describe(),
                    load: step.concurrency(),
                };
                rounds.round(&turn, done, &Who::LIBRARY, |rounds, index| {
                    let samples = self.step(index, step, rounds)?;
                    Ok(step.named(samples))
                })?;
            }
        }
        let counted = match done {
            1 => "one round".to_owned(),
            _ => format!("median of {done} rounds and half their spread"),
        };
        let title = format!("{} ({counted})", stage.title(self.setting.layout));
        rounds.heading.note(stage.phase, title);
        Ok(())
    }

    fn prepare(&mut self, stage: &Stage, rounds: &mut Rounds<'_>) -> Result<(), BenchError> {
        let phase = stage.phase;
        let preparing = format!("{}: preparing", phase.name());
        rounds.progress.begin(&preparing);
        if matches!(phase, Phase::Slow | Phase::Mix) && self.slow_disk.is_none() {
            let layout = self.setting.layout;
            let (file, bytes) = (layout.slow_file(), layout.data_bytes());
            match LoopDisk::create(&file, bytes, SLOW_BYTES_PER_SECOND) {
                Ok(disk) => self.slow_disk = Some(disk),
                Err(reason) => {
                    let note = format!("  kernel: not measured, no slow disk ({reason})");
                    rounds.heading.note(phase, note);
                }
            }
        }
        let preparation = Preparation {
            phase,
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
            for remark in remarks {
                rounds.heading.note(phase, format!("  {remark}"));
            }
        }
        Ok(())
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

    fn step(
        &mut self,
        index: usize,
        step: &Step,
        rounds: &mut Rounds<'_>,
    ) -> Result<Vec<Sample>, BenchError> {
        let slow_disk = self.slow_disk.as_ref();
        let overdue = || Ok(slow_disk.map_or(Ok(()), LoopDisk::release)?);
        match self.workers[index].1.run(step, overdue) {
            Err(BenchError::Ended { .. }) => {
                for remark in self.replace(index)? {
                    rounds.heading.note(step.phase, format!("  {remark}"));
                }
                Ok(Vec::new())
            }
            samples => samples,
        }
    }
}
