use super::*;

fn refused(text: &str) -> String {
    let read: Result<DeviceSettings, _> = toml::from_str(text);
    match read {
        Ok(device) => device.check().expect_err("it cannot be").to_string(),
        Err(error) => error.to_string(),
    }
}

const STICK: &str = "[stick]
capacity_bytes = \"8G\"
program_bytes_per_s = 6_200_000
copy_bytes_per_s = 13_640_000
bus_bytes_per_s = 33_000_000
read_bytes_per_s = 15_000_000
read_latency_us = 700
overhead_us = 1_000
flash_page_bytes = \"16K\"
unit_bytes = \"4M\"
open_units = 2
change_us = 40_000
";

#[test]
fn a_device_is_read_from_text() {
    let stick: DeviceSettings = toml::from_str(STICK).expect("it is well formed");
    assert_eq!(stick.kind(), "stick");
    assert_eq!(stick.check(), Ok(()));
    assert_eq!(stick.queue(), QueueSettings::default());
}

#[test]
fn an_impossible_figure_is_refused_with_its_line_and_what_is_allowed() {
    for (wrong, line, allowed) in [
        ("program_bytes_per_s = -1", "line 3", "at least 1"),
        ("program_bytes_per_s = 0", "line 3", "at least 1"),
        ("overhead_us = -3", "line 8", "u64"),
        ("unit_bytes = 0", "line 10", "at least 1 byte"),
        ("unit_bytes = \"4 apples\"", "line 10", "K, M, G or T"),
        ("open_units = 0", "line 11", "at least 1"),
    ] {
        let key = wrong.split(' ').next().expect("it has a key");
        let text: Vec<String> = STICK
            .lines()
            .map(|old| if old.starts_with(key) { wrong } else { old }.to_owned())
            .collect();
        let message = refused(&text.join("\n"));
        assert!(message.contains(line), "{wrong}: {message}");
        assert!(message.contains(allowed), "{wrong}: {message}");
    }
}

#[test]
fn a_rated_drive_takes_at_least_one_request() {
    for wrong in ["0", "-1", "4294967296", "\"4\""] {
        let message = refused(&format!("[rated]\ndepth = {wrong}"));
        assert!(message.contains("line 2"), "{wrong}: {message}");
    }
    let rated: DeviceSettings = toml::from_str("rated.depth = 31").expect("it is well formed");
    assert_eq!(rated.check(), Ok(()));
}

#[test]
fn an_unknown_field_or_kind_is_refused() {
    let message = refused("[disk]\ncolour = 3");
    assert!(
        message.contains("line 2") && message.contains("colour"),
        "{message}"
    );
    let message = refused("[floppy]\nsides = 2");
    assert!(
        message.contains("floppy") && message.contains("stick"),
        "{message}"
    );
}

#[test]
fn figures_that_do_not_fit_each_other_are_refused() {
    let message = refused(&STICK.replace("\"4M\"", "4_000_000"));
    assert!(message.contains("unit_bytes is 4000000"), "{message}");
    let message = refused("[stripe]\nmembers = 4\nchunk_bytes = 1000\nof = \"HDD-A\"");
    assert!(message.contains("chunk_bytes is 1000"), "{message}");
    let message = refused("[stripe]\nmembers = 4\nchunk_bytes = \"64K\"\nof = \"RAID0-4\"");
    assert!(
        message.contains("of is 'RAID0-4'") && message.contains("HDD-A"),
        "{message}"
    );
    let message = refused("[stripe]\nmembers = 4000000000\nchunk_bytes = \"64K\"\nof = \"HDD-A\"");
    assert!(message.contains("1 to 1024 are allowed"), "{message}");
    let message = refused("[rated]\nqueue.largest_bytes = 5000");
    assert!(message.contains("multiples of 4096"), "{message}");
}
