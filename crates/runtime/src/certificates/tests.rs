use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;

use super::*;

const NONE: [&str; 0] = [];

fn request(common_name: &str, usage: Usage) -> Request {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let dns_names = match usage {
        Usage::Server => vec!["virt-api".to_owned(), "virt-api.kubevirt.svc".to_owned()],
        Usage::Ca | Usage::Client => Vec::new(),
    };
    Request {
        common_name: common_name.to_owned(),
        dns_names,
        usage,
        not_before: now,
        not_after: now + SignedDuration::from_hours(24),
    }
}

fn authority() -> KeyPair {
    issue(&request("kubevirt.io@1767225600", Usage::Ca), None).unwrap()
}

fn signs(pair: &KeyPair) -> Authority<'_> {
    Authority {
        certificate: pair.certificate.as_bytes(),
        key: pair.key.as_bytes(),
    }
}

fn facts(pair: &KeyPair, authorities: &[&str]) -> CertificateInfo {
    read(
        pair.certificate.as_bytes(),
        pair.key.as_bytes(),
        authorities,
    )
    .unwrap()
}

#[rstest]
#[case("virt-api.kubevirt.pod.cluster.local", Usage::Server)]
#[case("kubevirt.io:system:client:migration", Usage::Client)]
fn an_issued_certificate_matches_its_request(#[case] common_name: &str, #[case] usage: Usage) {
    let (ca, other) = (authority(), authority());
    let request = request(common_name, usage);
    let pair = issue(&request, Some(signs(&ca))).unwrap();
    let expected = CertificateInfo {
        certificate: pair.certificate.clone(),
        not_before: request.not_before,
        not_after: request.not_after,
        common_name: request.common_name,
        dns_names: request.dns_names,
        usage: Some(usage),
        key_matches: true,
        signed_by: Some(1),
    };
    let known = [&*other.certificate, &*ca.certificate];
    assert_eq!(facts(&pair, &known), expected);
    assert_eq!(facts(&pair, &known[..1]).signed_by, None);
}

/// As KubeVirt's own operator issues them.
#[rstest]
#[case(Usage::Ca, true)]
#[case(Usage::Server, false)]
#[case(Usage::Client, false)]
fn key_usages_are_those_of_kubevirt(#[case] usage: Usage, #[case] signs_others: bool) {
    let ca = authority();
    let signer = (usage != Usage::Ca).then(|| signs(&ca));
    let pair = issue(&request("name", usage), signer).unwrap();
    let der = pem::certificates(&pair.certificate).next().unwrap();
    let (_, certificate) = x509_parser::parse_x509_certificate(&der).unwrap();
    let usages = certificate.key_usage().unwrap().unwrap().value;
    assert!(usages.digital_signature());
    assert!(usages.key_encipherment());
    assert_eq!(usages.key_cert_sign(), signs_others);
}

#[test]
fn a_ca_is_self_signed() {
    let ca = authority();
    let read = facts(&ca, &[&ca.certificate]);
    assert_eq!(read.usage, Some(Usage::Ca));
    assert_eq!(read.signed_by, Some(0));
    assert!(read.key_matches);
}

/// KubeVirt's own operator keeps its keys in this form.
#[test]
fn a_ca_with_a_sec1_key_signs() {
    let ca = authority();
    let pkcs8: String = ca
        .key
        .lines()
        .filter(|line| !line.starts_with('-'))
        .collect();
    let pkcs8 = STANDARD.decode(pkcs8).unwrap();
    let inner = pkcs8
        .windows(4)
        .position(|bytes| bytes == [0x04, 0x6d, 0x30, 0x6b])
        .unwrap();
    let sec1 = STANDARD.encode(&pkcs8[inner + 2..]);
    let key = format!("-----BEGIN EC PRIVATE KEY-----\n{sec1}\n-----END EC PRIVATE KEY-----\n");
    let read = read(ca.certificate.as_bytes(), key.as_bytes(), &NONE).unwrap();
    assert!(read.key_matches);
    let signer = Authority {
        certificate: ca.certificate.as_bytes(),
        key: key.as_bytes(),
    };
    let leaf = issue(&request("virt-api", Usage::Server), Some(signer)).unwrap();
    assert_eq!(facts(&leaf, &[&ca.certificate]).signed_by, Some(0));
}

