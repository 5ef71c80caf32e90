//! W5, simoop: the memory pressure of a Hadoop node. Workers read large blocks at random from files
//! of more than the memory, write, keep a working set and map memory for a short time.
//!
//! The loop of a worker is ours, because the program's source was not available. On a machine that
//! is divided by `scale`, files, blocks, mappings and working sets are divided with it. The number
//! of workers stays, because the tails come from many workers taking memory faster than one kswapd
//! frees it. Times are knobs of their own; the lists turn over sooner in less memory. The DMA zone
//! is never divided, so that its part of the reserves stays the same.

mod io;

use self::io::{Directories, IoThreads};
use super::knobs::knob;
use super::{Knobs, Work, Workload};
use crate::world::{Mapping, Process, World, WorldError};
use forebay_base::sync::Arc;
use forebay_base::{Prng, Span};
use std::collections::BTreeMap;

pub(super) const SIMOOP: Workload = Workload {
    name: "simoop",
    summary: "W5: random reads of 2.4 times the memory, writes, working sets, short mappings",
    knobs: &[
        knob("workers", "0", "worker threads; 0 for one a processor"),
        knob("warm_up_seconds", "900", "work before the measured time"),
        knob("seconds", "3600", "measured time"),
        knob(
            "report_seconds",
            "60",
            "time between two reports of percentiles",
        ),
        knob(
            "mapping",
            "128M",
            "memory that a worker maps, writes and unmaps in each turn",
        ),
        knob(
            "closes",
            "0",
            "1: a file of data is open only while it is read",
        ),
        knob(
            "own_closes",
            "1",
            "1: a worker's own file is open only while it is written",
        ),
    ],
    expects: None,
    run: |world, knobs| -> Work { Box::pin(run(world, knobs)) },
};

/// Directories of data.
const DIRECTORIES: usize = 16;

/// Sizes of what a worker handles.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// A file of data, and the most that a worker writes to its own.
    file: u64,
    read: u64,
    write: u64,
    mapping: u64,
    working_set: u64,
}

impl Sizes {
    fn scaled(mapping: u64, memory: u64, workers: u64, scale: u64) -> Sizes {
        Sizes {
            file: (80 << 20) / scale,
            read: (2 << 20) / scale,
            write: (1 << 20) / scale,
            mapping: mapping / scale,
            working_set: memory * 6 / 10 / workers,
        }
    }
}

/// I/O threads of each directory.
const THREADS_EACH: u64 = 8;

/// Processes that look at every file's metadata.
const WALKERS: u64 = 2;

/// Workers for one processor burner.
const WORKERS_PER_BURNER: u64 = 5;

/// How long a worker rests after each turn.
const REST: Span = Span::from_millis(100);

/// How long a walker rests after each walk.
const WALKER_REST: Span = Span::from_secs(1);

/// The processor time to look at one file's metadata.
const STAT_WORK: Span = Span::from_micros(1);

/// How long a burner burns before others may have the processor.
const BURN: Span = Span::from_millis(10);

/// What is measured.
const OPERATIONS: [&str; 3] = ["read", "write", "allocation"];

async fn run(world: World, knobs: Knobs) -> Result<(), WorldError> {
    let machine = world.machine();
    let workers = match knobs.number("workers") {
        0 => machine.processors as u64,
        given => given,
    };
    let memory = machine.memory.bytes();
    let sizes = Sizes::scaled(knobs.number("mapping"), memory, workers, knobs.scale);
    world.expect_swap("simoop's mapping", sizes.mapping)?;
    let closes = knobs.number("closes") > 0;
    let directories = Arc::new(Directories::new(DIRECTORIES, closes));
    create_files(&world, memory * knobs.scale, sizes, &directories).await?;
    let threads = IoThreads::start(&world, &directories, sizes.read);
    let mut others = Vec::new();
    for number in 0..workers {
        let worker = Worker {
            number,
            threads: threads.clone(),
            chance: world.chance(&format!("worker {number}")),
            sizes,
            closes: knobs.number("own_closes") > 0,
        };
        let node = number as usize % machine.memory.nodes.len();
        others.push(world.spawn_on(node, "worker", |process| worker.work(process)));
    }
    others.extend((0..WALKERS).map(|_| {
        let directories = directories.clone();
        world.spawn("walker", move |process| walk(process, directories))
    }));
    others.extend((0..workers / WORKERS_PER_BURNER).map(|_| world.spawn("burner", burn)));
    let seconds = |name: &str| Span::from_secs(knobs.number(name));
    world.rt().sleep(seconds("warm_up_seconds")).await;
    world.measures().forget_latencies();
    report(&world, seconds("seconds"), seconds("report_seconds")).await;
    for other in others {
        other.kill();
        other.wait().await?;
    }
    threads.end().await
}

