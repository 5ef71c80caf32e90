//! The manifest: the facts of a volume that never change, in lines that a person can read. The
//! length is one of them only until somebody resizes the volume, which a record says.

use crate::checksum::crc32c;
use crate::fault::VolumeFault;
use crate::name::{ChunkName, MANIFEST_KEY, record_of};
use crate::page_format::{PAGE_BYTES, PageFormat};
use std::ops::Range;

/// The newest format of manifests. Format 1 has plain pages; a volume with plain pages is made in
/// it, so that older programs open it. Format 3 is that of clones.
const FORMAT: u32 = 3;
/// The most chunks of a volume: its map is in memory, and one object.
pub const CHUNKS_LIMIT: u64 = 1 << 22;
const LEAST_CHUNK_BYTES: u32 = 64 << 10;
const LARGEST_CHUNK_BYTES: u32 = 8 << 20;

/// What a clone has of its parent: all objects up to these.
///
/// - invariant VB24: the writers of a clone have later epochs, and make later records. So the key
///   of an object says whether it lies with the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Chunks up to this epoch.
    pub epoch: u64,
    /// Records up to this number.
    pub record: u64,
}

impl Shared {
    /// Whether `key` is that of an object of the parent.
    ///
    /// ```
    /// use forebay_volume::{Shared, log_key, map_key};
    /// let shared = Shared { epoch: 2, record: 17 };
    /// assert!(shared.has(&log_key(17)) && !shared.has(&log_key(18)));
    /// assert!(!shared.has(&map_key(17)), "a clone has maps of its own");
    /// ```
    pub fn has(&self, key: &str) -> bool {
        let is_chunk = ChunkName::parse(key).is_some_and(|name| name.epoch <= self.epoch);
        is_chunk || record_of(key).is_some_and(|number| number <= self.record)
    }
}

/// The facts of a volume that never change, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// A number that no other volume has, but for copies and clones of this one.
    pub id: u128,
    /// The length of the volume, whole pages of [`PAGE_BYTES`].
    pub length_bytes: u64,
    /// The bytes of a chunk, a power of two.
    pub chunk_bytes: u32,
    /// How pages lie in objects.
    pub pages: PageFormat,
    /// What it has of its parent, if it is a clone.
    pub shared: Option<Shared>,
    /// The length with which it was made: that is what its object says.
    made_bytes: u64,
}

impl Manifest {
    /// A volume of `length_bytes` in chunks of `chunk_bytes`, with plain pages.
    ///
    /// ```
    /// use forebay_volume::Manifest;
    /// let manifest = Manifest::new(0xf00, 2 << 30, 1 << 20)?;
    /// assert_eq!(manifest.chunks(), 2048);
    /// assert_eq!(Manifest::decode(&manifest.encode())?, manifest);
    /// assert!(Manifest::new(0xf00, 1 << 60, 1 << 20).is_err());
    /// # Ok::<(), forebay_volume::VolumeFault>(())
    /// ```
    ///
    /// # Errors
    /// [`VolumeFault::OutOfRange`]: no whole pages, too long for these chunks, or no such chunks.
    pub fn new(id: u128, length_bytes: u64, chunk_bytes: u32) -> Result<Manifest, VolumeFault> {
        let refused = |what| Err(VolumeFault::OutOfRange { what });
        if !chunk_bytes.is_power_of_two()
            || !(LEAST_CHUNK_BYTES..=LARGEST_CHUNK_BYTES).contains(&chunk_bytes)
        {
            return refused(format!(
                "chunks have a power of two from {LEAST_CHUNK_BYTES} to {LARGEST_CHUNK_BYTES} \
                 bytes, not {chunk_bytes}"
            ));
        }
        if length_bytes == 0 || !length_bytes.is_multiple_of(PAGE_BYTES) {
            return refused(format!(
                "a volume's length is a multiple of {PAGE_BYTES} bytes, not {length_bytes}"
            ));
        }
        let manifest = Manifest {
            id,
            length_bytes,
            chunk_bytes,
            pages: PageFormat::Plain,
            shared: None,
            made_bytes: length_bytes,
        };
        if length_bytes.div_ceil(chunk_bytes.into()) > CHUNKS_LIMIT {
            let most = CHUNKS_LIMIT * u64::from(chunk_bytes);
            return refused(format!(
                "a volume with chunks of {chunk_bytes} bytes has at most {most} bytes, not \
                 {length_bytes}"
            ));
        }
        Ok(manifest)
    }

