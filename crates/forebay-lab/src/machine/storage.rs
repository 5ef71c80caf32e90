//! Devices, what is on them, and swap.

use super::error::explained;
use crate::device::{BucketSettings, DeviceSettings, ServerSettings};
use crate::filesystem::FileSystemSettings;
use forebay_base::{PAGE_BYTES, Span};
use serde::de::DeserializeOwned;

/// One device of a machine.
#[derive(Clone, Debug)]
pub struct DevicePlan {
    /// Its name in the machine.
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
}

/// What a device is.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceKind {
    /// In the machine, or attached to it.
    Local(DeviceSettings),
    /// Behind a network.
    Server(ServerSettings),
    /// A volume in a bucket.
    Bucket(BucketSettings),
}

/// A file system on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystemPlan {
    /// Its name in the machine.
    pub name: String,
    /// The place of its device in [`Storage::devices`].
    pub device: usize,
    /// `xfs`, `ext3`, `ext4`, `btrfs`, `ntfs`; `nfs` on a server, `volume` in a bucket.
    pub kind: String,
    /// The promise for its dirty pages (`forebay_engine::settings::BackingSettings::drain`).
    pub drain: Option<Span>,
}

/// Two pages: the least that the engine takes for swap, and for a limit on dirty pages.
pub(crate) const TWO_PAGES_BYTES: u64 = 2 * PAGE_BYTES as u64;

/// Where anonymous pages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapPlan {
    /// The place of its device in [`Storage::devices`].
    pub device: usize,
    /// Room in it, at the end of the device.
    pub bytes: u64,
}

/// All storage of a machine.
#[derive(Clone, Debug)]
pub struct Storage {
    /// Its devices.
    pub devices: Vec<DevicePlan>,
    /// Swap, if there is any.
    pub swap: Option<SwapPlan>,
    /// File systems; the first is where workloads put their files.
    pub file_systems: Vec<FileSystemPlan>,
}

impl Storage {
    /// What swap takes of the end of a device.
    pub(crate) fn swap_bytes_of(&self, device: usize) -> u64 {
        let swap = self.swap.filter(|swap| swap.device == device);
        swap.map_or(0, |swap| swap.bytes)
    }

    /// What a file system has for files and inodes while it is empty; none on a server or in a
    /// bucket, which are as large as needed.
    pub(crate) fn room_bytes_of(&self, file_system: &FileSystemPlan) -> Option<u64> {
        let DeviceKind::Local(device) = &self.devices[file_system.device].kind else {
            return None;
        };
        let swap_bytes = self.swap_bytes_of(file_system.device);
        let length_bytes = device.capacity_bytes().saturating_sub(swap_bytes);
        let settings = FileSystemSettings::named(&file_system.kind);
        let log_bytes = settings.map_or(0, |settings| settings.log_bytes_in(length_bytes));
        Some(length_bytes - log_bytes)
    }
}

/// A field of a table and what is wrong with it.
type FieldProblem = (String, String);

/// The file systems that there are.
const FILE_SYSTEMS: [&str; 7] = ["xfs", "ext3", "ext4", "btrfs", "ntfs", NFS, VOLUME];

impl DevicePlan {
    /// Reads a device's table: a `model` of the catalogue, or its figures spelled out, or a
    /// `server` or a `bucket`.
    pub(super) fn read(name: &str, table: &toml::Table) -> Result<DevicePlan, FieldProblem> {
        Ok(DevicePlan {
            name: name.into(),
            kind: DeviceKind::read(table)?,
        })
    }
}

