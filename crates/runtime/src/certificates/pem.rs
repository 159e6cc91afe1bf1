//! PEM encoding of certificates and keys.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use zeroize::Zeroizing;

/// The certificates in a text, in order. Text around them and broken ones are skipped.
pub(super) fn certificates(text: &str) -> impl Iterator<Item = CertificateDer<'static>> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    // One by one, so that a broken one does not hide the next.
    text.match_indices(BEGIN).filter_map(move |(at, _)| {
        let (_, from) = text.split_at_checked(at)?;
        let end = from.find("-----END CERTIFICATE-----")?;
        let block = from.get(..end + "-----END CERTIFICATE-----".len())?;
        CertificateDer::from_pem_slice(block.as_bytes()).ok()
    })
}

/// The first key in a text.
pub(super) fn key(text: &[u8]) -> Option<Zeroizing<PrivateKeyDer<'static>>> {
    PrivateKeyDer::from_pem_slice(text).ok().map(Zeroizing::new)
}

/// Normalized PEM: equal certificates are equal texts.
pub(super) fn certificate_text(der: &[u8]) -> String {
    text("CERTIFICATE", der).to_string()
}

pub(super) fn key_text(pkcs8: &[u8]) -> Zeroizing<String> {
    text("PRIVATE KEY", pkcs8)
}

fn text(label: &str, der: &[u8]) -> Zeroizing<String> {
    /// Bytes that encode to 64 characters.
    const LINE: usize = 48;
    let lines = der.len().div_ceil(LINE);
    // Exact capacity: a String that grows leaves copies of the key behind.
    let room = lines * 65 + 2 * (label.len() + "-----BEGIN -----\n".len());
    let mut text = Zeroizing::new(String::with_capacity(room));
    text.push_str("-----BEGIN ");
    text.push_str(label);
    text.push_str("-----\n");
    for line in der.chunks(LINE) {
        STANDARD.encode_string(line, &mut text);
        text.push('\n');
    }
    text.push_str("-----END ");
    text.push_str(label);
    text.push_str("-----\n");
    text
}
