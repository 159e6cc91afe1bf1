//! What is in a certificate.

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

/// What is known of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The certificate, as PEM, written in one way.
    pub certificate: String,
    /// From when it is valid.
    pub not_before: Timestamp,
    /// Until when it is valid.
    pub not_after: Timestamp,
    /// Its common name, empty if it has none.
    pub common_name: String,
    /// Its DNS names.
    pub dns_names: Vec<String>,
    /// What it is for; None is anything that is not made here.
    pub usage: Option<Usage>,
    /// Whether the key is the certificate's, and one to sign with: ECDSA P-256.
    pub key_matches: bool,
    /// Which of the CAs has signed it.
    pub signed_by: Option<usize>,
}

/// A certificate of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The certificate, as PEM, written in one way.
    pub certificate: String,
    /// From when it is valid.
    pub not_before: Timestamp,
    /// Until when it is valid.
    pub not_after: Timestamp,
}

/// Why nothing is known of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There is none.
    #[error("there is no certificate in it")]
    NoCertificate,
    /// It cannot be read.
    #[error("the certificate cannot be read")]
    Certificate,
}

/// What is in a certificate (the first of a chain), whether the key is its, and which of the
/// `authorities`, each as PEM, has signed it. A key that cannot be read is not its key.
pub fn read(
    certificate: &[u8],
    key: &[u8],
    authorities: &[impl AsRef<str>],
) -> Result<Facts, ReadError> {
    let text = String::from_utf8_lossy(certificate);
    let der = pem::certificates(&text)
        .next()
        .ok_or(ReadError::NoCertificate)?;
    // Clients are stricter than who only wants to know what is in it.
    ParsedCertificate::try_from(&der).map_err(|_| ReadError::Certificate)?;
    let parsed = parse(&der).ok_or(ReadError::Certificate)?;
    let signed_by = authorities.iter().position(|authority| {
        pem::certificates(authority.as_ref())
            .next()
            .is_some_and(|authority| is_signed_by(&parsed, &authority))
    });
    let common_name = parsed.subject().iter_common_name().next();
    Ok(Facts {
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

/// The certificates of a bundle. What cannot be read is left out, and what is in it twice is in here
/// once.
pub fn parse_bundle(text: &str) -> Vec<Known> {
    let mut bundle: Vec<Known> = Vec::new();
    for der in pem::certificates(text) {
        let Some(parsed) = parse(&der) else {
            continue;
        };
        let certificate = pem::certificate_text(&der);
        if bundle.iter().all(|known| known.certificate != certificate) {
            bundle.push(Known {
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

/// As clients find a chain: by the name, then by the signature.
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

/// Certificates that never expire say so with the last second of the year 9999, which is more than a
/// timestamp holds.
fn timestamp(time: ASN1Time) -> Timestamp {
    let second = time.timestamp();
    let end = if second < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    Timestamp::from_second(second).unwrap_or(end)
}
