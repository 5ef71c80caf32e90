//! W6, a large copy to a stick: through a file system in user space, or straight to one of the
//! kernel's.
//!
//! In user space every page of a write is passed to a daemon, which writes it to the page cache of
//! the block device and updates one page of metadata now and then. The dirty pages belong to the
//! daemon, so the daemon is throttled.

use super::knobs::knob;
use super::{Knobs, Work, Workload};
use crate::world::{FileSystem, Mapping, Process, World, WorldError, WorldFile};
use forebay_base::sync::Arc;
use forebay_base::units::{byte_of, pages_for};
use forebay_base::{PAGE_BYTES, Span};
use forebay_rt::Work as ProcessorWork;
use forebay_rt::wait::Slot;

pub(super) const NTFS_COPY: Workload = Workload {
    name: "ntfs-copy",
    summary: "W6: dd of 8 GiB to a USB stick, through a file system in user space",
    knobs: &[
        knob("bytes", "8G", "bytes copied"),
        knob("block", "32K", "bytes of one write"),
        knob(
            "runs_before",
            "0",
            "copies right before the one that is measured, each over the one before",
        ),
        knob(
            "anonymous",
            "250M",
            "anonymous memory that other programs hold",
        ),
        knob(
            "use_seconds",
            "30",
            "how often they use it; swap stayed unused on the original machine",
        ),
        knob("active_file", "40M", "file pages that other programs use"),
        knob(
            "read_once",
            "512M",
            "file pages that other programs have read once before they took their memory",
        ),
        knob(
            "own_cache",
            "0",
            "1 if the file's own pages stay in memory too, in addition to those of the device",
        ),
        knob(
            "requests_per_metadata",
            "64",
            "pages written for one update of metadata",
        ),
    ],
    expects: None,
    run: |world, knobs| -> Work { Box::pin(run(world, knobs)) },
};

/// The processor time of the writer to pass one page to the daemon.
const WRITER_WORK: Span = Span::from_nanos(13_600);

/// The processor time of the daemon for one page, including its own write.
const DAEMON_WORK: Span = Span::from_micros(10);

/// Where the metadata are, near the start of the device.
const METADATA_PAGE: u64 = 4;

/// Where the copy begins on the device.
const DATA_START_BYTES: u64 = 64 << 20;

async fn run(world: World, knobs: Knobs) -> Result<(), WorldError> {
    let bytes = knobs.number("bytes") / knobs.scale;
    let block = knobs.number("block").max(1);
    let file_system = world.main_file_system();
    let room = bytes.saturating_add(DATA_START_BYTES);
    file_system.expect_room("ntfs-copy", &[room])?;
    let others = hold_memory(&world, &knobs);
    let others = others.await?;
    let copies = Copies::new(&world, &knobs, CopySizes { bytes, block });
    for _ in 0..knobs.number("runs_before") {
        copies.make_one(&world, Then::Another).await?;
    }
    world.open_window();
    copies.make_one(&world, Then::Nothing).await?;
    world.close_window();
    others.set(());
    Ok(())
}

/// What follows a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Another, which cuts the file to nothing when it opens it.
    Another,
    Nothing,
}

/// How much a copy writes, and how much at a time.
#[derive(Clone, Copy)]
struct CopySizes {
    bytes: u64,
    block: u64,
}

/// Copies that follow each other.
struct Copies {
    sizes: CopySizes,
    own_cache: bool,
    /// Where the daemon is met, if there is one.
    hand: Option<Hand>,
}

impl Copies {
    fn new(world: &World, knobs: &Knobs, sizes: CopySizes) -> Copies {
        let requests_per_metadata = knobs.number("requests_per_metadata").max(1);
        let hand = world.main_file_system().is_in_user_space().then(|| {
            let hand = Hand::default();
            let daemon = hand.clone();
            drop(world.spawn("ntfs-3g", move |process| {
                serve(process, daemon, sizes.bytes, requests_per_metadata)
            }));
            hand
        });
        Copies {
            sizes,
            own_cache: knobs.number("own_cache") > 0,
            hand,
        }
    }

    /// One copy, by a process of its own.
    async fn make_one(&self, world: &World, then: Then) -> Result<(), WorldError> {
        let (sizes, own_cache) = (self.sizes, self.own_cache);
        let writer = match self.hand.clone() {
            Some(hand) => world.spawn("dd", move |process| {
                hand_over(process, hand, sizes, own_cache)
            }),
            None => world.spawn("dd", move |process| write(process, sizes, then)),
        };
        writer.wait().await?;
        Ok(())
    }
}

/// What other programs keep in memory and use now and then, until the slot is set.
async fn hold_memory(world: &World, knobs: &Knobs) -> Result<Arc<Slot<()>>, WorldError> {
    let anonymous = knobs.number("anonymous") / knobs.scale;
    let active = knobs.number("active_file") / knobs.scale;
    let once = knobs.number("read_once") / knobs.scale;
    let period = Span::from_secs(knobs.number("use_seconds").max(1));
    let (ready, done) = (Arc::new(Slot::new()), Arc::new(Slot::new()));
    let (is_ready, until) = (ready.clone(), done.clone());
    let holder = world.spawn("desktop", move |process| async move {
        let mut held = match Held::take(&process, active, once, anonymous).await {
            Ok(held) => held,
            Err(error) => {
                is_ready.set(Err(error));
                return Ok(());
            }
        };
        is_ready.set(Ok(()));
        while process
            .world()
            .rt()
            .timeout(period, until.take())
            .await
            .is_err()
        {
            held.memory.touch_all().await?;
        }
        Ok(())
    });
    // If it fails, it never uses them, and the copy does not begin.
    ready.take().await?;
    drop(holder);
    Ok(done)
}

