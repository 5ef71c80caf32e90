//! Commits: each write is made durable before the next one of its thread begins. There are
//! overwrites of pages, and appends to a log.

use super::gate::Gate;
use crate::contender::{Load, Sample, Step};
use crate::error::BenchError;
use crate::measure::{AlignedBytes, Deadline, Times, together};
use forebay_base::{PAGE_BYTES, Prng};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of one append, the size of a record in a log.
const APPEND_BYTES: usize = 200;

/// Bytes by which all files of a step together may grow. A disk that makes data durable at no cost
/// ends the step early.
pub(crate) const GROWTH_BYTES: u64 = 8 << 20;

/// A file as one thread of the phase sees it.
pub(crate) trait DurableFile: Send + 'static {
    /// Writes `bytes` at `offset_bytes` and makes them durable.
    fn commit(&mut self, bytes: &[u8], offset_bytes: u64) -> Result<(), BenchError>;

    /// Cuts off everything past `length_bytes`.
    fn cut(&mut self, length_bytes: u64) -> Result<(), BenchError>;
}

/// Runs `step` with one thread for each of `handles`. The handles are on the step's files in turn;
/// each file has `file_bytes`.
pub(crate) fn run<F: DurableFile>(
    handles: Vec<F>,
    file_bytes: u64,
    step: &Step,
) -> Result<Vec<Sample>, BenchError> {
    let shared = Arc::new(Shared::new(handles.len(), file_bytes, step));
    let of_threads = Arc::clone(&shared);
    let mut done = together(handles, move |index, file| {
        let mut thread = Committer::new(index, &of_threads);
        let settled = thread.run(file, of_threads.step.settle_ms);
        // Pass the gate even after an error, because the others wait there.
        of_threads.gate.pass();
        thread.times = Times::default();
        let measured = thread.run(file, of_threads.step.span_ms);
        of_threads.gate.pass();
        settled.and(measured).map(|()| thread.times)
    })?;
    for (file, _) in done.iter_mut().take(step.files as usize) {
        file.cut(file_bytes)?;
    }
    let mut times = Times::default();
    for (_, part) in &done {
        times.merge(part);
    }
    shared.samples(&times)
}

/// The state that the threads of a step share.
struct Shared {
    step: Step,
    file_bytes: u64,
    /// The position of the next append to each file.
    tails: Vec<AtomicU64>,
    gate: Gate,
}

impl Shared {
    fn new(threads: usize, file_bytes: u64, step: &Step) -> Shared {
        Shared {
            step: *step,
            file_bytes,
            tails: (0..step.files)
                .map(|_| AtomicU64::new(file_bytes))
                .collect(),
            gate: Gate::new(threads),
        }
    }

    /// Commits, their rate, times and switches.
    fn samples(&self, times: &Times) -> Result<Vec<Sample>, BenchError> {
        let used = self.gate.used()?;
        let commits = times.count().max(1) as f64;
        let seconds = used.elapsed_ns as f64 / 1e9;
        let switches = used.switches as f64;
        let name = metric(self.step.load);
        Ok(vec![
            Sample::plain(&format!("{name} rate"), "commits/s", commits / seconds),
            times.micros(name),
            Sample::plain(&format!("{name} sleeps"), "a commit", switches / commits),
        ])
    }
}

fn metric(load: Load) -> &'static str {
    match load {
        Load::CommitAppends => "append",
        _ => "overwrite",
    }
}

/// One thread of a step.
struct Committer<'a> {
    shared: &'a Shared,
    tail: &'a AtomicU64,
    prng: Prng,
    page: AlignedBytes,
    times: Times,
}

