//! What a device is like, as data. Every figure's unit is in its name.
//!
//! A value that no device can have is refused while the text is read, so that the message shows
//! its line. Sizes are numbers of bytes or texts as `"4M"`.
//!
//! ```
//! use forebay_lab::device::DeviceSettings;
//! let disk: DeviceSettings = toml::from_str("rated.bytes_per_s = 30_000_000")?;
//! assert_eq!(disk.largest_bytes(), 1 << 20);
//! let wrong = toml::from_str::<DeviceSettings>("[disk]\nrate_bytes_per_s = -5");
//! assert!(wrong.unwrap_err().to_string().contains("line 2"));
//! # Ok::<(), toml::de::Error>(())
//! ```

use super::drive::span_of;
use super::elevator::ElevatorSettings;
use super::figures::{
    positive, positive_count, positive_size, slope, some_positive_count, whole_size,
};
use forebay_base::{PAGE_BYTES, Span};
use forebay_store::Rate;
use serde::Deserialize;

/// A device whose figures contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {field} is {value}; {allowed}")]
pub struct SettingError {
    /// Kind of the device.
    pub kind: &'static str,
    /// The field that is wrong.
    pub field: &'static str,
    /// Its value.
    pub value: String,
    /// What is allowed.
    pub allowed: String,
}

/// A device of any kind.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceSettings {
    /// A rotating disk.
    Disk(DiskSettings),
    /// A USB stick.
    Stick(StickSettings),
    /// A solid-state drive.
    Solid(SolidSettings),
    /// A device that has only a speed.
    Rated(RatedSettings),
    /// Several equal devices side by side, RAID-0.
    Stripe(StripeSettings),
}

/// A rotating disk (spec/workloads.md 5.1).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSettings {
    /// Bytes that it holds; the arm's full stroke crosses them.
    #[serde(deserialize_with = "positive_size")]
    pub capacity_bytes: u64,
    /// Turns a minute.
    #[serde(deserialize_with = "positive")]
    pub turns_per_minute: u64,
    /// The part of a seek that does not depend on the distance.
    pub seek_fixed_us: u64,
    /// The factor of the root of distance / full stroke.
    pub seek_scale_us: u64,
    /// How much longer a write takes to settle after a seek.
    #[serde(default)]
    pub write_settle_us: u64,
    /// Mean rate of the medium.
    #[serde(deserialize_with = "positive")]
    pub rate_bytes_per_s: u64,
    /// How much faster than the mean the outer edge is, and how much slower the inner edge.
    #[serde(default, deserialize_with = "slope")]
    pub rate_slope_percent: u64,
    /// Command overhead.
    pub overhead_us: u64,
    /// Write-back cache; 0 for none.
    #[serde(default, deserialize_with = "whole_size")]
    pub write_cache_bytes: u64,
    /// What a flush takes after the cache is empty.
    #[serde(default)]
    pub flush_us: u64,
    /// Commands that the drive takes at a time.
    #[serde(default = "disk_depth", deserialize_with = "positive_count")]
    pub depth: u32,
    /// Whether the rotation after each seek is drawn between 0 and a full turn, instead of half a
    /// turn.
    #[serde(default)]
    pub rotation_is_drawn: bool,
    /// How requests wait.
    #[serde(default)]
    pub queue: QueueSettings,
}

/// The queue before a drive (spec/workloads.md 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueSettings {
    /// Requests that each direction has room for, from arrival to end.
    #[serde(deserialize_with = "positive_count")]
    pub requests: u32,
    /// Bytes of the largest request.
    #[serde(deserialize_with = "positive_size")]
    pub largest_bytes: u64,
    /// Requests of one batch of a direction.
    #[serde(deserialize_with = "positive_count")]
    pub batch: u32,
    /// Whether requests are merged and sorted; otherwise they go as they come.
    pub sorts: bool,
    /// Whether the device says when it has more requests than it should. None did after Linux
    /// 5.0.
    pub signals_congestion: bool,
    /// Whether a page must not change while it is written. Linux did so for every device from 3.0
    /// to 3.8, and later only for devices that check what they get.
    pub stable_pages: bool,
}

impl Default for QueueSettings {
    fn default() -> QueueSettings {
        QueueSettings {
            requests: 128,
            largest_bytes: 512 << 10,
            batch: 16,
            sorts: true,
            signals_congestion: true,
            stable_pages: true,
        }
    }
}

