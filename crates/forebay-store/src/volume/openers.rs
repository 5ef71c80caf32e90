//! Which opener an address is for.

use super::{Opener, Volume, VolumeError, VolumeMode};
use std::ffi::OsStr;
use std::fmt::Write;
use std::sync::Arc;

/// Openers by the schemes of their addresses; what has none is a path.
///
/// ```
/// use forebay_store::{MemoryStore, Opener, Openers, VolumeMode};
/// use std::sync::Arc;
/// let memory = Arc::new(Arc::new(MemoryStore::new()));
/// let openers = Openers::new(memory.clone()).with("memory", memory);
/// let mode = VolumeMode::Create { length_bytes: 1 << 20 };
/// let volume = openers.open_volume("memory://7".as_ref(), mode)?;
/// assert_eq!(volume.length_bytes, 1 << 20);
/// let unknown = openers.open_volume("gopher://7".as_ref(), mode);
/// assert!(unknown.is_err_and(|error| error.to_string().contains("known are paths, memory://")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Openers {
    paths: Arc<dyn Opener>,
    schemes: Vec<(&'static str, Arc<dyn Opener>)>,
}

impl Openers {
    /// Only paths, for `paths`.
    pub fn new(paths: Arc<dyn Opener>) -> Openers {
        Openers {
            paths,
            schemes: Vec::new(),
        }
    }

    /// The same, and addresses that begin with `scheme` and `://`, for `opener`.
    #[must_use]
    pub fn with(mut self, scheme: &'static str, opener: Arc<dyn Opener>) -> Openers {
        self.schemes.push((scheme, opener));
        self
    }

    /// The schemes, each as ", NAME://".
    fn known(&self) -> String {
        self.schemes
            .iter()
            .fold(String::new(), |mut known, (scheme, _)| {
                // A string takes everything.
                let _ = write!(known, ", {scheme}://");
                known
            })
    }
}

impl Opener for Openers {
    fn open_volume(&self, address: &OsStr, mode: VolumeMode) -> Result<Volume, VolumeError> {
        let Some(scheme) = scheme_of(address) else {
            return self.paths.open_volume(address, mode);
        };
        match self.schemes.iter().find(|(known, _)| *known == scheme) {
            Some((_, opener)) => opener.open_volume(address, mode),
            None => Err(VolumeError::UnknownScheme {
                address: address.to_owned(),
                scheme: scheme.to_owned(),
                known: self.known(),
            }),
        }
    }
}

/// The scheme with which `address` begins, in the letters of RFC 3986; a path has none.
fn scheme_of(address: &OsStr) -> Option<&str> {
    let bytes = address.as_encoded_bytes();
    let end = bytes.windows(3).position(|part| part == b"://")?;
    let scheme = str::from_utf8(&bytes[..end]).ok()?;
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    let is_one = scheme.starts_with(|first: char| first.is_ascii_alphabetic());
    (is_one && scheme.chars().all(fits)).then_some(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_is_letters_before_two_slashes_and_a_path_has_none() {
        for (address, scheme) in [
            ("nbd+unix:///disk?socket=/run/s", Some("nbd+unix")),
            ("s3://bucket/volume", Some("s3")),
            ("file:///srv/disk.img", Some("file")),
            ("disk.img", None),
            ("/srv/disk.img", None),
            ("./nbd://disk", None),
            ("a/b://c", None),
            ("://c", None),
            ("3d://c", None),
            ("nbd:/disk", None),
        ] {
            assert_eq!(scheme_of(address.as_ref()), scheme, "{address}");
        }
    }
}
