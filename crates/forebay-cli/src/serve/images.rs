//! Images, which are opened by name and by one server at a time.

use super::arguments::{ImageArguments, ServeArguments};
use super::losses::Image;
use super::memory::{bucket_bytes, in_buckets};
use crate::config::Tuning;
use crate::daemon::patience::answer_timeout;
use crate::daemon::say::say;
use crate::daemon::store::{file_store, taken};
use crate::error::CommandError;
use crate::volume::key::owner_key;
use forebay::settings::BackingSettings;
use forebay::{AttachedStore, Cache};
use forebay_base::sync::atomic::AtomicBool;
use forebay_block::Disk;
use forebay_bucket::{BucketOpener, BucketSettings, OwnerKey};
use forebay_nbd::Export;
use forebay_nbd::client::{ClientSettings, NbdOpener};
use forebay_store::{Opener, Openers, Store, VolumeError, VolumeMode, VolumeUser};
use std::io;
use std::sync::Arc;

/// Refuses flags for volumes in buckets if an image is something else: `--key-file`, for example,
/// would leave its user believing that the image is encrypted.
fn check_buckets(arguments: &ServeArguments) -> Result<(), CommandError> {
    let flags = [
        ("--key-file", arguments.key_file.is_some()),
        ("--snapshot", arguments.snapshot.is_some()),
        ("--follow", arguments.follow_interval.is_some()),
    ];
    let given = flags.into_iter().find(|(_, is_given)| *is_given);
    match given {
        Some((flag, _)) if in_buckets(arguments) < arguments.images.len() as u64 => {
            let text = format!("{flag} is for volumes in buckets, and a PATH is something else");
            Err(CommandError::Opened(text))
        }
        _ => Ok(()),
    }
}

/// The key of volumes in buckets.
fn key(arguments: &ServeArguments) -> Result<Option<OwnerKey>, CommandError> {
    check_buckets(arguments)?;
    if in_buckets(arguments) == 0 {
        return Ok(None);
    }
    owner_key(arguments.key_file.as_deref())
}

/// Openers for every form of PATH.
fn openers(arguments: &ServeArguments) -> Result<Openers, CommandError> {
    let files = Arc::new(file_store()?);
    let servers = Arc::new(NbdOpener::new(ClientSettings {
        answer_timeout: answer_timeout(arguments.flags.answer_timeout),
    }));
    let buckets = Arc::new(BucketOpener {
        settings: BucketSettings {
            memory_bytes: bucket_bytes(arguments.memory_bytes, in_buckets(arguments)),
            answer_timeout: answer_timeout(arguments.flags.answer_timeout),
            dead_percent: arguments.dead_percent,
            commit_interval: arguments.commit_interval,
            key: key(arguments)?,
            snapshot: arguments.snapshot,
            follow_interval: arguments.follow_interval,
        },
        take_over: arguments.take_over,
        chunk_bytes: arguments.chunk_bytes,
    });
    let mut openers = Openers::new(files.clone()).with("file", files);
    for scheme in forebay_bucket::SCHEMES {
        openers = openers.with(scheme, buckets.clone());
    }
    for scheme in forebay_nbd::client::SCHEMES {
        openers = openers.with(scheme, servers.clone());
    }
    Ok(openers)
}

/// Opens every image of `arguments` through `cache`, in order.
pub(super) fn open(
    arguments: &ServeArguments,
    cache: &Cache,
) -> Result<(Vec<Export>, Vec<Image>), CommandError> {
    open_by(&openers(arguments)?, arguments, cache)
}

fn open_by(
    openers: &dyn Opener,
    arguments: &ServeArguments,
    cache: &Cache,
) -> Result<(Vec<Export>, Vec<Image>), CommandError> {
    let mode = match arguments.create_bytes {
        Some(length_bytes) => VolumeMode::Create { length_bytes },
        None if arguments.read_only => VolumeMode::ReadOnly,
        None => VolumeMode::ReadWrite,
    };
    let mut attached = Attached {
        cache,
        tuning: &arguments.tuning,
        settings: arguments.flags.promises.backing(),
        stores: Vec::new(),
    };
    let one = |image: &ImageArguments| open_one(openers, image, mode, &mut attached);
    arguments.images.iter().map(one).collect()
}

