//! Switching a machine on.

use super::folder::Scratch;
use super::measures::Measures;
use super::volume::{InBucket, LaidOut, Plain, Volume};
use super::{FileSystem, Inner, World};
use crate::device::{self, Bucket, Device, Partition, Server, Statistics, TransferKind};
use crate::filesystem::{self, FileSystemSettings};
use crate::machine::{DeviceKind, FileSystemPlan, Machine};
use crate::plan::RunError;
use crate::probe::Watcher;
use forebay_base::Span;
use forebay_base::sync::Mutex;
use forebay_base::units::pages_for;
use forebay_engine::kernel::{CongestionSignal, PastFileSystem};
use forebay_engine::lab::{Kernel, LabCache};
use forebay_engine::settings::{BackingSettings, Elastic, PageMemory};
use forebay_engine::{Cache, Parts, Settings};
use forebay_kernels::Policy;
use forebay_kernels::policy::DirtyThrottle;
use forebay_law::pause::Tick;
use forebay_rt::wait::Gate;
use forebay_rt::{Rt, Virtual, VirtualSettings};
use forebay_store::{FaultStore, ObjectId, Store};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a workload runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Platform {
    /// On a simulated machine whose pages have no bytes.
    #[default]
    Simulated,
    /// On a simulated machine whose pages have bytes.
    SimulatedWithBytes,
    /// On files of this folder, in real time.
    Real(PathBuf),
}

/// Longest that a process of a simulated machine waits for a device before its call fails: a stick
/// that is written at random may need minutes for what is dirty.
const ANSWER_TIMEOUT: Span = Span::from_secs(3_600);

/// Files that a run may have open or dirty: the metadata form of fs_mark makes 720 000.
const OBJECTS_LIMIT: u32 = 1 << 20;

/// The file system whose daemon is a process of its own.
pub(super) const NTFS: &str = "ntfs";

/// A time slice of a simulated processor.
const SLICE: Span = Span::from_millis(4);

/// A device as booted.
pub(crate) struct NamedDevice {
    pub(crate) name: String,
    pub(crate) kind: BootedDevice,
}

/// What stores are on.
#[derive(Clone)]
pub(crate) enum BootedDevice {
    /// An address space.
    Local(Arc<dyn Device>),
    /// A store of its own.
    Server(Arc<Server>),
    /// The same.
    Bucket(Arc<Bucket>),
}

impl NamedDevice {
    /// What it has done.
    pub(crate) fn statistics(&self) -> Statistics {
        match &self.kind {
            BootedDevice::Local(device) => device.statistics(),
            BootedDevice::Server(server) => server.seen_as_device(),
            BootedDevice::Bucket(bucket) => bucket.seen_as_device(),
        }
    }
}

/// A machine that was just switched on.
pub struct Booted {
    /// The runtime that has to be driven.
    pub(crate) machine: Virtual,
    /// What runs on it.
    pub world: World,
}

/// Switches `machine` on. Requests to the file systems that `faulty` names can go wrong.
///
/// # Errors
/// [`RunError`] if the engine or a device refuses its settings.
pub(crate) fn simulate(
    machine: &Machine,
    policy: Policy,
    seed: u64,
    with_bytes: bool,
    faulty: &[String],
) -> Result<Booted, RunError> {
    let runtime = Virtual::new(VirtualSettings {
        seed,
        processors: machine.processors,
        costs: machine.costs.work_costs(machine.costs_percent),
        slice: SLICE,
    });
    let rt = runtime.rt();
    let watcher = Arc::new(Watcher::new(machine.tick));
    let memory = if with_bytes {
        PageMemory::Real
    } else {
        PageMemory::Phantom
    };
    let parts = Parts {
        rt: rt.clone(),
        sink: Some(watcher.clone()),
    };
    let cache = Cache::of_kernel(settings(machine, memory), parts, kernel(machine, policy))?;
    let devices = build_devices(machine, &rt)?;
    let attaching = Attaching {
        cache: &cache,
        policy,
        devices: &devices,
    };
    let (file_systems, faults) = attach_file_systems(machine, &rt, attaching, faulty)?;
    attach_swap(machine, policy, &cache, &devices)?;
    let hardware = Hardware {
        file_systems,
        devices,
        faults,
    };
    let watched = Watched { rt, cache, watcher };
    let world = assemble(machine, policy, watched, hardware);
    Ok(Booted {
        machine: runtime,
        world,
    })
}

/// What a world is made from.
struct Hardware {
    file_systems: Vec<FileSystem>,
    devices: Vec<NamedDevice>,
    faults: Vec<NamedFaults>,
}

/// A file system whose requests can go wrong.
pub(super) struct NamedFaults {
    pub(super) file_system: String,
    pub(super) store: Arc<FaultStore>,
}

