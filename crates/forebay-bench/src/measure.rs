//! Measuring: threads that start together, distributions, processor time.

use crate::contender::{Percentiles, Sample};
use crate::error::BenchError;
use forebay_base::Span;
use forebay_rt::thread::Stopwatch;
use hdrhistogram::Histogram;
use std::io;
use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};

/// The longest time that a distribution can distinguish.
const LONGEST_NS: u64 = 100_000_000_000;

/// A distribution of times in nanoseconds, accurate to one part in a thousand.
pub(crate) struct Times(Histogram<u64>);

impl Default for Times {
    /// An empty distribution.
    fn default() -> Times {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3)
            .expect("the bounds are in order and the digits from 0 to 5");
        Times(histogram)
    }
}

impl Times {
    /// Counts one operation that took `nanos`.
    pub(crate) fn record(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    /// Adds the operations that `other` counted.
    pub(crate) fn merge(&mut self, other: &Times) {
        self.0
            .add(&other.0)
            .expect("both were made with the same bounds");
    }

    /// How many operations were counted.
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The mean in `unit_ns` nanoseconds each.
    pub(crate) fn mean(&self, unit_ns: f64) -> f64 {
        self.0.mean() / unit_ns
    }

    /// The distribution in units of `unit_ns` nanoseconds.
    pub(crate) fn percentiles(&self, unit_ns: f64) -> Percentiles {
        let at = |quantile| self.0.value_at_quantile(quantile) as f64 / unit_ns;
        Percentiles {
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: self.0.max() as f64 / unit_ns,
        }
    }

    /// The mean and the distribution as a sample in microseconds.
    pub(crate) fn micros(&self, metric: &str) -> Sample {
        Sample {
            metric: metric.to_owned(),
            unit: "us".to_owned(),
            value: self.mean(1e3),
            percentiles: Some(self.percentiles(1e3)),
        }
    }
}

/// Bytes at an aligned address, as direct reads and writes and huge pages need them.
pub(crate) struct AlignedBytes {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBytes {
    /// `length` zeros whose address is a multiple of `alignment`, a power of two.
    pub(crate) fn new(length: usize, alignment: usize) -> AlignedBytes {
        let bytes = vec![0_u8; length + alignment];
        let start = bytes.as_ptr().align_offset(alignment);
        AlignedBytes {
            bytes,
            start,
            length,
        }
    }
}

impl std::ops::Deref for AlignedBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }
}

impl std::ops::DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

/// Runs `job` on one thread for each of `handles`, all started at the same moment. Returns the
/// handles with the results of the jobs, in order.
///
/// # Errors
/// The first error of a job, or the error of a thread that could not be started.
pub(crate) fn together<H, T, J>(handles: Vec<H>, job: J) -> Result<Vec<(H, T)>, BenchError>
where
    H: Send + 'static,
    T: Send + 'static,
    J: Fn(usize, &mut H) -> Result<T, BenchError> + Send + Sync + 'static,
{
    let start = Arc::new(Barrier::new(handles.len()));
    let job = Arc::new(job);
    let mut running = Vec::new();
    for (index, mut handle) in handles.into_iter().enumerate() {
        let (start, job) = (Arc::clone(&start), Arc::clone(&job));
        running.push(background("load", move || {
            start.wait();
            job(index, &mut handle).map(|result| (handle, result))
        })?);
    }
    running.into_iter().map(Background::join).collect()
}

/// A thread that returns a value.
pub(crate) struct Background<T> {
    joiner: forebay_rt::thread::Joiner,
    result: Arc<Mutex<Option<Result<T, BenchError>>>>,
}

/// Runs `job` on a separate thread.
pub(crate) fn background<T: Send + 'static>(
    name: &'static str,
    job: impl FnOnce() -> Result<T, BenchError> + Send + 'static,
) -> Result<Background<T>, BenchError> {
    let result = Arc::new(Mutex::new(None));
    let filled = Arc::clone(&result);
    let joiner = forebay_rt::thread::spawn(name, move || {
        let outcome = job();
        *filled.lock().expect("nothing panics while it holds this") = Some(outcome);
    })
    .map_err(BenchError::system("start a thread"))?;
    Ok(Background { joiner, result })
}

impl<T> Background<T> {
    /// Waits for the end and takes the result.
    pub(crate) fn join(self) -> Result<T, BenchError> {
        self.joiner.join();
        let mut result = self
            .result
            .lock()
            .expect("nothing panics while it holds this");
        result.take().unwrap_or_else(|| {
            let source = io::Error::other("its thread panicked");
            Err(BenchError::system("finish a load")(source))
        })
    }
}

