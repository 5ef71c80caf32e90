//! Serving a mount, from the cache to the last byte written.

use super::arguments::MountArguments;
use super::{background, waiting};
use crate::daemon::control::{self, Feed, Source};
use crate::daemon::ending::{Ending, write_all};
use crate::daemon::history::History;
use crate::daemon::left::Left;
use crate::daemon::looks::Looks;
use crate::daemon::metrics::Beside;
use crate::daemon::patience::answer_timeout;
use crate::daemon::promises::report_promises;
use crate::daemon::say::{say, say_ready};
use crate::daemon::store::{cache_with_files, usable};
use crate::daemon::troubles::report_troubles;
use crate::daemon::{limits, machine, memory, pressure};
use crate::error::CommandError;
use forebay::settings::{BackingSettings, Elastic};
use forebay::{Cache, Settings, Statistics};
use forebay_base::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
    lock,
};
use forebay_base::units::show_bytes;
use forebay_base::{PAGE_BYTES, Span};
use forebay_fuse::{Fullness, Mount, MountParts, MountSettings, Shares, grant_descriptors};
use forebay_rt::{Rt, block_on};
use forebay_store::Figure;
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::pin;
use std::task::Poll;

/// Programs that still have files open when the end is requested are cut off after this time.
const DRAIN_PATIENCE: Span = Span::from_secs(10);
/// Threads without which a mount cannot work.
const THREADS: usize = 24;
/// Memory that the program and the stacks of its threads take beside `--memory`.
const PROGRAM_BYTES: u64 = 16 << 20;

/// Serves until the folder is unmounted or a signal ends it.
pub(super) fn run(arguments: &MountArguments) -> Result<(), CommandError> {
    let in_background = background::is_child();
    if in_background {
        background::end_with_starter()?;
        background::leave_session()?;
    }
    // The mode of new files is the one their creator asked for, less the creator's own mask.
    rustix::process::umask(rustix::fs::Mode::empty());
    grant_descriptors().map_err(|error| CommandError::Served(error.to_string()))?;
    limits::check_threads(THREADS)?;
    let unmarked = memory::become_flusher();
    let rt = Rt::real();
    let shares = Shares::of(arguments.memory_bytes);
    let feed = Arc::new(Feed::default());
    let history = History::default();
    let parts = parts_of(arguments, &rt, feed.clone(), &history)?;
    let cache = parts.cache.clone();
    let mount = Arc::new(waiting::start(&mount_of(arguments, shares), &parts)?);
    let is_written = Arc::new(Mutex::new(false));
    let served = Arc::downgrade(&mount);
    let abort = move || drop(served.upgrade().inspect(|mount| mount.abort()));
    let ending = Ending::listen(&cache, is_written.clone(), abort)?;
    let unlocked = memory::lock_what_is_used();
    announce(arguments, &shares);
    for refused in [unmarked, unlocked].into_iter().flatten() {
        say(refused);
    }
    let source = |socket| Source {
        cache: cache.clone(),
        rt: rt.clone(),
        feed: feed.clone(),
        history: history.clone(),
        served: arguments.mount_point.display().to_string(),
        socket,
        beside: beside(arguments, &mount),
    };
    if let Some(address) = &arguments.flags.metrics {
        control::start_metrics(address, source(PathBuf::new()))?;
    }
    let control = control::start(arguments.flags.control.as_deref(), source)?;
    if in_background {
        background::outlive_starter()?;
    }
    // The process that started us takes this line as the sign that the mount answers.
    say_ready(arguments.mount_point.display());
    if in_background {
        background::let_go_of_streams()?;
    }
    block_on(async {
        asked_or_ended(&ending, &mount).await;
        end(&mount, &cache, &rt).await;
    });
    drop(control);
    mount.settle();
    // A program that was cut off may still cause kernel requests, which we would wait for.
    mount.abort();
    *lock(&is_written) = true;
    report_losses(&mount)?;
    say("everything is written");
    Ok(())
}

/// The cache and its store, with everything that looks after them.
fn parts_of(
    arguments: &MountArguments,
    rt: &Rt,
    feed: Arc<Feed>,
    history: &History,
) -> Result<MountParts, CommandError> {
    let (settings, of_store) = settings_of(arguments)?;
    let (cache, files, store) = cache_with_files(settings, of_store, rt, feed)?;
    let named = cache.name_store(store.key(), &arguments.source.display().to_string());
    named.expect("the store is of this cache");
    let looks = Looks::default().with(report_troubles(&cache));
    let looks = looks.with(history.record(rt, arguments.flags.metrics.is_some()));
    looks.with(report_promises()).begin(&cache, rt);
    pressure::watch(&cache)?;
    Ok(MountParts {
        rt: rt.clone(),
        cache,
        files,
        store,
    })
}

/// What the mount knows beside its cache: how full the source is.
fn beside(arguments: &MountArguments, mount: &Arc<Mount>) -> Box<dyn Fn() -> Beside + Send + Sync> {
    // The mount has to end when it is written.
    let (mount, source) = (
        Arc::downgrade(mount),
        arguments.source.display().to_string(),
    );
    Box::new(move || {
        let mount = mount.upgrade();
        let fullness = mount.as_ref().map(|mount| mount.fullness());
        let fullness = fullness.unwrap_or_default();
        let refusals = mount.map_or_else(Vec::new, |mount| mount.refusals());
        let label = |(errno, count)| (format!("{{errno=\"{errno}\"}}"), count);
        Beside {
            connections: None,
            errors: refusals.into_iter().map(label).collect(),
            figures: vec![(source.clone(), figures_of(fullness))],
            troubles: trouble_of(&source, fullness).into_iter().collect(),
        }
    })
}