/// A cache, and who watches it.
struct Watched {
    rt: Rt,
    cache: Cache,
    watcher: Arc<Watcher>,
}

fn assemble(machine: &Machine, policy: Policy, watched: Watched, hardware: Hardware) -> World {
    let Watched { rt, cache, watcher } = watched;
    World {
        inner: Arc::new(Inner {
            rt,
            cache,
            machine: machine.clone(),
            file_systems: hardware.file_systems,
            devices: hardware.devices,
            faults: hardware.faults,
            measures: Measures::default(),
            watcher,
            window: Mutex::default(),
            writes_are_interruptible: policy.dirty_throttle >= DirtyThrottle::IoLess,
            lives: Mutex::default(),
            ended: Gate::new(false),
        }),
    }
}

/// A world like `machine` in real time: its memory is ours, its files are in a folder of their own
/// inside `folder`, and its processes are tasks. A caller must wait for [`World::end_of_all`]
/// before it drops that folder, or a process makes another file in it.
///
/// # Errors
/// [`RunError`] if the folder cannot be written or the engine refuses its settings.
pub(crate) fn on_folder(
    machine: &Machine,
    policy: Policy,
    folder: &Path,
) -> Result<(World, Scratch), RunError> {
    let rt = Rt::real();
    let watcher = Arc::new(Watcher::new(machine.tick));
    let scratch = Scratch::new(folder)?;
    let parts = Parts {
        rt: rt.clone(),
        sink: Some(watcher.clone()),
    };
    let settings = settings(machine, PageMemory::Real);
    let cache = Cache::of_kernel(settings, parts, kernel(machine, policy))?;
    let mut file_systems = Vec::new();
    for plan in &machine.storage.file_systems {
        let (store, volume) = scratch.folder(&plan.name)?;
        file_systems.push(FileSystem {
            name: plan.name.clone(),
            // Nothing goes to a daemon: the folder's own file system takes it.
            kind: "real".into(),
            attached: cache.attach(store)?,
            volume: Arc::new(volume),
        });
    }
    if let Some(swap) = machine.storage.swap {
        let (store, volume) = scratch.folder("swap")?;
        let object = volume.make("swap", swap.bytes)?;
        let attached = cache.attach(store)?;
        cache.set_swap(&attached, object, swap.bytes)?;
    }
    let hardware = Hardware {
        file_systems,
        devices: Vec::new(),
        faults: Vec::new(),
    };
    let watched = Watched { rt, cache, watcher };
    let world = assemble(machine, policy, watched, hardware);
    Ok((world, scratch))
}

fn kernel(machine: &Machine, policy: Policy) -> Kernel {
    policy.kernel_with_tick(Tick::of_ms(machine.pause_tick.as_millis()))
}

fn settings(machine: &Machine, page_memory: PageMemory) -> Settings {
    Settings {
        memory_bytes: machine.memory.all_managed_pages() * 4096,
        nodes: machine.memory.settings(),
        dirty: machine.dirty,
        swappiness: machine.swappiness,
        at_risk: machine.at_risk,
        elastic: machine.elastic.map(|plan| Elastic {
            floor_bytes: plan.floor_bytes,
        }),
        tick: machine.tick,
        answer_timeout: ANSWER_TIMEOUT,
        held_timeout: ANSWER_TIMEOUT,
        objects_limit: OBJECTS_LIMIT,
        page_memory,
        ..Settings::default()
    }
}

fn build_devices(machine: &Machine, rt: &Rt) -> Result<Vec<NamedDevice>, RunError> {
    let mut devices = Vec::new();
    for plan in &machine.storage.devices {
        let kind = match &plan.kind {
            DeviceKind::Local(settings) => {
                BootedDevice::Local(device::build(rt, &plan.name, settings)?)
            }
            DeviceKind::Server(settings) => {
                BootedDevice::Server(Arc::new(Server::new(rt.clone(), settings.clone())))
            }
            DeviceKind::Bucket(settings) => {
                BootedDevice::Bucket(Arc::new(Bucket::new(rt.clone(), settings.clone())))
            }
        };
        devices.push(NamedDevice {
            name: plan.name.clone(),
            kind,
        });
    }
    Ok(devices)
}

impl BootedDevice {
    /// Most requests that wait: for a client, as many as its server or bucket lets it send.
    fn queue_requests(&self) -> u32 {
        match self {
            BootedDevice::Local(device) => device.shape().queue_depth,
            BootedDevice::Server(_) | BootedDevice::Bucket(_) => {
                BackingSettings::default().queue_requests
            }
        }
    }

