//! Forebay, used through its public interface only.

mod events;
mod growth;
mod handle;
mod throttled;

use super::floor::huge_pages_remark;
use crate::contender::{Contender, Load, Phase, Preparation, Sample, Step, Who};
use crate::error::BenchError;
use crate::layout::{CHUNK_BYTES, COMMIT_BYTES, Layout, check_stamp};
use crate::measure::{AlignedBytes, Times, processor_ns, processor_ns_since};
use crate::phases::miss::{self, MissOrder};
use crate::phases::mix::HotPages;
use crate::phases::slow::{DirtyLevel, SLOW_BYTES_PER_SECOND, SlowDisk};
use crate::phases::{cached, commit, mix, mixed, order, slow, stream};
use events::EventLog;
use forebay::{Advice, AttachedStore, Cache, Counter, File, Parts, Settings};
use forebay_base::PAGE_BYTES;
use forebay_law::pause::poll_interval;
use forebay_rt::thread::Stopwatch;
use forebay_rt::{Rt, block_on};
use forebay_store::{FileStore, FileStoreSettings, OpenMode, Rate, RateStore, Store};
use growth::Growth;
use handle::{Handle, failed};
use std::path::Path;
use std::sync::{Arc, Mutex};
use throttled::ThrottledTimes;

pub(crate) use throttled::IDLE_WHILE_THROTTLED;

/// The contender that is the cache of this repository.
pub(crate) struct Forebay {
    layout: Layout,
    order: Arc<Mutex<MissOrder>>,
    hot_pages: HotPages,
    open: Option<Open>,
    growth: Option<Growth>,
}

/// A cache with the files of one phase.
struct Open {
    cache: Cache,
    rt: Rt,
    events: Arc<EventLog>,
    /// The cached sets of the phases hit and dirty, or the files of the phase commit.
    sets: Vec<File>,
    /// The data, on the disk at full speed.
    data: File,
    /// The data again, on a disk with a limited rate.
    slow: File,
    slow_store: Arc<RateStore>,
}

impl Forebay {
    pub(crate) fn new(layout: Layout, seed: u64) -> Forebay {
        let order = MissOrder::new(layout.data_pages(), seed);
        Forebay {
            layout,
            order: Arc::new(Mutex::new(order)),
            hot_pages: HotPages::default(),
            open: None,
            growth: None,
        }
    }

    /// Gives up the cache of the last phase. Its dirty pages are written first, at full speed.
    fn leave(&mut self) -> Result<(), BenchError> {
        self.growth = None;
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        open.slow_store.set_rate(Rate::UNLIMITED);
        block_on(open.cache.close()).map_err(|reason| failed("close", reason))
    }

    /// A new cache with the files that `preparation` needs.
    fn enter(&self, preparation: &Preparation) -> Result<Open, BenchError> {
        let (rt, events) = (Rt::real(), Arc::new(EventLog::default()));
        let parts = Parts {
            rt: rt.clone(),
            sink: Some(events.clone()),
        };
        let settings = settings(preparation.phase, self.layout.memory_bytes());
        let cache = Cache::with_parts(settings, parts).map_err(|reason| failed("start", reason))?;
        let files = || {
            FileStore::new(FileStoreSettings::default())
                .map_err(|reason| failed("start a store", reason))
        };
        // A store that is slow is another one: a cache takes each store once.
        let (store, slow_files) = (files()?, files()?);
        let slow_rate = Rate::bytes(SLOW_BYTES_PER_SECOND);
        let slow_store = Arc::new(RateStore::new(rt.clone(), slow_files.clone(), slow_rate));
        let attach = |store: Arc<dyn Store>| {
            cache
                .attach(store)
                .map_err(|reason| failed("attach a store", reason))
        };
        let (fast, held) = (attach(store.clone())?, attach(slow_store.clone())?);
        let own_files = self.layout.own_files(Who::Forebay, preparation);
        let sets = own_files
            .iter()
            .map(|path| open_file(&cache, &store, &fast, path))
            .collect::<Result<_, _>>()?;
        let data = self.layout.data_file();
        Ok(Open {
            sets,
            data: open_file(&cache, &store, &fast, &data)?,
            slow: open_file(&cache, &slow_files, &held, &data)?,
            cache,
            rt,
            events,
            slow_store,
        })
    }