/// What other programs have taken.
struct Held {
    memory: Mapping,
    /// Open for as long.
    _files: [WorldFile; 2],
}

impl Held {
    /// Reads the file that is used and the one that is used once, then takes the memory.
    async fn take(
        process: &Process,
        active: u64,
        once: u64,
        anonymous: u64,
    ) -> Result<Held, WorldError> {
        let file_systems = process.world().file_systems();
        let system = &file_systems[file_systems.len() - 1];
        let mut programs = process.open_old(system, "programs", active).await?;
        for _ in 0..2 {
            read_all(&mut programs, active).await?;
        }
        let mut read_once = process.open_old(system, "read once", once).await?;
        read_all(&mut read_once, once).await?;
        let mut memory = process.map_anonymous(anonymous).await?;
        memory.touch_all().await?;
        Ok(Held {
            memory,
            _files: [read_once, programs],
        })
    }
}

async fn read_all(file: &mut WorldFile, bytes: u64) -> Result<(), WorldError> {
    const CALL_BYTES: u64 = 128 << 10;
    let mut at = 0;
    while at < bytes {
        file.read(at, CALL_BYTES.min(bytes - at)).await?;
        at += CALL_BYTES;
    }
    Ok(())
}

/// A copy to a file system of the kernel.
async fn write(process: Process, sizes: CopySizes, then: Then) -> Result<(), WorldError> {
    let CopySizes { bytes, block } = sizes;
    let file_system: &FileSystem = process.world().main_file_system();
    let mut file = process.create(file_system, "copy").await?;
    while file.end_bytes() < bytes {
        file.append(block.min(bytes - file.end_bytes())).await?;
    }
    if then == Then::Another {
        return file.remove().await;
    }
    file.close().await;
    Ok(())
}

/// Where the writer and the daemon meet, one request at a time.
#[derive(Clone)]
struct Hand {
    asked: Arc<Slot<u64>>,
    answered: Arc<Slot<Result<(), WorldError>>>,
}

impl Default for Hand {
    fn default() -> Hand {
        Hand {
            asked: Arc::new(Slot::new()),
            answered: Arc::new(Slot::new()),
        }
    }
}

/// dd: passes each block on page by page, and waits for the answers.
async fn hand_over(
    process: Process,
    hand: Hand,
    sizes: CopySizes,
    own_cache: bool,
) -> Result<(), WorldError> {
    let CopySizes { bytes, block } = sizes;
    let own = own_pages(&process, bytes).await?;
    let mut kept = vec![0; if own_cache { block as usize } else { 0 }];
    let mut done = 0;
    while done < bytes {
        let length = block.min(bytes - done);
        let spent = WRITER_WORK.saturating_mul(pages_for(length));
        process
            .charge(ProcessorWork::Spend(spent))
            .and(ProcessorWork::Call)
            .await;
        hand.asked.set(length);
        hand.answered.take().await?;
        if own_cache {
            own.handle()
                .read_at(&mut kept[..length as usize], done)
                .await?;
        }
        done += length;
    }
    Ok(())
}

/// The pages of the file itself: the kernel keeps the pages that it passes to the daemon, clean,
/// under the file's name, while the daemon dirties other pages with the same content. A hole of
/// another file system represents them: its pages come into memory without I/O.
async fn own_pages(process: &Process, bytes: u64) -> Result<WorldFile, WorldError> {
    let file_systems = process.world().file_systems();
    let system = &file_systems[file_systems.len() - 1];
    let mut file = process.create(system, "copy").await?;
    file.truncate(bytes).await?;
    Ok(file)
}

/// The daemon: writes what it gets to the block device. If it cannot, it answers with the error and
/// ends.
async fn serve(
    process: Process,
    hand: Hand,
    bytes: u64,
    per_metadata: u64,
) -> Result<(), WorldError> {
    let ended = write_what_is_handed(process, &hand, bytes, per_metadata).await;
    if ended.is_err() {
        hand.answered.set(ended);
    }
    Ok(())
}

async fn write_what_is_handed(
    process: Process,
    hand: &Hand,
    bytes: u64,
    per_metadata: u64,
) -> Result<(), WorldError> {
    let device = process
        .create(process.world().main_file_system(), "device")
        .await?;
    let (mut at, mut since_metadata) = (DATA_START_BYTES, 0);
    loop {
        let length = hand.asked.take().await;
        if at >= DATA_START_BYTES + bytes {
            // The next copy, of a file that was cut to nothing: it gets the same place again.
            at = DATA_START_BYTES;
        }
        let pages = pages_for(length);
        process
            .charge(ProcessorWork::Spend(DAEMON_WORK.saturating_mul(pages)))
            .await;
        device.write_uncharged(at, length).await?;
        at += length;
        since_metadata += pages;
        if since_metadata >= per_metadata {
            since_metadata = 0;
            let metadata = byte_of(METADATA_PAGE);
            device.write(metadata, PAGE_BYTES as u64).await?;
        }
        hand.answered.set(Ok(()));
    }
}
