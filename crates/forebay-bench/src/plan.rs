//! What is run in which order and for how long: one table for the whole bench, one for `--quick`.

use crate::contender::{Load, Phase, Step};
use crate::layout::{COMMIT_FILES, Layout};

/// A state that all contenders are brought into, and what they run in it by turns.
pub(crate) struct Stage {
    pub(crate) phase: Phase,
    /// Files over which the cached set is split.
    pub(crate) set_files: u64,
    /// How many times the steps are run. The contenders take turns within each step.
    pub(crate) rounds: u32,
    /// No further round begins after this long.
    pub(crate) budget_ms: u64,
    pub(crate) steps: Vec<Step>,
}

/// The figures that differ between the whole bench and the quick one; times in milliseconds.
struct Pace {
    cached_rounds: u32,
    cached_ms: u64,
    miss_rounds: u32,
    miss_ms: u64,
    commit_settle_ms: u64,
    commit_ms: u64,
    stream_rounds: u32,
    /// Data of the stream and of the account of memory, in quarters of the whole data.
    stream_quarters: u64,
    slow_settle_ms: u64,
    slow_ms: u64,
    warm_ms: u64,
    mix_alone_ms: u64,
    mix_settle_ms: u64,
    mix_beside_ms: u64,
}

const WHOLE: Pace = Pace {
    cached_rounds: 5,
    cached_ms: 200,
    miss_rounds: 3,
    miss_ms: 1_000,
    commit_settle_ms: 50,
    commit_ms: 250,
    stream_rounds: 3,
    stream_quarters: 4,
    slow_settle_ms: 10_000,
    slow_ms: 10_000,
    warm_ms: 11_000,
    mix_alone_ms: 4_000,
    mix_settle_ms: 3_000,
    mix_beside_ms: 5_000,
};

const QUICK: Pace = Pace {
    cached_rounds: 1,
    cached_ms: 50,
    miss_rounds: 1,
    miss_ms: 200,
    commit_settle_ms: 0,
    commit_ms: 15,
    stream_rounds: 1,
    stream_quarters: 2,
    slow_settle_ms: 600,
    slow_ms: 1_000,
    warm_ms: 700,
    mix_alone_ms: 400,
    mix_settle_ms: 200,
    mix_beside_ms: 400,
};

/// Milliseconds within which the last step of a bench is to end; the promised 20 s and 3 minutes
/// leave room for preparing and for cleaning up. A stage that would not be over by then is left
/// out, and the table says so.
pub(crate) fn limit_ms(quick: bool) -> u64 {
    if quick { 18_200 } else { 170_000 }
}

/// The stages of a bench.
pub(crate) fn stages(layout: &Layout, quick: bool, seed: u64) -> Vec<Stage> {
    let pace = if quick { &QUICK } else { &WHOLE };
    let step = |phase, load| Step {
        phase,
        load,
        threads: 1,
        depth: 1,
        span_ms: 0,
        settle_ms: 0,
        files: 1,
        bytes: 0,
        seed,
    };
    let mut stages = cached(pace, &step);
    stages.push(miss(pace, &step));
    stages.push(stream(pace, &step, layout.data_bytes()));
    stages.push(slow(pace, &step));
    stages.push(mix(pace, &step));
    stages.push(Stage {
        phase: Phase::Memory,
        set_files: 1,
        rounds: 1,
        budget_ms: 20_000,
        steps: vec![Step {
            bytes: layout.data_bytes() / 4 * pace.stream_quarters,
            ..step(Phase::Memory, Load::Account)
        }],
    });
    stages.push(commit(pace, &step));
    stages
}

fn cached(pace: &Pace, step: &dyn Fn(Phase, Load) -> Step) -> Vec<Stage> {
    let timed = |phase, load, threads, files| Step {
        threads,
        depth: threads,
        files,
        span_ms: pace.cached_ms,
        settle_ms: pace.cached_ms / 4,
        ..step(phase, load)
    };
    let stage = |phase, set_files, steps| Stage {
        phase,
        set_files,
        rounds: pace.cached_rounds,
        budget_ms: 20_000,
        steps,
    };
    let read = |load, threads| timed(Phase::Hit, load, threads, 1);
    let overwrite = |threads, files| timed(Phase::Dirty, Load::Overwrite, threads, files);
    vec![
        stage(
            Phase::Hit,
            1,
            vec![
                read(Load::ReadByCopy, 1),
                read(Load::ReadByCopy, 2),
                read(Load::ReadVectored, 1),
                read(Load::ReadBatch, 1),
                read(Load::ReadByGuard, 1),
                read(Load::ReadByGuard, 2),
            ],
        ),
        stage(Phase::Dirty, 1, vec![overwrite(1, 1), overwrite(2, 1)]),
        stage(Phase::Dirty, 2, vec![overwrite(2, 2)]),
    ]
}