    /// The same with its pages in another format.
    #[must_use]
    pub fn with_pages(self, pages: PageFormat) -> Manifest {
        Manifest { pages, ..self }
    }

    /// A clone of this volume, made with its present length.
    #[must_use]
    pub fn cloned(self, shared: Shared) -> Manifest {
        Manifest {
            shared: Some(shared),
            made_bytes: self.length_bytes,
            ..self
        }
    }

    /// The same volume with another length.
    ///
    /// # Errors
    /// As [`Manifest::new`].
    pub fn with_length(self, length_bytes: u64) -> Result<Manifest, VolumeFault> {
        Manifest::new(self.id, length_bytes, self.chunk_bytes)?;
        Ok(Manifest {
            length_bytes,
            ..self
        })
    }

    /// The same volume as it was made.
    #[must_use]
    pub fn as_made(self) -> Manifest {
        Manifest {
            length_bytes: self.made_bytes,
            ..self
        }
    }

    /// The chunks that have other pages than in `other`, which is the same volume with another
    /// length, and pages in both: the last one of each, at most.
    pub fn reshaped(&self, other: &Manifest) -> Vec<u64> {
        let both = self.chunks().min(other.chunks());
        let ends = [self, other].map(|it| it.chunks() - 1);
        let mut chunks: Vec<u64> = ends.into_iter().filter(|&chunk| chunk < both).collect();
        chunks.dedup();
        chunks.retain(|&chunk| self.pages_of(chunk) != other.pages_of(chunk));
        chunks
    }

    /// The chunks of the volume; the last one may lie across its end.
    pub fn chunks(&self) -> u64 {
        self.length_bytes.div_ceil(self.chunk_bytes.into())
    }

    /// The pages of the volume.
    pub fn pages(&self) -> u64 {
        self.length_bytes / PAGE_BYTES
    }

    /// The pages of a chunk.
    pub fn chunk_pages(&self) -> u64 {
        u64::from(self.chunk_bytes) / PAGE_BYTES
    }

    /// The pages of `chunk`; the last chunk may have fewer.
    pub fn pages_of(&self, chunk: u64) -> Range<u64> {
        let first = chunk * self.chunk_pages();
        first..self.pages().min(first + self.chunk_pages())
    }

    /// The bytes of the object of `chunk`.
    pub fn object_bytes(&self, chunk: u64) -> u64 {
        let pages = self.pages_of(chunk);
        (pages.end - pages.start) * self.pages.stored_bytes()
    }

    /// The bytes of the object of a whole chunk.
    pub fn whole_object_bytes(&self) -> u64 {
        self.chunk_pages() * self.pages.stored_bytes()
    }

    /// The manifest as an object.
    pub fn encode(&self) -> Vec<u8> {
        let pages = format!("pages {}\n", self.pages.name());
        let (format, more) = match (self.pages, self.shared) {
            (PageFormat::Plain, None) => (1, String::new()),
            (_, None) => (2, pages),
            (_, Some(Shared { epoch, record })) => {
                let shared = format!("shared_epoch {epoch}\nshared_record {record}\n");
                (3, pages + &shared)
            }
        };
        let text = format!(
            "forebay volume {format}\nid {:032x}\nlength_bytes {}\nchunk_bytes {}\n{more}",
            self.id, self.made_bytes, self.chunk_bytes
        );
        let checksum = crc32c(text.as_bytes());
        format!("{text}crc32c {checksum:08x}\n").into_bytes()
    }

    /// The checksum of its object, with which the log begins.
    pub(crate) fn checksum(&self) -> u32 {
        crc32c(&self.encode())
    }

