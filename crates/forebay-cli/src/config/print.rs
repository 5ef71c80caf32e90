//! A file with every key, its meaning and its default value.

use super::keys::{EXPORT, FRONTS, Flag, Front, Keys};
use clap::Command;
use forebay::settings::BackingSettings;
use forebay::{Changes, Settings, StoreChanges, StoreKey};
use forebay_control::knobs;
use serde_json::{Map, Value};
use std::fmt::Write;

/// Examples for flags without a default value.
const EXAMPLES: [(&str, &str); 23] = [
    ("at_risk", "2s"),
    ("drain", "2s"),
    ("memory", "512M"),
    ("metrics", "127.0.0.1:9100"),
    ("control", "/run/forebay/control.sock"),
    ("answer_timeout", "30s"),
    ("nbd.socket", "/run/forebay/nbd.sock"),
    ("nbd.listen", "127.0.0.1:10809"),
    ("nbd.tls_certificates", "/etc/pki/qemu"),
    ("nbd.tls_cert", "/etc/pki/qemu/server-cert.pem"),
    ("nbd.tls_key", "/etc/pki/qemu/server-key.pem"),
    ("nbd.tls_client_ca", "/etc/pki/qemu/ca-cert.pem"),
    ("nbd.create", "20G"),
    ("nbd.chunk", "1M"),
    ("nbd.commit_interval", "1s"),
    ("nbd.key_file", "/etc/forebay/volume.key"),
    ("nbd.snapshot", "monday"),
    ("nbd.follow", "5s"),
    ("nbd.garbage", "50%"),
    ("nbd.clients", "16"),
    ("mount.source", "/srv/data"),
    ("mount.mount_point", "/mnt/data"),
    (EXPORT, "/var/lib/forebay/disk.img"),
];

const HEAD: &str = "\
# Settings of forebay serve nbd and forebay mount, for their flag --config.
# The values are the defaults. A line that begins with '#' and a key has an example: what it
# sets has no default. A flag on the command line wins over its key here, and over the keys that
# it excludes. Sizes have K, M, G or T, powers of 1024; times us, ms, s, min or h.
";

/// The file, as [`super::load::Loaded`] reads it.
pub(super) fn print_defaults(command: &Command) -> String {
    let keys = Keys::of(command);
    let mut page = Page(HEAD.to_owned());
    let is_common = |flag: &&Flag| flag.fronts.len() > 1;
    keys.flags
        .iter()
        .filter(is_common)
        .for_each(|flag| page.flag(flag));
    let described = keys.knobs();
    let values = defaults();
    let is_of_store = |name: &str| name.starts_with("store.");
    for (name, text) in described.iter().filter(|(name, _)| !is_of_store(name)) {
        page.key(text, name, &values[name], "");
    }
    page.section(
        "[store.0]",
        "The first store. All files of a server are in one store; each export of another NBD \
         server is in one of its own, in the order of the images.",
    );
    for (name, text) in described.iter().filter(|(name, _)| is_of_store(name)) {
        let last = name.rsplit('.').next().unwrap_or(name);
        if keys.flag(last).is_some() {
            // Its default is the flag, for all stores.
            page.key(text, last, &example(last), "#");
        } else {
            page.key(text, last, &values[&name.replace('N', "0")], "");
        }
    }
    for front in FRONTS {
        page.front(front, &keys);
    }
    page.0
}

/// The default value of each knob.
fn defaults() -> Map<String, Value> {
    let mut changes = Changes::of(&Settings::default());
    changes.stores = vec![StoreChanges::of(
        StoreKey::numbered(0),
        &BackingSettings::default(),
    )];
    knobs::values(changes)
}

fn example(key: &str) -> Value {
    let found = EXAMPLES.iter().find(|(known, _)| *known == key);
    let text = found.map_or("", |(_, text)| text);
    text.parse::<u64>()
        .map_or_else(|_| text.into(), Value::from)
}

/// The widest line of a comment.
const WIDTH: usize = 98;

struct Page(String);

impl Page {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("writing to a string does not fail");
    }

    fn comment(&mut self, text: &str) {
        let mut line = String::from("#");
        for word in text.split_whitespace() {
            if line.len() + 1 + word.len() > WIDTH {
                self.line(format_args!("{line}"));
                line = String::from("#");
            }
            line.push(' ');
            line.push_str(word);
        }
        self.line(format_args!("{line}"));
    }

    fn key(&mut self, text: &str, key: &str, value: &Value, mark: &str) {
        self.0.push('\n');
        self.comment(text);
        // A value of one line reads the same in JSON and in TOML.
        self.line(format_args!("{mark}{key} = {value}"));
    }

    fn section(&mut self, head: &str, text: &str) {
        self.0.push('\n');
        self.comment(text);
        self.line(format_args!("{head}"));
    }

    fn flag(&mut self, flag: &Flag) {
        let help = flag
            .arg
            .get_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        let last = flag.key.rsplit('.').next().unwrap_or(&flag.key);
        if flag.is_switch() {
            self.key(&help, last, &Value::from(false), "");
        } else {
            self.key(&help, last, &example(&flag.key), "#");
        }
    }

    fn front(&mut self, front: Front, keys: &Keys) {
        let text = format!("Only for forebay {}.", front.words.join(" "));
        self.section(&format!("[{}]", front.section), &text);
        let is_own = |flag: &&Flag| flag.fronts == [front];
        keys.flags
            .iter()
            .filter(is_own)
            .for_each(|flag| self.flag(flag));
        if front == FRONTS[0] {
            self.section(
                &format!("#[[{EXPORT}]]"),
                "An image: its path or address, and the name of its export. Without a name it has \
                 that of its file, or the empty name if it is the only one.",
            );
            self.line(format_args!("#path = {}", example(EXPORT)));
            self.line(format_args!("#name = \"disk\""));
        }
    }
}