/// Time until a deadline, checked once every few operations.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    watch: Stopwatch,
    span: Span,
}

impl Deadline {
    /// The deadline `span_ms` milliseconds from now.
    pub(crate) fn after_ms(span_ms: u64) -> Deadline {
        Deadline {
            watch: Stopwatch::start(),
            span: Span::from_millis(span_ms),
        }
    }

    pub(crate) fn has_passed(&self) -> bool {
        self.watch.elapsed() >= self.span
    }

    /// Nanoseconds since the deadline was set.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.watch.elapsed().as_nanos()
    }
}

/// Processor time since `before_ns`, a reading of [`processor_ns`]. If a thread ended meanwhile,
/// the time that it had used before is lost; if more was lost than was added, this is 0.
pub(crate) fn processor_ns_since(before_ns: u64) -> Result<u64, BenchError> {
    Ok(processor_ns()?.saturating_sub(before_ns))
}

/// Processor time that the live threads of this process have used, in nanoseconds.
pub(crate) fn processor_ns() -> Result<u64, BenchError> {
    processor_ns_of("self")
}

/// Processor time that the live threads of `process`, its number or `self`, have used, in
/// nanoseconds. The difference of two readings misses threads that ended between them.
pub(crate) fn processor_ns_of(process: &str) -> Result<u64, BenchError> {
    sum_over_threads(process, "schedstat", |text| {
        text.split_ascii_whitespace().next()?.parse().ok()
    })
}

/// How many times the live threads of this process have given up their processor to wait.
pub(crate) fn voluntary_switches() -> Result<u64, BenchError> {
    sum_over_threads("self", "status", |text| {
        let mut lines = text.lines();
        let number = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        number.trim().parse().ok()
    })
}

/// The sum of the numbers that `number_in` finds in the file `name` of each live thread of
/// `process`.
fn sum_over_threads(
    process: &str,
    name: &str,
    number_in: fn(&str) -> Option<u64>,
) -> Result<u64, BenchError> {
    let tasks = Path::new("/proc").join(process).join("task");
    let failed = || BenchError::at("list the threads in", &tasks);
    let mut sum = 0;
    for task in tasks.read_dir().map_err(failed())? {
        let file = task.map_err(failed())?.path().join(name);
        // A thread may end between the listing and the reading.
        let text = std::fs::read_to_string(file).unwrap_or_default();
        sum += number_in(&text).unwrap_or(0);
    }
    Ok(sum)
}

/// Bytes that this process has read from storage; `None` if the kernel does not count them.
pub(crate) fn storage_read_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes: "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_host::HostError;

    #[test]
    fn percentiles_are_in_the_unit_asked_for() {
        let mut times = Times::default();
        for micros in 1..=1_000 {
            times.record(micros * 1_000);
        }
        let found = times.percentiles(1e3);
        assert!((found.p50 - 500.0).abs() < 2.0, "{found:?}");
        assert!((found.p99 - 990.0).abs() < 2.0, "{found:?}");
        assert!((found.max - 1_000.0).abs() < 2.0, "{found:?}");
        assert_eq!(times.count(), 1_000);
    }

    #[test]
    fn threads_give_back_their_handles_in_order() {
        let done = together(vec![10_usize, 20], |index, handle| {
            *handle += index;
            Ok(*handle * 2)
        })
        .unwrap();
        assert_eq!(done, vec![(10, 20), (21, 42)]);
    }

    #[test]
    fn a_failing_thread_is_an_error_of_the_load() {
        let failed = together(vec![()], |_, ()| {
            Err::<(), _>(BenchError::Host(HostError::Interrupted { signal: 2 }))
        });
        assert!(matches!(
            failed,
            Err(BenchError::Host(HostError::Interrupted { .. }))
        ));
    }

    /// A thread of another test that ends meanwhile takes its switches along, so that a single try
    /// may count too few.
    #[test]
    fn a_thread_that_waits_gives_up_its_processor() {
        let counts = |_| {
            let before = voluntary_switches().unwrap();
            forebay_rt::thread::pause_current(Span::from_millis(1));
            voluntary_switches().unwrap() > before
        };
        assert!((0..100).any(counts));
    }

    #[test]
    fn aligned_bytes_are_aligned() {
        let mut bytes = AlignedBytes::new(10_000, 4096);
        assert_eq!(bytes.len(), 10_000);
        assert_eq!(bytes.as_ptr().align_offset(4096), 0);
        bytes[9_999] = 1;
    }
}
