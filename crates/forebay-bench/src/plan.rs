//! Which loads run, in which order and for how long: one table for the whole bench, one for
//! `--quick`.

use crate::arguments::BenchArguments;
use crate::contender::{Load, Phase, Step};
use crate::layout::{COMMIT_FILES, Layout};

/// Bytes of a call of the readers in order.
pub(crate) const ORDER_CALL_BYTES: [u64; 3] = [4 << 10, 64 << 10, 1 << 20];

/// Threads that read and overwrite at random.
pub(crate) const MIXED_THREADS: [u32; 3] = [1, 4, 16];

/// Sizes of the cache of the phase growth.
const GROWTH_SIZES: [u64; 3] = [64 << 20, 1 << 30, 8 << 30];

/// Files over which its pages are spread.
const GROWTH_FILES: [u64; 3] = [1, 1_000, 1_000_000];

/// Memory that a cache of this phase has for each file at least: half of it holds their pages,
/// and an open file takes some 2 KB.
const GROWTH_FILE_BYTES: u64 = 8 << 10;

/// Tasks that overwrite.
const GROWTH_WRITERS: [u32; 5] = [1, 10, 100, 1_000, 10_000];

/// A state that all contenders enter, and the steps that they run in it in turns.
pub(crate) struct Stage {
    pub(crate) phase: Phase,
    /// Files over which the cached set is split.
    pub(crate) set_files: u64,
    /// Memory of the cache of the phase growth.
    pub(crate) growth_bytes: u64,
    /// How many times the steps are run. The contenders take turns within each step.
    pub(crate) rounds: u32,
    /// Whether each round begins from the fresh state of the phase, and not from the state after
    /// the previous round.
    pub(crate) is_prepared_anew: bool,
    /// No further round begins after this long.
    pub(crate) budget_ms: u64,
    pub(crate) steps: Vec<Step>,
}

/// The figures that differ between the whole bench and the quick one; times in milliseconds.
struct Pace {
    rounds: u32,
    /// Rounds of the loads on cached pages, which are short.
    cached_rounds: u32,
    cached_ms: u64,
    miss_ms: u64,
    commit_settle_ms: u64,
    commit_ms: u64,
    /// Data of the stream and of the memory account, in quarters of the whole data.
    stream_quarters: u64,
    slow_settle_ms: u64,
    slow_ms: u64,
    warm_ms: u64,
    mix_alone_ms: u64,
    mix_settle_ms: u64,
    mix_beside_ms: u64,
    order_ms: u64,
    mixed_warm_ms: u64,
    mixed_settle_ms: u64,
    mixed_ms: u64,
    growth_ms: u64,
}

const WHOLE: Pace = Pace {
    rounds: 3,
    cached_rounds: 5,
    cached_ms: 200,
    miss_ms: 1_000,
    commit_settle_ms: 50,
    commit_ms: 250,
    stream_quarters: 4,
    slow_settle_ms: 7_000,
    slow_ms: 5_000,
    warm_ms: 11_000,
    mix_alone_ms: 2_000,
    mix_settle_ms: 2_000,
    mix_beside_ms: 3_000,
    order_ms: 600,
    mixed_warm_ms: 1_500,
    mixed_settle_ms: 300,
    mixed_ms: 700,
    growth_ms: 50,
};

const QUICK: Pace = Pace {
    rounds: 1,
    cached_rounds: 1,
    cached_ms: 50,
    miss_ms: 200,
    commit_settle_ms: 0,
    commit_ms: 15,
    stream_quarters: 2,
    slow_settle_ms: 600,
    slow_ms: 1_000,
    warm_ms: 700,
    mix_alone_ms: 400,
    mix_settle_ms: 200,
    mix_beside_ms: 400,
    order_ms: 40,
    mixed_warm_ms: 100,
    mixed_settle_ms: 10,
    mixed_ms: 40,
    growth_ms: 20,
};

/// The last step of a quick bench should end within this many milliseconds; the rest of the
/// promised 30 s is for preparing and cleaning up. A stage that would take longer is left out, and
/// the table shows that. The whole bench takes as long as it needs.
pub(crate) const QUICK_LIMIT_MS: u64 = 28_000;

