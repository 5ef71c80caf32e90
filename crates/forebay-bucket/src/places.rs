//! Addresses of volumes: the buckets that they name, and the ways between them.

use crate::bucket::Bucket;
use crate::folder::FolderBucket;
use crate::remote::RemoteBucket;
use std::ffi::{OsStr, OsString};
use std::fs::canonicalize;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

const FOLDER: &[u8] = b"folder://";

/// The schemes of the addresses of volumes in buckets.
pub const SCHEMES: [&str; 4] = ["s3", "az", "gs", "folder"];

/// Finds a bucket and a folder in it, with options.
type Reach = fn(&str, &str, &[(&str, &str)]) -> io::Result<RemoteBucket>;

/// Those of the schemes that lead to servers.
const REMOTE: [(&str, Reach); 3] = [
    ("s3", RemoteBucket::s3),
    ("az", RemoteBucket::azure),
    ("gs", RemoteBucket::google),
];

/// The place that `address` names. If `creates`, it may be made.
pub(crate) fn place_at(address: &OsStr, creates: bool) -> io::Result<Arc<dyn Bucket>> {
    let invalid = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, text.to_owned()));
    for (scheme, reach) in REMOTE {
        let rest = address.to_str().and_then(|text| text.strip_prefix(scheme));
        let Some(rest) = rest.and_then(|rest| rest.strip_prefix("://")) else {
            continue;
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or_default();
        let prefix = prefix.trim_end_matches('/');
        if bucket.is_empty() || prefix.is_empty() {
            return invalid(&format!(
                "it names no volume; write {scheme}://BUCKET/PREFIX"
            ));
        }
        let bucket = reach(bucket, prefix, &[])?;
        bucket.check_keys()?;
        return Ok(Arc::new(bucket));
    }
    let Some(path) = address.as_bytes().strip_prefix(FOLDER) else {
        return invalid("its address begins with s3://, az://, gs:// or folder://");
    };
    if !path.starts_with(b"/") {
        return invalid("folder:// stands before an absolute path");
    }
    let folder = FolderBucket::open(Path::new(OsStr::from_bytes(path)), creates)?;
    Ok(Arc::new(folder))
}

/// The bucket of an address, and the folders in it that lead to the volume.
fn place_of(address: &OsStr) -> io::Result<(Vec<u8>, Vec<Vec<u8>>)> {
    let bytes = address.as_bytes();
    let (root, path) = if let Some(path) = bytes.strip_prefix(FOLDER) {
        // `..` leads elsewhere behind a symbolic link.
        let path = canonicalize(Path::new(OsStr::from_bytes(path)))?;
        (FOLDER.to_vec(), path.into_os_string().into_vec())
    } else {
        let end = bytes.windows(3).position(|it| it == b"://").unwrap_or(0) + 3;
        let (scheme, path) = bytes.split_at(end.min(bytes.len()));
        let slash = path.iter().position(|&byte| byte == b'/');
        let (bucket, path) = path.split_at(slash.unwrap_or(path.len()));
        ([scheme, bucket].concat(), path.to_vec())
    };
    let names = path.split(|&byte| byte == b'/').filter(|it| !it.is_empty());
    Ok((root, names.map(<[u8]>::to_vec).collect()))
}

/// The way from the volume at the address `clone` to its parent at `parent`, by which the clone
/// will find it. Both lie in one bucket, or in folders that are there.
///
/// ```
/// use forebay_bucket::parent_path;
/// let path = parent_path("s3://vms/clones/a".as_ref(), "s3://vms/base".as_ref())?;
/// assert_eq!(path, b"../../base");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// What the system says; [`io::ErrorKind::InvalidInput`] if they are not in one bucket.
pub fn parent_path(clone: &OsStr, parent: &OsStr) -> io::Result<Vec<u8>> {
    let ((root, from), (other, to)) = (place_of(clone)?, place_of(parent)?);
    if root != other {
        let text = "a clone lies in the bucket of its parent, or both lie in folders; forebay \
                    volume copy goes anywhere";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = vec![b"..".to_vec(); from.len() - common];
    Ok([&up, &to[common..]].concat().join(&b'/'))
}

/// Where `path` leads from the volume at `address`.
pub(crate) fn followed(address: &OsStr, path: &[u8]) -> io::Result<OsString> {
    let (root, mut names) = place_of(address)?;
    for name in path.split(|&byte| byte == b'/').filter(|it| !it.is_empty()) {
        if name == b".." {
            names.pop();
        } else {
            names.push(name.to_vec());
        }
    }
    let names = names.join(&b'/');
    Ok(OsString::from_vec([&root[..], b"/", &names].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_leads_from_each_volume_to_each_other_one_in_its_bucket() {
        let places = ["s3://b/vm", "s3://b/vm/clone", "s3://b/a/b/c", "s3://b/vm2"];
        for from in places.map(OsStr::new) {
            for to in places.map(OsStr::new) {
                let path = parent_path(from, to).expect("both are in one bucket");
                assert_eq!(followed(from, &path).expect("no file is asked"), *to);
            }
        }
        for other in ["s3://c/vm", "az://b/vm", "folder:///"] {
            let refused = parent_path(OsStr::new("s3://b/vm"), OsStr::new(other));
            assert!(refused.is_err(), "{other}");
        }
    }

    #[test]
    fn folders_are_those_that_links_lead_to() {
        let folder = tempfile::tempdir().expect("there is room");
        let real = folder.path().join("real");
        std::fs::create_dir_all(real.join("clone")).expect("there is room");
        std::fs::create_dir(real.join("base")).expect("there is room");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(real.join("clone"), &link).expect("there is room");
        let address = |path: &Path| {
            let parts = [OsStr::new("folder://"), path.as_os_str()];
            parts.into_iter().collect::<OsString>()
        };
        let path = parent_path(&address(&link), &address(&real.join("base")));
        assert_eq!(path.ok(), Some(b"../base".to_vec()));
    }
}