    fn opened(&self) -> Result<&Open, BenchError> {
        self.open
            .as_ref()
            .ok_or_else(|| failed("run a load", "no phase was prepared"))
    }

    fn use_cached(&self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let sets = &self.opened()?.sets;
        let handles = (0..step.threads as usize)
            .map(|thread| Handle::new(&sets[thread % sets.len()]))
            .collect();
        let file_pages = self.layout.used_pages(step.load) / step.files;
        cached::run(Who::Forebay, handles, file_pages, step).map(|(_, samples)| samples)
    }

    fn read_missing(&self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let open = self.opened()?;
        let watch = Stopwatch::start();
        let end_ns = step.span_ms * 1_000_000;
        let busy_before_ns = processor_ns()?;
        let times = if step.load == Load::ReadMissingByTasks {
            self.read_side_by_side(open, step.depth, watch, end_ns)?
        } else if step.depth == 1 {
            let (file, order) = (open.data.clone(), Arc::clone(&self.order));
            block_on(read_until(file, order, watch, end_ns))?
        } else {
            let mut order = self
                .order
                .lock()
                .expect("nothing panics while it holds this");
            let reads = read_batches(&open.data, step.depth, &mut order, watch, end_ns)?;
            let elapsed_ns = watch.elapsed().as_nanos();
            let busy_ns = processor_ns_since(busy_before_ns)?;
            return Ok(miss::rates(reads, elapsed_ns, busy_ns));
        };
        let elapsed_ns = watch.elapsed().as_nanos();
        Ok(miss::samples(
            &times,
            elapsed_ns,
            processor_ns_since(busy_before_ns)?,
        ))
    }

    /// Keeps `depth` tasks reading until `end_ns` on `watch`; each reads one page after the other.
    fn read_side_by_side(
        &self,
        open: &Open,
        depth: u32,
        watch: Stopwatch,
        end_ns: u64,
    ) -> Result<Times, BenchError> {
        let ended = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = (0..depth)
            .map(|_| {
                let (file, order) = (open.data.clone(), Arc::clone(&self.order));
                let ended = Arc::clone(&ended);
                open.rt.spawn("reader", async move {
                    let outcome = read_until(file, order, watch, end_ns).await;
                    ended
                        .lock()
                        .expect("nothing panics while it holds this")
                        .push(outcome);
                })
            })
            .collect();
        for task in tasks {
            block_on(task.join());
        }
        let mut times = Times::default();
        for outcome in ended
            .lock()
            .expect("nothing panics while it holds this")
            .drain(..)
        {
            times.merge(&outcome?);
        }
        Ok(times)
    }

    fn stream(&self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let open = self.opened()?;
        let handles = (0..step.threads).map(|_| Handle::new(&open.data)).collect();
        let data = open.data.blocking();
        let before = ThrottledTimes::of(&open.cache);
        let mut samples = stream::run(handles, step, || {
            data.sync().map_err(|reason| failed("sync", reason))
        })?;
        samples.extend(ThrottledTimes::of(&open.cache).idle_sample(before));
        Ok(samples)
    }

    fn read_in_order(&self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let open = self.opened()?;
        let whole = 0..self.layout.data_bytes();
        block_on(open.data.advise(Advice::DontNeed, whole))
            .map_err(|reason| failed("advise", reason))?;
        let handles = (0..step.threads).map(|_| Handle::new(&open.data)).collect();
        order::run(Who::Forebay, handles, step)
    }

    fn mixed(&self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let open = self.opened()?;
        let handles = (0..step.threads).map(|_| Handle::new(&open.data)).collect();
        let (data, pages) = (open.data.blocking(), self.layout.data_pages());
        mixed::run(Who::Forebay, handles, pages, step, || {
            data.sync().map_err(|reason| failed("sync", reason))
        })
    }

    fn commit(&self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let sets = &self.opened()?.sets;
        let handles = (0..step.threads as usize)
            .map(|thread| Handle::new(&sets[thread % step.files as usize]))
            .collect();
        commit::run(handles, COMMIT_BYTES, step)
    }

    fn write_slowly(&self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let open = self.opened()?;
        let handles = (0..step.threads).map(|_| Handle::new(&open.slow)).collect();
        let mut disk = SlowForebayDisk {
            open,
            writers: u64::from(step.threads),
        };
        let before = ThrottledTimes::of(&open.cache);
        let mut samples = slow::run(handles, self.layout.data_bytes(), step, &mut disk)?;
        samples.extend(ThrottledTimes::of(&open.cache).idle_sample(before));
        samples.extend(open.events.pause_samples());
        Ok(samples)
    }

