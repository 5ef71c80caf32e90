//! `forebay volume`: volumes in buckets, apart from serving them.

pub(crate) mod key;

use crate::error::CommandError;
use chrono::DateTime;
use clap::{Args, Subcommand};
use forebay_base::sync::{Mutex, lock};
use forebay_base::units::{parse_size, show_bytes};
use forebay_base::{PAGE_BYTES, Span};
use forebay_bucket::{
    Bucket, BucketError, Checked, PageFormat, Progress, SnapshotName, VolumeFault, VolumeInfo,
    bucket_at, change_key, check, clone_volume, collect, copy, copy_snapshot, flatten, info,
    parent_path, remove, remove_snapshot, resize, roll_back, take_snapshot,
};
use forebay_host::output::print;
use forebay_rt::say;
use forebay_rt::thread::Stopwatch;
use key::{key_in, owner_key};
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PROGRESS_INTERVAL: Span = Span::from_secs(5);

/// The words that were typed.
#[derive(Subcommand)]
pub(crate) enum TypedVolume {
    /// Show a volume's size, objects, last writer and snapshots
    #[command(after_help = "\
Examples:
  forebay volume info s3://backups/vm1")]
    Info(TypedAddress),
    /// Read every object of a volume and compare checksums
    ///
    /// Names each object that is missing or damaged; the exit status is then 1. The volume may be
    /// written meanwhile.
    #[command(after_help = "\
Examples:
  forebay volume check s3://backups/vm1")]
    Check(TypedAddress),
    /// Remove objects that the volume no longer needs
    ///
    /// Removes replaced objects, and records that a map covers, except those that snapshots hold.
    /// The volume may be written meanwhile. A server that opened it read-only earlier may then fail
    /// to read what was removed.
    #[command(after_help = "\
Examples:
  forebay volume gc s3://backups/vm1")]
    Gc(TypedAddress),
    /// Copy a volume, as of its last FLUSH, to a place that has none
    ///
    /// The volume may be written, and gc may run, meanwhile. The copy has no writer. An interrupted
    /// copy is not a volume yet: run the same command again. A copy of a snapshot is a new volume;
    /// if it was interrupted, remove it first.
    #[command(after_help = "\
Examples:
  forebay volume copy s3://backups/vm1 folder:///srv/copies/vm1
  forebay volume copy --snapshot monday s3://backups/vm1 az://backups/vm1")]
    Copy(TypedCopy),
    /// Make a new volume that shares the present data of this one
    ///
    /// No data is copied: a snapshot of this volume holds what both share, and after that each is
    /// written independently. Both must be in the same bucket, or in directories. The volume may be
    /// written meanwhile. If the command was interrupted, remove the clone with --force first.
    #[command(after_help = "\
Examples:
  forebay volume clone s3://backups/vm1 s3://backups/vm1-test")]
    Clone(TypedClone),
    /// Copy the data that a clone shares with its parent into the clone
    ///
    /// The clone no longer needs its parent afterwards. Stop the clone's server first. If the
    /// command was interrupted, run it again with --take-over.
    #[command(after_help = "\
Examples:
  forebay volume flatten s3://backups/vm1-test")]
    Flatten(TypedFlatten),
    /// Keep the present state of a volume under a name
    ///
    /// No data is copied: objects that the snapshot needs are no longer removed. The volume may be
    /// written meanwhile. "volume info" lists the snapshots, and "serve nbd --snapshot" serves one.
    #[command(after_help = "\
Examples:
  forebay volume snapshot s3://backups/vm1 before-upgrade
  forebay volume snapshot --remove s3://backups/vm1 before-upgrade")]
    Snapshot(TypedSnapshot),
    /// Return a volume to the state of a snapshot
    ///
    /// Data that differs is written again and takes effect all at once. Stop the volume's server
    /// first, and take a snapshot if you may need the present state.
    #[command(after_help = "\
Examples:
  forebay volume rollback s3://backups/vm1 before-upgrade")]
    Rollback(TypedRollback),
    /// Make a volume longer or shorter
    ///
    /// Added bytes are zeros. Stop the volume's server first.
    #[command(after_help = "\
Examples:
  forebay volume resize s3://backups/vm1 3T
  forebay volume resize --shrink s3://backups/vm1 1T")]
    Resize(TypedResize),
    /// Change the key of an encrypted volume
    ///
    /// The old key no longer opens the volume. No data is written again, and its server may run
    /// meanwhile. To complete an interrupted change, run the same command again.
    #[command(after_help = "\
Examples:
  forebay volume key --key-file old.key --new-key-file new.key s3://backups/vm2")]
    Key(TypedKey),
    /// Remove a volume with all its data
    ///
    /// A volume that a server has open, or did not close, is not removed without --force.
    #[command(after_help = "\
Examples:
  forebay volume remove s3://backups/vm1-test")]
    Remove(TypedRemoval),
}

