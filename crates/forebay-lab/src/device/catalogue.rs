//! The devices of spec/workloads.md 5, by name.

use super::settings::DeviceSettings;
use std::collections::BTreeMap;

/// The file with the figures.
const CATALOGUE: &str = include_str!("catalogue.toml");

impl DeviceSettings {
    /// The device `name` of the catalogue.
    ///
    /// ```
    /// use forebay_lab::device::DeviceSettings;
    /// assert_eq!(DeviceSettings::named("HDD-A").map(|disk| disk.kind()), Some("disk"));
    /// assert_eq!(DeviceSettings::named("floppy"), None);
    /// ```
    pub fn named(name: &str) -> Option<DeviceSettings> {
        catalogue().remove(name)
    }

    /// The names of the catalogue.
    pub fn names() -> Vec<String> {
        catalogue().into_keys().collect()
    }
}

fn catalogue() -> BTreeMap<String, DeviceSettings> {
    toml::from_str(CATALOGUE).expect("the catalogue that is built in is well formed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_of_the_catalogue_can_be() {
        assert!(DeviceSettings::names().len() >= 12);
        for (name, device) in catalogue() {
            assert_eq!(device.check(), Ok(()), "{name}");
        }
    }
}