#[test]
fn a_key_of_another_certificate_does_not_match() {
    let (one, other) = (authority(), authority());
    for key in [other.key.as_bytes(), b"", b"-----BEGIN PRIVATE KEY-----"] {
        let read = read(one.certificate.as_bytes(), key, &NONE).unwrap();
        assert!(!read.key_matches);
    }
}

#[test]
fn a_ca_of_the_same_name_with_another_key_has_not_signed() {
    let (ca, namesake) = (authority(), authority());
    let leaf = issue(&request("virt-api", Usage::Server), Some(signs(&ca))).unwrap();
    assert_eq!(facts(&leaf, &[&namesake.certificate]).signed_by, None);
}

#[rstest]
#[case("", ReadError::NoCertificate)]
#[case("\u{fffd}", ReadError::NoCertificate)]
#[case("-----BEGIN CERTIFICATE-----\nAAAA\n", ReadError::NoCertificate)]
#[case(
    "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
    ReadError::NoCertificate
)]
#[case(
    "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ReadError::Certificate
)]
fn text_without_a_certificate_is_an_error(#[case] text: &str, #[case] expected: ReadError) {
    assert_eq!(read(text.as_bytes(), b"", &NONE), Err(expected));
}

#[test]
fn damaged_certificates_are_detected_without_a_panic() {
    let ca = authority();
    let text: String = ca
        .certificate
        .lines()
        .filter(|line| !line.starts_with('-'))
        .collect();
    let der = STANDARD.decode(text).unwrap();
    let mut unnoticed = Vec::new();
    for at in 0..der.len() {
        let mut damaged = der.clone();
        damaged[at] ^= 0x55;
        let text = pem::certificate_text(&damaged);
        let read = read(text.as_bytes(), ca.key.as_bytes(), &[&ca.certificate]);
        if read.is_ok_and(|facts| facts.signed_by.is_some()) {
            unnoticed.push(at);
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:?} of {}", der.len());
}

#[test]
fn a_ca_that_cannot_sign_is_an_error() {
    let ca = authority();
    let request = request("virt-api", Usage::Server);
    for (certificate, key) in [
        (ca.certificate.as_bytes(), &b"lost"[..]),
        (b"lost", ca.key.as_bytes()),
    ] {
        let error = issue(&request, Some(Authority { certificate, key })).unwrap_err();
        assert!(matches!(error, IssueError::Authority), "{error}");
    }
}

#[test]
fn a_bundle_skips_what_does_not_parse() {
    let (one, other) = (authority(), authority());
    let text = format!(
        "# ours\r\n{}\n-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\nnoise{}{}-----BEGIN CERTIFICATE-----\nAA",
        one.certificate.replace('\n', "\r\n"),
        other.certificate,
        one.certificate,
    );
    let known = parse_bundle(&text);
    let texts: Vec<&str> = known.iter().map(|known| &*known.certificate).collect();
    assert_eq!(texts, [&*one.certificate, &*other.certificate]);
    assert_eq!(known[0].not_before, "2026-01-01T00:00:00Z".parse().unwrap());
    assert_eq!(known[0].not_after, "2026-01-02T00:00:00Z".parse().unwrap());
    assert!(parse_bundle("something not parsable").is_empty());
}

#[test]
fn keys_are_in_no_debug_output() {
    let ca = authority();
    let shown = format!("{ca:?} {:?}", signs(&ca));
    assert!(!shown.contains("PRIVATE KEY"), "{shown}");
}
