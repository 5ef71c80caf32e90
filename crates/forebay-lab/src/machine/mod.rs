//! Simulated machines as data: processors, memory, devices, file systems.
//!
//! The machines of spec/workloads.md 4.1 ship as TOML texts; a user writes one of their own in the
//! same form. A text may name a machine that ships as its base and say only what is different: a
//! key that it gives replaces that of the base, whole. What is impossible is refused with its line
//! and with what is allowed.

mod base;
mod costs;
mod error;
mod form;
mod memory;
mod ships;
mod storage;
mod text;

pub use costs::{CostClass, Costs};
pub(crate) use error::explained_in;
pub use error::{MachineError, SourceLine};
pub use form::{MachineText, Size};
pub use memory::{ElasticPlan, Memory, Node, Zone};
pub use ships::SHIPPED;
pub use storage::{DeviceKind, DevicePlan, FileSystemPlan, Storage, SwapPlan};
pub(crate) use storage::{NFS, TWO_PAGES_BYTES, VOLUME};

use forebay_base::Span;
use forebay_engine::settings::DirtyKnobs;
use ships::text_of;

/// A simulated machine, before it is switched on.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// One line that says what it is.
    pub summary: String,
    /// Processors.
    pub processors: usize,
    /// What work costs on them.
    pub costs: Costs,
    /// How long it takes, percent of what its class says; 100 unless a variant of the machine is
    /// asked for.
    pub costs_percent: u64,
    /// The tick in which the short waits of reclaim are counted.
    pub tick: Span,
    /// The tick in which the pauses of a kernel's writers are counted: that of the machine if its
    /// text has one, else 1 ms.
    pub pause_tick: Span,
    /// How strongly reclaim prefers anonymous pages to file pages.
    pub swappiness: u64,
    /// The limit on the age of bytes that are not durable.
    pub at_risk: Option<Span>,
    /// The memory group that the cache shares, if its budget gives way.
    pub elastic: Option<ElasticPlan>,
    /// Limits on dirty pages.
    pub dirty: DirtyKnobs,
    /// Nodes and zones.
    pub memory: Memory,
    /// Devices, and what is on them.
    pub storage: Storage,
}

impl Machine {
    /// The machine called `name` among those that ship.
    ///
    /// # Errors
    /// [`MachineError::Unknown`] lists them.
    ///
    /// ```
    /// use forebay_lab::machine::Machine;
    /// let machine = Machine::named("amd4-512m")?;
    /// assert_eq!((machine.processors, machine.memory.bytes()), (4, 512 << 20));
    /// assert!(Machine::named("pdp-11").is_err());
    /// # Ok::<(), forebay_lab::machine::MachineError>(())
    /// ```
    pub fn named(name: &str) -> Result<Machine, MachineError> {
        let Some(text) = text_of(name) else {
            let known: Vec<&str> = SHIPPED.iter().map(|(known, _)| *known).collect();
            return Err(MachineError::Unknown {
                name: name.into(),
                known: known.join(", "),
            });
        };
        Machine::parse(text)
    }

    /// The machine that `text` describes.
    ///
    /// # Errors
    /// [`MachineError::Text`] with the line, what is wrong there and what is allowed.
    pub fn parse(text: &str) -> Result<Machine, MachineError> {
        text::parse(text)
    }

    /// The same machine with all memory except the `DMA` zones, and swap, divided by `divisor`.
    ///
    /// # Errors
    /// [`MachineError::Impossible`] if a zone becomes too small to work in.
    pub fn scaled(mut self, divisor: u64) -> Result<Machine, MachineError> {
        let divisor = divisor.max(1);
        self.memory.scale_down(divisor);
        if let Some(swap) = &mut self.storage.swap {
            swap.bytes /= divisor;
        }
        match self.too_small() {
            None => Ok(self),
            Some(problem) => Err(MachineError::Impossible {
                problem: format!("divided by {divisor}, {problem}"),
                machine: self.name,
            }),
        }
    }

    /// The same machine with all memory except the `DMA` zones of `percent` of its size.
    ///
    /// # Errors
    /// [`MachineError::Impossible`] if a zone becomes too small to work in.
    pub fn with_memory(mut self, percent: u64) -> Result<Machine, MachineError> {
        self.memory.scale_by(percent);
        match self.too_small() {
            None => Ok(self),
            Some(problem) => Err(MachineError::Impossible {
                problem: format!("with {percent} % of its memory, {problem}"),
                machine: self.name,
            }),
        }
    }

    /// The same machine with devices of `percent` of their speed.
    #[must_use]
    pub fn with_device_speed(mut self, percent: u64) -> Machine {
        for device in &mut self.storage.devices {
            let kind = device.kind.clone();
            device.kind = match kind {
                DeviceKind::Local(device) => DeviceKind::Local(device.at_speed(percent)),
                DeviceKind::Server(server) => DeviceKind::Server(server.at_speed(percent)),
                DeviceKind::Bucket(bucket) => DeviceKind::Bucket(bucket.at_speed(percent)),
            };
        }
        self
    }

    /// What has become too small to be divided so far.
    fn too_small(&self) -> Option<String> {
        let too_small = |bytes: u64| bytes != 0 && bytes < 4 << 20;
        if let Some(zone) = self.memory.zones().find(|zone| too_small(zone.bytes)) {
            let (name, bytes) = (&zone.name, zone.bytes);
            return Some(format!(
                "zone '{name}' has {bytes} bytes; 4M and more are allowed"
            ));
        }
        if let Some(wrong) = self.memory.wrong_zone() {
            return Some(wrong.problem);
        }
        let swap = self
            .storage
            .swap
            .filter(|swap| swap.bytes < TWO_PAGES_BYTES)?;
        let bytes = swap.bytes;
        Some(format!("swap has {bytes} bytes; 8K and more are allowed"))
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
