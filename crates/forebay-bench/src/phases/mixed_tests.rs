use super::*;
use crate::contender::Phase;
use crate::patience::{bare_step, measured};
use forebay_host::HostError;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts operations and records the pages that they used.
#[derive(Clone, Default)]
struct Counted {
    reads: Arc<AtomicU64>,
    overwrites: Arc<AtomicU64>,
    pages: Arc<Mutex<Vec<u64>>>,
}

impl PagedFile for Counted {
    fn read_at(&mut self, buffer: &mut [u8], offset_bytes: u64) -> Result<(), BenchError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        stamp_pages(buffer, offset_bytes);
        let page = offset_bytes / PAGE_BYTES as u64;
        self.pages.lock().unwrap().push(page);
        Ok(())
    }
    fn read_run(&mut self, _: &mut [u8], _: u64) -> Result<(), BenchError> {
        unreachable!("one page an operation")
    }
    fn touch(&mut self, _: u64) -> Result<Option<u64>, BenchError> {
        unreachable!("pages are copied")
    }
    fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> Result<(), BenchError> {
        self.overwrites.fetch_add(1, Ordering::Relaxed);
        let page = offset_bytes / PAGE_BYTES as u64;
        self.pages.lock().unwrap().push(page);
        check_stamp(Who::Kernel, bytes, page)
    }
}

/// Operations, pages, samples, and the number of syncs.
fn done(load: Load) -> (Counted, Vec<Sample>, u64) {
    let (file, syncs) = (Counted::default(), AtomicU64::new(0));
    let step = Step {
        settle_ms: 1,
        span_ms: 5,
        ..bare_step(Phase::Mixed, load, 2)
    };
    let run_once = || {
        run(
            Who::Kernel,
            vec![file.clone(), file.clone()],
            50,
            &step,
            || {
                syncs.fetch_add(1, Ordering::Relaxed);
                Ok(())
            },
        )
        .unwrap()
    };
    // Enough operations that both kinds are among them.
    let samples = measured(run_once, |_| file.pages.lock().unwrap().len() >= 200);
    let syncs = syncs.load(Ordering::Relaxed);
    (file, samples, syncs)
}

#[test]
fn each_load_does_what_its_name_says_within_the_file() {
    for (load, names) in [
        (Load::ReadRandom, &["read rate", "read"][..]),
        (
            Load::OverwriteRandom,
            &["overwrite rate", "overwrite", "overwrite sync"],
        ),
        (
            Load::ReadAndOverwriteRandom,
            &["70/30 rate", "70/30", "70/30 sync"],
        ),
    ] {
        let (file, samples, syncs) = done(load);
        let found: Vec<&str> = samples.iter().map(|sample| &*sample.metric).collect();
        assert_eq!(found, names);
        let reads = file.reads.load(Ordering::Relaxed);
        let overwrites = file.overwrites.load(Ordering::Relaxed);
        assert_eq!(reads > 0, load != Load::OverwriteRandom, "{load:?}");
        assert_eq!(overwrites > 0, load != Load::ReadRandom, "{load:?}");
        if load == Load::ReadAndOverwriteRandom {
            assert!(reads > overwrites, "{reads} {overwrites}");
        }
        let pages = file.pages.lock().unwrap();
        assert!(pages.iter().all(|&page| page < 50));
        assert!(syncs > 0);
    }
}

#[test]
fn to_warm_up_reads_and_measures_nothing() {
    let (file, samples, _) = done(Load::WarmRandom);
    assert!(samples.is_empty());
    assert!(file.reads.load(Ordering::Relaxed) > 0);
    assert_eq!(file.overwrites.load(Ordering::Relaxed), 0);
}

#[test]
fn a_thread_that_fails_does_not_keep_the_others_waiting() {
    struct Failing(bool);
    impl PagedFile for Failing {
        fn read_at(&mut self, buffer: &mut [u8], offset_bytes: u64) -> Result<(), BenchError> {
            stamp_pages(buffer, offset_bytes);
            let failed = Err(BenchError::Host(HostError::Interrupted { signal: 2 }));
            if self.0 { failed } else { Ok(()) }
        }
        fn read_run(&mut self, _: &mut [u8], _: u64) -> Result<(), BenchError> {
            unreachable!("one page an operation")
        }
        fn touch(&mut self, _: u64) -> Result<Option<u64>, BenchError> {
            unreachable!("pages are copied")
        }
        fn write_at(&mut self, _: &[u8], _: u64) -> Result<(), BenchError> {
            unreachable!("this load reads")
        }
    }
    let step = bare_step(Phase::Mixed, Load::ReadRandom, 2);
    let handles = vec![Failing(false), Failing(true)];
    let failed = run(Who::Kernel, handles, 50, &step, || Ok(()));
    assert!(matches!(
        failed,
        Err(BenchError::Host(HostError::Interrupted { .. }))
    ));
}
