//! The certificate authority of one test, and the certificates that it signs.

#![allow(dead_code, reason = "each test file uses a part")]

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, client::WantsClientCert};
use std::path::Path;
use std::sync::Arc;

pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("it is well formed");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("it is well formed");
        Authority {
            issuer: CertifiedIssuer::self_signed(params, key).expect("it is well formed"),
        }
    }

    /// A certificate for `name` and its key.
    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let params = CertificateParams::new(vec![name.to_owned()]);
        self.sign_as(&params.expect("it is well formed"))
    }

    fn sign_as(&self, params: &CertificateParams) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("it is well formed");
        let certificate = params
            .signed_by(&key, &self.issuer)
            .expect("it is well formed");
        (certificate, key)
    }

    /// Writes the files that a server needs into `folder`, under the usual names.
    pub(crate) fn write_server(&self, folder: &Path) {
        self.write(folder, "server", self.sign("localhost"));
    }

    /// The same, with a certificate that has expired.
    pub(crate) fn write_expired_server(&self, folder: &Path) {
        let params = CertificateParams::new(vec!["localhost".to_owned()]);
        let mut params = params.expect("it is well formed");
        params.not_before = rcgen::date_time_ymd(2019, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        self.write(folder, "server", self.sign_as(&params));
    }

    /// Writes the files that a client needs into `folder`, under the usual names.
    pub(crate) fn write_client(&self, folder: &Path) {
        self.write(folder, "client", self.sign("client"));
    }

    fn write(&self, folder: &Path, whose: &str, (certificate, key): (rcgen::Certificate, KeyPair)) {
        let write = |name: &str, text: String| {
            std::fs::write(folder.join(name), text).expect("the folder is ours");
        };
        write("ca-cert.pem", self.issuer.pem());
        write(&format!("{whose}-cert.pem"), certificate.pem());
        write(&format!("{whose}-key.pem"), key.serialize_pem());
    }

    /// A client that trusts this authority and shows a certificate signed by `other`.
    pub(crate) fn client(&self, other: &Authority) -> ClientConfig {
        let (certificate, key) = other.sign("client");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("it is well formed");
        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        self.trusting()
            .with_client_auth_cert(chain, key)
            .expect("it is well formed")
    }

    /// A client that trusts this authority and shows no certificate.
    pub(crate) fn stranger(&self) -> ClientConfig {
        self.trusting().with_no_client_auth()
    }

    fn trusting(&self) -> ConfigBuilder<ClientConfig, WantsClientCert> {
        let mut roots = RootCertStore::empty();
        roots
            .add(self.issuer.der().clone())
            .expect("it is well formed");
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("it is well formed")
            .with_root_certificates(roots)
    }
}