impl<'a> Committer<'a> {
    fn new(index: usize, shared: &'a Shared) -> Committer<'a> {
        let seed = shared.step.seed;
        Committer {
            shared,
            tail: &shared.tails[index % shared.tails.len()],
            prng: Prng::from_seed(seed).child(&format!("commits {index}")),
            page: AlignedBytes::new(PAGE_BYTES, PAGE_BYTES),
            times: Times::default(),
        }
    }

    fn run<F: DurableFile>(&mut self, file: &mut F, span_ms: u64) -> Result<(), BenchError> {
        let deadline = Deadline::after_ms(span_ms);
        let mut began_ns = deadline.elapsed_ns();
        // At least one commit: on a slow disk it may take longer than the span.
        while let Some((length, offset_bytes)) = self.next_write() {
            file.commit(&self.page[..length], offset_bytes)?;
            let now_ns = deadline.elapsed_ns();
            self.times.record(now_ns - began_ns);
            began_ns = now_ns;
            if deadline.has_passed() {
                break;
            }
        }
        Ok(())
    }

    /// Length and position of the next write, whose bytes are at the start of the page; `None` when
    /// the file has grown enough.
    fn next_write(&mut self) -> Option<(usize, u64)> {
        if self.shared.step.load == Load::CommitAppends {
            let offset_bytes = self.tail.fetch_add(APPEND_BYTES as u64, Ordering::Relaxed);
            let growth_bytes = GROWTH_BYTES / self.shared.step.files;
            let is_within = offset_bytes < self.shared.file_bytes + growth_bytes;
            return is_within.then_some((APPEND_BYTES, offset_bytes));
        }
        let page_index = self.prng.below(self.shared.file_bytes / PAGE_BYTES as u64);
        self.page[..8].copy_from_slice(&page_index.to_le_bytes());
        Some((PAGE_BYTES, page_index * PAGE_BYTES as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_host::HostError;
    use std::sync::Mutex;

    /// Records what was committed, and how far the file was cut.
    #[derive(Clone, Default)]
    struct Kept {
        commits: Arc<Mutex<Vec<(u64, usize)>>>,
        cuts: Arc<AtomicU64>,
    }

    impl DurableFile for Kept {
        fn commit(&mut self, bytes: &[u8], offset_bytes: u64) -> Result<(), BenchError> {
            self.commits
                .lock()
                .unwrap()
                .push((offset_bytes, bytes.len()));
            Ok(())
        }

        fn cut(&mut self, length_bytes: u64) -> Result<(), BenchError> {
            self.cuts.fetch_add(length_bytes, Ordering::Relaxed);
            Ok(())
        }
    }

    fn step(load: Load) -> Step {
        Step {
            span_ms: 5,
            settle_ms: 1,
            ..crate::patience::bare_step(crate::contender::Phase::Commit, load, 3)
        }
    }

    #[test]
    fn appends_of_all_threads_follow_each_other_and_end_within_the_growth() {
        let file = Kept::default();
        let samples = run(vec![file.clone(); 3], 4_096, &step(Load::CommitAppends)).unwrap();
        let names: Vec<&str> = samples.iter().map(|sample| &*sample.metric).collect();
        assert_eq!(names, ["append rate", "append", "append sleeps"]);
        let mut commits = file.commits.lock().unwrap().clone();
        commits.sort_unstable();
        assert!(!commits.is_empty());
        for (commit, place) in commits.iter().zip(0_u64..) {
            assert_eq!(*commit, (4_096 + 200 * place, 200));
        }
        assert!(commits.len() as u64 <= GROWTH_BYTES / 200 + 1);
        assert_eq!(
            file.cuts.load(Ordering::Relaxed),
            4_096,
            "one file, cut once"
        );
    }

    #[test]
    fn overwrites_are_whole_pages_within_the_file() {
        let file = Kept::default();
        run(vec![file.clone(); 3], 8_192, &step(Load::CommitOverwrites)).unwrap();
        let commits = file.commits.lock().unwrap();
        assert!(!commits.is_empty());
        let are_pages =
            |&(offset, length): &(u64, usize)| [0, 4_096].contains(&offset) && length == PAGE_BYTES;
        assert!(commits.iter().all(are_pages), "{commits:?}");
    }

    #[test]
    fn a_thread_that_fails_does_not_keep_the_others_waiting() {
        struct Failing(bool);
        impl DurableFile for Failing {
            fn commit(&mut self, _: &[u8], _: u64) -> Result<(), BenchError> {
                let failed = Err(BenchError::Host(HostError::Interrupted { signal: 2 }));
                if self.0 { failed } else { Ok(()) }
            }
            fn cut(&mut self, _: u64) -> Result<(), BenchError> {
                Ok(())
            }
        }
        let files = vec![Failing(false), Failing(true), Failing(false)];
        let failed = run(files, 8_192, &step(Load::CommitOverwrites));
        assert!(matches!(
            failed,
            Err(BenchError::Host(HostError::Interrupted { .. }))
        ));
    }
}
