//! The caller that a handle belongs to.

use forebay_base::hash::TraceHash;
use std::fmt;
use std::sync::Arc;

/// What kind of caller a handle belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CallerKind {
    /// A handle that was opened without a caller; its number counts such handles.
    Handle,
    /// A part of the program, by its name.
    Named,
    /// A connection of a server.
    Connection,
    /// A process.
    Process,
    /// The cache itself: calls that a program makes for all objects at once.
    Cache,
    /// All callers for which a table had no room.
    Others,
}

/// Names are cut to this many bytes, and their control characters are replaced with `?`.
const NAME_BYTES: usize = 48;

/// The caller that a handle belongs to. It is only used to report who waited and who caused the
/// wait; nothing else depends on it.
///
/// ```
/// # use forebay_engine as forebay;
/// use forebay::Caller;
/// assert_eq!(Caller::named("backup").to_string(), "backup");
/// assert_eq!(Caller::connection(3, "disk.img").to_string(), "client 3 (disk.img)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    key: CallerKey,
    name: Arc<str>,
}

impl Caller {
    /// A part of the program.
    pub fn named(name: &str) -> Caller {
        Caller::new(CallerKind::Named, 0, name)
    }

    /// A connection of a server, and the export that it uses.
    pub fn connection(number: u32, export: &str) -> Caller {
        Caller::new(CallerKind::Connection, number, export)
    }

    /// A process, and the file that it uses.
    pub fn process(number: u32, file: &str) -> Caller {
        Caller::new(CallerKind::Process, number, file)
    }

    pub(crate) fn new(kind: CallerKind, number: u32, name: &str) -> Caller {
        let end = (0..=NAME_BYTES.min(name.len()))
            .rev()
            .find(|&at| name.is_char_boundary(at));
        // A terminal would obey control characters in the name of a file.
        let name: String = name[..end.unwrap_or(0)]
            .chars()
            .map(|letter| if letter.is_control() { '?' } else { letter })
            .collect();
        Caller {
            key: CallerKey {
                kind,
                number,
                name_hash: hash_of(&name),
            },
            name: name.into(),
        }
    }

    /// The caller of `key`, if its name was forgotten or never given.
    pub(crate) fn nameless(key: CallerKey) -> Caller {
        Caller {
            key,
            name: "".into(),
        }
    }

    /// Its key in events.
    pub fn key(&self) -> CallerKey {
        self.key
    }

    /// What kind of caller it is.
    pub fn kind(&self) -> CallerKind {
        self.key.kind
    }

    /// Its number among those of its kind.
    pub fn number(&self) -> u32 {
        self.key.number
    }

    /// Its name, or the name of what it uses. Empty if there is none.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind(), self.name()) {
            (_, "") => write!(f, "{}", self.key),
            (CallerKind::Named, name) => write!(f, "{name}"),
            (_, name) => write!(f, "{} ({name})", self.key),
        }
    }
}

fn hash_of(name: &str) -> u64 {
    let mut hash = TraceHash::default();
    name.bytes().for_each(|byte| hash.note(u64::from(byte)));
    hash.value()
}

/// A caller as events name it: a plain value. [`crate::Cache::caller`] knows its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallerKey {
    kind: CallerKind,
    number: u32,
    name_hash: u64,
}

impl CallerKey {
    /// The cache itself.
    pub const CACHE: CallerKey = CallerKey::of(CallerKind::Cache, 0);
    /// All callers for which a table had no room.
    pub const OTHERS: CallerKey = CallerKey::of(CallerKind::Others, 0);

    const fn of(kind: CallerKind, number: u32) -> CallerKey {
        CallerKey {
            kind,
            number,
            name_hash: 0,
        }
    }

    /// A handle that was opened without a caller.
    pub(crate) const fn handle(number: u32) -> CallerKey {
        CallerKey::of(CallerKind::Handle, number)
    }

    /// What kind of caller it is.
    pub fn kind(self) -> CallerKind {
        self.kind
    }

    /// Its number among those of its kind.
    pub fn number(self) -> u32 {
        self.number
    }
}

impl fmt::Display for CallerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            CallerKind::Handle => write!(f, "handle {}", self.number),
            CallerKind::Named => write!(f, "name {:08x}", self.name_hash),
            CallerKind::Connection => write!(f, "client {}", self.number),
            CallerKind::Process => write!(f, "process {}", self.number),
            CallerKind::Cache => write!(f, "the cache"),
            CallerKind::Others => write!(f, "others"),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_control_characters() {
        let name = "a\x1b[2Jb\n\u{9b}\u{7f}\u{e9}";
        for caller in [
            Caller::named(name),
            Caller::connection(1, name),
            Caller::process(1, name),
        ] {
            assert_eq!(caller.name(), "a?[2Jb???\u{e9}");
            assert!(!caller.to_string().chars().any(char::is_control));
        }
        let long = "\u{9b}".repeat(100);
        assert_eq!(Caller::named(&long).name(), "?".repeat(24));
    }
}