fn miss(pace: &Pace, step: &dyn Fn(Phase, Load) -> Step) -> Stage {
    let at_depth = |depth| Step {
        depth,
        span_ms: pace.miss_ms,
        ..step(Phase::Miss, Load::ReadMissing)
    };
    Stage {
        phase: Phase::Miss,
        set_files: 1,
        rounds: pace.miss_rounds,
        budget_ms: 20_000,
        steps: vec![at_depth(1), at_depth(32)],
    }
}

fn stream(pace: &Pace, step: &dyn Fn(Phase, Load) -> Step, data_bytes: u64) -> Stage {
    let writers = |threads| Step {
        threads,
        depth: threads,
        bytes: data_bytes / 4 * pace.stream_quarters,
        ..step(Phase::Stream, Load::WriteStream)
    };
    Stage {
        phase: Phase::Stream,
        set_files: 1,
        rounds: pace.stream_rounds,
        budget_ms: 12_000,
        steps: vec![writers(1), writers(4)],
    }
}

fn commit(pace: &Pace, step: &dyn Fn(Phase, Load) -> Step) -> Stage {
    let mut steps = Vec::new();
    for load in [Load::CommitOverwrites, Load::CommitAppends] {
        for (threads, files) in [(1, 1), (4, 1), (16, 1), (4, 4), (16, COMMIT_FILES)] {
            steps.push(Step {
                threads,
                depth: threads,
                files,
                settle_ms: pace.commit_settle_ms,
                span_ms: pace.commit_ms,
                ..step(Phase::Commit, load)
            });
        }
    }
    Stage {
        phase: Phase::Commit,
        set_files: 1,
        rounds: 1,
        budget_ms: 20_000,
        steps,
    }
}

fn slow(pace: &Pace, step: &dyn Fn(Phase, Load) -> Step) -> Stage {
    let writers = Step {
        threads: 4,
        depth: 4,
        settle_ms: pace.slow_settle_ms,
        span_ms: pace.slow_ms,
        ..step(Phase::Slow, Load::WriteSlowly)
    };
    Stage {
        phase: Phase::Slow,
        set_files: 1,
        rounds: 1,
        budget_ms: 60_000,
        steps: vec![writers],
    }
}

fn mix(pace: &Pace, step: &dyn Fn(Phase, Load) -> Step) -> Stage {
    let warm = Step {
        threads: 8,
        depth: 8,
        settle_ms: pace.warm_ms,
        ..step(Phase::Mix, Load::WarmZipf)
    };
    let alone = Step {
        span_ms: pace.mix_alone_ms,
        ..step(Phase::Mix, Load::ReadZipf)
    };
    let beside = Step {
        settle_ms: pace.mix_settle_ms,
        span_ms: pace.mix_beside_ms,
        ..step(Phase::Mix, Load::ReadZipfBesideWriter)
    };
    Stage {
        phase: Phase::Mix,
        set_files: 1,
        rounds: 1,
        budget_ms: 60_000,
        steps: vec![warm, alone, beside],
    }
}

impl Stage {
    /// Runs of a step that the stage has at most.
    pub(crate) fn runs(&self) -> u64 {
        self.steps.len() as u64 * u64::from(self.rounds)
    }

    /// Milliseconds that the stage needs at least: its steps, by all contenders, once.
    pub(crate) fn least_ms(&self) -> u64 {
        // The floor has nothing to do on a slow disk or among readers and writers.
        let has_floor = !matches!(self.phase, Phase::Slow | Phase::Mix | Phase::Memory);
        let contenders = if has_floor { 3 } else { 2 };
        let once: u64 = self.steps.iter().map(|s| s.span_ms + s.settle_ms).sum();
        contenders * once
    }

