//! The order: a cold file that is read from front to back, by one reader or by several with one
//! part each.

use super::gate::Gate;
use super::stream;
use crate::contender::{PagedFile, Sample, Step, Who};
use crate::error::BenchError;
use crate::layout::{CHUNK_BYTES, check_stamp};
use crate::measure::{AlignedBytes, Deadline, together};
use forebay_base::PAGE_BYTES;
use std::ops::Range;
use std::sync::Arc;

/// Reads the first `step.bytes` with one reader for each of `handles`, for at most the span of
/// `step`.
pub(crate) fn run<F: PagedFile>(
    who: Who,
    handles: Vec<F>,
    step: &Step,
) -> Result<Vec<Sample>, BenchError> {
    let readers = handles.len();
    let gate = Arc::new(Gate::new(readers));
    let (shared, step) = (Arc::clone(&gate), *step);
    let done = together(handles, move |index, file| {
        let mut buffer = AlignedBytes::new(step.call_bytes as usize, PAGE_BYTES);
        let part = part(step.bytes, index, readers);
        shared.pass();
        let outcome = read_part(who, file, part, &mut buffer, step.span_ms);
        // Pass the gate even after an error, because the others wait there.
        shared.pass();
        outcome
    })?;
    let used = gate.used()?;
    let bytes = done.iter().map(|(_, bytes)| bytes).sum();
    Ok(samples(bytes, used.elapsed_ns, used.processor_ns))
}

/// The samples of `bytes` that were read in `elapsed_ns` with `processor_ns` of processor time.
pub(crate) fn samples(bytes: u64, elapsed_ns: u64, processor_ns: u64) -> Vec<Sample> {
    let pages = (bytes / PAGE_BYTES as u64).max(1) as f64;
    vec![
        stream::rate(bytes, elapsed_ns),
        Sample::plain("processor", "us a page", processor_ns as f64 / pages / 1e3),
    ]
}

/// Checks that each page of `bytes`, the first at `offset_bytes`, carries its number.
pub(crate) fn check_pages(who: Who, bytes: &[u8], offset_bytes: u64) -> Result<(), BenchError> {
    let first_page = offset_bytes / PAGE_BYTES as u64;
    let mut pages = bytes.chunks_exact(PAGE_BYTES).zip(first_page..);
    pages.try_for_each(|(page, number)| check_stamp(who, page, number))
}

/// The part that reader `index` of `readers` reads.
fn part(bytes: u64, index: usize, readers: usize) -> Range<u64> {
    let chunk_bytes = CHUNK_BYTES as u64;
    let part_bytes = bytes / readers as u64 / chunk_bytes * chunk_bytes;
    let start_bytes = index as u64 * part_bytes;
    start_bytes..start_bytes + part_bytes
}

/// Reads `part` by calls of the buffer's length; returns how many bytes were read in time.
fn read_part<F: PagedFile>(
    who: Who,
    file: &mut F,
    part: Range<u64>,
    buffer: &mut [u8],
    span_ms: u64,
) -> Result<u64, BenchError> {
    let deadline = Deadline::after_ms(span_ms);
    let mut offset_bytes = part.start;
    while offset_bytes < part.end {
        file.read_at(buffer, offset_bytes)?;
        check_pages(who, buffer, offset_bytes)?;
        offset_bytes += buffer.len() as u64;
        // Reading the clock costs a good part of a small call.
        if offset_bytes.is_multiple_of(CHUNK_BYTES as u64) && deadline.has_passed() {
            break;
        }
    }
    Ok(offset_bytes - part.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::{Load, Phase};
    use crate::layout::stamp_pages;
    use crate::patience::bare_step;
    use std::sync::Mutex;

    /// Stamped pages and a record of the bytes that were read; from `wrong_bytes` on, the stamps
    /// are wrong.
    #[derive(Clone)]
    struct Stamped {
        reads: Arc<Mutex<Vec<(u64, usize)>>>,
        wrong_bytes: u64,
    }

    impl PagedFile for Stamped {
        fn read_at(&mut self, buffer: &mut [u8], offset_bytes: u64) -> Result<(), BenchError> {
            let is_wrong = offset_bytes >= self.wrong_bytes;
            stamp_pages(buffer, if is_wrong { 0 } else { offset_bytes });
            self.reads
                .lock()
                .unwrap()
                .push((offset_bytes, buffer.len()));
            Ok(())
        }
        fn read_run(&mut self, _: &mut [u8], _: u64) -> Result<(), BenchError> {
            unreachable!("the order reads by one buffer")
        }
        fn touch(&mut self, _: u64) -> Result<Option<u64>, BenchError> {
            unreachable!("the order reads by copy")
        }
        fn write_at(&mut self, _: &[u8], _: u64) -> Result<(), BenchError> {
            unreachable!("the order writes nothing")
        }
    }

    fn read(file: &Stamped) -> Result<Vec<Sample>, BenchError> {
        let step = Step {
            bytes: 4 << 20,
            call_bytes: 64 << 10,
            span_ms: 600_000,
            ..bare_step(Phase::Order, Load::ReadInOrder, 2)
        };
        run(Who::Kernel, vec![file.clone(), file.clone()], &step)
    }

    #[test]
    fn all_is_read_once_by_calls_of_the_length_asked_for() {
        let file = Stamped {
            reads: Arc::default(),
            wrong_bytes: u64::MAX,
        };
        let samples = read(&file).unwrap();
        let mut reads = file.reads.lock().unwrap().clone();
        reads.sort_unstable();
        let expected: Vec<_> = (0..64).map(|call| (call << 16, 64 << 10)).collect();
        assert_eq!(reads, expected);
        assert_eq!((&*samples[0].metric, &*samples[0].unit), ("rate", "MB/s"));
        assert_eq!(samples[1].metric, "processor");
        assert!(samples[0].value > 0.0);
    }

    #[test]
    fn a_page_that_is_not_the_one_asked_for_voids_the_run() {
        let file = Stamped {
            reads: Arc::default(),
            wrong_bytes: 3 << 20,
        };
        assert!(matches!(read(&file), Err(BenchError::WrongBytes { .. })));
    }

    #[test]
    fn rates_and_costs_are_for_what_was_read() {
        let found = samples(1_000 * PAGE_BYTES as u64, 4_096_000, 2_000_000);
        assert!((found[0].value - 1_000.0).abs() < 1e-6, "{found:?}");
        assert!((found[1].value - 2.0).abs() < 1e-6, "{found:?}");
    }
}