impl DeviceKind {
    fn read(table: &toml::Table) -> Result<DeviceKind, FieldProblem> {
        let Some((field, value)) = table.iter().next().filter(|_| table.len() == 1) else {
            let given: Vec<&str> = table.keys().map(String::as_str).collect();
            let problem = format!(
                "a device has one of model, disk, stick, solid, rated, stripe, server and bucket; \
                 here is: {}",
                given.join(", ")
            );
            return Err((given.last().copied().unwrap_or("name").into(), problem));
        };
        let wrong = |problem: String| (field.clone(), problem);
        if field == "server" {
            return Ok(DeviceKind::Server(
                read_value(value.clone()).map_err(wrong)?,
            ));
        }
        if field == "bucket" {
            let settings: BucketSettings = read_value(value.clone()).map_err(wrong)?;
            settings.check().map_err(|error| wrong(error.to_string()))?;
            return Ok(DeviceKind::Bucket(settings));
        }
        if field != "model" {
            let settings: DeviceSettings = read_value(table.clone()).map_err(wrong)?;
            settings.check().map_err(|error| wrong(error.to_string()))?;
            return Ok(DeviceKind::Local(settings));
        }
        let model = value.as_str().unwrap_or_default();
        DeviceSettings::named(model)
            .map(DeviceKind::Local)
            .ok_or_else(|| {
                let known = DeviceSettings::names().join(", ");
                wrong(format!(
                    "there is no model '{model}' of a device; there are: {known}"
                ))
            })
    }
}

fn read_value<T: DeserializeOwned>(value: impl Into<toml::Value>) -> Result<T, String> {
    value
        .into()
        .try_into()
        .map_err(|error: toml::de::Error| explained(error.message()))
}

/// The file system of a server.
pub(crate) const NFS: &str = "nfs";

/// The file system of a bucket.
pub(crate) const VOLUME: &str = "volume";

/// The key of a promise, in seconds.
const DRAIN: &str = "drain_s";
const LEAST_DRAIN_S: f64 = 0.1;
const MOST_DRAIN_S: f64 = 86_400.0;

fn drain(given: &toml::Value) -> Result<Span, FieldProblem> {
    let seconds = given.as_float().or(given.as_integer().map(|it| it as f64));
    match seconds {
        Some(seconds) if (LEAST_DRAIN_S..=MOST_DRAIN_S).contains(&seconds) => {
            Ok(Span::from_micros((seconds * 1e6) as u64))
        }
        _ => {
            let allowed = format!("{LEAST_DRAIN_S} to {MOST_DRAIN_S} seconds are allowed");
            Err((DRAIN.into(), format!("{DRAIN} is {given}; {allowed}")))
        }
    }
}

impl FileSystemPlan {
    /// Itself, if it can be on this device: a server has `nfs` and a bucket `volume`, and no other
    /// device has these.
    pub(super) fn on(self, device: &DevicePlan) -> Result<FileSystemPlan, FieldProblem> {
        let (what, allowed) = match device.kind {
            DeviceKind::Local(_) => ("no server and no bucket", &FILE_SYSTEMS[..5]),
            DeviceKind::Server(_) => ("a server", &[NFS][..]),
            DeviceKind::Bucket(_) => ("a bucket", &[VOLUME][..]),
        };
        if allowed.contains(&self.kind.as_str()) {
            return Ok(self);
        }
        let (name, allowed) = (&device.name, allowed.join(", "));
        let problem = format!(
            "device '{name}' is {what}; {allowed} is allowed, not {}",
            self.kind
        );
        Err(("kind".into(), problem))
    }

    /// Reads a file system's table.
    pub(super) fn read(
        name: &str,
        device: usize,
        table: &toml::Table,
    ) -> Result<FileSystemPlan, FieldProblem> {
        let is_known = |key: &str| key == "kind" || key == DRAIN;
        if let Some(other) = table.keys().find(|key| !is_known(key)) {
            return Err((
                other.clone(),
                format!("a file system has name, device, kind and {DRAIN}, not {other}"),
            ));
        }
        let kind = table
            .get("kind")
            .and_then(toml::Value::as_str)
            .unwrap_or_default();
        if !FILE_SYSTEMS.contains(&kind) {
            let problem = format!(
                "there is no file system '{kind}'; there are: {}",
                FILE_SYSTEMS.join(", ")
            );
            return Err(("kind".into(), problem));
        }
        Ok(FileSystemPlan {
            name: name.into(),
            device,
            kind: kind.into(),
            drain: table.get(DRAIN).map(drain).transpose()?,
        })
    }
}
