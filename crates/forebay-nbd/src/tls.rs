//! The server's identity and the clients that it accepts, for connections that cross a network.

use forebay_base::sync::{Mutex, lock};
use forebay_rt::say;
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Why TLS credentials cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or its content is not what it must be.
    #[error("{}: {reason}; it must hold {wanted} in PEM", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the file must hold.
        wanted: &'static str,
        /// The problem.
        reason: String,
    },
    /// The files do not fit together.
    #[error("the TLS credentials cannot be used: {0}")]
    Unusable(String),
}

/// A server's certificate with its key, and the authority that signs its clients' certificates.
///
/// ```no_run
/// use forebay_nbd::{Listener, TlsCredentials};
/// use std::path::Path;
/// let credentials = TlsCredentials::folder(Path::new("/etc/pki/qemu"))?;
/// let listener = Listener::tls("0.0.0.0:10809".parse()?, credentials)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// When one of the files changes, all are read again for the clients that come after that, so a
/// certificate can be renewed while the server runs. Files that cannot be used are reported once on
/// standard error, and the credentials that were read before stay in use.
#[derive(Clone)]
pub struct TlsCredentials {
    files: Arc<Files>,
    present: Arc<Mutex<Present>>,
}

struct Files {
    certificate: PathBuf,
    key: PathBuf,
    client_authority: PathBuf,
}

/// What was read last.
struct Present {
    config: Arc<ServerConfig>,
    /// The state of the files when they were last read, successfully or not.
    stamps: [Option<Stamp>; 3],
}

/// Shows whether a file is still the one that was read.
type Stamp = (u64, u64, i64, i64);

impl fmt::Debug for TlsCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsCredentials").finish_non_exhaustive()
    }
}

impl TlsCredentials {
    /// Reads PEM files: the server's certificate with any intermediate certificates, its key, and
    /// the certificates of the authorities that may sign a client's certificate.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn load(
        certificate: &Path,
        key: &Path,
        client_authority: &Path,
    ) -> Result<TlsCredentials, TlsError> {
        let files = Files {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            client_authority: client_authority.to_owned(),
        };
        // This comes first: a file that is written while the files are read counts as changed
        // again.
        let stamps = files.stamps();
        let config = Arc::new(files.read()?);
        Ok(TlsCredentials {
            files: Arc::new(files),
            present: Arc::new(Mutex::new(Present { config, stamps })),
        })
    }

    /// The configuration for a client that comes now.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        let mut present = lock(&self.present);
        let stamps = self.files.stamps();
        if stamps != present.stamps {
            present.stamps = stamps;
            match self.files.read() {
                Ok(config) => present.config = Arc::new(config),
                Err(error) => say(format_args!(
                    "{error}; the previous credentials stay in use"
                )),
            }
        }
        present.config.clone()
    }

    /// Reads `server-cert.pem`, `server-key.pem` and `ca-cert.pem` in `folder`, the names that
    /// qemu and nbdkit use.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn folder(folder: &Path) -> Result<TlsCredentials, TlsError> {
        TlsCredentials::load(
            &folder.join("server-cert.pem"),
            &folder.join("server-key.pem"),
            &folder.join("ca-cert.pem"),
        )
    }
}

impl Files {
    fn stamps(&self) -> [Option<Stamp>; 3] {
        [&self.certificate, &self.key, &self.client_authority].map(|path| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
        })
    }

    fn read(&self) -> Result<ServerConfig, TlsError> {
        let chain = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key);
        let key = key.map_err(file(&self.key, "a private key"))?;
        let mut authorities = RootCertStore::empty();
        for authority in certificates(&self.client_authority)? {
            authorities
                .add(authority)
                .map_err(file(&self.client_authority, "certificates"))?;
        }
        let provider = Arc::new(ring::default_provider());
        let authorities = Arc::new(authorities);
        let clients =
            WebPkiClientVerifier::builder_with_provider(authorities, provider.clone()).build();
        let clients = clients.map_err(unusable)?;
        ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key)
            .map_err(unusable)
    }
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wanted = "certificates";
    let found: Result<Vec<_>, pem::Error> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found = found.map_err(file(path, wanted))?;
    if found.is_empty() {
        return Err(file(path, wanted)("it contains none"));
    }
    Ok(found)
}

pub(crate) fn file<E: ToString>(path: &Path, wanted: &'static str) -> impl Fn(E) -> TlsError {
    move |reason| TlsError::File {
        path: path.to_owned(),
        wanted,
        reason: reason.to_string(),
    }
}

pub(crate) fn unusable(reason: impl fmt::Display) -> TlsError {
    TlsError::Unusable(reason.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_file_is_reported_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let missing = TlsCredentials::folder(folder.path())
            .unwrap_err()
            .to_string();
        assert!(missing.contains("server-cert.pem"), "{missing}");
        let path = folder.path().join("server-cert.pem");
        std::fs::write(&path, "no PEM\n").unwrap();
        let empty = TlsCredentials::folder(folder.path())
            .unwrap_err()
            .to_string();
        assert!(empty.contains("it contains none"), "{empty}");
    }
}