fn figures_of(fullness: Fullness) -> Vec<Figure> {
    vec![
        Figure::new(
            "source_refused_writes",
            "Writes that were refused because the source had no room",
            true,
            fullness.refused_writes,
        ),
        Figure::new(
            "source_refused_bytes",
            "Bytes of these writes",
            true,
            fullness.refused_bytes,
        ),
        Figure::new(
            "source_full",
            "File systems of the source that have no room now",
            false,
            fullness.full_systems,
        ),
    ]
}

fn trouble_of(source: &str, fullness: Fullness) -> Option<String> {
    (fullness.full_systems > 0).then(|| {
        format!(
            "{source} has no room: {} writes were refused since the start; make room there",
            fullness.refused_writes
        )
    })
}

/// The settings of the cache and its store, if they can be used on this machine. An error says
/// where in the file it comes from.
pub(super) fn settings_of(
    arguments: &MountArguments,
) -> Result<(Settings, BackingSettings), CommandError> {
    planned(arguments).map_err(|error| arguments.tuning.located(error))
}

fn planned(arguments: &MountArguments) -> Result<(Settings, BackingSettings), CommandError> {
    let (tuning, shares) = (&arguments.tuning, Shares::of(arguments.memory_bytes));
    machine::check_memory(arguments.memory_bytes, arguments.floor_bytes)?;
    // All files of the folder are in one store.
    tuning.expect_stores(1)?;
    let settings = Settings {
        memory_bytes: shares.cache_bytes(),
        objects_limit: shares.objects(),
        answer_timeout: answer_timeout(arguments.flags.answer_timeout),
        at_risk: arguments.flags.promises.at_risk,
        elastic: arguments.floor_bytes.map(|floor_bytes| Elastic {
            floor_bytes: floor_bytes.saturating_sub(shares.beside_bytes()),
        }),
        // Memory that may be given back is not taken before it is needed.
        prefault: arguments.floor_bytes.is_none(),
        ..Settings::default()
    };
    let settings = usable(&settings, shares.beside_bytes(), tuning)?;
    Ok((
        settings,
        tuning.of_store(0, arguments.flags.promises.backing())?,
    ))
}

fn mount_of(arguments: &MountArguments, shares: Shares) -> MountSettings {
    MountSettings {
        source: arguments.source.clone(),
        mount_point: arguments.mount_point.clone(),
        allow_other: arguments.allow_other,
        read_only: arguments.read_only,
        flags: arguments.mount_flags,
        shares,
    }
}

/// Fails if something that was given up is lost.
fn report_losses(mount: &Mount) -> Result<(), CommandError> {
    let losses = mount.losses();
    if losses > 0 {
        return Err(CommandError::Served(format!(
            "{losses} times a file was given up because it could not be made durable (see above); \
             check the device and write the file again"
        )));
    }
    Ok(())
}

fn announce(arguments: &MountArguments, shares: &Shares) {
    let only = if arguments.read_only {
        ", read-only"
    } else {
        ""
    };
    say(format_args!(
        "{} is mounted at {}{only}, {} of memory, {} of it for pages; program code and thread \
         stacks take up to {} more, and directories that the kernel knows {} bytes each beyond the \
         first {}",
        arguments.source.display(),
        arguments.mount_point.display(),
        show_bytes(arguments.memory_bytes),
        show_bytes(shares.cache_bytes()),
        show_bytes(PROGRAM_BYTES),
        Shares::NAME_BYTES,
        shares.names(),
    ));
}

/// Returns once a signal has come or the folder was unmounted.
async fn asked_or_ended(ending: &Ending, mount: &Mount) {
    let (mut asked, mut ended) = (pin!(ending.asked()), pin!(mount.ended()));
    poll_fn(|context| {
        let is_over =
            asked.as_mut().poll(context).is_ready() || ended.as_mut().poll(context).is_ready();
        if is_over {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// Admits no more programs, waits for those that have files open, and writes what is dirty.
async fn end(mount: &Arc<Mount>, cache: &Cache, rt: &Rt) {
    if let Err(error) = mount.unmount() {
        say(format_args!("cannot unmount: {error}"));
    }
    // Many files are written at a time; the progress is printed below.
    let writer = mount.clone();
    rt.spawn("write back", async move { writer.write_back().await });
    let drained = rt.timeout(DRAIN_PATIENCE, async {
        // Most of the bytes stored to mappings, while there is time for it.
        take_mapped(mount).await;
        mount.ended().await;
    });
    if drained.await.is_err() {
        say("programs that still have files open are cut off");
        if rt
            .timeout(DRAIN_PATIENCE, take_mapped(mount))
            .await
            .is_err()
        {
            say(
                "data that programs stored in mapped files could not be fetched in time and is \
                 partly lost; end such programs before unmounting",
            );
        }
    }
    mount.close().await;
    // Files that cannot be made durable were already given up by the mount.
    let is_told = AtomicBool::new(false);
    write_all(cache, rt, &mut Left::new(cache, rt), async || {
        if !is_told.swap(true, Ordering::Relaxed) {
            say(how_to_go_on(&cache.statistics()));
        }
    })
    .await;
}

/// What to do about bytes that the source does not take, though the folder is unmounted.
fn how_to_go_on(statistics: &Statistics) -> String {
    let process = std::process::id();
    format!(
        "{} are kept in memory: once the source takes them (make room there, or repair it) this \
         process, {process}, writes them and ends; to give them up interrupt it twice: kill -INT \
         {process}",
        show_bytes(statistics.dirty() * PAGE_BYTES as u64)
    )
}

async fn take_mapped(mount: &Mount) {
    if let Err(error) = mount.take_mapped().await {
        say(format_args!(
            "cannot fetch the data stored in mapped files: {error}"
        ));
    }
}
