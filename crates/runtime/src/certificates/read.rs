//! Parsing of certificates, keys and CA bundles.

use jiff::Timestamp;
use rustls::{
    SignatureScheme,
    crypto::ring::sign::any_ecdsa_type,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::ParsedCertificate,
};
use x509_parser::{
    asn1_rs::FromDer as _, certificate::X509Certificate, extensions::GeneralName, time::ASN1Time,
};

use super::{Usage, pem};

/// Content of a certificate, and whether its key fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateInfo {
    /// Normalized PEM.
    pub certificate: String,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    /// Empty if there is none.
    pub common_name: String,
    pub dns_names: Vec<String>,
    /// `None` for usages that are never issued here.
    pub usage: Option<Usage>,
    /// Whether the key belongs to the certificate and is ECDSA P-256.
    pub key_matches: bool,
    /// Index of the CA that signed it.
    pub signed_by: Option<usize>,
}

/// A certificate of a CA bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundledCertificate {
    /// Normalized PEM.
    pub certificate: String,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

/// Why a certificate cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("there is no certificate in it")]
    NoCertificate,
    #[error("the certificate cannot be read")]
    Certificate,
}

/// Parses the first certificate of a chain, and finds out whether `key` belongs to it and which of the
/// `authorities`, each as PEM, signed it. A key that does not parse does not match.
pub fn read(
    certificate: &[u8],
    key: &[u8],
    authorities: &[impl AsRef<str>],
) -> Result<CertificateInfo, ReadError> {
    let text = String::from_utf8_lossy(certificate);
    let der = pem::certificates(&text)
        .next()
        .ok_or(ReadError::NoCertificate)?;
    // TLS clients are stricter than the parser below.
    ParsedCertificate::try_from(&der).map_err(|_| ReadError::Certificate)?;
    let parsed = parse(&der).ok_or(ReadError::Certificate)?;
    let signed_by = authorities.iter().position(|authority| {
        pem::certificates(authority.as_ref())
            .next()
            .is_some_and(|authority| is_signed_by(&parsed, &authority))
    });
    let common_name = parsed.subject().iter_common_name().next();
    Ok(CertificateInfo {
        certificate: pem::certificate_text(&der),
        not_before: timestamp(parsed.validity().not_before),
        not_after: timestamp(parsed.validity().not_after),
        common_name: common_name
            .and_then(|name| name.as_str().ok())
            .unwrap_or_default()
            .to_owned(),
        dns_names: dns_names(&parsed),
        usage: usage(&parsed),
        key_matches: pem::key(key).is_some_and(|key| matches(&key, &parsed)),
        signed_by,
    })
}

/// The distinct certificates of a bundle. Those that do not parse are skipped.
pub fn parse_bundle(text: &str) -> Vec<BundledCertificate> {
    let mut bundle: Vec<BundledCertificate> = Vec::new();
    for der in pem::certificates(text) {
        let Some(parsed) = parse(&der) else {
            continue;
        };
        let certificate = pem::certificate_text(&der);
        if bundle.iter().all(|known| known.certificate != certificate) {
            bundle.push(BundledCertificate {
                certificate,
                not_before: timestamp(parsed.validity().not_before),
                not_after: timestamp(parsed.validity().not_after),
            });
        }
    }
    bundle
}

fn parse<'a>(der: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Some(certificate),
        _ => None,
    }
}

/// As clients build a chain: by name, then by signature.
fn is_signed_by(certificate: &X509Certificate<'_>, authority: &CertificateDer<'_>) -> bool {
    parse(authority).is_some_and(|authority| {
        certificate.issuer().as_raw() == authority.subject().as_raw()
            && certificate
                .verify_signature(Some(authority.public_key()))
                .is_ok()
    })
}

fn matches(key: &PrivateKeyDer<'_>, certificate: &X509Certificate<'_>) -> bool {
    any_ecdsa_type(key).is_ok_and(|key| {
        let signs = key.choose_scheme(&[SignatureScheme::ECDSA_NISTP256_SHA256]);
        let public = key.public_key();
        signs.is_some()
            && public.is_some_and(|public| public.as_ref() == certificate.public_key().raw)
    })
}

fn usage(certificate: &X509Certificate<'_>) -> Option<Usage> {
    if certificate.is_ca() {
        let signs = certificate.key_usage().ok().flatten();
        let signs = signs.is_none_or(|usage| usage.value.key_cert_sign());
        return signs.then_some(Usage::Ca);
    }
    let usages = certificate.extended_key_usage().ok()??.value;
    match (usages.server_auth, usages.client_auth) {
        (true, false) => Some(Usage::Server),
        (false, true) => Some(Usage::Client),
        _ => None,
    }
}

fn dns_names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names
        .into_iter()
        .flat_map(|names| &names.value.general_names);
    names
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
        .collect()
}

/// Certificates that never expire have the last second of the year 9999, which exceeds a timestamp.
fn timestamp(time: ASN1Time) -> Timestamp {
    let second = time.timestamp();
    let end = if second < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    Timestamp::from_second(second).unwrap_or(end)
}
