//! What the file store adds to a random read: 4 KiB reads at depth 1 and 32 through the store,
//! beside a bare io_uring loop on the same file. Rounds alternate; medians and ratios are printed.
//!
//! `cargo run --release -p forebay-store --example raw_read [FOLDER] [MILLISECONDS A ROUND]`

use forebay_base::sync::{Mutex, lock};
use forebay_base::{PAGE_BYTES, Prng, Span};
use forebay_rt::block_on;
use forebay_rt::thread::Stopwatch;
use forebay_rt::wait::{Slot, WaitQueue};
use forebay_store::{
    FileStore, FileStoreSettings, Finish, FinishedIo, Io, IoKind, Memory, Method, ObjectId,
    OpenMode, PagePointer, Request, Store,
};
use std::error::Error;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

const FILE_PAGES: u64 = 1 << 18;
const ROUNDS: usize = 5;

#[derive(Clone, Copy)]
#[repr(align(4096))]
struct Page {
    _bytes: [u8; PAGE_BYTES],
}

/// Reads a second, and processor time a read.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    reads_per_s: f64,
    processor_us: f64,
}

fn measured(reads: u64, watch: &Stopwatch, processor_before: Span) -> Outcome {
    let spent = processor_time().saturating_sub(processor_before);
    Outcome {
        reads_per_s: reads as f64 / watch.elapsed().as_secs_f64(),
        processor_us: spent.as_nanos() as f64 / 1_000.0 / reads as f64,
    }
}

fn processor_time() -> Span {
    // Fields 14 and 15 are the user and system time in ticks of 10 ms.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Span::from_millis(10 * ticks)
}

/// Pages that live for ever, for one round at a time.
struct Lent {
    first: NonNull<u8>,
    count: usize,
}

impl Lent {
    #[allow(unsafe_code)]
    fn page(&self, index: usize) -> PagePointer {
        assert!(index < self.count, "a page of the round");
        // SAFETY: the page is aligned and lives for ever; one round after the other uses it.
        unsafe { PagePointer::new(self.first.add(index * PAGE_BYTES)) }
    }
}

/// A bare loop over a ring of its own.
#[allow(unsafe_code)]
fn raw(file: &Path, pages: &Lent, round: Span) -> Result<Outcome, Box<dyn Error>> {
    let fd = rustix::fs::open(
        file,
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECT,
        rustix::fs::Mode::empty(),
    )?;
    let mut ring: io_uring::IoUring = io_uring::IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(64)?;
    let mut prng = Prng::from_seed(1);
    let mut entry = |slot: usize| {
        io_uring::opcode::Read::new(
            io_uring::types::Fd(fd.as_raw_fd()),
            pages.page(slot).address().as_ptr(),
            PAGE_BYTES as u32,
        )
        .offset(prng.below(FILE_PAGES) * PAGE_BYTES as u64)
        .build()
        .user_data(slot as u64)
    };
    let (watch, processor) = (Stopwatch::start(), processor_time());
    for slot in 0..pages.count {
        // SAFETY: the page is not used by anybody else and outlives the ring.
        unsafe { ring.submission().push(&entry(slot))? };
    }
    let (mut reads, mut in_flight) = (0, pages.count);
    while in_flight > 0 {
        ring.submit_and_wait(1)?;
        while let Some(answer) = {
            let mut completion = ring.completion();
            completion.next()
        } {
            assert_eq!(answer.result(), PAGE_BYTES as i32, "a whole page is read");
            reads += 1;
            in_flight -= 1;
            if watch.elapsed() < round {
                // SAFETY: as above; the read before it into this page has ended.
                unsafe {
                    ring.submission()
                        .push(&entry(answer.user_data() as usize))?;
                }
                in_flight += 1;
            }
        }
    }
    Ok(measured(reads, &watch, processor))
}

fn read_of(object: ObjectId, page: u64) -> Request {
    Request {
        kind: IoKind::Read,
        object,
        offset_bytes: page * PAGE_BYTES as u64,
        length_bytes: PAGE_BYTES as u64,
    }
}

/// Submits the next read from within the finisher of the last.
struct Chain {
    store: Arc<FileStore>,
    object: ObjectId,
    watch: Stopwatch,
    round: Span,
    state: Mutex<ChainState>,
    ended: Slot<()>,
    me: std::sync::Weak<Chain>,
}

struct ChainState {
    prng: Prng,
    reads: u64,
    in_flight: usize,
}

impl Finish for Chain {
    fn finished(&self, io: FinishedIo) {
        io.result.expect("the read succeeds");
        let over = self.watch.elapsed() >= self.round;
        let mut state = lock(&self.state);
        state.reads += 1;
        if over {
            state.in_flight -= 1;
            if state.in_flight == 0 {
                self.ended.set(());
            }
            return;
        }
        let page = state.prng.below(FILE_PAGES);
        drop(state);
        let me = self.me.upgrade().expect("the chain waits for its end");
        self.store
            .submit(Io::new(read_of(self.object, page), io.pages, me, io.token));
    }
}

