//! The machines that ship.

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        /// Names and texts of all machines that ship.
        pub const SHIPPED: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../machines/", $name, ".toml")))),*];
    };
}

shipped!(
    "amd4-512m",
    "amd4-1024m",
    "amd4-4608m",
    "amd4-4096m-8nodes",
    "amd4-512m-usb",
    "amd4-1024m-usb",
    "amd4-4608m-usb",
    "laptop-usb-1024m",
    "box-4g-3zones",
    "laptop-4g-3zones",
    "box-2g-2zones",
    "srv16-5.15",
    "numa2-4.11",
    "uma-4.11",
    "hdd1-desktop",
    "hdd1-3g",
    "raid0-12",
    "vm8-4g",
    "jbod-10",
    "hdd-usbkey",
    "nfs-client",
    "bucket-client",
);

/// The text of the machine called `name` that ships.
pub(super) fn text_of(name: &str) -> Option<&'static str> {
    let found = SHIPPED.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text)
}
