//! What a wait for the disk costs: commits of 4 KiB and reads that miss, beside the bare system
//! calls on the same disk. Rounds alternate; each line has the median of its rounds.
//!
//! `cargo run --release -p forebay --example disk_waits [FOLDER [MILLISECONDS [ROUNDS [CASES]]]]`.
//! Only the cases whose name contains CASES are run.

use forebay::{Advice, AttachedStore, Cache, ReadRequest, Settings};
use forebay_base::Span;
use forebay_rt::thread::{Stopwatch, spawn};
use forebay_store::{FileStore, FileStoreSettings, OpenMode};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const PAGE: usize = 4096;
/// Pages of the file whose reads miss, a power of two; far more than the cache has.
const MISS_PAGES: u64 = 1 << 17;
/// Pages of a file that is committed.
const LOG_PAGES: u64 = 1 << 12;
const MEMORY_BYTES: u64 = 64 << 20;
const MOST_THREADS: u64 = 16;

/// Where the next read goes. No page is read again for a long time.
static NEXT_READ: AtomicU64 = AtomicU64::new(0);

fn next_page() -> u64 {
    let number = NEXT_READ.fetch_add(1, Ordering::Relaxed);
    number.wrapping_mul(0x9E37_79B1) % MISS_PAGES
}

#[derive(Clone, Copy)]
enum Work {
    /// Threads that write a page and make it durable, all in one file or each in its own.
    Commit { threads: u64, own_files: bool },
    /// One thread that reads this many pages by a call, and so many of them at a time.
    Miss { by_call: usize, depth: usize },
}

struct Case {
    name: &'static str,
    work: Work,
}

const CASES: [Case; 9] = [
    Case::commit("commit, 1 thread", 1, false),
    Case::commit("commit, 4 threads, one file", 4, false),
    Case::commit("commit, 16 threads, one file", 16, false),
    Case::commit("commit, 4 threads, own files", 4, true),
    Case::commit("commit, 16 threads, own files", 16, true),
    Case::miss("miss, 1 at a time", 1, 1),
    Case::miss("miss, 8 at a time", 8, 8),
    Case::miss("miss, 32 at a time", 32, 32),
    Case::miss("miss, 32 at a time of 256", 256, 32),
];

impl Case {
    const fn commit(name: &'static str, threads: u64, own_files: bool) -> Case {
        let work = Work::Commit { threads, own_files };
        Case { name, work }
    }

    const fn miss(name: &'static str, by_call: usize, depth: usize) -> Case {
        let work = Work::Miss { by_call, depth };
        Case { name, work }
    }
}

/// Memory that a direct request takes.
struct Aligned(Vec<u8>);

impl Aligned {
    fn new() -> Aligned {
        Aligned(vec![7; 2 * PAGE])
    }

    fn page(&mut self) -> &mut [u8] {
        let start = self.0.as_ptr().align_offset(PAGE);
        &mut self.0[start..start + PAGE]
    }
}

/// The files, through the cache and bare.
struct Bench {
    cache: Cache,
    logs: Vec<forebay::File>,
    data: forebay::File,
    raw_logs: Vec<OwnedFd>,
    raw_data: OwnedFd,
}

fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("disk_waits-{name}"))
}

/// A file with all its blocks written.
fn fill(path: &Path, pages: u64) -> Result<(), Failure> {
    if fs::metadata(path).is_ok_and(|known| known.len() == pages * PAGE as u64) {
        return Ok(());
    }
    let chunk = vec![1; 256 * PAGE];
    let mut file = fs::File::create(path)?;
    for _ in 0..pages.div_ceil(256) {
        std::io::Write::write_all(&mut file, &chunk)?;
    }
    Ok(file.sync_all()?)
}

impl Bench {
    fn new(folder: &Path) -> Result<Bench, Failure> {
        let cache = Cache::new(Settings {
            memory_bytes: MEMORY_BYTES,
            prefault: true,
            ..Settings::default()
        })?;
        let store = FileStore::new(FileStoreSettings::default())?;
        let attached = cache.attach(store.clone())?;
        let open = |attached: &AttachedStore, path: &Path| -> Result<forebay::File, Failure> {
            let opened = store.open(path, OpenMode::ReadWrite)?;
            Ok(cache.open(attached, opened.object, opened.length_bytes)?)
        };
        let raw = |path: &Path| {
            let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
            rustix::fs::open(path, flags, Mode::empty())
        };
        let (mut logs, mut raw_logs) = (Vec::new(), Vec::new());
        for number in 0..MOST_THREADS {
            let (ours, bare) = (
                path(folder, &format!("log-{number}")),
                path(folder, &format!("bare-{number}")),
            );
            fill(&ours, LOG_PAGES)?;
            fill(&bare, LOG_PAGES)?;
            logs.push(open(&attached, &ours)?);
            raw_logs.push(raw(&bare)?);
        }
        let data = path(folder, "data");
        fill(&data, MISS_PAGES)?;
        let (data, raw_data) = (open(&attached, &data)?, raw(&data)?);
        Ok(Bench {
            cache,
            logs,
            data,
            raw_logs,
            raw_data,
        })
    }
}