#[derive(Args)]
pub(crate) struct TypedAddress {
    /// The volume: s3://BUCKET/PREFIX, az://CONTAINER/PREFIX, gs://BUCKET/PREFIX or folder:///DIR
    #[arg(value_name = "VOLUME")]
    address: OsString,
}

#[derive(Args)]
pub(crate) struct TypedCopy {
    #[command(flatten)]
    from: TypedAddress,
    /// The place of the copy, in the same form; it may be at another service
    #[arg(value_name = "COPY")]
    to: OsString,
    /// Copy this snapshot of the volume
    #[arg(long, value_name = "NAME")]
    snapshot: Option<SnapshotName>,
    /// Key of the volume, if it is encrypted, to copy a snapshot; the copy has the same key
    /// [default: the variable FOREBAY_VOLUME_KEY]
    #[arg(long, value_name = "FILE", requires = "snapshot")]
    key_file: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct TypedClone {
    #[command(flatten)]
    parent: TypedAddress,
    /// The place of the clone, in the same form
    #[arg(value_name = "CLONE")]
    clone: OsString,
    /// Clone the volume as it was when this snapshot was taken
    #[arg(long, value_name = "NAME")]
    snapshot: Option<SnapshotName>,
}

#[derive(Args)]
pub(crate) struct TypedFlatten {
    #[command(flatten)]
    clone: TypedAddress,
    /// Proceed although the last writer did not close the clone
    #[arg(long)]
    take_over: bool,
}

#[derive(Args)]
pub(crate) struct TypedSnapshot {
    #[command(flatten)]
    volume: TypedAddress,
    /// Name of the snapshot: up to 64 letters, digits, '-', '_' and '.'
    #[arg(value_name = "NAME")]
    name: SnapshotName,
    /// Remove the snapshot with that name
    #[arg(long)]
    remove: bool,
    /// Remove it even if a clone may need it
    #[arg(long, requires = "remove")]
    force: bool,
}

#[derive(Args)]
pub(crate) struct TypedRollback {
    #[command(flatten)]
    volume: TypedAddress,
    /// Name of the snapshot
    #[arg(value_name = "NAME")]
    name: SnapshotName,
    /// Key of the volume, if it is encrypted [default: the variable FOREBAY_VOLUME_KEY]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Proceed although the last writer did not close the volume
    #[arg(long)]
    take_over: bool,
}

#[derive(Args)]
pub(crate) struct TypedResize {
    #[command(flatten)]
    volume: TypedAddress,
    /// The new length
    #[arg(value_name = "SIZE", value_parser = parse_size)]
    length_bytes: u64,
    /// Allow a shorter length: data past SIZE is lost, except from snapshots
    #[arg(long)]
    shrink: bool,
    /// Key of the volume, if it is encrypted [default: the variable FOREBAY_VOLUME_KEY]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Proceed although the last writer did not close the volume
    #[arg(long)]
    take_over: bool,
}

#[derive(Args)]
pub(crate) struct TypedKey {
    #[command(flatten)]
    volume: TypedAddress,
    /// The present key: 64 hexadecimal digits, or 32 random bytes [default: the variable
    /// FOREBAY_VOLUME_KEY]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The new key
    #[arg(long, value_name = "FILE")]
    new_key_file: PathBuf,
}

#[derive(Args)]
pub(crate) struct TypedRemoval {
    #[command(flatten)]
    volume: TypedAddress,
    /// Remove it even if a server has it open or did not close it, or if it is damaged
    #[arg(long)]
    force: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Task {
    Info,
    Check,
    Gc,
    Copy {
        to: OsString,
        snapshot: Option<SnapshotName>,
        key: Option<PathBuf>,
    },
    Snapshot {
        name: SnapshotName,
    },
    RemoveSnapshot {
        name: SnapshotName,
        is_forced: bool,
    },
    Clone {
        to: OsString,
        snapshot: Option<SnapshotName>,
    },
    Change(Change),
}

/// What changes a volume that nobody serves, or its key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    RollBack {
        name: SnapshotName,
        key: Option<PathBuf>,
        takes_over: bool,
    },
    Resize {
        length_bytes: u64,
        may_shrink: bool,
        key: Option<PathBuf>,
        takes_over: bool,
    },
    Key {
        old: Option<PathBuf>,
        new: PathBuf,
    },
    Flatten {
        takes_over: bool,
    },
    Remove {
        is_forced: bool,
    },
}

