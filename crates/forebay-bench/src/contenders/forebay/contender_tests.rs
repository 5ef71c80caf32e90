use super::*;
use crate::patience::{measured, short_step, small_files};

fn in_phase(phase: Phase, run: impl FnOnce(&mut Forebay)) {
    let (_folder, layout) = small_files(8 << 20);
    let mut forebay = Forebay::new(layout, 1);
    let preparation = Preparation {
        phase,
        set_files: 1,
        growth_bytes: 8 << 20,
        slow_device: None,
    };
    forebay.prepare(&preparation).unwrap();
    run(&mut forebay);
    forebay.leave().unwrap();
}

fn prepared(phase: Phase, load: Load) -> Vec<Sample> {
    let mut samples = Vec::new();
    in_phase(phase, |forebay| {
        samples = forebay.run(&short_step(phase, load)).unwrap();
    });
    samples
}

#[test]
fn each_reading_in_order_begins_cold() {
    in_phase(Phase::Order, |forebay| {
        let whole = Step {
            span_ms: 600_000,
            ..short_step(Phase::Order, Load::ReadInOrder)
        };
        let pages = whole.bytes / PAGE_BYTES as u64;
        for round in 1..=3 {
            forebay.run(&whole).unwrap();
            let statistics = forebay.opened().unwrap().cache.statistics();
            let read_pages = statistics.get(Counter::Pgpgin);
            assert!(read_pages >= round * pages, "round {round}: {read_pages}");
        }
    });
}

#[test]
fn every_load_runs_on_a_small_layout() {
    for (phase, load, expected) in [
        (Phase::Hit, Load::ReadByCopy, "copy"),
        (Phase::Hit, Load::ReadVectored, "vectored"),
        (Phase::Hit, Load::ReadBatch, "batch"),
        (Phase::Hit, Load::ReadByGuard, "guard"),
        (Phase::Dirty, Load::Overwrite, "overwrite"),
        (Phase::Miss, Load::ReadMissing, "rate"),
        (Phase::Miss, Load::ReadMissingByTasks, "read"),
        (Phase::Stream, Load::WriteStream, "rate"),
        (Phase::Order, Load::ReadInOrder, "rate"),
        (Phase::Mixed, Load::ReadRandom, "read rate"),
        (Phase::Mixed, Load::OverwriteRandom, "overwrite rate"),
        (Phase::Mixed, Load::ReadAndOverwriteRandom, "70/30 rate"),
        (Phase::Commit, Load::CommitOverwrites, "overwrite rate"),
        (Phase::Commit, Load::CommitAppends, "append rate"),
        (Phase::Slow, Load::WriteSlowly, "write"),
        (Phase::Mix, Load::ReadZipf, "reader rate"),
        (Phase::Mix, Load::ReadZipfBesideWriter, "reader rate"),
        (Phase::Memory, Load::Account, "beside each page"),
        (Phase::Growth, Load::ReadByCopy, "copy"),
        (Phase::Growth, Load::ReadByGuard, "guard"),
        (Phase::Growth, Load::Overwrite, "overwrite"),
        (Phase::Growth, Load::OverwriteByTasks, "overwrite by tasks"),
        (Phase::Growth, Load::Account, "reclaim"),
    ] {
        let is_measured = |samples: &[Sample]| {
            let mut found = samples.iter().filter(|sample| sample.metric == expected);
            found.any(|sample| sample.value > 0.0)
        };
        let samples = measured(|| prepared(phase, load), is_measured);
        assert!(is_measured(&samples), "{load:?}: {samples:?}");
    }
}