    fn warm_zipf(&mut self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let zipf = self.hot_pages.among(self.layout.data_pages());
        let open = self.opened()?;
        let handles = (0..step.threads)
            .map(|_| Handle::random(&open.data))
            .collect::<Result<_, _>>()?;
        mix::warm(Who::Forebay, handles, &zipf, step)?;
        Ok(Vec::new())
    }

    fn read_zipf(&mut self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let zipf = self.hot_pages.among(self.layout.data_pages());
        let open = self.opened()?;
        let missed = || open.cache.statistics().get(Counter::CacheMiss);
        let before = missed();
        let read = mix::alone(Who::Forebay, &mut Handle::random(&open.data)?, &zipf, step)?;
        let mut samples = read.samples();
        samples.push(read.hit_ratio(missed() - before));
        Ok(samples)
    }

    fn read_zipf_beside_writer(&mut self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let zipf = self.hot_pages.among(self.layout.data_pages());
        let open = self.opened()?;
        let reader = mix::Reader {
            file: &mut Handle::random(&open.data)?,
            zipf: &zipf,
        };
        let writer = mix::Writer {
            file: Handle::new(&open.slow),
            bytes: self.layout.data_bytes(),
        };
        mix::beside_writer(Who::Forebay, reader, writer, step, || Ok(()))
    }

    /// Reads the data through the full cache, so that it reclaims, and reports what memory costs.
    fn account(&self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let open = self.opened()?;
        read_through(&open.data, step.bytes)?;
        let statistics = open.cache.statistics();
        let mut samples = vec![Sample::plain(
            "beside each page",
            "bytes",
            statistics.overhead_bytes_per_page as f64,
        )];
        samples.extend(open.events.reclaim_sample());
        Ok(samples)
    }
}

impl Contender for Forebay {
    fn prepare(&mut self, preparation: &Preparation) -> Result<Vec<String>, BenchError> {
        self.leave()?;
        if preparation.phase == Phase::Growth {
            let (bytes, files) = (preparation.growth_bytes, preparation.set_files);
            return match Growth::enter(bytes, files)? {
                Ok(growth) => {
                    self.growth = Some(growth);
                    Ok(Vec::new())
                }
                Err(remark) => Ok(vec![remark]),
            };
        }
        let open = self.enter(preparation)?;
        let mut remarks = Vec::new();
        match preparation.phase {
            Phase::Hit | Phase::Dirty => {
                open.sets
                    .iter()
                    .try_for_each(|set| read_through(set, u64::MAX))?;
                remarks.extend(huge_pages_remark("forebay"));
            }
            // Its memory is full from the start, so every page that comes in costs another one.
            Phase::Miss => open
                .sets
                .iter()
                .try_for_each(|set| read_through(set, u64::MAX))?,
            _ => {}
        }
        if preparation.phase == Phase::Dirty {
            remarks.push("forebay: limits on dirty pages out of reach, as the kernel's are".into());
        }
        self.open = Some(open);
        Ok(remarks)
    }

    fn run(&mut self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        if step.phase == Phase::Growth {
            let growth = self.growth.as_mut();
            return growth.map_or(Ok(Vec::new()), |growth| growth.run(step));
        }
        match step.load {
            Load::OverwriteByTasks => Ok(Vec::new()),
            Load::ReadByCopy
            | Load::ReadVectored
            | Load::ReadBatch
            | Load::ReadByGuard
            | Load::Overwrite => self.use_cached(step),
            Load::ReadMissing | Load::ReadMissingByTasks => self.read_missing(step),
            Load::ReadInOrder => self.read_in_order(step),
            Load::WarmRandom
            | Load::ReadRandom
            | Load::OverwriteRandom
            | Load::ReadAndOverwriteRandom => self.mixed(step),
            Load::WriteStream => self.stream(step),
            Load::CommitOverwrites | Load::CommitAppends => self.commit(step),
            Load::WriteSlowly => self.write_slowly(step),
            Load::WarmZipf => self.warm_zipf(step),
            Load::ReadZipf => self.read_zipf(step),
            Load::ReadZipfBesideWriter => self.read_zipf_beside_writer(step),
            Load::Account => self.account(step),
        }
    }
}