/// The stages of a bench, with as many rounds of each step as `arguments` say, if they do.
pub(crate) fn stages(layout: &Layout, arguments: &BenchArguments, seed: u64) -> Vec<Stage> {
    let pace = if arguments.quick { &QUICK } else { &WHOLE };
    let step = |phase, load| Step::bare(phase, load, seed);
    let mut stages = cached(pace, &step);
    stages.push(miss(pace, &step));
    stages.push(stream(pace, &step, layout.data_bytes()));
    stages.push(slow(pace, &step));
    stages.push(mix(pace, &step));
    stages.push(memory(pace, &step, layout.data_bytes()));
    stages.push(order(pace, &step, layout.data_bytes()));
    stages.push(mixed(pace, &step));
    stages.push(commit(pace, &step));
    stages.extend(growth(pace, &step, arguments.growth_bytes));
    if let Some(rounds) = arguments.rounds {
        for stage in &mut stages {
            stage.rounds = rounds;
            // A user that asks for rounds has the time for them.
            stage.budget_ms = u64::MAX;
        }
    }
    stages
}

/// A stage with one cached set.
fn stage(phase: Phase, pace: &Pace, budget_ms: u64, steps: Vec<Step>) -> Stage {
    Stage {
        phase,
        set_files: 1,
        growth_bytes: 0,
        rounds: pace.rounds,
        is_prepared_anew: false,
        budget_ms,
        steps,
    }
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
        set_files,
        rounds: pace.cached_rounds,
        ..stage(phase, pace, 20_000, steps)
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
    let at_depth = |depth, load| Step {
        depth,
        span_ms: pace.miss_ms,
        ..step(Phase::Miss, load)
    };
    let steps = vec![
        at_depth(1, Load::ReadMissing),
        at_depth(32, Load::ReadMissing),
        at_depth(32, Load::ReadMissingByTasks),
    ];
    stage(Phase::Miss, pace, 20_000, steps)
}

fn stream(pace: &Pace, step: &dyn Fn(Phase, Load) -> Step, data_bytes: u64) -> Stage {
    let writers = |threads| Step {
        threads,
        depth: threads,
        bytes: data_bytes / 4 * pace.stream_quarters,
        ..step(Phase::Stream, Load::WriteStream)
    };
    stage(Phase::Stream, pace, 20_000, vec![writers(1), writers(4)])
}

fn memory(pace: &Pace, step: &dyn Fn(Phase, Load) -> Step, data_bytes: u64) -> Stage {
    let account = Step {
        bytes: data_bytes / 4 * pace.stream_quarters,
        ..step(Phase::Memory, Load::Account)
    };
    stage(Phase::Memory, pace, 20_000, vec![account])
}

fn order(pace: &Pace, step: &dyn Fn(Phase, Load) -> Step, data_bytes: u64) -> Stage {
    let mut steps = Vec::new();
    for call_bytes in ORDER_CALL_BYTES {
        for readers in [1, 4] {
            steps.push(Step {
                threads: readers,
                depth: readers,
                bytes: data_bytes,
                call_bytes,
                span_ms: pace.order_ms,
                ..step(Phase::Order, Load::ReadInOrder)
            });
        }
    }
    stage(Phase::Order, pace, 60_000, steps)
}

fn mixed(pace: &Pace, step: &dyn Fn(Phase, Load) -> Step) -> Stage {
    // This stage begins with the pages that random readers leave in a cache.
    let warm = Step {
        threads: 16,
        depth: 16,
        settle_ms: pace.mixed_warm_ms,
        ..step(Phase::Mixed, Load::WarmRandom)
    };
    let mut steps = vec![warm];
    for load in [
        Load::ReadRandom,
        Load::ReadAndOverwriteRandom,
        Load::OverwriteRandom,
    ] {
        for threads in MIXED_THREADS {
            steps.push(Step {
                threads,
                depth: threads,
                settle_ms: pace.mixed_settle_ms,
                span_ms: pace.mixed_ms,
                ..step(Phase::Mixed, load)
            });
        }
    }
    stage(Phase::Mixed, pace, 90_000, steps)
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
    stage(Phase::Commit, pace, 40_000, steps)
}

/// A stage for each size up to `most_bytes`: with one file, with many, and with many writers.
fn growth(pace: &Pace, step: &dyn Fn(Phase, Load) -> Step, most_bytes: u64) -> Vec<Stage> {
    let sizes = GROWTH_SIZES
        .into_iter()
        .filter(|&bytes| bytes <= most_bytes);
    let cases = sizes.flat_map(|bytes| GROWTH_FILES.map(|files| (bytes, files)));
    let stage_of = |(growth_bytes, files)| {
        let load = |load, threads| Step {
            threads,
            depth: threads,
            files,
            bytes: growth_bytes,
            span_ms: pace.growth_ms,
            settle_ms: pace.growth_ms / 4,
            ..step(Phase::Growth, load)
        };
        let mut steps = [Load::ReadByCopy, Load::ReadByGuard, Load::Overwrite]
            .map(|each| load(each, 1))
            .to_vec();
        if files == 1 {
            steps.extend(GROWTH_WRITERS.map(|writers| load(Load::OverwriteByTasks, writers)));
        }
        // Last, because it leaves other pages in the cache.
        steps.push(load(Load::Account, 1));
        Stage {
            set_files: files,
            growth_bytes,
            is_prepared_anew: true,
            ..stage(Phase::Growth, pace, 60_000, steps)
        }
    };
    // A million files take a gigabyte by themselves, and at least one page each.
    let fits = |&(bytes, files): &(u64, u64)| files * GROWTH_FILE_BYTES <= bytes;
    cases.filter(fits).map(stage_of).collect()
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
        is_prepared_anew: true,
        ..stage(Phase::Slow, pace, 90_000, vec![writers])
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
        is_prepared_anew: true,
        ..stage(Phase::Mix, pace, 120_000, vec![warm, alone, beside])
    }
}

