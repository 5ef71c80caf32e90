//! Waiting for an ended mount of the same folder, which still writes what it held.

use crate::daemon::say::say;
use crate::error::CommandError;
use forebay_base::Span;
use forebay_fuse::mounts::{self, name_of};
use forebay_fuse::{Mount, MountError, MountParts, MountSettings};
use forebay_rt::block_on;
use forebay_store::claims::Holder;
use std::path::Path;

/// The pause between two looks whether it has ended.
const RETRY_AFTER: Span = Span::from_millis(200);
/// How long this waits at most.
const PATIENCE: Span = Span::from_secs(300);

/// Mounts. If a mount of the same folder has ended and still writes, this waits for it first, and
/// for nothing else.
pub(super) fn start(settings: &MountSettings, parts: &MountParts) -> Result<Mount, CommandError> {
    let began = parts.rt.now();
    let mut is_reported = false;
    loop {
        let error = match Mount::start(settings, parts.clone()) {
            Ok(mount) => return Ok(mount),
            Err(error) => error,
        };
        let MountError::InUse { path, holder } = &error else {
            return Err(CommandError::Served(error.to_string()));
        };
        let ending = holder.as_ref().filter(|holder| is_ending(holder, path));
        let Some(holder) = ending else {
            return Err(CommandError::Served(error.to_string()));
        };
        if parts.rt.now().since(began) >= PATIENCE {
            return Err(CommandError::Served(format!(
                "{holder} still writes what its ended mount of {} held; mount again when it has \
                 ended",
                path.display()
            )));
        }
        if !is_reported {
            say(format_args!(
                "waiting up to {} s for {holder}, whose mount of {} has ended, to write what it \
                 held",
                PATIENCE.as_millis() / 1_000,
                path.display()
            ));
            is_reported = true;
        }
        block_on(parts.rt.sleep(RETRY_AFTER));
    }
}

/// Whether the process that has `source` is a mount of this program whose end is under way: nothing
/// of it is shown any more, where it lives.
fn is_ending(holder: &Holder, source: &Path) -> bool {
    let Some(process) = holder.process.filter(|_| holder.has.is_none()) else {
        return false;
    };
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{process}/{name}"));
    let (Ok(words), Ok(list)) = (read("cmdline"), read("mountinfo")) else {
        return false;
    };
    let own = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    let is_ours = own.trim_end() == holder.program && words.split('\0').any(|word| word == "mount");
    is_ours && !shows(&list, source)
}

/// Whether a list of mounts has one of ours that shows `source`.
fn shows(list: &str, source: &Path) -> bool {
    let name = name_of(source);
    let mut shown = mounts::read(list).into_iter();
    // The type has our name only if the system's helper made the mount.
    shown.any(|it| matches!(&*it.kind, "fuse" | "fuse.forebay") && it.source == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_of_ours_is_found_in_the_list() {
        let list = [
            "36 25 8:1 / / rw - ext4 /dev/root rw",
            "90 25 0:41 / /mnt rw,noatime shared:1 - fuse.forebay /srv/a\\040b rw,user_id=0",
            "91 25 0:42 / /x rw - fuse.sshfs /srv/c rw",
            "92 25 0:43 / /y rw - fuse /srv/d\\043%2C rw",
        ];
        let list = &list.join("\n");
        assert!(shows(list, Path::new("/srv/a b")));
        assert!(!shows(list, Path::new("/srv/a")));
        assert!(!shows(list, Path::new("/srv/c")));
        assert!(shows(list, Path::new("/srv/d#,")));
    }

    #[test]
    fn only_a_mount_of_this_program_is_waited_for() {
        let holder = |process, program: &str| Holder {
            process,
            program: program.to_owned(),
            has: None,
        };
        let own = std::fs::read_to_string("/proc/self/comm").unwrap();
        let (own, this) = (own.trim_end(), Some(std::process::id()));
        let nowhere = Path::new("/no/such/folder");
        assert!(!is_ending(&holder(None, own), nowhere));
        assert!(!is_ending(&holder(this, "flock"), nowhere));
        assert!(!is_ending(&holder(this, own), nowhere), "it is no mount");
    }
}