/// The arguments of `forebay volume`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeArguments {
    task: Task,
    address: OsString,
}

impl From<TypedVolume> for VolumeArguments {
    fn from(typed: TypedVolume) -> VolumeArguments {
        let (task, typed) = match typed {
            TypedVolume::Info(typed) => (Task::Info, typed),
            TypedVolume::Check(typed) => (Task::Check, typed),
            TypedVolume::Gc(typed) => (Task::Gc, typed),
            TypedVolume::Copy(typed) => {
                let task = Task::Copy {
                    to: typed.to,
                    snapshot: typed.snapshot,
                    key: typed.key_file,
                };
                (task, typed.from)
            }
            TypedVolume::Snapshot(TypedSnapshot {
                volume,
                name,
                remove: false,
                ..
            }) => (Task::Snapshot { name }, volume),
            TypedVolume::Snapshot(typed) => {
                let (name, is_forced) = (typed.name, typed.force);
                (Task::RemoveSnapshot { name, is_forced }, typed.volume)
            }
            TypedVolume::Clone(typed) => {
                let (to, snapshot) = (typed.clone, typed.snapshot);
                (Task::Clone { to, snapshot }, typed.parent)
            }
            TypedVolume::Flatten(typed) => {
                let takes_over = typed.take_over;
                (Task::Change(Change::Flatten { takes_over }), typed.clone)
            }
            TypedVolume::Rollback(typed) => {
                let change = Change::RollBack {
                    name: typed.name,
                    key: typed.key_file,
                    takes_over: typed.take_over,
                };
                (Task::Change(change), typed.volume)
            }
            TypedVolume::Resize(typed) => {
                let change = Change::Resize {
                    length_bytes: typed.length_bytes,
                    may_shrink: typed.shrink,
                    key: typed.key_file,
                    takes_over: typed.take_over,
                };
                (Task::Change(change), typed.volume)
            }
            TypedVolume::Key(TypedKey {
                volume,
                key_file: old,
                new_key_file: new,
            }) => (Task::Change(Change::Key { old, new }), volume),
            TypedVolume::Remove(TypedRemoval { volume, force }) => {
                (Task::Change(Change::Remove { is_forced: force }), volume)
            }
        };
        let address = typed.address;
        VolumeArguments { task, address }
    }
}

/// Does what was asked, and prints what came of it.
pub(crate) fn run(arguments: &VolumeArguments) -> Result<(), CommandError> {
    let name = arguments.address.display();
    let failed = |text: String| CommandError::Opened(format!("{name}: {text}"));
    let bucket = bucket_at(&arguments.address, false).map_err(|error| failed(error.to_string()))?;
    let failed = |error: BucketError| failed(error.to_string());
    let text = match &arguments.task {
        Task::Info => show(&info(bucket).map_err(failed)?),
        Task::Gc => {
            let collected = collect(bucket).map_err(failed)?;
            format!(
                "{} objects were removed, which frees {}\n",
                collected.objects,
                show_bytes(collected.bytes)
            )
        }
        Task::Check => return check_all(&name.to_string(), bucket, failed),
        Task::Copy { to, snapshot, key } => {
            return copy_to(arguments, bucket, to, *snapshot, key.as_deref());
        }
        Task::Snapshot { name } => {
            take_snapshot(bucket, *name).map_err(failed)?;
            format!("the snapshot {name} is taken\n")
        }
        Task::RemoveSnapshot { name, is_forced } => {
            remove_snapshot(bucket, *name, *is_forced).map_err(failed)?;
            format!("the snapshot {name} is removed; forebay volume gc frees what it held\n")
        }
        Task::Clone { to, snapshot } => {
            clone_to(arguments, bucket, to, *snapshot)?;
            format!("{} is a clone of it\n", to.display())
        }
        Task::Change(task) => change(task, bucket, failed)?,
    };
    print(&format!("{name}: {text}"))?;
    Ok(())
}

