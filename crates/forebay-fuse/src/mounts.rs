//! The system's list of mounts, and the names of ours in it.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// One mount of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its device, as major and minor number.
    pub device: (u32, u32),
    /// Where it is.
    pub at: PathBuf,
    /// The type of its file system.
    pub kind: String,
    /// What it shows, in the words of its file system.
    pub source: String,
}

impl Shown {
    /// The folder that it shows, if it is of a kind that shows folders.
    pub fn folder(&self) -> Option<PathBuf> {
        let is_fuse = self.kind == "fuse" || self.kind.starts_with("fuse.");
        (is_fuse && self.source.starts_with('/')).then(|| path_of(&self.source))
    }

    fn read(line: &str) -> Option<Shown> {
        let (place, system) = line.split_once(" - ")?;
        let mut words = place.split(' ').skip(2);
        let (major, minor) = words.next()?.split_once(':')?;
        let at = OsString::from_vec(unescaped(words.nth(1)?));
        let mut words = system.split(' ');
        let (kind, source) = (words.next()?, words.next()?);
        Some(Shown {
            device: (major.parse().ok()?, minor.parse().ok()?),
            at: at.into(),
            kind: kind.to_owned(),
            source: String::from_utf8_lossy(&unescaped(source)).into_owned(),
        })
    }
}

/// The mounts of a list, the text of a `mountinfo`.
///
/// ```
/// let list = "90 25 0:41 / /mnt/a\\040b rw shared:1 - fuse.forebay /srv/a rw,user_id=0";
/// let mounts = forebay_fuse::mounts::read(list);
/// assert_eq!(mounts[0].at, std::path::Path::new("/mnt/a b"));
/// assert_eq!(mounts[0].folder().as_deref(), Some("/srv/a".as_ref()));
/// ```
pub fn read(list: &str) -> Vec<Shown> {
    list.lines().filter_map(Shown::read).collect()
}

/// The name by which a mount of the folder `path` is listed. Options of mounts are divided by
/// commas, and lists are read line by line, so what could be taken for either is written as `%2C`.
///
/// ```
/// assert_eq!(forebay_fuse::mounts::name_of("/srv/a,b".as_ref()), "/srv/a%2Cb");
/// ```
pub fn name_of(path: &Path) -> String {
    let mut name = String::new();
    let encode = |name: &mut String, bytes: &[u8]| {
        for byte in bytes {
            // A string takes everything.
            let _ = write!(name, "%{byte:02X}");
        }
    };
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter.is_control() || [',', '\\', '%', '"'].contains(&letter) {
                encode(&mut name, letter.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                name.push(letter);
            }
        }
        encode(&mut name, chunk.invalid());
    }
    name
}

/// The folder whose mount is listed as `name`.
fn path_of(name: &str) -> PathBuf {
    let mut path = Vec::new();
    let mut left = name.as_bytes();
    while let Some((&first, rest)) = left.split_first() {
        let hex = rest.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte {
            Some(byte) if first == b'%' => {
                path.push(byte);
                left = &rest[2..];
            }
            _ => {
                path.push(first);
                left = rest;
            }
        }
    }
    OsString::from_vec(path).into()
}

/// What the list writes as octal numbers after a backslash.
fn unescaped(word: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut left = word.as_bytes();
    while let Some((&first, rest)) = left.split_first() {
        let octal = rest
            .get(..3)
            .and_then(|octal| std::str::from_utf8(octal).ok());
        let byte = octal.and_then(|octal| u8::from_str_radix(octal, 8).ok());
        match byte {
            Some(byte) if first == b'\\' => {
                bytes.push(byte);
                left = &rest[3..];
            }
            _ => {
                bytes.push(first);
                left = rest;
            }
        }
    }
    bytes
}

/// Whether what is mounted as `device` leads into the mount `own`: it shows a folder in which that
/// is, or in which another such mount is.
pub(crate) fn leads_to(list: &[Shown], device: (u32, u32), own: (u32, u32)) -> bool {
    let mut open = vec![device];
    let mut seen = Vec::new();
    while let Some(next) = open.pop() {
        if next == own {
            return true;
        }
        if seen.contains(&next) {
            continue;
        }
        seen.push(next);
        let folders = list.iter().filter(|shown| shown.device == next);
        for folder in folders.filter_map(Shown::folder) {
            let inside = list.iter().filter(|shown| shown.at.starts_with(&folder));
            open.extend(inside.map(|shown| shown.device));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn every_path_is_found_again_by_its_name_in_the_list() {
        let nasty: [&[u8]; 8] = [
            b"/srv/a,b",
            b"/srv/a b\tc\nd",
            b"/srv/a#b",
            b"/srv/a\\040b",
            b"/srv/100%",
            b"/srv/%2C",
            b"/srv/\xff\xfe",
            "/srv/\u{e9}t\u{e9}".as_bytes(),
        ];
        for path in nasty {
            let path = Path::new(OsStr::from_bytes(path));
            let name = name_of(path);
            assert!(!name.contains([',', '\n', '\\', '\t']), "{name}");
            assert_eq!(path_of(&name), path);
        }
        assert_eq!(name_of("/srv/a b#c".as_ref()), "/srv/a b#c");
    }

    #[test]
    fn mounts_that_lead_into_each_other_are_found() {
        let list = [
            "20 1 8:1 / / rw - ext4 /dev/root rw",
            "21 20 0:41 / /two/x rw - fuse /one rw",
            "22 20 0:42 / /one/y rw - fuse.forebay /two rw",
            "23 20 0:43 / /three rw - fuse.forebay /four rw",
            "24 20 0:44 / /one/z rw - fuse.sshfs host:/two rw",
        ];
        let list = read(&list.join("\n"));
        assert_eq!(list.len(), 5);
        assert!(leads_to(&list, (0, 42), (0, 41)) && leads_to(&list, (0, 41), (0, 42)));
        assert!(leads_to(&list, (0, 42), (0, 42)));
        assert!(!leads_to(&list, (0, 43), (0, 41)) && !leads_to(&list, (0, 44), (0, 41)));
    }
}