/// What one thread does until its time is up: the time that each step took, us.
fn steps(
    watch: Stopwatch,
    end: Span,
    mut step: impl FnMut(u64) -> Result<(), Failure>,
) -> Result<Vec<f64>, Failure> {
    let mut times_us = Vec::new();
    let mut number = 0;
    loop {
        let before = watch.elapsed();
        if before >= end {
            return Ok(times_us);
        }
        step(number)?;
        number += 1;
        times_us.push(watch.elapsed().saturating_sub(before).as_nanos() as f64 / 1e3);
    }
}

fn commit(
    bench: &Bench,
    is_raw: bool,
    log: usize,
    pages: (u64, u64),
    (watch, end): (Stopwatch, Span),
) -> Result<Vec<f64>, Failure> {
    let mut page = Aligned::new();
    let file = bench.logs[log].blocking();
    let raw = &bench.raw_logs[log];
    steps(watch, end, |number| {
        let at = (pages.0 + number % pages.1) * PAGE as u64;
        let bytes = page.page();
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        if is_raw {
            rustix::io::pwrite(raw, bytes, at)?;
            rustix::fs::fdatasync(raw)?;
        } else {
            file.write_at(bytes, at)?;
            file.sync()?;
        }
        Ok(())
    })
}

fn read_raw(bench: &Bench, (watch, end): (Stopwatch, Span)) -> Result<Vec<f64>, Failure> {
    let mut page = Aligned::new();
    steps(watch, end, |_| {
        let at = next_page() * PAGE as u64;
        rustix::io::pread(&bench.raw_data, page.page(), at)?;
        Ok(())
    })
}

fn read(
    bench: &Bench,
    (by_call, at_once): (usize, usize),
    (watch, end): (Stopwatch, Span),
) -> Result<Vec<f64>, Failure> {
    let file = bench.data.blocking();
    file.advise(Advice::Random, 0..u64::MAX)?;
    let mut pages = vec![[0; PAGE]; by_call];
    steps(watch, end, |_| {
        let requests = pages.iter_mut().map(|buffer| ReadRequest {
            offset_bytes: next_page() * PAGE as u64,
            buffer,
            done_bytes: 0,
        });
        let mut requests: Vec<_> = requests.collect();
        Ok(file.read_many_within(&mut requests, at_once)?)
    })
}

#[derive(Clone, Copy)]
struct Outcome {
    per_s: f64,
    median_us: f64,
    processor_us: f64,
    switches: f64,
}

/// Processor time that this process has used, us.
fn processor_us() -> Result<u64, Failure> {
    let mut sum_ns = 0;
    for task in fs::read_dir("/proc/self/task")? {
        let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        let first = text.split_whitespace().next().unwrap_or("0");
        sum_ns += first.parse::<u64>()?;
    }
    Ok(sum_ns / 1_000)
}

/// How often threads of this process went to sleep.
fn switches() -> Result<u64, Failure> {
    let mut sum = 0;
    for task in fs::read_dir("/proc/self/task")? {
        let text = fs::read_to_string(task?.path().join("status")).unwrap_or_default();
        let lines = text.lines();
        let counted = lines.filter_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        for count in counted {
            sum += count.trim().parse::<u64>()?;
        }
    }
    Ok(sum)
}

