//! Loads on cached pages: reads by copy, vectored and in place, and overwrites.
//!
//! An operation takes a few hundred nanoseconds, so the clock is read once for [`BATCH_PAGES`]
//! pages. The distribution is that of the means of such batches.

use crate::contender::{Load, PagedFile, RUN_PAGES, Sample, Step, Who};
use crate::error::BenchError;
use crate::layout::check_stamp;
use crate::measure::{AlignedBytes, Deadline, Times, together};
use forebay_base::{PAGE_BYTES, Prng};
use std::hint::black_box;

/// Pages between two readings of the clock.
const BATCH_PAGES: u64 = 256;

/// Runs `step` with one thread for each of `handles`, each on a file of `file_pages` pages, and
/// returns the handles.
pub(crate) fn run<F: PagedFile>(
    who: Who,
    handles: Vec<F>,
    file_pages: u64,
    step: &Step,
) -> Result<(Vec<F>, Vec<Sample>), BenchError> {
    let step = *step;
    let done = together(handles, move |index, file| {
        let mut reader = PageLoop::new(who, file_pages, step.seed, index);
        reader.run(file, step.load, &Deadline::after_ms(step.settle_ms))?;
        reader.forget();
        reader.run(file, step.load, &Deadline::after_ms(step.span_ms))?;
        Ok(reader.measured)
    })?;
    let mut handles = Vec::new();
    let mut total = Measured::default();
    for (handle, measured) in done {
        handles.push(handle);
        total.merge(&measured);
    }
    Ok((handles, total.samples(step.load)))
}

/// The name of the number that `load` measures.
pub(crate) fn metric(load: Load) -> &'static str {
    match load {
        Load::ReadByCopy => "copy",
        Load::ReadVectored => "vectored",
        Load::ReadBatch => "batch",
        Load::ReadByGuard => "guard",
        _ => "overwrite",
    }
}

#[derive(Default)]
struct Measured {
    pages: u64,
    nanos: u64,
    batches: Times,
}

impl Measured {
    fn merge(&mut self, other: &Measured) {
        self.pages += other.pages;
        self.nanos += other.nanos;
        self.batches.merge(&other.batches);
    }

    /// Time of one thread for one page; `None` if the contender has no such operation.
    fn samples(&self, load: Load) -> Vec<Sample> {
        if self.pages == 0 {
            return Vec::new();
        }
        vec![Sample {
            metric: metric(load).to_owned(),
            unit: "ns a page".to_owned(),
            value: self.nanos as f64 / self.pages as f64,
            percentiles: Some(self.batches.percentiles(BATCH_PAGES as f64)),
        }]
    }
}

/// One thread's loop.
struct PageLoop {
    who: Who,
    file_pages: u64,
    prng: Prng,
    buffer: AlignedBytes,
    measured: Measured,
}

impl PageLoop {
    fn new(who: Who, file_pages: u64, seed: u64, thread: usize) -> PageLoop {
        PageLoop {
            who,
            file_pages,
            prng: Prng::from_seed(seed).child(&format!("pages {thread}")),
            buffer: AlignedBytes::new(RUN_PAGES * PAGE_BYTES, PAGE_BYTES),
            measured: Measured::default(),
        }
    }

    fn forget(&mut self) {
        self.measured = Measured::default();
    }

    fn run<F: PagedFile>(
        &mut self,
        file: &mut F,
        load: Load,
        deadline: &Deadline,
    ) -> Result<(), BenchError> {
        let mut began_ns = deadline.elapsed_ns();
        while !deadline.has_passed() {
            let exists = match load {
                Load::ReadByCopy => self.copy_batch(file)?,
                Load::ReadVectored => self.vectored_batch(file)?,
                Load::ReadBatch => self.scattered_batch(file)?,
                Load::ReadByGuard => self.guard_batch(file)?,
                _ => self.overwrite_batch(file)?,
            };
            if !exists {
                return Ok(());
            }
            let now_ns = deadline.elapsed_ns();
            self.measured.batches.record(now_ns - began_ns);
            self.measured.nanos += now_ns - began_ns;
            self.measured.pages += BATCH_PAGES;
            began_ns = now_ns;
        }
        Ok(())
    }

    fn copy_batch<F: PagedFile>(&mut self, file: &mut F) -> Result<bool, BenchError> {
        let page = &mut self.buffer[..PAGE_BYTES];
        for _ in 0..BATCH_PAGES {
            let page_index = self.prng.below(self.file_pages);
            file.read_at(page, page_index * PAGE_BYTES as u64)?;
            check_stamp(self.who, page, page_index)?;
        }
        Ok(true)
    }

    fn vectored_batch<F: PagedFile>(&mut self, file: &mut F) -> Result<bool, BenchError> {
        for _ in 0..BATCH_PAGES / RUN_PAGES as u64 {
            let first = self.prng.below(self.file_pages - RUN_PAGES as u64 + 1);
            file.read_run(&mut self.buffer, first * PAGE_BYTES as u64)?;
            check_stamp(self.who, &self.buffer, first)?;
            let last = (RUN_PAGES - 1) * PAGE_BYTES;
            check_stamp(self.who, &self.buffer[last..], first + RUN_PAGES as u64 - 1)?;
        }
        Ok(true)
    }

    fn scattered_batch<F: PagedFile>(&mut self, file: &mut F) -> Result<bool, BenchError> {
        for _ in 0..BATCH_PAGES / RUN_PAGES as u64 {
            let page_indexes = std::array::from_fn(|_| self.prng.below(self.file_pages));
            file.read_batch(&mut self.buffer, &page_indexes)?;
            for (page, page_index) in self.buffer.chunks(PAGE_BYTES).zip(page_indexes) {
                check_stamp(self.who, page, page_index)?;
            }
        }
        Ok(true)
    }

    fn guard_batch<F: PagedFile>(&mut self, file: &mut F) -> Result<bool, BenchError> {
        for _ in 0..BATCH_PAGES {
            let page_index = self.prng.below(self.file_pages);
            match file.touch(page_index)? {
                Some(sum) => black_box(sum),
                None => return Ok(false),
            };
        }
        Ok(true)
    }

    fn overwrite_batch<F: PagedFile>(&mut self, file: &mut F) -> Result<bool, BenchError> {
        let page = &mut self.buffer[..PAGE_BYTES];
        for _ in 0..BATCH_PAGES {
            let page_index = self.prng.below(self.file_pages);
            page[..8].copy_from_slice(&page_index.to_le_bytes());
            file.write_at(page, page_index * PAGE_BYTES as u64)?;
        }
        Ok(true)
    }
}

/// Sum of the first 64 bytes of `page`, read as eight numbers.
pub(crate) fn sum_of_line(page: &[u8]) -> u64 {
    let (numbers, _) = page[..64].as_chunks::<8>();
    numbers
        .iter()
        .fold(0, |sum, bytes| sum.wrapping_add(u64::from_le_bytes(*bytes)))
}