/// The settings of a phase: the usual ones, except for overwrites of cached pages, which must not
/// meet a limit. The kernel's limits are out of reach there too, because they are shares of the
/// machine's memory and not of the cgroup's.
fn settings(phase: Phase, memory_bytes: u64) -> Settings {
    let mut settings = Settings {
        memory_bytes,
        ..Settings::default()
    };
    if phase == Phase::Dirty {
        settings.dirty.dirty_ratio_percent = 100;
        settings.dirty.background_ratio_percent = 95;
    }
    settings
}

fn open_file(
    cache: &Cache,
    store: &FileStore,
    attached: &AttachedStore,
    path: &Path,
) -> Result<File, BenchError> {
    let opened = store
        .open(path, OpenMode::ReadWrite)
        .map_err(|reason| failed("open a file", reason))?;
    cache
        .open(attached, opened.object, opened.length_bytes)
        .map_err(|reason| failed("open a file", reason))
}

/// Reads `file` from start to end, but at most `most_bytes`, in whole chunks.
fn read_through(file: &File, most_bytes: u64) -> Result<(), BenchError> {
    let file = file.blocking();
    let mut chunk = AlignedBytes::new(CHUNK_BYTES, PAGE_BYTES);
    let mut offset_bytes = 0;
    while offset_bytes < most_bytes {
        let read = file
            .read_at(&mut chunk, offset_bytes)
            .map_err(|reason| failed("read", reason))?;
        if read == 0 {
            break;
        }
        offset_bytes += read as u64;
    }
    Ok(())
}

/// Reads pages in `order` until `end_ns` on `watch`.
async fn read_until(
    file: File,
    order: Arc<Mutex<MissOrder>>,
    watch: Stopwatch,
    end_ns: u64,
) -> Result<Times, BenchError> {
    file.advise(Advice::Random, 0..u64::MAX)
        .await
        .map_err(|reason| failed("advise", reason))?;
    let mut page = AlignedBytes::new(PAGE_BYTES, PAGE_BYTES);
    let mut times = Times::default();
    let mut began_ns = watch.elapsed().as_nanos();
    while began_ns < end_ns {
        let page_index = order
            .lock()
            .expect("nothing panics while it holds this")
            .next_page();
        file.read_at(&mut page, page_index * PAGE_BYTES as u64)
            .await
            .map_err(|reason| failed("read", reason))?;
        check_stamp(Who::Forebay, &page, page_index)?;
        let now_ns = watch.elapsed().as_nanos();
        times.record(now_ns - began_ns);
        began_ns = now_ns;
    }
    Ok(times)
}

/// Reads pages in `order` until `end_ns` on `watch`, [`miss::BATCH_PAGES`] by a call and `depth` at
/// a time. Returns how many.
fn read_batches(
    file: &File,
    depth: u32,
    order: &mut MissOrder,
    watch: Stopwatch,
    end_ns: u64,
) -> Result<u64, BenchError> {
    let file = Handle::random(file)?;
    let mut pages = AlignedBytes::new(miss::BATCH_PAGES * PAGE_BYTES, PAGE_BYTES);
    let mut reads = 0;
    while watch.elapsed().as_nanos() < end_ns {
        let page_indexes: [u64; miss::BATCH_PAGES] = std::array::from_fn(|_| order.next_page());
        file.read_scattered(&mut pages, &page_indexes, depth)?;
        for (page, &page_index) in pages.chunks_exact(PAGE_BYTES).zip(&page_indexes) {
            check_stamp(Who::Forebay, page, page_index)?;
        }
        reads += page_indexes.len() as u64;
    }
    Ok(reads)
}

struct SlowForebayDisk<'a> {
    open: &'a Open,
    writers: u64,
}

impl SlowDisk for SlowForebayDisk<'_> {
    fn level(&mut self) -> Result<DirtyLevel, BenchError> {
        let now = self.open.cache.statistics();
        let interval_pages = poll_interval(now.dirty_setpoint, now.dirty_limit);
        Ok(DirtyLevel {
            dirty_pages: now.dirty(),
            setpoint_pages: Some(now.dirty_setpoint),
            allowed_pages: Some(now.dirty_limit + self.writers * interval_pages),
        })
    }

    /// The pauses of Forebay's writers end by themselves.
    fn release(&mut self) -> Result<(), BenchError> {
        Ok(())
    }
}

#[cfg(test)]
#[path = "contender_tests.rs"]
mod tests;
