use super::*;
use crate::patience::{measured, short_step, small_files};

#[test]
fn every_load_runs_on_a_small_layout() {
    let (_folder, layout) = small_files(4 << 20);
    let mut kernel = Kernel::new(layout, 1);
    for (phase, load, expected) in [
        (Phase::Hit, Load::ReadByCopy, "copy"),
        (Phase::Hit, Load::ReadVectored, "vectored"),
        (Phase::Dirty, Load::Overwrite, "overwrite"),
        (Phase::Miss, Load::ReadMissing, "rate"),
        (Phase::Stream, Load::WriteStream, "rate"),
        (Phase::Order, Load::ReadInOrder, "rate"),
        (Phase::Mixed, Load::ReadRandom, "read rate"),
        (Phase::Mixed, Load::OverwriteRandom, "overwrite rate"),
        (Phase::Mixed, Load::ReadAndOverwriteRandom, "70/30 rate"),
        (Phase::Commit, Load::CommitOverwrites, "overwrite rate"),
        (Phase::Commit, Load::CommitAppends, "append rate"),
        (Phase::Mix, Load::ReadZipf, "reader rate"),
    ] {
        let preparation = Preparation {
            phase,
            set_files: 1,
            growth_bytes: 8 << 20,
            slow_device: None,
        };
        kernel.prepare(&preparation).unwrap();
        let run = || kernel.run(&short_step(phase, load)).unwrap();
        let samples = measured(run, |samples| samples[0].value > 0.0);
        assert_eq!(samples[0].metric, expected);
        assert!(samples[0].value > 0.0, "{samples:?}");
    }
}

#[test]
fn what_the_kernel_has_no_way_for_gives_no_sample() {
    let (_folder, layout) = small_files(4 << 20);
    let mut kernel = Kernel::new(layout, 1);
    let preparation = Preparation {
        phase: Phase::Hit,
        set_files: 2,
        growth_bytes: 8 << 20,
        slow_device: None,
    };
    kernel.prepare(&preparation).unwrap();
    assert!(
        kernel
            .run(&short_step(Phase::Hit, Load::ReadByGuard))
            .unwrap()
            .is_empty()
    );
    assert!(
        kernel
            .run(&short_step(Phase::Slow, Load::WriteSlowly))
            .unwrap()
            .is_empty()
    );
}
