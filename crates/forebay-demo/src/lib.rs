//! The demo: four writers on a slow disk, through Forebay and through the kernel's page cache.
//!
//! Each contender is a separate process, so that both have the same budget and a signal ends them.
//! The parent makes the disks, shows the progress, and leaves nothing behind.
//!
//! It is a crate and a program of its own so that a first look at Forebay builds the library, this
//! and nothing else; `forebay demo` runs the same code.

mod board;
mod child;
mod dirty_limit;
mod error;
mod page;
mod screen;
mod tick;
mod writers;

pub use child::be_contender;
pub use error::DemoError;

use board::{Board, TICK_MS};
use dirty_limit::DirtyLimit;
use forebay_base::units::show_bytes;
use forebay_base::{PAGE_BYTES, Span};
use forebay_host::output::{expect_writable, print, write};
use forebay_host::{HostError, Interrupts, LoopDisk, Process, Scratch};
use forebay_rt::thread::{Stopwatch, pause_current};
use screen::Screen;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tick::{Assignment, Ended, Record, Storage, Summary, Tick};

/// Rate of the slow disk, in bytes a second.
const DISK_BYTES_PER_S: u64 = 30_000_000;
/// Memory of the cache.
const MEMORY_BYTES: u64 = 256 << 20;
/// The share of memory that the kernel allows to be dirty by default.
const DIRTY_PERCENT: u64 = 20;
/// Bytes of the file that the writers overwrite again and again.
const FILE_BYTES: u64 = 1 << 30;

/// The first argument of a contender's process. The process runs the calling program again.
pub const CONTENDER_COMMAND: &str = "demo-contender";

/// The flags of the demo.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct DemoArguments {
    /// How long each contender writes
    #[arg(long, value_name = "N", default_value = "10", value_parser = seconds())]
    pub seconds: u32,
    /// Print one line a second instead of a live screen
    #[arg(long)]
    pub plain: bool,
    /// Folder in which the scratch folder is made
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Write the page with the pictures to FILE
    #[arg(long, value_name = "FILE", default_value = "forebay-demo.html")]
    pub html: PathBuf,
    /// Also write the first picture to FILE, as SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Long enough to see something, and no longer than anybody would watch.
fn seconds() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=600)
}

/// Runs both contenders, one after the other, and writes the page.
///
/// The calling program is started again for each contender, with [`CONTENDER_COMMAND`] as its first
/// argument and a task as its second, which it must then give to [`be_contender`].
///
/// # Errors
/// Whatever prevents the end of the demo. A kernel that cannot take part is not an error: a line
/// gives the reason.
pub fn run(arguments: &DemoArguments) -> Result<(), DemoError> {
    expect_writable(&[Some(&arguments.html), arguments.svg.as_deref()])?;
    let interrupts = Interrupts::listen()?;
    let scratch = Scratch::create(&arguments.dir)?;
    scratch.check_room(FILE_BYTES)?;
    let screen = Screen::new(arguments.plain, arguments.seconds);
    screen.say(&format!(
        "four writers of 64 KiB on a disk of {} MB/s; {} of memory; {} s each",
        DISK_BYTES_PER_S / 1_000_000,
        show_bytes(MEMORY_BYTES),
        arguments.seconds
    ));
    let mut records = Vec::new();
    let file = make_file(scratch.folder())?;
    let storage = Storage::File(file);
    let forebay = Contender::start("forebay", arguments, storage, &interrupts)?;
    records.push(forebay.watch(&screen, None, || Ok(()))?);
    match on_the_kernel(arguments, &interrupts, &scratch, &screen)? {
        Ok(record) => records.push(record),
        Err(reason) => screen.say(&format!("kernel   not run: {reason}")),
    }
    screen.end();
    for record in &records {
        print(&format!("{}\n", record.summary_line()))?;
    }
    let page = page::render(&records);
    write(&arguments.html, &page)?;
    if let Some(svg_file) = &arguments.svg {
        write(svg_file, &page::picture(&records))?;
    }
    print(&format!("pictures: {}\n", arguments.html.display()))?;
    Ok(())
}

/// The kernel's page cache over a loop device with a limited rate. The device may have as much
/// dirty as the kernel allows by default on a machine with this memory. Returns the reason if this
/// is not possible.
fn on_the_kernel(
    arguments: &DemoArguments,
    interrupts: &Interrupts,
    scratch: &Scratch,
    screen: &Screen,
) -> Result<Result<Record, String>, DemoError> {
    let disk_file = scratch.folder().join("disk");
    let disk = match LoopDisk::create(&disk_file, FILE_BYTES, DISK_BYTES_PER_S) {
        Ok(disk) => disk,
        Err(reason) => return Ok(Err(format!("it needs a disk held to a rate: {reason}"))),
    };
    let limit = match DirtyLimit::set(disk.number(), MEMORY_BYTES / 100 * DIRTY_PERCENT) {
        Ok(limit) => limit,
        Err(reason) => return Ok(Err(format!("it needs a limit on what is dirty: {reason}"))),
    };
    let storage = Storage::Device(disk.device().to_owned());
    let contender = Contender::start("kernel", arguments, storage, interrupts)?;
    // Dirty pages at the end would keep the device busy for seconds.
    let record = contender.watch(screen, Some(&limit), || disk.release())?;
    drop(limit);
    Ok(Ok(record))
}