    /// The manifest in `bytes`.
    ///
    /// # Errors
    /// [`VolumeFault::Newer`], [`VolumeFault::Damaged`].
    pub fn decode(bytes: &[u8]) -> Result<Manifest, VolumeFault> {
        let damaged = |what| VolumeFault::Damaged {
            key: MANIFEST_KEY.to_owned(),
            what,
        };
        let text = str::from_utf8(bytes).map_err(|_| damaged("its text"))?;
        let (summed, last) = text
            .rfind("crc32c ")
            .map(|at| text.split_at(at))
            .ok_or(damaged("it has no checksum"))?;
        if last != format!("crc32c {:08x}\n", crc32c(summed.as_bytes())) {
            return Err(damaged("its checksum"));
        }
        let mut lines = summed.lines();
        let mut field = |name: &str| {
            let line = lines.next().ok_or(damaged("it is cut"))?;
            let value = line.strip_prefix(name).ok_or(damaged("a line's name"))?;
            value.strip_prefix(' ').ok_or(damaged("a line's name"))
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| damaged("a number"));
        let format = number(field("forebay volume")?)?;
        if !(1..=u64::from(FORMAT)).contains(&format) {
            return Err(VolumeFault::Newer {
                key: MANIFEST_KEY.to_owned(),
                found: format as u32,
                known: FORMAT,
            });
        }
        let id = u128::from_str_radix(field("id")?, 16).map_err(|_| damaged("its id"))?;
        let length_bytes = number(field("length_bytes")?)?;
        let chunk_bytes = number(field("chunk_bytes")?)? as u32;
        let mut manifest = Manifest::new(id, length_bytes, chunk_bytes)?;
        if format > 1 {
            manifest.pages = PageFormat::named(field("pages")?).ok_or(damaged("its pages"))?;
        }
        if format > 2 {
            let (epoch, record) = (field("shared_epoch")?, field("shared_record")?);
            let (epoch, record) = (number(epoch)?, number(record)?);
            manifest.shared = Some(Shared { epoch, record });
        }
        // One manifest has one text, so a changed byte that means the same is noticed too.
        if manifest.encode() != bytes {
            return Err(damaged("its form"));
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_chunks_that_no_volume_has_are_refused() {
        for (length_bytes, chunk_bytes) in [
            (0, 1 << 20),
            (4095, 1 << 20),
            (4096, 1 << 15),
            (4096, 1 << 24),
            (4096, 100_000),
            ((CHUNKS_LIMIT << 16) + 4096, 1 << 16),
            (u64::MAX - 4095, 1 << 23),
        ] {
            let refused = Manifest::new(1, length_bytes, chunk_bytes);
            assert!(
                matches!(refused, Err(VolumeFault::OutOfRange { .. })),
                "{length_bytes} {chunk_bytes}"
            );
        }
        assert!(Manifest::new(1, CHUNKS_LIMIT << 16, 1 << 16).is_ok());
    }

    #[test]
    fn a_length_changes_the_last_chunks_alone_and_not_the_object() {
        let of = |pages: u64| Manifest::new(1, pages * PAGE_BYTES, 64 << 10);
        let made = of(20).expect("it is possible");
        for (pages, reshaped) in [
            (20, &[][..]),
            (16, &[]),
            (18, &[1]),
            (32, &[1]),
            (33, &[1]),
            (40, &[1]),
            (3, &[0]),
        ] {
            let other = made
                .with_length(pages * PAGE_BYTES)
                .expect("it is possible");
            assert_eq!(other.reshaped(&made), reshaped, "{pages} pages");
            assert_eq!(made.reshaped(&other), reshaped, "{pages} pages");
            assert_eq!(other.encode(), made.encode());
            assert_eq!(other.as_made(), made);
            let new = of(pages).expect("it is possible");
            assert_eq!(
                other.pages_of(other.chunks() - 1),
                new.pages_of(new.chunks() - 1)
            );
        }
        assert!(made.with_length(1).is_err());
    }

    #[test]
    fn a_newer_manifest_is_refused_by_name_and_number() {
        let body = "forebay volume 4\nwhat comes then\n";
        let text = format!("{body}crc32c {:08x}\n", crc32c(body.as_bytes()));
        let refused = Manifest::decode(text.as_bytes()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "volume has format 4, and this program knows format 3; use a newer one"
        );
    }
}
