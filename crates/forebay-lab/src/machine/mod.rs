//! Simulated machines as data: processors, memory, devices, file systems.
//!
//! The machines of spec/workloads.md 4.1 ship as TOML texts; a user writes one of their own in the
//! same form. What is impossible is refused with its line and what is allowed.

mod costs;
mod error;
mod memory;
mod ships;
mod storage;
mod text;

pub use costs::CostClass;
pub use error::{MachineError, Place};
pub use memory::{Memory, Node, Zone};
pub use ships::SHIPPED;
pub(crate) use storage::NFS;
pub use storage::{DeviceKind, DevicePlan, FileSystemPlan, Storage, SwapPlan};
pub use text::{MachineText, Size};

use forebay::DirtyKnobs;
use forebay_base::Span;
use toml::Spanned;

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
    pub costs: CostClass,
    /// The tick in which short waits are counted.
    pub tick: Span,
    /// How much rather anonymous pages are reclaimed than file pages.
    pub swappiness: u64,
    /// Limits on dirty pages.
    pub dirty: DirtyKnobs,
    /// Nodes and zones.
    pub memory: Memory,
    /// Devices, and what is on them.
    pub storage: Storage,
}

fn default_tick_ms() -> Spanned<u64> {
    Spanned::new(0..0, 4)
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
        let Some((_, text)) = SHIPPED.iter().find(|(known, _)| *known == name) else {
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

    /// The same machine with all memory but the `DMA` zones, and swap, divided by `divisor`.
    ///
    /// # Errors
    /// [`MachineError::Impossible`] if a zone becomes too small to work in.
    pub fn scaled(mut self, divisor: u64) -> Result<Machine, MachineError> {
        let divisor = divisor.max(1);
        self.memory.scale_down(divisor);
        if let Some(swap) = &mut self.storage.swap {
            swap.bytes /= divisor;
        }
        let too_small = |bytes: u64| bytes != 0 && bytes < 4 << 20;
        if let Some(zone) = self.memory.zones().find(|zone| too_small(zone.bytes)) {
            let problem = format!(
                "divided by {divisor}, zone '{}' has {} bytes; 4M and more are allowed",
                zone.name, zone.bytes
            );
            return Err(MachineError::Impossible {
                machine: self.name,
                problem,
            });
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_that_ships_can_be_read() {
        for (name, _) in SHIPPED {
            let machine = Machine::named(name).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(machine.name, *name);
            assert!(!machine.summary.is_empty(), "{name}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_what_is_allowed() {
        let good = SHIPPED[0].1;
        let broken = |from: &str, to: &str| {
            assert!(good.contains(from), "{from}");
            Machine::parse(&good.replacen(from, to, 1))
                .expect_err(to)
                .to_string()
        };
        let line_of = |text: &str| 1 + good[..good.find(text).unwrap()].matches('\n').count();
        let told = broken("processors = 4", "processors = 0");
        assert_eq!(
            told,
            format!(
                "line {}: processors is 0; 1 to 1024 are allowed",
                line_of("processors = 4")
            )
        );
        let told = broken("processors = 4", "processors = -4");
        assert!(
            told.starts_with(&format!("line {}", line_of("processors = 4"))),
            "{told}"
        );
        let told = broken("size = \"15M\"", "size = \"15\"");
        assert!(told.contains("512K"), "{told}");
        for size in ["17T", "16000000T"] {
            let told = broken("size = \"15M\"", &format!("size = \"{size}\""));
            assert!(told.contains("up to 16T are allowed"), "{told}");
        }
        let last_page = u64::MAX >> 1;
        let marks =
            format!("size = \"15M\"\nmin_pages = 1\nlow_pages = 2\nhigh_pages = {last_page}");
        let told = broken("size = \"15M\"", &marks);
        assert!(told.contains("high_pages is less than the zone"), "{told}");
        let told = broken("device = \"data\"", "device = \"dats\"");
        assert!(told.contains("there are: data"), "{told}");
        let told = broken("model = \"HDD-A\"", "rated = { bytes_per_s = -1 }");
        let line = line_of("model = \"HDD-A\"");
        assert!(told.starts_with(&format!("line {line}")), "{told}");
        let told = broken("model = \"HDD-A\"", "model = \"HDD-Z\"");
        assert!(told.contains("USB-slow"), "{told}");
        let told = broken("processors = 4", "procesors = 4");
        assert!(told.contains("procesors"), "{told}");
    }

    #[test]
    fn swap_fits_on_a_device_of_the_machine() {
        let text = |device: &str, kind: &str, size: &str| {
            format!(
                "name = \"m\"\nprocessors = 1\ncosts = \"2021\"\n[[nodes]]\n[[nodes.zones]]\n\
                 name = \"Normal\"\nsize = \"64M\"\n[[devices]]\nname = \"disk\"\n\
                 {device}\n[[file_systems]]\nname = \"data\"\ndevice = \"disk\"\n\
                 kind = \"{kind}\"\n[swap]\ndevice = \"disk\"\nsize = \"{size}\"\n"
            )
        };
        let local = "rated = { capacity_bytes = \"1G\" }";
        for size in ["2G", "0", "1"] {
            let told = Machine::parse(&text(local, "xfs", size)).expect_err(size);
            let told = told.to_string();
            assert!(
                told.starts_with("line 17: ") && told.contains("4K to the"),
                "{told}"
            );
        }
        let told = Machine::parse(&text("server = {}", "nfs", "1G")).expect_err("a server");
        let told = told.to_string();
        assert!(
            told.starts_with("line 16: ") && told.contains("not on a server"),
            "{told}"
        );
    }

    #[test]
    fn a_file_system_is_one_that_its_device_can_have() {
        let (local, server) = ("model = \"HDD-A\"", "server = {}");
        let nfs = SHIPPED.iter().find(|(name, _)| *name == "nfs-client");
        let nfs = nfs.expect("it ships").1;
        let told = Machine::parse(&nfs.replace("kind = \"nfs\"", "kind = \"xfs\""));
        let told = told.expect_err("a server").to_string();
        assert!(told.contains("nfs is allowed, not xfs"), "{told}");
        let told = Machine::parse(&nfs.replace(server, local));
        let told = told.expect_err("a disk").to_string();
        assert!(
            told.contains("xfs, ext3, ext4, btrfs, ntfs is allowed"),
            "{told}"
        );
        let plan = crate::run::Plan::new("nfs", "nfs-client").expect("it ships");
        let told = plan
            .with("file_system", "xfs")
            .check()
            .expect_err("a server");
        assert!(told.to_string().contains("nfs"), "{told}");
    }

    #[test]
    fn an_unknown_machine_lists_the_known_ones() {
        let told = Machine::named("amd5")
            .expect_err("it does not exist")
            .to_string();
        assert!(
            told.contains("amd4-512m") && told.contains("nfs-client"),
            "{told}"
        );
    }

    #[test]
    fn marks_follow_the_kernel_rule() {
        let machine = Machine::named("amd4-512m").expect("it ships");
        let settings = machine.memory.settings();
        let zones = &settings[0].zones;
        let pages: u64 = zones.iter().filter_map(|zone| zone.managed_pages).sum();
        // 4 x sqrt(KiB) KiB, shared by size; 3 percent went to the kernel.
        let min_kib = (pages as f64 * 4.0).sqrt() * 4.0;
        let mins: u64 = zones
            .iter()
            .filter_map(|zone| zone.marks)
            .map(|marks| marks.min)
            .sum();
        assert!(
            (mins as f64 * 4.0 - min_kib).abs() < 10.0,
            "{mins} pages, {min_kib} KiB"
        );
        assert!(pages * 4 > 495 << 10 && pages * 4 < 498 << 10, "{pages}");
    }
}
