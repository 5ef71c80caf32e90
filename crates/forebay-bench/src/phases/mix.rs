//! The mix: a zipf reader alone, and the same reader beside a writer that never ends.

use super::writers::{Region, Team, write};
use crate::contender::{PagedFile, Sample, Step, Who};
use crate::error::BenchError;
use crate::layout::check_stamp;
use crate::measure::{AlignedBytes, Deadline, Times, background, together};
use crate::zipf::Zipf;
use forebay_base::{PAGE_BYTES, Prng};
use std::sync::Arc;

/// Skew of the readers.
pub(crate) const SKEW: f64 = 0.99;

/// Seed of the choice of hot pages. It is the same in all steps, because the cache must know the
/// hot pages.
const HOT_PAGES_SEED: u64 = 17;

/// The choice of pages of all readers, made when it is first needed.
#[derive(Default)]
pub(crate) struct HotPages(Option<Arc<Zipf>>);

impl HotPages {
    /// The choice among `pages` pages, the same number in each call.
    pub(crate) fn among(&mut self, pages: u64) -> Arc<Zipf> {
        let made = || Arc::new(Zipf::new(pages, SKEW, HOT_PAGES_SEED));
        Arc::clone(self.0.get_or_insert_with(made))
    }
}

/// The reads of one reader.
pub(crate) struct Read {
    pub(crate) times: Times,
    elapsed_ns: u64,
}

impl Read {
    /// Reads, rate and latency.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        let reads = self.times.count() as f64;
        let elapsed_ns = self.elapsed_ns.max(1) as f64;
        vec![
            Sample::plain("reader rate", "reads/s", reads * 1e9 / elapsed_ns),
            self.times.micros("read"),
        ]
    }

    /// Share of the reads that needed none of the `missed` pages from storage, in percent.
    pub(crate) fn hit_ratio(&self, missed: u64) -> Sample {
        let reads = self.times.count().max(1) as f64;
        Sample::plain("hit ratio", "%", 100.0 * (1.0 - missed as f64 / reads))
    }
}

/// Reads by zipf for `step.settle_ms` with one thread for each of `handles`.
pub(crate) fn warm<F: PagedFile>(
    who: Who,
    handles: Vec<F>,
    zipf: &Arc<Zipf>,
    step: &Step,
) -> Result<(), BenchError> {
    let zipf = Arc::clone(zipf);
    let step = *step;
    together(handles, move |index, file| {
        let mut prng = Prng::from_seed(step.seed).child(&format!("warm {index}"));
        read(who, file, &zipf, &mut prng, step.settle_ms)
    })
    .map(drop)
}

/// Reads by zipf on this thread for the span of `step`.
pub(crate) fn alone<F: PagedFile>(
    who: Who,
    file: &mut F,
    zipf: &Zipf,
    step: &Step,
) -> Result<Read, BenchError> {
    let mut prng = Prng::from_seed(step.seed).child("reader");
    read(who, file, zipf, &mut prng, step.span_ms)
}

/// The file that is read, and by which pages.
pub(crate) struct Reader<'a, F> {
    pub(crate) file: &'a mut F,
    pub(crate) zipf: &'a Zipf,
}

/// The file that is written, and how much of it.
pub(crate) struct Writer<W> {
    pub(crate) file: W,
    pub(crate) bytes: u64,
}

/// Reads by zipf on this thread while `writer` writes all its bytes again and again. Measuring
/// begins once the writer has run for the settling time. `release` frees a writer that its disk
/// holds up.
pub(crate) fn beside_writer<F: PagedFile, W: PagedFile>(
    who: Who,
    reader: Reader<'_, F>,
    mut writer: Writer<W>,
    step: &Step,
    release: impl FnOnce() -> Result<(), BenchError>,
) -> Result<Vec<Sample>, BenchError> {
    let end_ms = step.settle_ms + step.span_ms;
    let team = Arc::new(Team::new(1, end_ms * 1_000_000));
    let shared = Arc::clone(&team);
    let running = background("writer", move || {
        let region = Region::part(writer.bytes, 0, 1).endless();
        write(&mut writer.file, region, &shared, 0)
    })?;
    let mut prng = Prng::from_seed(step.seed).child("reader");
    let Reader { file, zipf } = reader;
    let measured = read(who, file, zipf, &mut prng, step.settle_ms)
        .and_then(|_| read(who, file, zipf, &mut prng, step.span_ms));
    let writer_rate = super::stream::rate(team.written_bytes()[0], team.elapsed_ns());
    team.stop();
    release()?;
    let writes = running.join()?;
    let mut samples = measured?.samples();
    samples.push(Sample {
        metric: "writer rate".to_owned(),
        ..writer_rate
    });
    samples.push(writes.micros("write"));
    Ok(samples)
}

fn read<F: PagedFile>(
    who: Who,
    file: &mut F,
    zipf: &Zipf,
    prng: &mut Prng,
    span_ms: u64,
) -> Result<Read, BenchError> {
    let mut page = AlignedBytes::new(PAGE_BYTES, PAGE_BYTES);
    let mut times = Times::default();
    let deadline = Deadline::after_ms(span_ms);
    let end_ns = span_ms * 1_000_000;
    let mut now_ns = deadline.elapsed_ns();
    while now_ns < end_ns {
        let page_index = zipf.draw(prng);
        file.read_at(&mut page, page_index * PAGE_BYTES as u64)?;
        check_stamp(who, &page, page_index)?;
        let done_ns = deadline.elapsed_ns();
        times.record(done_ns - now_ns);
        now_ns = done_ns;
    }
    Ok(Read {
        times,
        elapsed_ns: now_ns,
    })
}