/// A contender in its process. Dropping it ends the process.
struct Contender<'a> {
    name: &'static str,
    process: Process,
    board: Board,
    ticks: u64,
    interrupts: &'a Interrupts,
}

impl<'a> Contender<'a> {
    fn start(
        name: &'static str,
        arguments: &DemoArguments,
        storage: Storage,
        interrupts: &'a Interrupts,
    ) -> Result<Contender<'a>, DemoError> {
        let failed = || DemoError::system("start a contender's process");
        let assignment = Assignment {
            storage,
            memory_bytes: MEMORY_BYTES,
            disk_bytes_per_s: DISK_BYTES_PER_S,
            file_bytes: FILE_BYTES,
            seconds: arguments.seconds,
        };
        let assignment = serde_json::to_string(&assignment).map_err(|e| failed()(e.into()))?;
        let ticks = u64::from(arguments.seconds) * 1_000 / TICK_MS;
        let board = Board::new(ticks)?;
        let mut command = Process::ourselves()?;
        command.args([CONTENDER_COMMAND, &assignment]);
        command.stdin(board.to_give()?).stdout(Stdio::piped());
        let process = Process::start(name, &mut command, interrupts)?;
        Ok(Contender {
            name,
            process,
            board,
            ticks,
            interrupts,
        })
    }

    /// Shows what the contender does until its time is up, frees its disk by `free_disk` and waits
    /// for its end. If the kernel has a `limit`, the level is what the device has dirty.
    fn watch(
        mut self,
        screen: &Screen,
        limit: Option<&DirtyLimit>,
        free_disk: impl Fn() -> Result<(), HostError>,
    ) -> Result<Record, DemoError> {
        self.starts()?;
        let mut ticks = Vec::new();
        let clock = Stopwatch::start();
        let mut pauses_before = 0;
        for tick in 0..self.ticks {
            // A tick is complete once the next one has begun.
            let whole_ms = (tick + 2) * TICK_MS;
            pause_current(Span::from_millis(whole_ms).saturating_sub(clock.elapsed()));
            self.interrupts.check()?;
            if tick + 1 < self.ticks && self.process.has_ended()? {
                // It reports the reason, unless it was killed.
                self.summary()?;
            }
            let (writes, longest_ns, level) = self.board.read(tick)?;
            let is_forebay = limit.is_none();
            let dirty_pages = match limit {
                Some(limit) => limit.dirty_pages(),
                None => Some(level.dirty_pages),
            };
            let mib = |pages: u64| (pages * PAGE_BYTES as u64) as f64 / f64::from(1 << 20);
            ticks.push(Tick {
                at_s: ((tick + 1) * TICK_MS) as f64 / 1e3,
                writes,
                longest_ms: longest_ns as f64 / 1e6,
                dirty_mib: dirty_pages.map(mib),
                setpoint_mib: is_forebay.then(|| mib(level.setpoint_pages)),
                pauses: is_forebay.then(|| level.pauses.saturating_sub(pauses_before)),
            });
            pauses_before = level.pauses.max(pauses_before);
            screen.show(self.name, &ticks);
        }
        free_disk()?;
        let summary = self.summary()?;
        screen.done(self.name, &ticks);
        Ok(Record {
            name: self.name.to_owned(),
            ticks,
            summary,
        })
    }

    /// Waits for the first tick, or for the end of a process that never gets there.
    fn starts(&mut self) -> Result<(), DemoError> {
        while !self.board.has_started()? {
            self.interrupts.check()?;
            if self.process.has_ended()? {
                break;
            }
            pause_current(Span::from_millis(2));
        }
        Ok(())
    }

    /// The contender's summary, once it has ended.
    fn summary(&mut self) -> Result<Summary, DemoError> {
        let mut said = String::new();
        if let Some(mut answers) = self.process.take_output() {
            let heard = answers.read_to_string(&mut said);
            heard.map_err(DemoError::system("read what a contender reports"))?;
        }
        self.interrupts.check()?;
        let contender = self.name;
        match serde_json::from_str(&said) {
            Ok(Ended::Well(summary)) => Ok(summary),
            Ok(Ended::Failed(reason)) => Err(DemoError::Contender { contender, reason }),
            Err(_) => Err(DemoError::Ended { contender }),
        }
    }
}

fn make_file(folder: &Path) -> Result<PathBuf, DemoError> {
    let path = folder.join("data");
    std::fs::File::create_new(&path)
        .and_then(|file| file.set_len(FILE_BYTES))
        .map_err(DemoError::at("make", &path))?;
    Ok(path)
}