    /// The heading of the stage in the table, without the number of rounds that it really had.
    pub(crate) fn title(&self, layout: &Layout) -> String {
        let set = format!(
            "{} cached pages ({} MiB)",
            layout.set_pages(),
            layout.set_bytes() >> 20
        );
        let first = &self.steps[0];
        let seconds = |ms: u64| format!("{} s", ms as f64 / 1e3);
        match self.phase {
            Phase::Hit => format!("hit: 4 KiB random reads of {set}"),
            Phase::Dirty => format!(
                "dirty: 4 KiB random overwrites of {} cached pages ({} MiB)",
                layout.dirtied_pages(),
                layout.dirtied_pages() >> 8
            ),
            Phase::Miss => format!(
                "miss: 4 KiB uniformly random reads of {} MiB, no page twice in a pass",
                layout.data_bytes() >> 20
            ),
            Phase::Stream => format!(
                "stream: {} MiB in writes of 64 KiB, sync counted in",
                first.bytes >> 20
            ),
            Phase::Commit => format!(
                "commit: overwrites of 4 KiB and appends of 200 bytes, each made durable before \
                 the next of its thread, for {}; sleeps are voluntary context switches",
                seconds(first.span_ms)
            ),
            Phase::Slow => format!(
                "slow disk: writers of 64 KiB on a disk of 30 MB/s; levels and shares over {}, \
                 after {}",
                seconds(first.span_ms),
                seconds(first.settle_ms)
            ),
            Phase::Mix => format!(
                "mix: a reader of 4 KiB, zipf 0.99 over {} MiB, alone and beside a writer to a \
                 disk of 30 MB/s",
                layout.data_bytes() >> 20
            ),
            Phase::Memory => format!("memory: after {} MiB were read in order", first.bytes >> 20),
        }
    }
}

impl Step {
    /// What the step does, for the progress line.
    pub(crate) fn describe(&self) -> String {
        let what = match self.load {
            Load::ReadByCopy => "read by copy",
            Load::ReadVectored => "vectored read",
            Load::ReadBatch => "batch of reads",
            Load::ReadByGuard => "read by guard",
            Load::Overwrite => "overwrite",
            Load::ReadMissing => "random read",
            Load::WriteStream => "stream",
            Load::CommitOverwrites => "durable overwrite",
            Load::CommitAppends => "durable append",
            Load::WriteSlowly => "write",
            Load::WarmZipf => "warm up",
            Load::Account => "account",
            Load::ReadZipf => "zipf reader alone",
            Load::ReadZipfBesideWriter => "zipf reader beside a writer",
        };
        match (self.threads, self.depth) {
            (1, 1) => format!("{what}, 1 thread"),
            (1, depth) => format!("{what}, depth {depth}"),
            (threads, _) => format!("{what}, {threads} threads"),
        }
    }

    /// What sets this step's numbers apart from those of the same name in its phase.
    pub(crate) fn metric(&self, name: &str) -> String {
        match self.load {
            Load::Overwrite | Load::CommitOverwrites | Load::CommitAppends if self.files > 1 => {
                format!("{name}, own files")
            }
            Load::ReadZipfBesideWriter => format!("{name}, beside a writer"),
            Load::ReadZipf if name != "hit ratio" => format!("{name}, alone"),
            _ => name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Time that the steps themselves take, those of the commits or all others.
    fn planned_ms(quick: bool, are_commits: bool) -> u64 {
        let layout = Layout::new(Path::new("/x"), 256 << 20);
        stages(&layout, quick, 1)
            .iter()
            .filter(|stage| (stage.phase == Phase::Commit) == are_commits)
            .map(|stage| stage.least_ms() * u64::from(stage.rounds))
            .sum()
    }

    #[test]
    fn the_planned_time_leaves_room_within_the_promised_one() {
        // The commits come last: a slow machine leaves them out and nothing else for them.
        for (quick, are_commits, most_ms) in [
            (false, false, 140_000),
            (false, true, 10_000),
            (true, false, 10_000),
            (true, true, 500),
        ] {
            let planned_ms = planned_ms(quick, are_commits);
            assert!(planned_ms < most_ms, "{quick} {are_commits} {planned_ms}");
        }
    }

    #[test]
    fn numbers_of_one_phase_have_different_names() {
        let layout = Layout::new(Path::new("/x"), 256 << 20);
        let mut seen = std::collections::BTreeSet::new();
        for stage in stages(&layout, true, 1) {
            for step in &stage.steps {
                let kind = super::super::phases::cached::metric(step.load);
                let load = format!("{:?}", step.load);
                let name = step.metric(kind);
                assert!(
                    seen.insert((stage.phase, load, name, step.threads, step.depth)),
                    "{}",
                    step.describe()
                );
            }
        }
    }
}