/// The stores of the images: several images may be in one store.
struct Attached<'c> {
    cache: &'c Cache,
    tuning: &'c Tuning,
    settings: BackingSettings,
    stores: Vec<(Arc<dyn Store>, AttachedStore)>,
}

impl Attached<'_> {
    fn store(&mut self, store: &Arc<dyn Store>) -> Result<AttachedStore, CommandError> {
        let known = self
            .stores
            .iter()
            .find(|(known, _)| Arc::ptr_eq(known, store));
        if let Some((_, attached)) = known {
            return Ok(attached.clone());
        }
        let settings = self.tuning.of_store(self.stores.len(), self.settings)?;
        let attached = taken(self.cache, store.clone(), settings)?;
        self.stores.push((store.clone(), attached.clone()));
        Ok(attached)
    }
}

fn open_one(
    openers: &dyn Opener,
    image: &ImageArguments,
    mode: VolumeMode,
    attached: &mut Attached<'_>,
) -> Result<(Export, Image), CommandError> {
    let path = &image.path;
    let volume = openers
        .open_volume(path.as_os_str(), mode)
        .map_err(advised)?;
    if let Some(warning) = &volume.warning {
        say(format_args!("{}: {warning}", path.display()));
    }
    let (cache, store) = (attached.cache, attached.store(&volume.store)?);
    let file = if mode.is_read_only() {
        cache.open_read_only(&store, volume.object, volume.length_bytes)
    } else {
        cache.open(&store, volume.object, volume.length_bytes)
    };
    let file = file.map_err(|error| CommandError::Image {
        path: path.clone(),
        reason: error.to_string(),
    })?;
    let followed = file.clone();
    let drops = move |bytes| followed.invalidate(bytes) == 0;
    volume.medium.follow(Box::new(drops));
    let served = Image {
        export: image.name.clone(),
        path: path.clone(),
        file: file.clone(),
        medium: volume.medium.clone(),
        was_lost: AtomicBool::new(false),
        was_cut: AtomicBool::new(false),
    };
    let disk = Disk::new(file).with_holes(volume.medium);
    let disk = if mode.is_read_only() {
        disk.read_only()
    } else {
        disk
    };
    Ok((Export::new(&image.name, disk), served))
}

/// The error with advice in the words of this command.
fn advised(error: VolumeError) -> CommandError {
    let reason = match &error {
        VolumeError::InUse { user, .. } => match user {
            VolumeUser::Server => "another server has it open; stop that one first".to_owned(),
            VolumeUser::Machine => "this machine uses it: it is mounted, or is part of another \
                                    device; unmount it first, or give --read-only"
                .to_owned(),
            VolumeUser::Process(_) => user.to_string(),
        },
        VolumeError::WrongLength {
            found_bytes,
            asked_bytes,
            ..
        } => format!(
            "it exists and has {found_bytes} bytes, not {asked_bytes}; leave out --create to \
             serve it as it is"
        ),
        VolumeError::Empty { .. } => "it has no bytes; give it a length with truncate, or make a \
                                      new one with --create"
            .to_owned(),
        _ => String::new(),
    };
    match error {
        VolumeError::InUse { address, .. }
        | VolumeError::WrongLength { address, .. }
        | VolumeError::Empty { address } => CommandError::Image {
            path: address.into(),
            reason,
        },
        VolumeError::Refused {
            action,
            address,
            cause,
        } => {
            let advice = if action == "create" {
                creating
            } else {
                opening
            };
            CommandError::advised(action, address.as_ref(), advice)(cause)
        }
        error => CommandError::Opened(error.to_string()),
    }
}

/// What to do about an image that cannot be created.
fn creating(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "; make its directory first",
        io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => {
            "; give a smaller --create, or a PATH on a file system that takes such files"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; give a PATH on another disk"
        }
        _ => "",
    }
}

/// What to do about an image that cannot be opened.
fn opening(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; make a new one with --create SIZE, or give another PATH",
        _ => "",
    }
}

#[cfg(test)]
#[path = "images_tests.rs"]
mod tests;