fn chained(store: &Arc<FileStore>, object: ObjectId, pages: &Lent, round: Span) -> Outcome {
    let (watch, processor) = (Stopwatch::start(), processor_time());
    let chain = Arc::new_cyclic(|me| Chain {
        store: Arc::clone(store),
        object,
        watch,
        round,
        state: Mutex::new(ChainState {
            prng: Prng::from_seed(1),
            reads: 0,
            in_flight: pages.count,
        }),
        ended: Slot::new(),
        me: me.clone(),
    });
    for slot in 0..pages.count {
        let reported = Arc::clone(&chain) as Arc<dyn Finish>;
        store.submit(Io::new(
            read_of(object, slot as u64),
            vec![pages.page(slot)],
            reported,
            0,
        ));
    }
    block_on(chain.ended.take());
    let reads = lock(&chain.state).reads;
    measured(reads, &chain.watch, processor)
}

/// Finished reads, for a thread that waits for them.
#[derive(Default)]
struct Desk {
    finished: Mutex<Vec<FinishedIo>>,
    arrival: WaitQueue,
}

impl Finish for Desk {
    fn finished(&self, io: FinishedIo) {
        lock(&self.finished).push(io);
        self.arrival.wake_one();
    }
}

/// Submits from a thread that is woken by each finisher.
fn woken(store: &Arc<FileStore>, object: ObjectId, pages: &Lent, round: Span) -> Outcome {
    let desk = Arc::new(Desk::default());
    let mut prng = Prng::from_seed(1);
    let mut reads = 0;
    let mut in_flight = pages.count;
    let mut submit = |pages: Vec<PagePointer>| {
        let reported = Arc::clone(&desk) as Arc<dyn Finish>;
        let request = read_of(object, prng.below(FILE_PAGES));
        store.submit(Io::new(request, pages, reported, 0));
    };
    let (watch, processor) = (Stopwatch::start(), processor_time());
    for page in (0..pages.count).map(|slot| pages.page(slot)) {
        submit(vec![page]);
    }
    let mut batch = Vec::with_capacity(64);
    while in_flight > 0 {
        block_on(async {
            let arrival = desk.arrival.listen();
            std::mem::swap(&mut batch, &mut lock(&desk.finished));
            if batch.is_empty() {
                arrival.await;
            }
        });
        for io in batch.drain(..) {
            io.result.expect("the read succeeds");
            reads += 1;
            in_flight -= 1;
            if watch.elapsed() < round {
                submit(io.pages);
                in_flight += 1;
            }
        }
    }
    measured(reads, &watch, processor)
}

fn make_file(folder: &Path) -> std::io::Result<PathBuf> {
    let path = folder.join("random-reads");
    let mut prng = Prng::from_seed(7);
    let mut chunk = vec![0; 1 << 20];
    let file = std::fs::File::create(&path)?;
    for start in (0..FILE_PAGES * PAGE_BYTES as u64).step_by(chunk.len()) {
        chunk.fill_with(|| prng.next_u64() as u8);
        std::os::unix::fs::FileExt::write_all_at(&file, &chunk, start)?;
    }
    file.sync_all()?;
    Ok(path)
}

fn median(mut outcomes: Vec<Outcome>) -> Outcome {
    outcomes.sort_by(|a, b| a.reads_per_s.total_cmp(&b.reads_per_s));
    outcomes[outcomes.len() / 2]
}

#[allow(unsafe_code)]
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let parent = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let round = Span::from_millis(arguments.next().map_or(Ok(2000), |text| text.parse())?);
    let folder = tempfile::tempdir_in(parent)?;
    let file = make_file(folder.path())?;
    let open = |method| -> Result<_, Box<dyn Error>> {
        let store = FileStore::new(FileStoreSettings {
            method,
            ..FileStoreSettings::default()
        })?;
        let opened = store.open(&file, OpenMode::ReadOnly)?;
        println!("{:?}, direct: {}", store.method(), opened.direct);
        Ok((store, opened.object))
    };
    let (ring, ring_object) = open(Method::Uring)?;
    let (threads, threads_object) = open(Method::Positioned)?;

    let memory: &mut [Page] = Vec::leak(vec![
        Page {
            _bytes: [0; PAGE_BYTES]
        };
        32
    ]);
    let bytes = size_of_val(memory);
    let first = NonNull::from(memory).cast::<u8>();
    // SAFETY: the pages live for ever.
    let memory = unsafe { Memory::new(first, bytes) };
    ring.register_memory(&memory);

    for depth in [1, 32] {
        let pages = &Lent {
            first,
            count: depth,
        };
        let mut outcomes: [Vec<Outcome>; 4] = Default::default();
        for _ in 0..ROUNDS {
            outcomes[0].push(raw(&file, pages, round)?);
            outcomes[1].push(chained(&ring, ring_object, pages, round));
            outcomes[2].push(woken(&ring, ring_object, pages, round));
            outcomes[3].push(woken(&threads, threads_object, pages, round));
        }
        let names = [
            "raw loop",
            "ring, chained",
            "ring, woken thread",
            "positioned",
        ];
        let medians = outcomes.map(median);
        println!("depth {depth}: medians of {ROUNDS} rounds of {round}");
        for (name, outcome) in names.iter().zip(medians) {
            println!(
                "  {name:20} {:9.0} reads/s  {:5.1} % of raw  {:5.2} us of processor a read",
                outcome.reads_per_s,
                100.0 * outcome.reads_per_s / medians[0].reads_per_s,
                outcome.processor_us
            );
        }
    }
    Ok(())
}
