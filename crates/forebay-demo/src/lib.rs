//! The demo: four writers flood a slow disk on which a reader works. What does each feel, through
//! Forebay and through what its users have today?
//!
//! Each contender is a separate process with a disk of its own, so that a signal ends it. All run
//! at the same time. The parent makes the disks, shows the progress, and leaves nothing behind.
//!
//! It is a crate and a program of its own so that a first look at Forebay builds the library, this
//! and nothing else; `forebay demo` runs the same code.

mod board;
mod child;
mod contender;
mod dirty_limit;
mod error;
mod kernel_disk;
mod limit_cache;
mod load;
mod page;
mod screen;
mod slow_disk;
mod tick;

pub use child::be_contender;
pub use error::DemoError;

use board::TICK_MS;
use contender::Contender;
use forebay_base::Span;
use forebay_base::units::show_bytes;
use forebay_host::output::{expect_writable, print, write};
use forebay_host::{Interrupts, Scratch};
use forebay_rt::thread::{Stopwatch, pause_current};
use kernel_disk::KernelDisk;
use load::FILE_BYTES;
use screen::Screen;
use std::path::PathBuf;
use tick::{Assignment, Kind, Record, flood};

/// Rate of the slow disk, in bytes a second.
const DISK_BYTES_PER_S: u64 = 30_000_000;
/// Memory of the cache.
const MEMORY_BYTES: u64 = 256 << 20;
/// What may be dirty of it: a fifth, the default of the kernel and of Forebay.
const DIRTY_BYTES: u64 = MEMORY_BYTES / 100 * 20;

/// The first argument of a contender's process. The process runs the calling program again.
pub const CONTENDER_COMMAND: &str = "demo-contender";

/// The flags of the demo.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct DemoArguments {
    /// How long it lasts; the writers begin after a quarter of it
    #[arg(long, value_name = "N", default_value = "20", value_parser = seconds())]
    pub seconds: u32,
    /// Print one line per second instead of a live screen
    #[arg(long)]
    pub plain: bool,
    /// Directory in which the scratch directory is made
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Write the page with the pictures to FILE
    #[arg(long, value_name = "FILE", default_value = "forebay-demo.html")]
    pub html: PathBuf,
    /// Also write the pictures to FILE, as SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Long enough to see something, and no longer than anybody would watch.
fn seconds() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=600)
}

/// Runs all contenders at the same time, and writes the page.
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
    let screen = Screen::new(arguments.plain, arguments.seconds);
    screen.say(&format!(
        "each has a disk of {} MB/s and {}: a reader, and from {} s on four writers",
        DISK_BYTES_PER_S / 1_000_000,
        show_bytes(MEMORY_BYTES),
        flood_s(arguments)
    ));
    let kernel_disk = KernelDisk::create(&scratch, FILE_BYTES, DISK_BYTES_PER_S, DIRTY_BYTES);
    let mut contenders = start_all(arguments, &interrupts, &scratch, kernel_disk.as_ref().ok())?;
    if let Err(reason) = &kernel_disk {
        screen.say(&format!("the kernel's page cache takes no part: {reason}"));
    }
    for contender in &mut contenders {
        contender.expect_ready()?;
    }
    if let Ok(disk) = &kernel_disk {
        disk.slow_down()?;
    }
    watch(&mut contenders, arguments, &screen)?;
    if let Ok(disk) = &kernel_disk {
        disk.release()?;
    }
    let mut records = Vec::new();
    for mut contender in contenders {
        let (kind, ticks) = (contender.kind, std::mem::take(&mut contender.ticks));
        let summary = contender.summary()?;
        records.push(Record {
            kind,
            ticks,
            summary,
        });
    }
    screen.end();
    report(&records, arguments)
}

fn flood_s(arguments: &DemoArguments) -> f64 {
    flood(arguments.seconds).as_millis() as f64 / 1e3
}

/// Starts every contender; the kernel only if it has a disk.
fn start_all(
    arguments: &DemoArguments,
    interrupts: &Interrupts,
    scratch: &Scratch,
    kernel_disk: Option<&KernelDisk>,
) -> Result<Vec<Contender>, DemoError> {
    let mut storage = Vec::new();
    for (kind, name) in [
        (Kind::Forebay, "forebay"),
        (Kind::StopsAtLimit, "limit"),
        (Kind::Direct, "direct"),
    ] {
        storage.push((kind, make_file(scratch, name)?));
    }
    storage.extend(kernel_disk.map(|disk| (Kind::Kernel, disk.path().to_owned())));
    scratch.check_room(storage.len() as u64 * FILE_BYTES)?;
    let start = |(kind, path)| {
        let assignment = Assignment {
            kind,
            path,
            memory_bytes: MEMORY_BYTES,
            dirty_bytes: DIRTY_BYTES,
            disk_bytes_per_s: DISK_BYTES_PER_S,
            seconds: arguments.seconds,
        };
        Contender::start(&assignment, interrupts)
    };
    storage.into_iter().map(start).collect()
}

fn make_file(scratch: &Scratch, name: &str) -> Result<PathBuf, DemoError> {
    let path = scratch.folder().join(name);
    std::fs::File::create_new(&path)
        .and_then(|file| file.set_len(FILE_BYTES))
        .map_err(DemoError::at("make", &path))?;
    Ok(path)
}

/// Lets the load begin, and shows what the contenders do until their time is up.
fn watch(
    contenders: &mut [Contender],
    arguments: &DemoArguments,
    screen: &Screen,
) -> Result<(), DemoError> {
    for contender in &*contenders {
        contender.begin()?;
    }
    let clock = Stopwatch::start();
    let ticks = u64::from(arguments.seconds) * 1_000 / TICK_MS;
    screen.head(contenders);
    for tick in 0..ticks {
        // A tick is complete once the next one has begun.
        let complete = Span::from_millis((tick + 2) * TICK_MS);
        pause_current(complete.saturating_sub(clock.elapsed()));
        for contender in &mut *contenders {
            if tick + 1 < ticks {
                contender.expect_running()?;
            }
            contender.see(tick)?;
        }
        screen.show(contenders);
    }
    Ok(())
}

/// Prints the summary and writes the page.
fn report(records: &[Record], arguments: &DemoArguments) -> Result<(), DemoError> {
    let flood_s = flood_s(arguments);
    print(&page::summary(records, flood_s))?;
    write(&arguments.html, &page::render(records, flood_s))?;
    if let Some(svg_file) = &arguments.svg {
        write(svg_file, &page::picture(records, flood_s))?;
    }
    print(&format!("pictures: {}\n", arguments.html.display()))?;
    Ok(())
}