/// A USB stick (spec/workloads.md 5.3).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StickSettings {
    /// Bytes that it holds.
    #[serde(deserialize_with = "positive_size")]
    pub capacity_bytes: u64,
    /// Rate of writing within an open unit.
    #[serde(deserialize_with = "positive")]
    pub program_bytes_per_s: u64,
    /// Rate of copying within the stick.
    #[serde(deserialize_with = "positive")]
    pub copy_bytes_per_s: u64,
    /// Rate of the bus.
    #[serde(deserialize_with = "positive")]
    pub bus_bytes_per_s: u64,
    /// Rate of reading.
    #[serde(deserialize_with = "positive")]
    pub read_bytes_per_s: u64,
    /// Latency of a read.
    pub read_latency_us: u64,
    /// Command overhead of a write.
    pub overhead_us: u64,
    /// The smallest unit that is programmed.
    #[serde(deserialize_with = "positive_size")]
    pub flash_page_bytes: u64,
    /// The unit that is erased.
    #[serde(deserialize_with = "positive_size")]
    pub unit_bytes: u64,
    /// Units that can be written at a time.
    #[serde(deserialize_with = "positive_count")]
    pub open_units: u32,
    /// What it takes to change units, besides copying.
    pub change_us: u64,
    /// How requests wait.
    #[serde(default)]
    pub queue: QueueSettings,
}

/// A solid-state drive (spec/workloads.md 5.4, 5.5).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SolidSettings {
    /// Bytes that it holds.
    #[serde(deserialize_with = "positive_size")]
    pub capacity_bytes: u64,
    /// Rate of reading.
    #[serde(deserialize_with = "positive")]
    pub read_bytes_per_s: u64,
    /// Rate of writing.
    #[serde(deserialize_with = "positive")]
    pub write_bytes_per_s: u64,
    /// Latency of a small read alone.
    pub read_latency_us: u64,
    /// Latency of a small write alone.
    pub write_latency_us: u64,
    /// Small reads a second at full depth.
    #[serde(deserialize_with = "positive")]
    pub reads_per_s: u64,
    /// Small writes a second at full depth.
    #[serde(deserialize_with = "positive")]
    pub writes_per_s: u64,
    /// What a flush takes.
    #[serde(default)]
    pub flush_us: u64,
    /// Commands that the drive takes at a time.
    #[serde(deserialize_with = "positive_count")]
    pub depth: u32,
    /// How requests wait.
    #[serde(default)]
    pub queue: QueueSettings,
}

/// A device that has only a speed. A rate of 0 stops it; a missing rate is no limit.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RatedSettings {
    /// Bytes that it holds.
    #[serde(deserialize_with = "positive_size")]
    pub capacity_bytes: u64,
    /// Bytes a second.
    pub bytes_per_s: u64,
    /// Requests a second.
    pub operations_per_s: u64,
    /// Bytes that pass at once after the device was idle for as long as they take.
    #[serde(deserialize_with = "whole_size")]
    pub burst_bytes: u64,
    /// Requests that the drive takes at a time. The others wait in its queue, where reads go before
    /// writes, batch by batch. Without a depth it takes all: a read waits behind every write that
    /// came before it.
    #[serde(deserialize_with = "some_positive_count")]
    pub depth: Option<u32>,
    /// How requests wait.
    pub queue: QueueSettings,
}

impl Default for RatedSettings {
    fn default() -> RatedSettings {
        RatedSettings {
            capacity_bytes: 1 << 40,
            bytes_per_s: Rate::UNLIMITED.bytes_per_s,
            operations_per_s: Rate::UNLIMITED.operations_per_s,
            burst_bytes: 0,
            depth: None,
            queue: QueueSettings {
                largest_bytes: 1 << 20,
                sorts: false,
                ..QueueSettings::default()
            },
        }
    }
}

/// Several equal devices side by side, RAID-0.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StripeSettings {
    /// How many devices.
    #[serde(deserialize_with = "positive_count")]
    pub members: u32,
    /// Bytes that go to one member before the next has its turn.
    #[serde(deserialize_with = "positive_size")]
    pub chunk_bytes: u64,
    /// What each of them is: a name of the catalogue.
    pub of: String,
    /// Their speed, percent of what the catalogue says. No text has it.
    #[serde(skip, default = "usual_speed")]
    pub(crate) speed_percent: u64,
}

fn usual_speed() -> u64 {
    100
}

fn disk_depth() -> u32 {
    31
}

impl DiskSettings {
    /// The rate of the medium at the address `start_bytes`, which is outermost at 0.
    pub fn rate_at(&self, start_bytes: u64) -> u64 {
        if self.rate_slope_percent == 0 {
            return self.rate_bytes_per_s;
        }
        // From +slope to -slope, in thousandths of a percent.
        let inward = u128::from(start_bytes.min(self.capacity_bytes)) * 2_000
            / u128::from(self.capacity_bytes);
        let slope = i128::from(self.rate_slope_percent) * (1_000 - inward as i128);
        let rate = i128::from(self.rate_bytes_per_s);
        (rate + rate * slope / 100_000) as u64
    }

    /// How long the arm takes for a distance.
    pub fn seek_span(&self, distance_bytes: u64) -> Span {
        let part = distance_bytes as f64 / self.capacity_bytes as f64;
        let moved_ns = self.seek_scale_us as f64 * 1e3 * part.sqrt();
        Span::from_micros(self.seek_fixed_us) + Span::from_nanos(moved_ns as u64)
    }

