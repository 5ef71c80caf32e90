//! Which servers a client with TLS trusts, and what it shows of itself.

use super::address::{Place, TlsWishes};
use crate::tls::{TlsError, certificates, file, unusable};
use forebay_base::sync::Arc;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};
use std::path::Path;

/// What TLS to one server needs.
#[derive(Clone, Debug)]
pub(crate) struct Trust {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl Trust {
    /// Reads the files that `wishes` name, by the names that qemu and nbdkit use: `ca-cert.pem`,
    /// and `client-cert.pem` with `client-key.pem` if this client has a certificate. Without a
    /// folder the system says which authorities are known.
    ///
    /// # Errors
    /// [`TlsError`].
    pub(crate) fn read(wishes: &TlsWishes, place: &Place) -> Result<Trust, TlsError> {
        let host = match (&wishes.host, place) {
            (Some(host), _) | (None, Place::Tcp { host, .. }) => host.as_str(),
            (None, Place::Unix(_)) => "localhost",
        };
        let name = ServerName::try_from(host.to_owned()).map_err(unusable)?;
        let folder = wishes.certificates.as_deref();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_root_certificates(folder.map_or_else(system_authorities, authorities_in)?);
        let config = match folder.map(|folder| folder.join("client-cert.pem")) {
            Some(path) if path.exists() => {
                let key_path = path.with_file_name("client-key.pem");
                let key = PrivateKeyDer::from_pem_file(&key_path);
                let key = key.map_err(file(&key_path, "a private key"))?;
                let shown = config.with_client_auth_cert(certificates(&path)?, key);
                shown.map_err(unusable)?
            }
            _ => config.with_no_client_auth(),
        };
        Ok(Trust {
            config: Arc::new(config),
            name,
        })
    }

    /// Why TLS failed, and what to do.
    pub(crate) fn reason_of(&self, error: &rustls::Error) -> String {
        match error {
            rustls::Error::InvalidCertificate(error) => self.blame(error),
            rustls::Error::AlertReceived(
                alert @ (AlertDescription::CertificateRequired
                | AlertDescription::BadCertificate
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::UnknownCA
                | AlertDescription::AccessDenied),
            ) => format!(
                "it does not accept this client ({alert:?}); put client-cert.pem and \
                 client-key.pem that it accepts into the directory of tls-certificates=DIR"
            ),
            error => format!("TLS failed: {error}"),
        }
    }

    fn blame(&self, error: &CertificateError) -> String {
        match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet".to_owned()
            }
            // The latter if one that is known has the same name.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "its certificate was signed by an authority that is not known here; put that \
                 authority's ca-cert.pem into a directory and give it with tls-certificates=DIR"
                    .to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!(
                    "its certificate is not for {}; give a name that it is for with \
                     tls-hostname=NAME",
                    self.name.to_str()
                )
            }
            error => format!("its certificate cannot be used: {error}"),
        }
    }
}

fn authorities_in(folder: &Path) -> Result<RootCertStore, TlsError> {
    let path = folder.join("ca-cert.pem");
    let mut authorities = RootCertStore::empty();
    for authority in certificates(&path)? {
        let added = authorities.add(authority);
        added.map_err(file(&path, "certificates"))?;
    }
    Ok(authorities)
}

/// Those of the system, or of the file that `SSL_CERT_FILE` names.
fn system_authorities() -> Result<RootCertStore, TlsError> {
    let mut authorities = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = authorities.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err(unusable(
            "the system knows no authorities; give a directory with ca-cert.pem as \
             tls-certificates=DIR",
        ));
    }
    Ok(authorities)
}
