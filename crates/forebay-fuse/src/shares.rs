//! How the memory of a mount is shared out: to its cache, and to everything else.

/// Memory of an open file, or of the content of a closed one, without its pages, bytes.
const OBJECT_BYTES: u64 = 2_560;
/// Requests whose bytes are in memory at a time: as the kernel passes them on, as copies that wait
/// for their turn, and as replies.
const REQUESTS: u64 = (SESSION_THREADS + COPIES + REPLIES) as u64;

/// Threads that read the kernel's requests.
pub(crate) const SESSION_THREADS: usize = 8;
/// Copies of the largest requests at a time; there may be more of smaller ones. Each writer that
/// finds no room for a copy holds up a thread that reads requests.
pub(crate) const COPIES: usize = 32;
/// Replies at a time; further reads wait for their turn.
pub(crate) const REPLIES: usize = 16;

/// The parts of a mount's memory.
///
/// ```
/// use forebay_fuse::Shares;
///
/// let shares = Shares::of(64 << 20);
/// assert!(shares.cache_bytes() > 32 << 20);
/// assert!(shares.cache_bytes() + shares.beside_bytes() <= 64 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    cache_bytes: u64,
    objects: u32,
    names: u32,
    request_bytes: u32,
}

impl Shares {
    /// Memory of a name that the kernel knows, with its places in the tables, bytes.
    pub const NAME_BYTES: u64 = 512;

    /// Shares `memory_bytes` out.
    pub fn of(memory_bytes: u64) -> Shares {
        let eighth_bytes = memory_bytes / 8;
        let objects = (eighth_bytes / OBJECT_BYTES).clamp(64, 65_536);
        let names = (eighth_bytes / 2 / Shares::NAME_BYTES).clamp(64, 1 << 20);
        let request_bytes = (eighth_bytes / REQUESTS).clamp(32 << 10, 1 << 20);
        let mut shares = Shares {
            cache_bytes: 0,
            objects: objects as u32,
            names: names as u32,
            // Whole pages, and a number that fits the kernel's field.
            request_bytes: 1 << request_bytes.ilog2(),
        };
        shares.cache_bytes = memory_bytes.saturating_sub(shares.beside_bytes());
        shares
    }

    /// The part of the cache, bytes.
    pub fn cache_bytes(&self) -> u64 {
        self.cache_bytes
    }

    /// The rest, for names, open files and requests, bytes.
    pub fn beside_bytes(&self) -> u64 {
        u64::from(self.names) * Shares::NAME_BYTES
            + u64::from(self.objects) * OBJECT_BYTES
            + u64::from(self.request_bytes) * REQUESTS
    }

    /// Files that may be open at a time, including closed ones whose content is kept.
    pub fn objects(&self) -> u32 {
        self.objects
    }

    /// Names that the kernel may know before it is asked to forget some.
    pub fn names(&self) -> u32 {
        self.names
    }

    /// Most bytes of one request.
    pub fn request_bytes(&self) -> u32 {
        self.request_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_within_the_whole() {
        for mib in [8, 16, 64, 100, 1024, 1 << 20] {
            let whole = mib << 20;
            let shares = Shares::of(whole);
            assert!(
                shares.cache_bytes() + shares.beside_bytes() <= whole,
                "{mib} MiB"
            );
            assert!(shares.cache_bytes() >= whole / 2, "{mib} MiB: {shares:?}");
            assert!(shares.request_bytes().is_power_of_two());
        }
    }
}
