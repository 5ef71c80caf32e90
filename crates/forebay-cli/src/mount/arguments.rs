//! The arguments of `forebay mount`, and their meaning.

use crate::config::Tuning;
use crate::daemon::budget::{MemoryRange, memory_range};
use crate::daemon::flags::ServerFlags;
use crate::refusal::refusal;
use clap::error::ErrorKind;
use clap::{ArgAction, Args, CommandFactory};
use forebay_fuse::MountFlags;
use std::path::PathBuf;

/// The words that were typed.
#[derive(Args)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct TypedMount {
    /// The folder to show
    #[arg(value_name = "SRC")]
    source: PathBuf,
    /// The folder at which to show it
    #[arg(value_name = "MNT")]
    mount_point: PathBuf,
    /// All memory of the cache; with FLOOR..SIZE as little as FLOOR while other programs need
    /// memory
    #[arg(long, value_name = "SIZE", value_parser = memory_range)]
    memory: MemoryRange,
    /// Let other users in, as far as the permissions of the files allow it
    #[arg(long, action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_value_t = false, default_missing_value = "true",
          hide_default_value = true, hide_possible_values = true)]
    allow_other: bool,
    /// Refuse all changes
    #[arg(long, action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_value_t = false, default_missing_value = "true",
          hide_default_value = true, hide_possible_values = true)]
    read_only: bool,
    /// Let programs there have the rights of their owners (root only)
    #[arg(long, action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_value_t = false, default_missing_value = "true",
          hide_default_value = true, hide_possible_values = true)]
    suid: bool,
    /// Let devices there work (root only)
    #[arg(long, action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_value_t = false, default_missing_value = "true",
          hide_default_value = true, hide_possible_values = true)]
    dev: bool,
    /// Let no program there be executed
    #[arg(long, action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_value_t = false, default_missing_value = "true",
          hide_default_value = true, hide_possible_values = true)]
    noexec: bool,
    /// Make each write durable before it returns
    #[arg(long, action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_value_t = false, default_missing_value = "true",
          hide_default_value = true, hide_possible_values = true)]
    sync: bool,
    /// Stay in the foreground and print progress
    #[arg(long, action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_value_t = false, default_missing_value = "true",
          hide_default_value = true, hide_possible_values = true)]
    foreground: bool,
    #[command(flatten)]
    flags: ServerFlags,
    /// Take settings from FILE; flags win over it. forebay config print --defaults shows its keys
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The arguments of `forebay mount`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountArguments {
    pub(crate) source: PathBuf,
    pub(crate) mount_point: PathBuf,
    pub(crate) memory_bytes: u64,
    /// What it keeps of that when others need memory, if it gives any.
    pub(crate) floor_bytes: Option<u64>,
    pub(crate) allow_other: bool,
    pub(crate) read_only: bool,
    pub(crate) mount_flags: MountFlags,
    pub(crate) foreground: bool,
    pub(crate) flags: ServerFlags,
    /// Knobs of the file that was given.
    pub(crate) tuning: Tuning,
}

impl TypedMount {
    /// Checks them; `C` is the command line that they are a part of.
    ///
    /// # Errors
    /// A bad call, reported by clap.
    pub(crate) fn checked<C: CommandFactory>(self) -> Result<MountArguments, clap::Error> {
        let refuse =
            |key, text: &str| refusal::<C>(&["mount"], key, ErrorKind::ValueValidation, text);
        let (source, mount_point) = (
            self.source.canonicalize().unwrap_or(self.source),
            self.mount_point.canonicalize().unwrap_or(self.mount_point),
        );
        if mount_point != source && mount_point.starts_with(&source) {
            let text = format!(
                "{} lies in {}: the mount would contain itself; choose a mount point outside",
                mount_point.display(),
                source.display()
            );
            return Err(refuse("mount.mount_point", &text));
        }
        if (self.suid || self.dev) && !rustix::process::geteuid().is_root() {
            let key = if self.suid { "mount.suid" } else { "mount.dev" };
            return Err(refuse(key, "--suid and --dev need root"));
        }
        Ok(MountArguments {
            source,
            mount_point,
            memory_bytes: self.memory.most_bytes,
            floor_bytes: self.memory.floor_bytes,
            allow_other: self.allow_other,
            read_only: self.read_only,
            mount_flags: MountFlags {
                suid: self.suid,
                dev: self.dev,
                noexec: self.noexec,
                sync: self.sync,
            },
            foreground: self.foreground,
            flags: self.flags,
            tuning: Tuning::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        mount: TypedMount,
    }

    fn typed(words: &[&str]) -> Result<MountArguments, clap::Error> {
        let words = [&["mount"], words].concat();
        Line::try_parse_from(words)?.mount.checked::<Line>()
    }

    #[test]
    fn every_flag_arrives() {
        let expected = MountArguments {
            source: "/no/such/source".into(),
            mount_point: "/no/such/place".into(),
            memory_bytes: 64 << 20,
            floor_bytes: None,
            allow_other: true,
            read_only: true,
            mount_flags: MountFlags {
                suid: false,
                dev: false,
                noexec: true,
                sync: true,
            },
            foreground: true,
            flags: ServerFlags {
                metrics: Some("127.0.0.1:9100".parse().unwrap()),
                control: Some("c".into()),
                ..ServerFlags::default()
            },
            tuning: Tuning::default(),
        };
        let words = [
            "/no/such/source",
            "/no/such/place",
            "--memory",
            "64M",
            "--allow-other",
            "--read-only",
            "--noexec",
            "--sync",
            "--foreground",
            "--metrics",
            "127.0.0.1:9100",
            "--control",
            "c",
        ];
        assert_eq!(typed(&words).unwrap(), expected);
    }

    #[test]
    fn bad_calls_exit_with_2() {
        let bad: [&[&str]; 7] = [
            &["/a", "/b", "--memory", "64M", "--drain", "5"],
            &[
                "/a",
                "/b",
                "--memory",
                "64M",
                "--drain",
                "5s",
                "--read-only",
            ],
            &["/a", "/b"],
            &["/a", "--memory", "64M"],
            &["/a", "/b", "--memory", "1M"],
            &["/a", "/b", "--memory", "fast"],
            &["/", "/tmp", "--memory", "64M"],
        ];
        for words in bad {
            assert_eq!(typed(words).unwrap_err().exit_code(), 2, "{words:?}");
        }
    }
}