/// Contenders that run `load`. The floor has nothing to do on a slow disk, among readers and
/// writers, or where a cache is warmed up.
fn contenders(step: &Step) -> u64 {
    match step.load {
        _ if step.phase == Phase::Growth => 1,
        Load::ReadMissingByTasks | Load::OverwriteByTasks => 1,
        Load::Account
        | Load::WriteSlowly
        | Load::WarmZipf
        | Load::ReadZipf
        | Load::ReadZipfBesideWriter
        | Load::WarmRandom
        | Load::OverwriteRandom
        | Load::ReadAndOverwriteRandom => 2,
        _ => 3,
    }
}

impl Stage {
    /// Most runs of a step in the stage.
    pub(crate) fn runs(&self) -> u64 {
        self.steps.len() as u64 * u64::from(self.rounds)
    }

    /// The least time of the stage in milliseconds: its steps, once by each contender.
    pub(crate) fn least_ms(&self) -> u64 {
        let of_step = |step: &Step| contenders(step) * (step.settle_ms + step.span_ms);
        self.steps.iter().map(of_step).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn planned(quick: bool, rounds: Option<u32>) -> Vec<Stage> {
        let layout = Layout::new(Path::new("/x"), 256 << 20);
        let arguments = BenchArguments {
            memory_bytes: 256 << 20,
            parent_folder: "/x".into(),
            quick,
            rounds,
            phases: Vec::new(),
            growth_bytes: 64 << 20,
            fronts: false,
            json_file: None,
        };
        stages(&layout, &arguments, 1)
    }

    /// Time that the steps themselves take.
    fn planned_ms(stages: &[Stage]) -> u64 {
        let of_stage = |stage: &Stage| stage.least_ms() * u64::from(stage.rounds);
        stages.iter().map(of_stage).sum()
    }

    #[test]
    fn the_planned_time_leaves_room_within_the_promised_one() {
        let quick_ms = planned_ms(&planned(true, None));
        assert!(quick_ms < 13_000, "{quick_ms} of {QUICK_LIMIT_MS}");
        let whole_ms = planned_ms(&planned(false, None));
        assert!(whole_ms < 370_000, "{whole_ms}");
    }

    #[test]
    fn the_whole_bench_has_rounds_of_everything_and_time_for_the_last_of_them() {
        for stage in planned(false, None) {
            assert!(stage.rounds >= 3, "{:?}", stage.phase);
            let before_last_ms = stage.least_ms() * u64::from(stage.rounds - 1);
            assert!(before_last_ms < stage.budget_ms, "{:?}", stage.phase);
        }
    }

    #[test]
    fn growth_has_the_sizes_that_are_asked_for_and_the_files_that_fit() {
        let step = |phase, load| Step::bare(phase, load, 1);
        let cases = |most_bytes| -> Vec<(u64, u64)> {
            let stages = growth(&QUICK, &step, most_bytes);
            let case = |stage: &Stage| (stage.growth_bytes >> 20, stage.set_files);
            stages.iter().map(case).collect()
        };
        assert_eq!(cases(64 << 20), [(64, 1), (64, 1_000)]);
        assert_eq!(cases(8 << 30).len(), 7);
        assert_eq!(cases(8 << 30)[6], (8 << 10, 1_000_000));
    }

    #[test]
    fn rounds_that_are_asked_for_are_those_of_every_stage() {
        let stages = planned(false, Some(7));
        assert!(stages.iter().all(|stage| stage.rounds == 7));
        assert_eq!(
            planned_ms(&stages),
            7 * planned_ms(&planned(false, Some(1)))
        );
    }

    #[test]
    fn numbers_of_one_phase_have_different_names() {
        let mut seen = std::collections::BTreeSet::new();
        for stage in planned(true, None) {
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
