//! The arguments of `forebay mount`, and their meaning.

use crate::config::Tuning;
use crate::daemon::budget::{MemoryRange, memory_range};
use crate::daemon::flags::ServerFlags;
use crate::daemon::headings::{MEMORY, PROMISES, SECURITY, WHERE};
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
    /// The directory to show
    #[arg(value_name = "SRC")]
    source: PathBuf,
    /// The directory to show it at
    #[arg(value_name = "MNT")]
    mount_point: PathBuf,
    /// Refuse all changes
    #[arg(short = 'r', long, action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_value_t = false, default_missing_value = "true",
          hide_default_value = true, hide_possible_values = true, help_heading = WHERE)]
    read_only: bool,
    /// Stay in the foreground and print progress
    #[arg(short = 'f', long, action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_value_t = false, default_missing_value = "true",
          hide_default_value = true, hide_possible_values = true, help_heading = WHERE)]
    foreground: bool,
    /// Memory of the mount: cached pages, names, requests. The program code and thread stacks take
    /// up to 16 MiB more. With FLOOR..SIZE the cache shrinks, down to FLOOR, while other programs
    /// need memory
    #[arg(long, value_name = "SIZE", value_parser = memory_range, help_heading = MEMORY)]
    memory: MemoryRange,
    /// Let other users in, within the permissions of the files
    #[arg(long, action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_value_t = false, default_missing_value = "true",
          hide_default_value = true, hide_possible_values = true, help_heading = SECURITY)]
    allow_other: bool,
    /// Let set-user-ID programs run as their owners (root only)
    #[arg(long, action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_value_t = false, default_missing_value = "true",
          hide_default_value = true, hide_possible_values = true, help_heading = SECURITY)]
    suid: bool,
    /// Let device files work (root only)
    #[arg(long, action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_value_t = false, default_missing_value = "true",
          hide_default_value = true, hide_possible_values = true, help_heading = SECURITY)]
    dev: bool,
    /// Do not execute programs from the mount
    #[arg(long, action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_value_t = false, default_missing_value = "true",
          hide_default_value = true, hide_possible_values = true, help_heading = SECURITY)]
    noexec: bool,
    /// Make each write durable before it returns
    #[arg(long, action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_value_t = false, default_missing_value = "true",
          hide_default_value = true, hide_possible_values = true, help_heading = PROMISES)]
    sync: bool,
    #[command(flatten)]
    flags: ServerFlags,
    /// Read settings from FILE; flags override it. "forebay config print --defaults" lists the keys
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
                "MNT {} lies in SRC {}: the mount would contain itself; choose an MNT outside SRC",
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