/// Does it, and returns what came of it.
fn change(
    task: &Change,
    bucket: Arc<dyn Bucket>,
    failed: impl Fn(BucketError) -> CommandError,
) -> Result<String, CommandError> {
    Ok(match task {
        Change::RollBack {
            name,
            key,
            takes_over,
        } => {
            let (key, progress) = (owner_key(key.as_deref())?, progress("written"));
            let rolled = roll_back(bucket, *name, key.as_ref(), *takes_over, &progress);
            let written = show_bytes(rolled.map_err(failed)?.bytes);
            format!("it is as of the snapshot {name} again; {written} were written\n")
        }
        Change::Resize {
            length_bytes,
            may_shrink,
            key,
            takes_over,
        } => {
            let key = owner_key(key.as_deref())?;
            resize(
                bucket,
                *length_bytes,
                *may_shrink,
                key.as_ref(),
                *takes_over,
            )
            .map_err(failed)?;
            format!("it has {} now\n", show_bytes(*length_bytes))
        }
        Change::Key { old, new } => {
            let old = owner_key(old.as_deref())?;
            let old = old.ok_or_else(|| failed(VolumeFault::KeyNeeded.into()))?;
            change_key(bucket, &old, &key_in(new)?).map_err(failed)?;
            "the new key opens it from now on\n".to_owned()
        }
        Change::Flatten { takes_over } => {
            let copied = flatten(bucket, *takes_over, &progress("copied")).map_err(failed)?;
            let bytes = show_bytes(copied.bytes);
            format!(
                "{} objects with {bytes} were copied; it no longer shares anything\n",
                copied.objects
            )
        }
        Change::Remove { is_forced } => {
            let removed = remove(bucket, *is_forced, &progress("removed")).map_err(failed)?;
            let bytes = show_bytes(removed.bytes);
            format!("{} objects with {bytes} were removed\n", removed.objects)
        }
    })
}

/// Copies the volume in `bucket`, or a snapshot of it, to `to`.
fn copy_to(
    arguments: &VolumeArguments,
    bucket: Arc<dyn Bucket>,
    to: &OsStr,
    snapshot: Option<SnapshotName>,
    key: Option<&Path>,
) -> Result<(), CommandError> {
    let (name, copy_name) = (arguments.address.display(), to.display());
    let failed = |text: String| CommandError::Opened(format!("{copy_name}: {text}"));
    let to = bucket_at(to, true).map_err(|error| failed(error.to_string()))?;
    let progress = progress("copied");
    let copied = match snapshot {
        None => copy(bucket, to, &progress),
        Some(name) => copy_snapshot(bucket, name, to, owner_key(key)?.as_ref(), &progress),
    };
    let copied = copied.map_err(|error| failed(error.to_string()))?;
    let what = snapshot.map_or(String::new(), |snapshot| {
        format!("the snapshot {snapshot} of ")
    });
    print(&format!(
        "{copy_name}: a copy of {what}{name}, {} objects with {}\n",
        copied.objects,
        show_bytes(copied.bytes)
    ))?;
    Ok(())
}

/// Makes a clone of the volume in `bucket`, or of a snapshot of it, at `to`.
fn clone_to(
    arguments: &VolumeArguments,
    bucket: Arc<dyn Bucket>,
    to: &OsStr,
    snapshot: Option<SnapshotName>,
) -> Result<(), CommandError> {
    let failed = |text: String| CommandError::Opened(format!("{}: {text}", to.display()));
    let clone = bucket_at(to, true).map_err(|error| failed(error.to_string()))?;
    let path = parent_path(to, &arguments.address).map_err(|error| failed(error.to_string()))?;
    clone_volume(bucket, clone, path, snapshot).map_err(|error| failed(error.to_string()))
}

