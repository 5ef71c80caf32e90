//! The same loads with more memory, files and writers, on a store that takes no time: what the
//! cache itself costs as it grows.

use super::events::EventLog;
use super::handle::{Handle, failed};
use crate::contender::{Load, PagedFile, RUN_PAGES, Sample, Step, Who};
use crate::error::BenchError;
use crate::layout::CHUNK_BYTES;
use crate::measure::{AlignedBytes, processor_ns, processor_ns_since};
use crate::phases::cached;
use forebay::{AttachedStore, Cache, File, Parts, Settings};
use forebay_base::units::show_bytes;
use forebay_base::{PAGE_BYTES, Prng};
use forebay_host::available_bytes;
use forebay_rt::{Rt, block_on};
use forebay_store::{Durability, Geometry, Io, IoKind, ObjectId, Store};
use std::sync::Arc;

/// Overwrites of all tasks of a step together.
const TASK_WRITES: u64 = 100_000;

/// Overwrites of a task before it lets others run.
const WRITES_AT_ONCE: u64 = 16;

/// The object that reclaim makes room for. The files have the numbers below it.
const OTHER: ObjectId = ObjectId(u64::MAX);

/// A store in which each page of a file carries its number among those of all files, and that keeps
/// nothing.
struct StampedStore {
    files: u64,
}

impl Store for StampedStore {
    fn geometry(&self) -> Geometry {
        Geometry {
            block_bytes: PAGE_BYTES as u32,
            max_io_pages: 256,
            write_unit_pages: 1,
            queue_depth: 128,
            durability: Durability::OnFinish,
            stable_pages: false,
        }
    }

    fn submit(&self, mut io: Io) {
        let request = io.request();
        if request.kind == IoKind::Read && request.object != OTHER {
            let first = request.offset_bytes / PAGE_BYTES as u64;
            for at in 0..io.page_count() {
                let number = (first + at as u64) * self.files + request.object.0;
                io.fill_page(at, 0, &number.to_le_bytes());
            }
        }
        io.succeed();
    }
}

/// A cache with many files.
pub(super) struct Growth {
    cache: Cache,
    store: AttachedStore,
    rt: Rt,
    events: Arc<EventLog>,
    files: Vec<File>,
    file_pages: u64,
    memory_bytes: u64,
}

impl Growth {
    /// A cache of `memory_bytes`, half of it full of the pages of `count` files. A remark
    /// instead if the machine does not have the memory.
    pub(super) fn enter(
        memory_bytes: u64,
        count: u64,
    ) -> Result<Result<Growth, String>, BenchError> {
        let needed_bytes = memory_bytes + memory_bytes / 4;
        if available_bytes().is_some_and(|bytes| bytes < needed_bytes) {
            let size = show_bytes(memory_bytes);
            return Ok(Err(format!(
                "forebay: {size} left out, the machine has too little free memory for it"
            )));
        }
        let (rt, events) = (Rt::real(), Arc::new(EventLog::default()));
        let mut settings = Settings {
            memory_bytes,
            objects_limit: count as u32 + 8,
            ..Settings::default()
        };
        settings.dirty.dirty_ratio_percent = 100;
        settings.dirty.background_ratio_percent = 95;
        let parts = Parts {
            rt: rt.clone(),
            sink: Some(events.clone()),
        };
        let cache = Cache::with_parts(settings, parts).map_err(|reason| failed("start", reason))?;
        let store = cache
            .attach(Arc::new(StampedStore { files: count }))
            .map_err(|reason| failed("attach a store", reason))?;
        let statistics = cache.statistics();
        // Half of the frames: files themselves take memory too, and overwrites make all dirty.
        let file_pages = (statistics.frames / 2 / count).max(1);
        let growth = Growth {
            files: Vec::new(),
            cache,
            store,
            rt,
            events,
            file_pages,
            memory_bytes,
        };
        growth.filled(count).map(Ok)
    }

    fn filled(mut self, count: u64) -> Result<Growth, BenchError> {
        let bytes = self.file_pages * PAGE_BYTES as u64;
        let mut chunk = AlignedBytes::new(CHUNK_BYTES, PAGE_BYTES);
        for number in 0..count {
            let file = self.open(ObjectId(number), bytes)?;
            read_all(&file, bytes, &mut chunk)?;
            self.files.push(file);
        }
        Ok(self)
    }

    fn open(&self, object: ObjectId, length_bytes: u64) -> Result<File, BenchError> {
        self.cache
            .open(&self.store, object, length_bytes)
            .map_err(|reason| failed("open a file", reason))
    }

