//! Simulated devices (spec/workloads.md 5).
//!
//! A [`Device`] is an address space in which transfers take as long as on a real device: an
//! elevator ([`QueueSettings`]) before a drive, or several of these side by side. What the engine
//! writes to is a store on it: a file system ([`crate::filesystem`]) or a [`Partition`]. Several of
//! them on one device share its arm and its queue. A [`Server`] is a store by itself, and so is a
//! [`Bucket`].
//!
//! ```
//! use forebay_base::Span;
//! use forebay_lab::device::{Device, DeviceSettings, Transfer, TransferKind, build};
//! use forebay_rt::{Virtual, VirtualSettings};
//!
//! let machine = Virtual::new(VirtualSettings::default());
//! let stick = DeviceSettings::named("USB-fast").expect("the catalogue has it");
//! let stick = build(&machine.rt(), "stick", &stick)?;
//! for start in [0, 1 << 20, 2 << 20, 3 << 20] {
//!     stick.submit(Transfer::unheard(TransferKind::Write, start, 1 << 20));
//! }
//! machine.run_for(Span::from_millis(270));
//! assert_eq!(stick.statistics().writes.bytes, 4 << 20);
//! # Ok::<(), forebay_lab::device::SettingError>(())
//! ```

mod block;
mod bucket;
mod build;
mod catalogue;
mod disk;
mod drive;
mod elevator;
pub(crate) mod figures;
mod pace;
mod partition;
mod rated;
mod server;
mod settings;
mod solid;
mod speed;
mod staging;
mod statistics;
mod stick;
mod stripe;
#[cfg(test)]
mod testing;
pub(crate) mod transfer;

pub use block::BlockDevice;
pub use bucket::{Bucket, BucketSettings};
pub use build::build;
pub use pace::FULL_PACE;
pub use partition::Partition;
pub(crate) use partition::geometry_on;
pub use server::{Server, ServerSettings};
pub use settings::{
    DeviceSettings, DiskSettings, QueueSettings, RatedSettings, SettingError, SolidSettings,
    StickSettings, StripeSettings,
};
pub use statistics::{Passed, Statistics};
pub use stripe::Stripe;
pub use transfer::{Transfer, TransferKind};

use forebay_store::Rate;

/// What stores on a device need to know about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes that it holds.
    pub capacity_bytes: u64,
    /// Bytes of its largest request.
    pub largest_bytes: u64,
    /// Requests of one direction that it has room for.
    pub queue_depth: u32,
    /// Whether a page must not change while it is written.
    pub stable_pages: bool,
}

/// An address space in which transfers take time.
pub trait Device: Send + Sync + 'static {
    /// What it is like.
    fn shape(&self) -> Shape;

    /// Takes a transfer within the capacity. It ends at some time; `submit` does not wait.
    fn submit(&self, transfer: Transfer);

    /// Whether this direction has more requests than it should. Reads and writes are told apart.
    fn is_congested(&self, kind: TransferKind) -> bool;

    /// What it has done so far.
    fn statistics(&self) -> Statistics;

    /// From now on it runs at this many thousandths of its figures. At 0 it stands still with what
    /// it has, at [`FULL_PACE`] it runs as usual.
    fn set_pace(&self, thousandths: u32);

    /// Changes the speed of a rated device from now on; false if it is of another kind.
    fn set_rate(&self, rate: Rate) -> bool;
}