/// Writes every file of every directory, one directory by one process. There are as many as on a
/// machine of `memory` bytes.
async fn create_files(
    world: &World,
    memory: u64,
    sizes: Sizes,
    directories: &Arc<Directories>,
) -> Result<(), WorldError> {
    const MIB: u64 = 1 << 20;
    let working_mib = (memory / MIB * 6 / 10 + 160) / 80 * 80;
    let files_each = (4 * working_mib / 80 / DIRECTORIES as u64).max(1);
    let files = files_each * DIRECTORIES as u64;
    let file_system = world.main_file_system();
    file_system.expect_room("simoop", &[files + files / 8, sizes.file])?;
    let creators: Vec<_> = (0..DIRECTORIES)
        .map(|number| {
            let directories = directories.clone();
            let node = number % world.machine().memory.nodes.len();
            world.spawn_on(node, "creator", move |process| async move {
                directories
                    .create(&process, number, files_each, sizes)
                    .await
            })
        })
        .collect();
    for creator in creators {
        creator.wait().await?;
    }
    Ok(())
}

/// One worker thread.
struct Worker {
    number: u64,
    threads: Arc<IoThreads>,
    chance: Prng,
    sizes: Sizes,
    /// Its own file is open only while it is written.
    closes: bool,
}

impl Worker {
    async fn work(mut self, process: Process) -> Result<(), WorldError> {
        let mut own = process.map_anonymous(self.sizes.working_set).await?;
        own.touch_all().await?;
        let directory = self.chance.below(DIRECTORIES as u64);
        let file_system = process.world().main_file_system();
        let name = format!("own-{}", self.number);
        let file = process.create_in(file_system, directory, &name).await?;
        let mut known = file.known();
        let mut kept = (!self.closes).then_some(file);
        loop {
            self.read(&process).await;
            let began = process.now();
            let mut file = match kept.take() {
                Some(file) => file,
                None => process.reopen(file_system, known).await?,
            };
            let opened = process.now() - began;
            if file.end_bytes() + self.sizes.write > self.sizes.file {
                file.truncate(0).await?;
            }
            let began = process.now();
            file.append(self.sizes.write).await?;
            note(&process, "write", opened + (process.now() - began));
            known = file.known();
            kept = (!self.closes).then_some(file);
            self.map_for_a_moment(&process).await?;
            own.touch_all().await?;
            process.sleep(REST).await;
        }
    }

    /// One read of each directory, all at once.
    async fn read(&mut self, process: &Process) {
        let Sizes { file, read, .. } = self.sizes;
        let mut asked = Vec::with_capacity(DIRECTORIES);
        for directory in 0..DIRECTORIES {
            let offset_bytes = self.chance.below(file / read) * read;
            let file = self.chance.next_u64();
            let answer = (self.threads).ask(directory, file, offset_bytes, process.now());
            asked.push(answer);
        }
        for answer in asked {
            note(process, "read", answer.take().await);
        }
    }

    async fn map_for_a_moment(&self, process: &Process) -> Result<(), WorldError> {
        let began = process.now();
        let mut memory: Mapping = process.map_anonymous(self.sizes.mapping).await?;
        memory.touch_all().await?;
        memory.unmap().await;
        note(process, "allocation", process.now() - began);
        Ok(())
    }
}

fn note(process: &Process, operation: &str, spent: Span) {
    let measures = process.world().measures();
    measures.latency(&format!("{operation}_latency"), spent);
}

/// Looks at every file's metadata, again and again.
async fn walk(process: Process, directories: Arc<Directories>) -> Result<(), WorldError> {
    loop {
        directories.look_at_all(&process).await?;
        process.sleep(WALKER_REST).await;
    }
}

async fn burn(process: Process) -> Result<(), WorldError> {
    loop {
        process.compute(BURN).await;
    }
}

/// Sleeps through the measured time, and records the means of what the reports showed.
async fn report(world: &World, all: Span, interval: Span) {
    let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    let end = world.now() + all;
    while world.now() < end {
        world.rt().sleep(interval.min(end - world.now())).await;
        for operation in OPERATIONS {
            for percentile in [50.0, 95.0, 99.0] {
                let name = format!("{operation}_latency");
                if let Some(ms) = world.measures().percentile_ms(&name, percentile) {
                    let (sum, reports) = sums.entry(format!("{name}_p{percentile}")).or_default();
                    *sum += ms * 1_000.0;
                    *reports += 1.0;
                }
            }
        }
    }
    for (name, (sum_us, reports)) in sums {
        world.measures().figure(&name, sum_us / reports);
    }
}