/// Says every few seconds how many objects were `done`.
fn progress(done: &'static str) -> Arc<Progress> {
    let since = Mutex::new(Stopwatch::start());
    Arc::new(move |number, all| {
        let mut since = lock(&since);
        if since.elapsed() >= PROGRESS_INTERVAL {
            *since = Stopwatch::start();
            say(format_args!("{number} of {all} objects are {done}"));
        }
    })
}

fn check_all(
    name: &str,
    bucket: Arc<dyn Bucket>,
    failed: impl Fn(BucketError) -> CommandError,
) -> Result<(), CommandError> {
    let Checked {
        chunks,
        pages,
        faults,
        notes,
    } = check(bucket).map_err(failed)?;
    for line in faults.iter().chain(&notes) {
        print(&format!("{name}: {line}\n"))?;
    }
    print(&format!(
        "{name}: {chunks} objects with chunks and {pages} pages in records are whole\n"
    ))?;
    if faults.is_empty() {
        return Ok(());
    }
    Err(CommandError::Opened(format!(
        "{name}: {} objects are missing or damaged",
        faults.len()
    )))
}

fn show(info: &VolumeInfo) -> String {
    let VolumeInfo { manifest, map, .. } = info;
    let chunk_bytes = u64::from(manifest.chunk_bytes);
    let mut text = format!(
        "{}, chunks of {}, {} of them used; {} objects with {}\n",
        show_bytes(manifest.length_bytes),
        show_bytes(chunk_bytes),
        map.chunks().count(),
        info.objects,
        show_bytes(info.bytes),
    );
    let mut line = |line: std::fmt::Arguments<'_>| {
        // A string takes everything.
        let _ = writeln!(text, "{line}");
    };
    match manifest.pages {
        PageFormat::Plain => {}
        PageFormat::Checksum => line(format_args!("each page has a checksum")),
        PageFormat::Encrypted => line(format_args!("encrypted with AES-256-GCM")),
    }
    match (map.epoch(), map.is_open()) {
        (0, _) => line(format_args!("it was never written")),
        (epoch, true) => line(format_args!(
            "open for writing by {} (epoch {epoch}, record {})",
            map.who(),
            map.number()
        )),
        (epoch, false) => line(format_args!(
            "closed by {} (epoch {epoch}, record {})",
            map.who(),
            map.number()
        )),
    }
    if map.inline_pages() > 0 {
        line(format_args!(
            "{} of it in records of small commits, each there twice",
            show_bytes((map.inline_pages() * PAGE_BYTES) as u64)
        ));
    }
    line(format_args!(
        "a flush is 2 requests, and one more for each chunk of which half has changed; a start \
         reads {} records",
        info.log_records
    ));
    if let Some((address, snapshot)) = &info.parent {
        line(format_args!(
            "a clone of {}, whose snapshot {snapshot} holds what both share",
            address.display()
        ));
    }
    for snapshot in &info.snapshots {
        line(format_args!("{}", show_snapshot(snapshot)));
    }
    if info.held.objects > 0 {
        line(format_args!(
            "{} in {} objects are there for snapshots alone",
            show_bytes(info.held.bytes),
            info.held.objects
        ));
    }
    if info.unneeded.objects > 0 {
        line(format_args!(
            "{} in {} objects are of older states: forebay volume gc frees them",
            show_bytes(info.unneeded.bytes),
            info.unneeded.objects
        ));
    }
    text
}

fn show_snapshot((name, taken): &(SnapshotName, Result<u64, VolumeFault>)) -> String {
    let use_of = if name.is_of_clone() {
        "which a clone needs, "
    } else {
        ""
    };
    match taken {
        Ok(taken_ms) => format!("snapshot {name}, {use_of}taken {}", show_time(*taken_ms)),
        Err(fault) => format!(
            "snapshot {name}, which cannot be read: nothing is removed while it is there; {fault}"
        ),
    }
}

/// A time in milliseconds since 1970, as people write it in UTC.
fn show_time(unix_ms: u64) -> String {
    let time = i64::try_from(unix_ms).ok();
    let time = time.and_then(DateTime::from_timestamp_millis);
    time.map_or("at an unknown time".to_owned(), |time| {
        time.format("%Y-%m-%d %H:%M:%S UTC").to_string()
    })
}
