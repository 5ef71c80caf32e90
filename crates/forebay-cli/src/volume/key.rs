//! The key of an encrypted volume's owner, from a file or from the environment.

use crate::error::CommandError;
use forebay_bucket::OwnerKey;
use std::path::Path;

/// The variable with 64 hexadecimal digits.
const VARIABLE: &str = "FOREBAY_VOLUME_KEY";

/// The key in `file`, or in [`VARIABLE`] if no file was given; none if there is neither.
///
/// # Errors
/// The file cannot be read, or what is there is no key.
pub(crate) fn owner_key(file: Option<&Path>) -> Result<Option<OwnerKey>, CommandError> {
    if let Some(path) = file {
        return key_in(path).map(Some);
    }
    let Some(text) = std::env::var_os(VARIABLE) else {
        return Ok(None);
    };
    let digits = Some(text.as_encoded_bytes()).filter(|text| text.len() >= 64);
    let key = digits.and_then(OwnerKey::parse);
    key.map(Some).ok_or_else(|| no_key(VARIABLE))
}

/// The key in the file `path`.
///
/// # Errors
/// As [`owner_key`].
pub(crate) fn key_in(path: &Path) -> Result<OwnerKey, CommandError> {
    let name = path.display();
    let bytes = std::fs::read(path)
        .map_err(|error| CommandError::Opened(format!("cannot read the key {name}: {error}")))?;
    OwnerKey::parse(&bytes).ok_or_else(|| no_key(&name.to_string()))
}

fn no_key(place: &str) -> CommandError {
    CommandError::Opened(format!(
        "{place} is no key: a key is 64 hexadecimal digits, or 32 random bytes in a file, and no \
         phrase; openssl rand -hex 32 makes one"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_from_a_file_and_anything_else_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let refused = key_in(&path).unwrap_err().to_string();
        assert!(refused.contains("cannot read the key"), "{refused}");
        for phrase in ["secret", "correct horse battery staple, 32"] {
            std::fs::write(&path, phrase).unwrap();
            assert!(key_in(&path).is_err(), "{phrase}");
        }
        let refused = key_in(&path).unwrap_err().to_string();
        assert!(refused.contains("openssl rand -hex 32"), "{refused}");
        std::fs::write(&path, format!("{}\n", "a5".repeat(32))).unwrap();
        assert_eq!(
            key_in(&path).unwrap(),
            OwnerKey::parse(&[0xa5; 32]).unwrap()
        );
    }
}
