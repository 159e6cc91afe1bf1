//! Issuing of keys and certificates.

use std::{fmt, sync::Arc, time::Duration};

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm, SigningKey,
    date_time_ymd,
};
use rustls::{SignatureScheme, crypto::ring::sign::any_ecdsa_type};
use x509_parser::{asn1_rs::FromDer as _, certificate::X509Certificate};
use zeroize::Zeroizing;

use super::{Usage, pem};

/// Request for a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub common_name: String,
    pub dns_names: Vec<String>,
    pub usage: Usage,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

/// Certificate and key of a CA, as PEM.
#[derive(Clone, Copy)]
pub struct Authority<'a> {
    pub certificate: &'a [u8],
    pub key: &'a [u8],
}

impl fmt::Debug for Authority<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub struct KeyPair {
    pub certificate: String,
    pub key: Zeroizing<String>,
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

/// Why a certificate cannot be issued.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    #[error("the CA cannot sign: its certificate or its key cannot be read, or is not ECDSA P-256")]
    Authority,
    #[error("cannot issue the certificate of {common_name}: {source}")]
    Request {
        common_name: String,
        source: rcgen::Error,
    },
}

/// Issues a key and a certificate, signed by `authority` or self-signed. The serial number is derived
/// from the key, so it is unique.
pub fn issue(request: &Request, authority: Option<Authority<'_>>) -> Result<KeyPair, IssueError> {
    let refused = |source| IssueError::Request {
        common_name: request.common_name.clone(),
        source,
    };
    let key = rcgen::KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(refused)?;
    let params = params(request).map_err(refused)?;
    let certificate = match authority {
        None => params.self_signed(&key).map_err(refused)?,
        Some(authority) => {
            let issuer = issuer(authority).ok_or(IssueError::Authority)?;
            params.signed_by(&key, &issuer).map_err(refused)?
        }
    };
    Ok(KeyPair {
        certificate: pem::certificate_text(certificate.der()),
        key: pem::key_text(key.serialized_der()),
    })
}

fn params(request: &Request) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(request.dns_names.clone())?;
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, request.common_name.as_str());
    // Both types end with the year 9999.
    params.not_before = date_time_ymd(1970, 1, 1) + since_1970(request.not_before)?;
    params.not_after = date_time_ymd(1970, 1, 1) + since_1970(request.not_after)?;
    params.use_authority_key_identifier_extension = true;
    match request.usage {
        Usage::Ca => {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![
                KeyUsagePurpose::DigitalSignature,
                KeyUsagePurpose::KeyEncipherment,
                KeyUsagePurpose::KeyCertSign,
            ];
        }
        Usage::Server | Usage::Client => {
            params.is_ca = IsCa::ExplicitNoCa;
            params.key_usages = vec![
                KeyUsagePurpose::DigitalSignature,
                KeyUsagePurpose::KeyEncipherment,
            ];
            params.extended_key_usages = vec![if request.usage == Usage::Server {
                ExtendedKeyUsagePurpose::ServerAuth
            } else {
                ExtendedKeyUsagePurpose::ClientAuth
            }];
        }
    }
    Ok(params)
}

fn since_1970(time: Timestamp) -> Result<Duration, rcgen::Error> {
    let seconds = u64::try_from(time.as_second()).map_err(|_| rcgen::Error::Time)?;
    Ok(Duration::from_secs(seconds))
}

fn issuer(authority: Authority<'_>) -> Option<Issuer<'static, AuthorityKey>> {
    let text = String::from_utf8_lossy(authority.certificate);
    let der = pem::certificates(&text).next()?;
    let (_, parsed) = X509Certificate::from_der(&der).ok()?;
    let key = any_ecdsa_type(&*pem::key(authority.key)?).ok()?;
    let key = AuthorityKey {
        public: parsed.public_key().subject_public_key.data.to_vec(),
        key,
    };
    Issuer::from_ca_cert_der(&der, key).ok()
}

/// Key of a CA, parsed from PKCS #8 or SEC 1.
struct AuthorityKey {
    public: Vec<u8>,
    key: Arc<dyn rustls::sign::SigningKey>,
}

impl PublicKeyData for AuthorityKey {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl SigningKey for AuthorityKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        self.key
            .choose_scheme(&[SignatureScheme::ECDSA_NISTP256_SHA256])
            .ok_or(rcgen::Error::RemoteKeyError)?
            .sign(message)
            .map_err(|_| rcgen::Error::RemoteKeyError)
    }
}