    /// Whether its queue of writes is congested.
    fn congestion(&self) -> CongestionSignal {
        match self.clone() {
            BootedDevice::Local(device) => {
                Arc::new(move || device.is_congested(TransferKind::Write))
            }
            BootedDevice::Server(server) => Arc::new(move || server.is_congested()),
            BootedDevice::Bucket(bucket) => Arc::new(move || bucket.is_congested()),
        }
    }
}

/// The store of a file system, where its files come from, and what historic policies ask of it.
type Mounted = (Arc<dyn Store>, Arc<dyn Volume>, PastFileSystem);

/// Mounts a file system on all of a device except the last `swap_bytes`.
fn mount(rt: &Rt, plan: &FileSystemPlan, device: &BootedDevice, swap_bytes: u64) -> Mounted {
    let device = match device {
        BootedDevice::Local(device) => device.clone(),
        BootedDevice::Server(server) => {
            let volume = Arc::new(Plain::new(u64::MAX));
            return (server.clone(), volume, PastFileSystem::default());
        }
        BootedDevice::Bucket(bucket) => {
            let volume = Arc::new(InBucket::new(bucket.clone()));
            return (bucket.clone(), volume, PastFileSystem::default());
        }
    };
    let room_bytes = device.shape().capacity_bytes.saturating_sub(swap_bytes);
    let settings = FileSystemSettings::named(&plan.kind).filter(|_| plan.kind != NTFS);
    let Some(settings) = settings else {
        // The daemon of a user's file system writes to the block device itself.
        let volume = Arc::new(Plain::new(room_bytes));
        let store = Partition::new(device, 0, room_bytes);
        return (Arc::new(store), volume, PastFileSystem::default());
    };
    let mut past = PastFileSystem {
        reclaim_writes: settings.reclaim_writes.into(),
        reclaim_run_pages: pages_for(settings.reclaim_run_bytes) as u32,
        whole_turn_pages: pages_for(settings.joined_write_bytes) as u32,
        ..PastFileSystem::default()
    };
    let awaits_inodes = settings.awaits_inodes;
    let file_system = filesystem::FileSystem::new(rt.clone(), device, 0..room_bytes, settings);
    if awaits_inodes {
        past.inodes = Some(Arc::new(file_system.clone()));
    }
    let volume = Arc::new(LaidOut::new(&plan.name, file_system.clone()));
    (Arc::new(file_system), volume, past)
}

/// What file systems are attached to, and what they lie on.
#[derive(Clone, Copy)]
struct Attaching<'a> {
    cache: &'a Cache,
    policy: Policy,
    devices: &'a [NamedDevice],
}

fn attach_file_systems(
    machine: &Machine,
    rt: &Rt,
    attaching: Attaching<'_>,
    faulty: &[String],
) -> Result<(Vec<FileSystem>, Vec<NamedFaults>), RunError> {
    let Attaching {
        cache,
        policy,
        devices,
    } = attaching;
    let (mut file_systems, mut faults) = (Vec::new(), Vec::new());
    for plan in &machine.storage.file_systems {
        let device = &devices[plan.device].kind;
        let swap_bytes = machine.storage.swap_bytes_of(plan.device);
        let (mut store, volume, past) = mount(rt, plan, device, swap_bytes);
        if faulty.contains(&plan.name) {
            let may_fail = Arc::new(FaultStore::new(rt.clone(), store));
            faults.push(NamedFaults {
                file_system: plan.name.clone(),
                store: may_fail.clone(),
            });
            store = may_fail;
        }
        let past = PastFileSystem {
            congestion: Some(device.congestion()),
            ..past
        };
        let backing = BackingSettings {
            queue_requests: device.queue_requests(),
            drain: plan.drain,
            ..BackingSettings::default()
        };
        file_systems.push(FileSystem {
            name: plan.name.clone(),
            kind: plan.kind.clone(),
            attached: cache.attach_past(store, backing, policy.asks(past))?,
            volume,
        });
    }
    Ok((file_systems, faults))
}

fn attach_swap(
    machine: &Machine,
    policy: Policy,
    cache: &Cache,
    devices: &[NamedDevice],
) -> Result<(), RunError> {
    let Some(swap) = machine.storage.swap else {
        return Ok(());
    };
    let swap_device = &devices[swap.device].kind;
    let BootedDevice::Local(device) = swap_device else {
        return Err(RunError::System(
            "swap lies on a device of the machine, not on a server or in a bucket".into(),
        ));
    };
    let start_bytes = device.shape().capacity_bytes - swap.bytes;
    let store = Partition::new(device.clone(), start_bytes, swap.bytes).for_swap();
    let past = PastFileSystem {
        congestion: Some(swap_device.congestion()),
        ..PastFileSystem::default()
    };
    let attached = cache.attach_past(
        Arc::new(store),
        BackingSettings::default(),
        policy.asks(past),
    )?;
    cache.set_swap(&attached, ObjectId(0), swap.bytes)?;
    Ok(())
}
