//! A device as fast as a percentage of what it is: rates times that, and times by it.

use super::bucket::BucketSettings;
use super::server::ServerSettings;
use super::settings::{
    DeviceSettings, DiskSettings, RatedSettings, SolidSettings, StickSettings, StripeSettings,
};

/// A rate of 0, which stops a device, and one that is no limit stay what they are.
fn faster(rate: u64, percent: u64) -> u64 {
    if rate == 0 || rate == u64::MAX {
        return rate;
    }
    let rate = u128::from(rate) * u128::from(percent) / 100;
    u64::try_from(rate).unwrap_or(u64::MAX).max(1)
}

fn shorter(time: u64, percent: u64) -> u64 {
    let time = u128::from(time) * 100 / u128::from(percent.max(1));
    u64::try_from(time).unwrap_or(u64::MAX)
}

impl DeviceSettings {
    /// The device at `percent` of its speed.
    pub(crate) fn at_speed(self, percent: u64) -> DeviceSettings {
        match self {
            DeviceSettings::Disk(disk) => DeviceSettings::Disk(disk.at_speed(percent)),
            DeviceSettings::Stick(stick) => DeviceSettings::Stick(stick.at_speed(percent)),
            DeviceSettings::Solid(solid) => DeviceSettings::Solid(solid.at_speed(percent)),
            DeviceSettings::Rated(rated) => DeviceSettings::Rated(RatedSettings {
                bytes_per_s: faster(rated.bytes_per_s, percent),
                operations_per_s: faster(rated.operations_per_s, percent),
                ..rated
            }),
            DeviceSettings::Stripe(stripe) => DeviceSettings::Stripe(StripeSettings {
                speed_percent: faster(stripe.speed_percent, percent),
                ..stripe
            }),
        }
    }
}

impl DiskSettings {
    fn at_speed(self, percent: u64) -> DiskSettings {
        DiskSettings {
            turns_per_minute: faster(self.turns_per_minute, percent),
            seek_fixed_us: shorter(self.seek_fixed_us, percent),
            seek_scale_us: shorter(self.seek_scale_us, percent),
            write_settle_us: shorter(self.write_settle_us, percent),
            rate_bytes_per_s: faster(self.rate_bytes_per_s, percent),
            overhead_us: shorter(self.overhead_us, percent),
            flush_us: shorter(self.flush_us, percent),
            ..self
        }
    }
}

impl StickSettings {
    fn at_speed(self, percent: u64) -> StickSettings {
        StickSettings {
            program_bytes_per_s: faster(self.program_bytes_per_s, percent),
            copy_bytes_per_s: faster(self.copy_bytes_per_s, percent),
            bus_bytes_per_s: faster(self.bus_bytes_per_s, percent),
            read_bytes_per_s: faster(self.read_bytes_per_s, percent),
            read_latency_us: shorter(self.read_latency_us, percent),
            overhead_us: shorter(self.overhead_us, percent),
            change_us: shorter(self.change_us, percent),
            ..self
        }
    }
}

impl SolidSettings {
    fn at_speed(self, percent: u64) -> SolidSettings {
        SolidSettings {
            read_bytes_per_s: faster(self.read_bytes_per_s, percent),
            write_bytes_per_s: faster(self.write_bytes_per_s, percent),
            read_latency_us: shorter(self.read_latency_us, percent),
            write_latency_us: shorter(self.write_latency_us, percent),
            reads_per_s: faster(self.reads_per_s, percent),
            writes_per_s: faster(self.writes_per_s, percent),
            flush_us: shorter(self.flush_us, percent),
            ..self
        }
    }
}

impl ServerSettings {
    /// The server and its network at `percent` of their speed.
    pub(crate) fn at_speed(self, percent: u64) -> ServerSettings {
        ServerSettings {
            network_bytes_per_s: faster(self.network_bytes_per_s, percent),
            round_trip_us: shorter(self.round_trip_us, percent),
            disk_bytes_per_s: faster(self.disk_bytes_per_s, percent),
            disk_seek_us: shorter(self.disk_seek_us, percent),
            commit_us: shorter(self.commit_us, percent),
            ..self
        }
    }
}

impl BucketSettings {
    /// The bucket and the line to it at `percent` of their speed.
    pub(crate) fn at_speed(self, percent: u64) -> BucketSettings {
        BucketSettings {
            round_trip_us: shorter(self.round_trip_us, percent),
            request_bytes_per_s: faster(self.request_bytes_per_s, percent),
            bytes_per_s: faster(self.bytes_per_s, percent),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slower_device_takes_longer_for_everything() {
        let Some(DeviceSettings::Disk(disk)) = DeviceSettings::named("HDD-A") else {
            panic!("the catalogue has a disk of this name");
        };
        let slow = disk.clone().at_speed(80);
        assert_eq!(slow.rate_bytes_per_s, disk.rate_bytes_per_s * 80 / 100);
        assert_eq!(slow.seek_fixed_us, disk.seek_fixed_us * 100 / 80);
        assert_eq!(slow.capacity_bytes, disk.capacity_bytes);
        assert!(slow.turn_span() > disk.turn_span());
        assert_eq!(disk.clone().at_speed(100), disk);
    }

    #[test]
    fn a_device_that_stands_still_or_has_no_limit_stays_so() {
        let rated = |bytes_per_s| RatedSettings {
            bytes_per_s,
            ..RatedSettings::default()
        };
        for rate in [0, u64::MAX] {
            let at = DeviceSettings::Rated(rated(rate)).at_speed(120);
            assert_eq!(at, DeviceSettings::Rated(rated(rate)));
        }
        let faster = DeviceSettings::Rated(rated(1_000)).at_speed(120);
        assert_eq!(faster, DeviceSettings::Rated(rated(1_200)));
    }
}