    pub(super) fn run(&mut self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        match step.load {
            Load::OverwriteByTasks => self.overwrite_by_tasks(step),
            Load::Account => self.account(),
            _ => {
                let handles = self.files.iter().map(Handle::new).collect();
                let spread = Spread { handles };
                let pages = self.file_pages * self.files.len() as u64;
                cached::run(Who::Forebay, vec![spread], pages, step).map(|(_, samples)| samples)
            }
        }
    }

    /// Each task has a handle, and all together write [`TASK_WRITES`] pages.
    fn overwrite_by_tasks(&self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let writers = u64::from(step.threads);
        let file = &self.files[0];
        let each = TASK_WRITES / writers;
        let (seed, pages) = (Prng::from_seed(step.seed), self.file_pages);
        let busy_before_ns = processor_ns()?;
        let tasks: Vec<_> = (0..writers)
            .map(|writer| {
                let (rt, file) = (self.rt.clone(), file.clone());
                let prng = seed.child(&format!("writer {writer}"));
                self.rt.spawn("writer", async move {
                    // The bytes are right wherever the step ends: each page keeps its number.
                    let written = write_some(&rt, &file, prng, each, pages).await;
                    assert!(written.is_ok(), "memory takes it: {written:?}");
                })
            })
            .collect();
        for task in tasks {
            block_on(task.join());
        }
        let busy_ns = processor_ns_since(busy_before_ns)? as f64;
        let per_page_ns = busy_ns / (each * writers) as f64;
        let name = "overwrite by tasks";
        Ok(vec![Sample::plain(name, "ns a page", per_page_ns)])
    }

    /// Reads twice the memory of another file, so that reclaim makes room for it.
    fn account(&self) -> Result<Vec<Sample>, BenchError> {
        let bytes = 2 * self.memory_bytes;
        let other = self.open(OTHER, bytes)?;
        let mut chunk = AlignedBytes::new(CHUNK_BYTES, PAGE_BYTES);
        read_all(&other, bytes, &mut chunk)?;
        Ok(self.events.reclaim_sample().into_iter().collect())
    }
}

fn read_all(file: &File, bytes: u64, chunk: &mut [u8]) -> Result<(), BenchError> {
    let file = file.blocking();
    let mut offset_bytes = 0;
    while offset_bytes < bytes {
        let read = file
            .read_at(chunk, offset_bytes)
            .map_err(|reason| failed("read", reason))?;
        if read == 0 {
            break;
        }
        offset_bytes += read as u64;
    }
    Ok(())
}

async fn write_some(
    rt: &Rt,
    file: &File,
    mut prng: Prng,
    writes: u64,
    pages: u64,
) -> Result<(), forebay::AccessError> {
    let mut page = vec![0; PAGE_BYTES];
    for written in 0..writes {
        let number = prng.below(pages);
        page[..8].copy_from_slice(&number.to_le_bytes());
        file.write_at(&page, number * PAGE_BYTES as u64).await?;
        if written % WRITES_AT_ONCE == WRITES_AT_ONCE - 1 {
            rt.yield_now().await;
        }
    }
    Ok(())
}

/// Many files as one: its pages lie in one file after the other.
struct Spread {
    handles: Vec<Handle>,
}

impl Spread {
    /// The file of a page, and the byte at which the page begins there.
    fn place(&mut self, page: u64) -> (&mut Handle, u64) {
        let files = self.handles.len() as u64;
        let handle = &mut self.handles[(page % files) as usize];
        (handle, page / files * PAGE_BYTES as u64)
    }
}

impl PagedFile for Spread {
    fn read_at(&mut self, buffer: &mut [u8], offset_bytes: u64) -> Result<(), BenchError> {
        let (handle, at) = self.place(offset_bytes / PAGE_BYTES as u64);
        handle.read_at(buffer, at)
    }

    fn read_run(&mut self, buffers: &mut [u8], offset_bytes: u64) -> Result<(), BenchError> {
        let first = offset_bytes / PAGE_BYTES as u64;
        let pages = buffers.chunks_mut(PAGE_BYTES).take(RUN_PAGES);
        for (page, number) in pages.zip(first..) {
            self.read_at(page, number * PAGE_BYTES as u64)?;
        }
        Ok(())
    }

    fn touch(&mut self, page_index: u64) -> Result<Option<u64>, BenchError> {
        let (handle, at) = self.place(page_index);
        handle.touch(at / PAGE_BYTES as u64)
    }

    fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> Result<(), BenchError> {
        let (handle, at) = self.place(offset_bytes / PAGE_BYTES as u64);
        handle.write_at(bytes, at)
    }
}
