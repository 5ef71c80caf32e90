//! What a workload sees of the machine that it runs on: processes, files, memory, time.
//!
//! A workload is written against this and runs in two worlds: on a simulated machine, where each
//! call also takes the processor time that it would cost, and on a real folder, where it takes real
//! time. A [`Process`] is killed at any wait; a [`WorldFile`] call is one call of the engine.

mod anonymous;
mod boot;
mod error;
mod file;
mod folder;
mod measures;
mod process;
mod volume;
mod window;

pub use anonymous::Mapping;
pub use boot::{Booted, Platform};
pub(crate) use boot::{on_folder, simulate};
pub use error::WorldError;
pub use file::{KnownFile, WorldFile};
pub use measures::Measures;
pub use process::{Exit, Process, ProcessHandle};
pub(crate) use window::Snapshot;

use crate::device::Statistics;
use crate::machine::Machine;
use crate::probe::{PausesSinceLook, Watcher};
use forebay_base::sync::Mutex;
use forebay_base::{Instant, Prng};
use forebay_engine::{AttachedStore, Cache};
use forebay_rt::Rt;
use forebay_rt::wait::Gate;
use forebay_store::{Fault, Rate};
use std::sync::{Arc, Weak};
use volume::Volume;

/// A machine that runs. A clone is the same machine.
#[derive(Clone)]
pub struct World {
    inner: Arc<Inner>,
}

struct Inner {
    rt: Rt,
    cache: Cache,
    machine: Machine,
    file_systems: Vec<FileSystem>,
    devices: Vec<boot::NamedDevice>,
    faults: Vec<boot::NamedFaults>,
    measures: Measures,
    watcher: Arc<Watcher>,
    window: Mutex<window::Window>,
    writes_are_interruptible: bool,
    lives: Mutex<Vec<Weak<process::Life>>>,
    /// Opened when the run is over.
    ended: Gate,
}

/// A file system of the machine.
pub struct FileSystem {
    name: String,
    kind: String,
    attached: AttachedStore,
    volume: Arc<dyn Volume>,
}

impl FileSystem {
    /// Its name in the machine.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its daemon is a process of its own, which gets every page of a write.
    pub fn is_in_user_space(&self) -> bool {
        self.kind == boot::NTFS
    }

    /// Its store, as the cache knows it.
    pub fn store(&self) -> &AttachedStore {
        &self.attached
    }

    /// Bytes that fit on it now.
    pub fn room_bytes(&self) -> u64 {
        self.volume.room_bytes()
    }

    /// Refuses a workload that would not fit: it needs as many bytes as the product of these
    /// numbers, which may overflow.
    ///
    /// # Errors
    /// [`WorldError::NoRoom`].
    pub fn expect_room(&self, what: &str, factors: &[u64]) -> Result<(), WorldError> {
        let needed_bytes = factors
            .iter()
            .try_fold(1_u64, |all, it| all.checked_mul(*it));
        let room_bytes = self.volume.room_bytes();
        // A server has room for any number of bytes that does not overflow.
        if needed_bytes.is_some_and(|needed| needed <= room_bytes) {
            return Ok(());
        }
        Err(WorldError::NoRoom {
            what: what.into(),
            needed_bytes: needed_bytes.unwrap_or(u64::MAX),
            file_system: self.name.clone(),
            room_bytes,
        })
    }
}

impl World {
    /// The runtime.
    pub fn rt(&self) -> &Rt {
        &self.inner.rt
    }

    /// Time since the machine was switched on.
    pub fn now(&self) -> Instant {
        self.inner.rt.now()
    }

    /// The engine.
    pub fn cache(&self) -> &Cache {
        &self.inner.cache
    }

    /// What the machine is like.
    pub fn machine(&self) -> &Machine {
        &self.inner.machine
    }

    /// Where a workload puts what it measures.
    pub fn measures(&self) -> &Measures {
        &self.inner.measures
    }

    /// The stream of chance called `name`.
    pub fn chance(&self, name: &str) -> Prng {
        self.inner.rt.stream(name)
    }

