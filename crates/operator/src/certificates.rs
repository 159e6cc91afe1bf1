//! Certificates in the Secrets of both operators: parsing, and issuing.
//!
//! Keys are read and not kept: the parsed form does not contain them.

use std::collections::BTreeMap;

use api::Time;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use plan::{
    Fingerprint,
    certificates::{
        BundleCertificate, CERTIFICATE, KEY, NEXT_CERTIFICATE, NEXT_KEY, NewCertificate, Pair,
        Signer, Usage,
    },
};
use runtime::{
    certificates::{self, CertificateInfo, IssueError, Request, issue, parse_bundle, read},
    metrics::Validity,
};

pub(crate) type Data = BTreeMap<String, ByteString>;

/// Parsed certificates of a Secret.
#[derive(Clone, Debug)]
pub(crate) struct Parsed {
    current: CertificateInfo,
    next: Option<CertificateInfo>,
}

impl Parsed {
    /// Parses the data of a Secret; None if there is no valid certificate.
    pub(crate) fn of(data: &Data) -> Option<Self> {
        let facts = |certificate: &str, key: &str| {
            read(part(data, certificate), part(data, key), &[] as &[&str]).ok()
        };
        Some(Self {
            current: facts(CERTIFICATE, KEY)?,
            next: facts(NEXT_CERTIFICATE, NEXT_KEY),
        })
    }

    /// Start and end of the validity.
    pub(crate) fn validity(&self) -> (Timestamp, Timestamp) {
        (self.current.not_before, self.current.not_after)
    }

    /// Certificates of the Secret, if it is that of a CA.
    pub(crate) fn authorities(&self) -> impl Iterator<Item = Authority> {
        let all = [Some(&self.current), self.next.as_ref()];
        all.into_iter().flatten().map(|facts| Authority {
            certificate: facts.certificate.clone(),
            not_after: Time(facts.not_after),
        })
    }
}

/// Validity of certificates, by Secret.
pub(crate) fn validities(pairs: &BTreeMap<String, Pair>) -> BTreeMap<String, Validity> {
    let pairs = pairs.iter();
    pairs
        .map(|(secret, pair)| {
            let validity = Validity {
                not_before: pair.not_before.0.as_second(),
                not_after: pair.not_after.0.as_second(),
            };
            (secret.clone(), validity)
        })
        .collect()
}

/// Value of a key in a Secret; empty if it is missing.
pub(crate) fn part<'a>(data: &'a Data, key: &str) -> &'a [u8] {
    data.get(key).map_or(&[], |ByteString(bytes)| bytes)
}

/// Certificates of a CA bundle.
pub(crate) fn known(bundle: &str) -> Vec<BundleCertificate> {
    let known = parse_bundle(bundle).into_iter();
    known
        .map(|known| BundleCertificate {
            certificate: known.certificate,
            not_before: Time(known.not_before),
            not_after: Time(known.not_after),
        })
        .collect()
}

/// A CA that may have signed a certificate.
pub(crate) struct Authority {
    certificate: String,
    not_after: Time,
}

impl From<&BundleCertificate> for Authority {
    fn from(known: &BundleCertificate) -> Self {
        Self {
            certificate: known.certificate.clone(),
            not_after: known.not_after.clone(),
        }
    }
}

impl AsRef<str> for Authority {
    fn as_ref(&self) -> &str {
        &self.certificate
    }
}

/// Observed state of a Secret. Checking signatures is expensive: the signer of an unchanged certificate
/// is kept while that CA exists.
pub(crate) fn pair(parsed: Parsed, before: Option<&Pair>, authorities: &[Authority]) -> Pair {
    let Parsed { current, next } = parsed;
    let before = before.filter(|before| before.certificate == current.certificate);
    let known = before.and_then(|before| before.signed_by.clone());
    let known = known.filter(|signer| {
        let mut authorities = authorities.iter();
        authorities.any(|authority| Fingerprint::of(&authority.certificate) == signer.fingerprint)
    });
    let signed_by = match (known, &current.usage) {
        (Some(signer), _) => Some(signer),
        (None, Some(certificates::Usage::Ca)) => None,
        (None, _) => signer(&current.certificate, authorities),
    };
    Pair {
        next: next.map(|next| Box::new(of_facts(next, None, None))),
        ..of_facts(current, signed_by, None)
    }
}

fn signer(certificate: &str, authorities: &[Authority]) -> Option<Signer> {
    let facts = read(certificate.as_bytes(), &[], authorities).ok()?;
    let authority = authorities.get(facts.signed_by?)?;
    Some(Signer {
        fingerprint: Fingerprint::of(&authority.certificate),
        not_after: authority.not_after.clone(),
    })
}

fn of_facts(facts: CertificateInfo, signed_by: Option<Signer>, next: Option<Box<Pair>>) -> Pair {
    let CertificateInfo {
        certificate,
        not_before,
        not_after,
        common_name,
        dns_names,
        usage,
        key_matches,
        signed_by: _,
    } = facts;
    Pair {
        certificate,
        not_before: Time(not_before),
        not_after: Time(not_after),
        key_matches,
        common_name,
        dns_names,
        usage: usage.map(|usage| match usage {
            certificates::Usage::Ca => Usage::Ca,
            certificates::Usage::Server => Usage::Server,
            certificates::Usage::Client => Usage::Client,
        }),
        signed_by,
        next,
        duration: None,
        published: None,
        signs: None,
    }
}

/// Issues a key and a certificate, signed by the current CA in `signer`.
pub(crate) fn issue_pair(
    new: &NewCertificate,
    signer: Option<&Data>,
) -> Result<(ByteString, ByteString), IssueError> {
    let request = Request {
        common_name: new.common_name.clone(),
        dns_names: new.dns_names.clone(),
        usage: match new.usage {
            Usage::Ca => certificates::Usage::Ca,
            Usage::Server => certificates::Usage::Server,
            Usage::Client => certificates::Usage::Client,
        },
        not_before: new.not_before.0,
        not_after: new.not_after.0,
    };
    let authority = signer.map(|data| certificates::Authority {
        certificate: part(data, CERTIFICATE),
        key: part(data, KEY),
    });
    let made = issue(&request, authority)?;
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    Ok((bytes(&made.certificate), bytes(&made.key)))
}