    /// How long a turn takes.
    pub fn turn_span(&self) -> Span {
        span_of(60, self.turns_per_minute)
    }
}

impl QueueSettings {
    pub(crate) fn elevator(&self) -> ElevatorSettings {
        ElevatorSettings {
            requests: self.requests as usize,
            largest_bytes: self.largest_bytes,
            batch: self.batch as usize,
            sorts: self.sorts,
        }
    }
}

impl RatedSettings {
    /// The speed.
    pub fn rate(&self) -> Rate {
        Rate {
            bytes_per_s: self.bytes_per_s,
            operations_per_s: self.operations_per_s,
            burst_bytes: self.burst_bytes,
        }
    }
}

impl DeviceSettings {
    /// Bytes of the largest request of the device, or of one of its members.
    pub fn largest_bytes(&self) -> u64 {
        self.queue().largest_bytes
    }

    /// How requests wait, or those of one of its members.
    pub fn queue(&self) -> QueueSettings {
        match self {
            DeviceSettings::Disk(disk) => disk.queue,
            DeviceSettings::Stick(stick) => stick.queue,
            DeviceSettings::Solid(solid) => solid.queue,
            DeviceSettings::Rated(rated) => rated.queue,
            DeviceSettings::Stripe(stripe) => DeviceSettings::named(&stripe.of)
                .map_or_else(QueueSettings::default, |member| member.queue()),
        }
    }

    /// Checks the figures against each other.
    ///
    /// # Errors
    /// [`SettingError`] for the first that is impossible.
    pub fn check(&self) -> Result<(), SettingError> {
        let largest = self.largest_bytes();
        if !largest.is_multiple_of(PAGE_BYTES as u64) {
            return Err(SettingError {
                kind: self.kind(),
                field: "queue.largest_bytes",
                value: largest.to_string(),
                allowed: format!("allowed are multiples of {PAGE_BYTES}"),
            });
        }
        match self {
            DeviceSettings::Stick(stick) => stick.check(),
            DeviceSettings::Stripe(stripe) => stripe.check(),
            _ => Ok(()),
        }
    }

    /// Bytes that it holds.
    pub fn capacity_bytes(&self) -> u64 {
        match self {
            DeviceSettings::Disk(disk) => disk.capacity_bytes,
            DeviceSettings::Stick(stick) => stick.capacity_bytes,
            DeviceSettings::Solid(solid) => solid.capacity_bytes,
            DeviceSettings::Rated(rated) => rated.capacity_bytes,
            DeviceSettings::Stripe(stripe) => {
                let member = DeviceSettings::named(&stripe.of);
                let chunks = member.map_or(0, |it| it.capacity_bytes() / stripe.chunk_bytes);
                (chunks * stripe.chunk_bytes).saturating_mul(u64::from(stripe.members))
            }
        }
    }

    /// What the device is called in its settings.
    pub fn kind(&self) -> &'static str {
        match self {
            DeviceSettings::Disk(_) => "disk",
            DeviceSettings::Stick(_) => "stick",
            DeviceSettings::Solid(_) => "solid",
            DeviceSettings::Rated(_) => "rated",
            DeviceSettings::Stripe(_) => "stripe",
        }
    }
}

impl StickSettings {
    fn check(&self) -> Result<(), SettingError> {
        if self.unit_bytes.is_multiple_of(self.flash_page_bytes) {
            return Ok(());
        }
        Err(SettingError {
            kind: "stick",
            field: "unit_bytes",
            value: self.unit_bytes.to_string(),
            allowed: format!(
                "allowed are multiples of flash_page_bytes, {}",
                self.flash_page_bytes
            ),
        })
    }
}

impl StripeSettings {
    /// Most devices side by side.
    const MOST_MEMBERS: u32 = 1_024;

    fn check(&self) -> Result<(), SettingError> {
        let wrong = |field, value: String, allowed: String| SettingError {
            kind: "stripe",
            field,
            value,
            allowed,
        };
        if self.members > Self::MOST_MEMBERS {
            let allowed = format!("1 to {} are allowed", Self::MOST_MEMBERS);
            return Err(wrong("members", self.members.to_string(), allowed));
        }
        if !self.chunk_bytes.is_multiple_of(PAGE_BYTES as u64) {
            let allowed = format!("allowed are multiples of {PAGE_BYTES}");
            return Err(wrong("chunk_bytes", self.chunk_bytes.to_string(), allowed));
        }
        match DeviceSettings::named(&self.of) {
            Some(DeviceSettings::Stripe(_)) | None => {
                let names = DeviceSettings::names().join(", ");
                let allowed = format!("allowed are single devices of the catalogue: {names}");
                Err(wrong("of", format!("'{}'", self.of), allowed))
            }
            Some(_) => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