    /// The file systems, the machine's main one first.
    pub fn file_systems(&self) -> &[FileSystem] {
        &self.inner.file_systems
    }

    /// The machine's main file system.
    pub fn main_file_system(&self) -> &FileSystem {
        &self.inner.file_systems[0]
    }

    /// The file system called `name`.
    ///
    /// # Errors
    /// [`WorldError::NoFileSystem`] lists what there is.
    pub fn file_system(&self, name: &str) -> Result<&FileSystem, WorldError> {
        let found = self.inner.file_systems.iter().find(|it| it.name == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = self
                .inner
                .file_systems
                .iter()
                .map(FileSystem::name)
                .collect();
            WorldError::NoFileSystem {
                machine: self.inner.machine.name.clone(),
                name: name.into(),
                known: known.join(", "),
            }
        })
    }

    pub(crate) fn device_statistics(&self) -> Vec<Statistics> {
        self.inner
            .devices
            .iter()
            .map(boot::NamedDevice::statistics)
            .collect()
    }

    pub(crate) fn pauses_since_look(&self) -> PausesSinceLook {
        self.inner.watcher.pauses_since_look()
    }

    pub(crate) fn device_names(&self) -> Vec<String> {
        self.inner
            .devices
            .iter()
            .map(|device| device.name.clone())
            .collect()
    }

    /// From now on the device called `name` runs at this many thousandths of its speed.
    ///
    /// # Errors
    /// [`WorldError::Impossible`] if there is none, or files are real.
    pub(crate) fn set_device_pace(&self, name: &str, thousandths: u32) -> Result<(), WorldError> {
        match self.device(name)? {
            boot::BootedDevice::Local(device) => device.set_pace(thousandths),
            boot::BootedDevice::Server(server) => server.set_pace(thousandths),
            boot::BootedDevice::Bucket(bucket) => bucket.set_pace(thousandths),
        }
        Ok(())
    }

    /// From now on the rated device called `name` has another rate.
    ///
    /// # Errors
    /// [`WorldError::Impossible`] if there is none, or it is of another kind.
    pub(crate) fn set_device_rate(&self, name: &str, rate: Rate) -> Result<(), WorldError> {
        let device = self.device(name)?;
        if matches!(device, boot::BootedDevice::Local(device) if device.set_rate(rate)) {
            return Ok(());
        }
        let problem = format!("device '{name}' is not rated: its rate cannot change");
        Err(WorldError::Impossible(problem))
    }

    /// From now on `fault` strikes requests to the file system called `name`. Without a fault no
    /// request goes wrong any more, and those that were held are passed on.
    ///
    /// # Errors
    /// [`WorldError::Impossible`] if requests to that file system cannot go wrong.
    pub(crate) fn set_fault(&self, name: &str, fault: Option<Fault>) -> Result<(), WorldError> {
        let found = self.inner.faults.iter().find(|it| it.file_system == name);
        let found = found.ok_or_else(|| {
            let problem = format!("requests to file system '{name}' cannot go wrong");
            WorldError::Impossible(problem)
        })?;
        if let Some(fault) = fault {
            found.store.inject(fault);
        } else {
            found.store.clear();
            found.store.release();
        }
        Ok(())
    }

    fn device(&self, name: &str) -> Result<&boot::BootedDevice, WorldError> {
        let found = self.inner.devices.iter().find(|it| it.name == name);
        found
            .map(|device| &device.kind)
            .ok_or_else(|| WorldError::Impossible(format!("there is no simulated device '{name}'")))
    }

    /// The names of the cache's stores in the order of their numbers: file systems, then swap.
    pub(crate) fn store_names(&self) -> Vec<String> {
        let file_systems = self.inner.file_systems.iter().map(|it| it.name.clone());
        file_systems
            .chain(std::iter::once("swap".to_owned()))
            .collect()
    }

    /// Ready when the run is over.
    pub(crate) async fn over(&self) {
        self.inner.ended.wait().await;
    }

    fn writes_are_interruptible(&self) -> bool {
        self.inner.writes_are_interruptible
    }
}
