//! Serving certificate and its CA.

use std::{fmt, fs, io, path::Path, sync::Arc};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use super::{Error, private_file};

/// Subject alternative names.
const NAMES: [&str; 7] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
];

/// Serving certificate, its key, and the CA certificate. The CA key is discarded after signing, so
/// clients that trust this CA trust nothing else.
#[derive(Clone)]
pub struct Certificates {
    authority: String,
    certificate: String,
    key: String,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}

impl Certificates {
    /// Generates certificates that do not expire.
    pub fn generate() -> Result<Self, Error> {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "kubevirt-operator sandbox");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority_key = KeyPair::generate()?;
        let authority = params.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(params, authority_key);

        let mut params = CertificateParams::new(NAMES.map(String::from))?;
        params
            .distinguished_name
            .push(DnType::CommonName, "kube-apiserver");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?.pem();
        Ok(Self {
            authority,
            certificate,
            key: key.serialize_pem(),
        })
    }

    /// Loads the certificates from a file; if it is missing, generates and stores them.
    pub fn load_or_generate(path: &Path) -> Result<Self, Error> {
        match fs::read_to_string(path) {
            Ok(pem) => Self::from_pem(&pem),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let new = Self::generate()?;
                private_file::write(path, new.to_pem().as_bytes()).map_err(|source| {
                    Error::Write {
                        path: path.to_owned(),
                        source,
                    }
                })?;
                Ok(new)
            }
            Err(source) => Err(Error::Read {
                path: path.to_owned(),
                source,
            }),
        }
    }

    pub fn from_pem(pem: &str) -> Result<Self, Error> {
        const END: &str = "-----END";
        let mut blocks = Vec::new();
        let mut block = String::new();
        for line in pem.lines() {
            block.push_str(line);
            block.push('\n');
            if line.starts_with(END) {
                blocks.push(std::mem::take(&mut block));
            }
        }
        let [authority, certificate, key] = <[String; 3]>::try_from(blocks).map_err(|blocks| {
            let count = blocks.len();
            Error::InvalidCertificate(format!("expected 3 PEM blocks, found {count}"))
        })?;
        let kept = Self {
            authority,
            certificate,
            key,
        };
        kept.server_config()?;
        Ok(kept)
    }

    /// All certificates and the private key: store them in a private file.
    pub fn to_pem(&self) -> String {
        [&*self.authority, &self.certificate, &self.key].concat()
    }

    /// CA certificate, for clients.
    pub fn authority_pem(&self) -> &str {
        &self.authority
    }

    /// TLS configuration for HTTP/2 and HTTP/1.1.
    pub(super) fn server_config(&self) -> Result<Arc<ServerConfig>, Error> {
        let kept = |error: &dyn fmt::Display| Error::InvalidCertificate(error.to_string());
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes())
            .map_err(|error| kept(&error))?;
        let key =
            PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|error| kept(&error))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| kept(&error))?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .map_err(|error| kept(&error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}
