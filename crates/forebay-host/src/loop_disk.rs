//! The kernel's slow disk: a loop device on a scratch file, limited to a rate by the cgroup v1
//! throttle of the block layer. It needs root, `losetup` and that controller.

use crate::cgroup::top_of;
use crate::error::HostError;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The note on the slow disk of a folder; there is one at most.
const NOTE_NAME: &str = "slow-disk.json";

/// A loop device with a limit on its writes. Dropping it lifts the limit. The device detaches
/// itself when the last process that has it open is gone, for whatever reason.
///
/// # Examples
/// ```no_run
/// use forebay_host::LoopDisk;
/// use std::path::Path;
///
/// let disk = LoopDisk::create(Path::new("slow-disk"), 1 << 30, 30_000_000)?;
/// println!("{} takes 30 MB/s", disk.device().display());
/// # Ok::<(), String>(())
/// ```
pub struct LoopDisk {
    slow: SlowDevice,
    _open: fs::File,
}

/// A block device that the kernel limits to a rate, and the way to lift the limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowDevice {
    /// The device's file.
    pub device: PathBuf,
    /// The control file of the limit on writes.
    rule_file: PathBuf,
    /// The device as the control file names it, `major:minor`.
    number: String,
    bytes_per_second: u64,
}

impl LoopDisk {
    /// A disk of `bytes` on the new file `file`, taking `bytes_per_second`.
    ///
    /// # Errors
    /// The reason why none can be made here, as a text. That is not a failure of the program.
    pub fn create(file: &Path, bytes: u64, bytes_per_second: u64) -> Result<LoopDisk, String> {
        let rule_file = throttle_file()?;
        fs::File::create_new(file)
            .and_then(|created| created.set_len(bytes))
            .map_err(|refused| format!("cannot make {}: {refused}", file.display()))?;
        let device = PathBuf::from(losetup(&[
            "--find",
            "--show",
            "--direct-io=on",
            &text(file),
        ])?);
        let opened = fs::File::open(&device);
        let cleared = clear_stable_writes(&device);
        // An open device detaches when it is closed for the last time; one that could not be opened
        // detaches immediately.
        losetup(&["--detach", &text(&device)])?;
        let open = opened.map_err(|refused| format!("cannot open {}: {refused}", text(&device)))?;
        cleared?;
        let slow = SlowDevice {
            number: device_number(&device)?,
            device,
            rule_file,
            bytes_per_second,
        };
        // A program that is killed leaves its throttle and this note, which the next one reads.
        let note = serde_json::to_vec(&slow).map_err(|refused| refused.to_string())?;
        fs::write(file.with_file_name(NOTE_NAME), note).map_err(|refused| refused.to_string())?;
        slow.throttle().map_err(|refused| refused.to_string())?;
        Ok(LoopDisk { slow, _open: open })
    }

    /// Lifts the throttle that a killed program may have left on a disk over a file in `folder`.
    pub(crate) fn lift_abandoned(folder: &Path) {
        let Ok(note) = fs::read(folder.join(NOTE_NAME)) else {
            return;
        };
        let lifted = serde_json::from_slice::<SlowDevice>(&note)
            .map_err(|refused| refused.to_string())
            .and_then(|slow| slow.lift().map_err(|refused| refused.to_string()));
        if let Err(refused) = lifted {
            eprintln!("forebay: the throttle of a killed program stays: {refused}");
        }
    }

    /// Lets the device run at its own speed until it is throttled again.
    ///
    /// # Errors
    /// [`HostError::Step`] if the kernel refuses.
    pub fn release(&self) -> Result<(), HostError> {
        self.slow.lift()
    }

    /// The device's file.
    pub fn device(&self) -> &Path {
        &self.slow.device
    }

    /// The device as the kernel numbers it, `major:minor`.
    pub fn number(&self) -> &str {
        &self.slow.number
    }

    /// The device without its owner, for another process.
    pub fn slow_device(&self) -> SlowDevice {
        self.slow.clone()
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        if let Err(refused) = self.slow.lift() {
            eprintln!("forebay: {refused}");
        }
    }
}

impl SlowDevice {
    /// Limits the device to its rate.
    ///
    /// # Errors
    /// [`HostError::Step`] if the kernel refuses.
    pub fn throttle(&self) -> Result<(), HostError> {
        self.write_rule(self.bytes_per_second)
    }

    /// Lets the device run at its own speed.
    ///
    /// # Errors
    /// [`HostError::Step`] if the kernel refuses.
    pub fn lift(&self) -> Result<(), HostError> {
        self.write_rule(0)
    }

    fn write_rule(&self, bytes_per_second: u64) -> Result<(), HostError> {
        let rule = format!("{} {bytes_per_second}", self.number);
        fs::write(&self.rule_file, rule)
            .map_err(HostError::at("set the throttle in", &self.rule_file))
    }
}

/// The control file that limits the writes of every process, including the kernel's flusher: the
/// one in the root group.
fn throttle_file() -> Result<PathBuf, String> {
    let file = top_of("blkio")?.map(|top| top.join("blkio.throttle.write_bps_device"));
    file.filter(|file| file.exists())
        .ok_or_else(|| "no cgroup v1 throttle of the block layer is mounted".to_owned())
}

fn device_number(device: &Path) -> Result<String, String> {
    let name = device.file_name().map(PathBuf::from).unwrap_or_default();
    let file = Path::new("/sys/class/block").join(name).join("dev");
    fs::read_to_string(&file)
        .map(|number| number.trim().to_owned())
        .map_err(|refused| format!("cannot read {}: {refused}", file.display()))
}

/// A device keeps its setting for stable pages when it gets another file. With that setting, a
/// writer would be measured while it waits for pages under writeback.
fn clear_stable_writes(device: &Path) -> Result<(), String> {
    let name = device.file_name().unwrap_or_default();
    let file = Path::new("/sys/block")
        .join(name)
        .join("queue/stable_writes");
    // A kernel that does not show the setting does not have it.
    let says = fs::read_to_string(&file).unwrap_or_default();
    if says.trim() != "1" {
        return Ok(());
    }
    fs::write(&file, "0").map_err(|refused| format!("cannot write {}: {refused}", file.display()))
}

/// Runs `losetup` and returns what it printed.
fn losetup(words: &[&str]) -> Result<String, String> {
    let output = Command::new("losetup")
        .args(words)
        .output()
        .map_err(|refused| format!("cannot run losetup: {refused}"))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(format!("losetup refused: {}", reason.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
