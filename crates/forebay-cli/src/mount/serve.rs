//! Serving a mount, from the cache to the last byte written.

use super::arguments::MountArguments;
use super::background;
use crate::daemon::control::{self, Feed, Source};
use crate::daemon::ending::{Ending, write_all};
use crate::daemon::left::Left;
use crate::daemon::looks::Looks;
use crate::daemon::metrics::Beside;
use crate::daemon::patience::answer_timeout;
use crate::daemon::promises::report_promises;
use crate::daemon::say::{say, say_ready};
use crate::daemon::store::cache_with_files;
use crate::daemon::troubles::report_troubles;
use crate::daemon::{memory, metrics, pressure, scrape};
use crate::error::CommandError;
use forebay::settings::Elastic;
use forebay::{Cache, Settings};
use forebay_base::Span;
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_base::units::show_bytes;
use forebay_fuse::{Mount, MountError, MountParts, MountSettings, Shares, grant_descriptors};
use forebay_rt::{Rt, block_on};
use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::task::Poll;

/// Programs that still have files open when the end is requested are cut off after this time.
const DRAIN_PATIENCE: Span = Span::from_secs(10);
/// Memory that the program and the stacks of its threads take beside `--memory`.
const PROGRAM_BYTES: u64 = 16 << 20;
/// The pause between two checks whether an ended mount has written everything.
const RETRY_AFTER: Span = Span::from_millis(200);

/// Serves until the folder is unmounted or a signal ends it.
pub(super) fn run(arguments: &MountArguments) -> Result<(), CommandError> {
    let in_background = background::is_child();
    if in_background {
        background::leave_session()?;
    }
    // The mode of new files is the one their creator asked for, less the creator's own mask.
    rustix::process::umask(rustix::fs::Mode::empty());
    grant_descriptors().map_err(|error| CommandError::Served(error.to_string()))?;
    let unmarked = memory::become_flusher();
    let rt = Rt::real();
    let shares = Shares::of(arguments.memory_bytes);
    let budget = budget_of(arguments, shares);
    let feed = Arc::new(Feed::default());
    let knobs = (&arguments.tuning, arguments.flags.promises.backing());
    let (cache, files, store) = cache_with_files(&budget, knobs, &rt, feed.clone())?;
    cache.name_store(0, &arguments.source.display().to_string());
    let looks = Looks::default().with(report_troubles(&cache));
    looks.with(report_promises()).begin(&cache, &rt);
    pressure::watch(&cache)?;
    let parts = MountParts {
        rt: rt.clone(),
        cache: cache.clone(),
        files,
        store,
    };
    let mount = Arc::new(start(&settings_of(arguments, shares), &parts)?);
    let is_written = Arc::new(Mutex::new(false));
    let served = Arc::downgrade(&mount);
    let abort = move || drop(served.upgrade().inspect(|mount| mount.abort()));
    let ending = Ending::listen(&cache, is_written.clone(), abort)?;
    let unlocked = memory::lock_what_is_used();
    announce(arguments, &shares);
    for refused in [unmarked, unlocked].into_iter().flatten() {
        say(refused);
    }
    if let Some(address) = arguments.flags.metrics {
        let cache = cache.clone();
        let address = scrape::serve(address, move || metrics::of(&cache, &Beside::default()))?;
        scrape::announce(address);
    }
    let source = |socket| Source {
        cache: cache.clone(),
        rt: rt.clone(),
        feed,
        served: arguments.mount_point.display().to_string(),
        socket,
        beside: Box::new(Beside::default),
    };
    let control = control::start(arguments.flags.control.as_deref(), source)?;
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

fn budget_of(arguments: &MountArguments, shares: Shares) -> Settings {
    Settings {
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
    }
}

fn settings_of(arguments: &MountArguments, shares: Shares) -> MountSettings {
    MountSettings {
        source: arguments.source.clone(),
        mount_point: arguments.mount_point.clone(),
        allow_other: arguments.allow_other,
        read_only: arguments.read_only,
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

/// Mounts. If a mount of the same folder has ended and still writes, this waits for it first.
fn start(settings: &MountSettings, parts: &MountParts) -> Result<Mount, CommandError> {
    let mut is_reported = false;
    loop {
        match Mount::start(settings, parts.clone()) {
            Err(MountError::InUse(source)) if !is_mounted(&source)? => {
                if !is_reported {
                    say("waiting for an ended mount to write what it held");
                    is_reported = true;
                }
                block_on(parts.rt.sleep(RETRY_AFTER));
            }
            other => return other.map_err(|error| CommandError::Served(error.to_string())),
        }
    }
}

/// Whether some mount shows `source`, according to the system's list.
fn is_mounted(source: &Path) -> Result<bool, CommandError> {
    let path = Path::new("/proc/self/mountinfo");
    let list = std::fs::read_to_string(path).map_err(CommandError::at("read", path))?;
    Ok(shows(&list, source))
}

/// Whether a list of mounts contains one of ours that shows `source`.
fn shows(list: &str, source: &Path) -> bool {
    // The list writes a blank as an octal number. Other characters that it writes so are rare in
    // paths.
    let name = source.display().to_string().replace(' ', "\\040");
    list.lines().any(|line| {
        let filesystem = line.split(" - ").nth(1).unwrap_or_default();
        let mut words = filesystem.split(' ');
        // The type has our name only if the system's helper made the mount.
        matches!(words.next(), Some("fuse" | "fuse.forebay")) && words.next() == Some(&name)
    })
}

fn announce(arguments: &MountArguments, shares: &Shares) {
    let only = if arguments.read_only {
        ", read-only"
    } else {
        ""
    };
    say(format_args!(
        "{} is mounted at {}{only}, {} of memory, {} of it for pages; the program and the stacks \
         of its threads take up to {} beside it, and folders that the kernel knows {} bytes each \
         beyond the first {}",
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
                "bytes that programs stored to mapped files could not be fetched in time and are \
                 partly lost; end such programs before the mount",
            );
        }
    }
    mount.close().await;
    // Files that cannot be made durable were already given up by the mount.
    write_all(cache, rt, &mut Left::new(cache, rt), async || {}).await;
}

async fn take_mapped(mount: &Mount) {
    if let Err(error) = mount.take_mapped().await {
        say(format_args!(
            "cannot fetch the bytes stored to mapped files: {error}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_of_ours_is_found_in_the_list() {
        let list = [
            "36 25 8:1 / / rw - ext4 /dev/root rw",
            "90 25 0:41 / /mnt rw,noatime shared:1 - fuse.forebay /srv/a\\040b rw,user_id=0",
            "91 25 0:42 / /x rw - fuse.sshfs /srv/c rw",
            "92 25 0:43 / /y rw - fuse /srv/d rw",
        ];
        let list = &list.join("\n");
        assert!(shows(list, Path::new("/srv/a b")));
        assert!(!shows(list, Path::new("/srv/a")));
        assert!(!shows(list, Path::new("/srv/c")));
        assert!(shows(list, Path::new("/srv/d")));
    }
}