fn run(bench: &Arc<Bench>, work: Work, is_raw: bool, span: Span) -> Result<Outcome, Failure> {
    let watch = Stopwatch::start();
    let (busy, slept) = (processor_us()?, switches()?);
    let times: Arc<Mutex<Vec<f64>>> = Arc::default();
    let mut at_once = 1;
    match work {
        Work::Commit { threads: 1, .. } => {
            let took = commit(bench, is_raw, 0, (0, LOG_PAGES), (watch, span))?;
            *times.lock().unwrap_or_else(PoisonError::into_inner) = took;
        }
        Work::Commit { threads, own_files } => {
            // The last of them reads the counters, because those of a thread that has ended are
            // gone.
            let ended = Arc::new((AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)));
            let joiners: Vec<_> = (0..threads)
                .map(|thread| {
                    let (bench, times, ended) = (bench.clone(), times.clone(), ended.clone());
                    spawn("writer", move || {
                        let log = if own_files { thread as usize } else { 0 };
                        let share = LOG_PAGES / MOST_THREADS;
                        let took =
                            commit(&bench, is_raw, log, (thread * share, share), (watch, span));
                        let took = took.unwrap_or_else(|reason| panic!("{reason}"));
                        let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
                        times.extend(took);
                        drop(times);
                        if ended.0.fetch_add(1, Ordering::SeqCst) + 1 == threads {
                            let counted = processor_us().and_then(|us| Ok((us, switches()?)));
                            let (us, slept) = counted.unwrap_or((0, 0));
                            ended.1.store(us, Ordering::SeqCst);
                            ended.2.store(slept, Ordering::SeqCst);
                        }
                        while ended.2.load(Ordering::SeqCst) == 0 {
                            forebay_rt::thread::pause_current(Span::from_millis(1));
                        }
                    })
                })
                .collect::<Result<_, _>>()?;
            joiners
                .into_iter()
                .for_each(forebay_rt::thread::Joiner::join);
            let (us, sleeps) = (
                ended.1.load(Ordering::SeqCst),
                ended.2.load(Ordering::SeqCst),
            );
            let times = times.lock().unwrap_or_else(PoisonError::into_inner);
            return Ok(outcome(
                &times,
                1,
                span,
                us.saturating_sub(busy),
                sleeps.saturating_sub(slept),
            ));
        }
        Work::Miss { by_call, depth } => {
            let took = if is_raw {
                read_raw(bench, (watch, span))?
            } else {
                at_once = by_call;
                read(bench, (by_call, depth), (watch, span))?
            };
            *times.lock().unwrap_or_else(PoisonError::into_inner) = took;
        }
    }
    let times = times.lock().unwrap_or_else(PoisonError::into_inner);
    let (busy, slept) = (processor_us()? - busy, switches()? - slept);
    Ok(outcome(&times, at_once, span, busy, slept))
}

fn outcome(times_us: &[f64], at_once: usize, span: Span, busy_us: u64, slept: u64) -> Outcome {
    let mut sorted = times_us.to_vec();
    sorted.sort_by(f64::total_cmp);
    let steps = (sorted.len() * at_once).max(1) as f64;
    Outcome {
        per_s: steps / span.as_secs_f64(),
        median_us: sorted.get(sorted.len() / 2).copied().unwrap_or(0.0),
        processor_us: busy_us as f64 / steps,
        switches: slept as f64 / steps,
    }
}

fn median(outcomes: &[Outcome], of: impl Fn(&Outcome) -> f64) -> f64 {
    let mut values: Vec<f64> = outcomes.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Failure> {
    let argument = |at| std::env::args().nth(at);
    let folder = argument(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let round = argument(2).map_or(Ok(2_000), |given| given.parse())?;
    let rounds = argument(3).map_or(Ok(3), |given| given.parse::<usize>())?;
    let wanted = argument(4).unwrap_or_default();
    let bench = Arc::new(Bench::new(&folder)?);
    for case in CASES.iter().filter(|case| case.name.contains(&wanted)) {
        let mut outcomes = [Vec::new(), Vec::new()];
        for _ in 0..rounds.max(1) {
            for (at, is_raw) in [(0, true), (1, false)] {
                let span = Span::from_millis(round);
                outcomes[at].push(run(&bench, case.work, is_raw, span)?);
            }
        }
        for (who, outcomes) in ["bare", "cache"].iter().zip(&outcomes) {
            println!(
                "{:30} {who:5} {:8.0}/s  p50 {:7.1} us  {:6.1} us of processor  {:5.2} switches",
                case.name,
                median(outcomes, |outcome| outcome.per_s),
                median(outcomes, |outcome| outcome.median_us),
                median(outcomes, |outcome| outcome.processor_us),
                median(outcomes, |outcome| outcome.switches),
            );
        }
        let by_round = |of: fn(&Outcome) -> f64| {
            let pairs = outcomes[0].iter().zip(&outcomes[1]);
            let mut ratios: Vec<f64> = pairs.map(|(bare, ours)| of(ours) / of(bare)).collect();
            ratios.sort_by(f64::total_cmp);
            ratios[ratios.len() / 2]
        };
        println!(
            "{:30} ratio {:8.2}    p50 {:7.2}     {:6.2}",
            "",
            by_round(|outcome| outcome.per_s),
            by_round(|outcome| outcome.median_us),
            by_round(|outcome| outcome.processor_us),
        );
    }
    forebay_rt::block_on(bench.cache.close())?;
    Ok(())
}
