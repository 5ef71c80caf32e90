//! File systems that a mount may have below it.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A kind of file system that can be made here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The one of the temporary folder.
    Plain,
    Tmpfs,
    Ext4,
    /// Its times count whole seconds.
    Ext4OfSeconds,
    Xfs,
    /// With a subvolume `part`.
    Btrfs,
    /// What is there at the start lies in a lower layer, on the same file system as the upper one.
    Overlay,
    /// The same, with the layers on two file systems.
    OverlayOfTwo,
}

pub(crate) const KINDS: [Kind; 8] = [
    Kind::Plain,
    Kind::Tmpfs,
    Kind::Ext4,
    Kind::Ext4OfSeconds,
    Kind::Xfs,
    Kind::Btrfs,
    Kind::Overlay,
    Kind::OverlayOfTwo,
];

/// A file system for one test.
pub(crate) struct Below {
    folder: TempDir,
    mounted: Vec<PathBuf>,
}

impl Below {
    /// Makes a file system that has from the start what `fill` puts there; none, and says why,
    /// where that cannot be done.
    pub(crate) fn with(kind: Kind, fill: impl FnOnce(&Path)) -> Option<Below> {
        let mut below = Below::empty();
        let made = below.make(kind, fill);
        below.or_left_out(&format!("{kind:?}"), &made)
    }

    fn empty() -> Below {
        let folder = tempfile::tempdir().expect("a folder for the test");
        for name in ["root", "lower", "upper"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        Below {
            folder,
            mounted: Vec::new(),
        }
    }

    fn or_left_out(self, what: &str, made: &Result<(), String>) -> Option<Below> {
        if let Err(missing) = made {
            say_left_out(what, missing);
        }
        made.is_ok().then_some(self)
    }

    /// A file system in memory with room for `bytes`.
    pub(crate) fn small(bytes: u64) -> Option<Below> {
        let mut below = Below::empty();
        let options = format!("size={bytes}");
        let words = ["-t", "tmpfs", "-o", &options, "tmpfs"];
        let made = below.mount(&words, "root");
        below.or_left_out("a small tmpfs", &made)
    }

    /// Its root.
    pub(crate) fn root(&self) -> PathBuf {
        self.at("root")
    }

    /// Gives the subvolume `part` a quota; false, and says why, where that cannot be done.
    pub(crate) fn limit_part(&self, most: &str) -> bool {
        let btrfs = |words: &[&str], at: PathBuf| run(Command::new("btrfs").args(words).arg(at));
        let enabled = btrfs(&["quota", "enable"], self.root());
        let part = self.root().join("part");
        let limited = enabled.and_then(|()| btrfs(&["qgroup", "limit", most], part));
        if let Err(missing) = &limited {
            say_left_out("a quota", missing);
        }
        limited.is_ok()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn make(&mut self, kind: Kind, fill: impl FnOnce(&Path)) -> Result<(), String> {
        match kind {
            Kind::Plain => {}
            Kind::Tmpfs => self.mount(&["-t", "tmpfs", "-o", "size=128M", "tmpfs"], "root")?,
            Kind::Ext4 => self.on_image(&["mkfs.ext4", "-q", "-F"])?,
            Kind::Ext4OfSeconds => self.on_image(&["mkfs.ext4", "-q", "-F", "-I", "128"])?,
            Kind::Xfs => self.on_image(&["mkfs.xfs", "-q", "-f"])?,
            Kind::Btrfs => {
                self.on_image(&["mkfs.btrfs", "-q", "-f"])?;
                let part = self.root().join("part");
                run(Command::new("btrfs")
                    .args(["subvolume", "create"])
                    .arg(part))?;
            }
            Kind::Overlay | Kind::OverlayOfTwo => return self.overlay(kind, fill),
        }
        fill(&self.root());
        Ok(())
    }

    fn overlay(&mut self, kind: Kind, fill: impl FnOnce(&Path)) -> Result<(), String> {
        if kind == Kind::OverlayOfTwo {
            self.mount(&["-t", "tmpfs", "tmpfs"], "upper")?;
        }
        for name in ["upper/files", "upper/work"] {
            std::fs::create_dir(self.at(name)).expect("a folder");
        }
        fill(&self.at("lower"));
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            self.at("lower").display(),
            self.at("upper/files").display(),
            self.at("upper/work").display()
        );
        self.mount(&["-t", "overlay", "-o", &options, "overlay"], "root")
    }

    /// Makes a file system in a file by the command `make`, and mounts it.
    fn on_image(&mut self, make: &[&str]) -> Result<(), String> {
        let image = self.at("image");
        let file = std::fs::File::create(&image).expect("a file");
        file.set_len(320 << 20).expect("a length");
        run(Command::new(make[0]).args(&make[1..]).arg(&image))?;
        let image = image.display().to_string();
        self.mount(&["-o", "loop", &image], "root")
    }

    fn mount(&mut self, words: &[&str], name: &str) -> Result<(), String> {
        let at = self.at(name);
        run(Command::new("mount").args(words).arg(&at))?;
        self.mounted.push(at);
        Ok(())
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        for at in self.mounted.drain(..).rev() {
            // What is still in use goes away with its last user.
            run(Command::new("umount").arg("-l").arg(&at)).expect("it was mounted");
        }
    }
}

fn say_left_out(what: &str, missing: &str) {
    let line = format!("{what} is left out: {missing}\n");
    // Past the capture of the test's output.
    let said = std::io::stderr().write_all(line.as_bytes());
    said.unwrap_or_default();
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}", said.trim()))
}
