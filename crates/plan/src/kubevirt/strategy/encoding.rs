//! Encoding of an install strategy in a ConfigMap.

use std::{
    collections::BTreeMap,
    io::{self, Read as _, Write as _},
};

use api::kubevirt::install::STRATEGY_ENCODING;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};

use super::{MAX_BYTES, StrategyError};

/// Key of the text in the ConfigMap.
pub const MANIFESTS: &str = "manifests";

/// Value of [`STRATEGY_ENCODING`] for compressed text. Without that annotation the text is plain.
pub const GZIP_BASE64: &str = "gzip+base64";

/// The text of a strategy in a ConfigMap.
///
/// # Errors
/// When it is missing, cannot be decompressed, or is too large.
pub fn decode(
    data: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Result<String, StrategyError> {
    let packed = data.get(MANIFESTS).ok_or(StrategyError::NoManifests)?;
    match annotations.get(STRATEGY_ENCODING).map(String::as_str) {
        None | Some("") => Ok(packed.clone()),
        Some(GZIP_BASE64) => unpack(packed, MAX_BYTES),
        Some(other) => Err(StrategyError::Encoding(other.to_owned())),
    }
}

/// Compresses a text for a ConfigMap with the annotation [`GZIP_BASE64`]. Deterministic.
pub fn encode(text: &str) -> String {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail.
    let packed = packed
        .write_all(text.as_bytes())
        .and_then(|()| packed.finish());
    STANDARD.encode(packed.unwrap_or_default())
}

/// Decompresses a text of at most so many bytes.
fn unpack(packed: &str, most: usize) -> Result<String, StrategyError> {
    let unreadable = |error: io::Error| StrategyError::Unpack(error.to_string());
    let zipped = STANDARD
        .decode(packed.trim_ascii())
        .map_err(|error| StrategyError::Unpack(error.to_string()))?;
    let mut text = Vec::new();
    // One more byte detects a text that exceeds the maximum.
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    GzDecoder::new(zipped.as_slice())
        .take(limit)
        .read_to_end(&mut text)
        .map_err(unreadable)?;
    if text.len() > most {
        return Err(StrategyError::TooLarge);
    }
    String::from_utf8(text).map_err(|error| StrategyError::Unpack(error.utf8_error().to_string()))
}

#[cfg(test)]
mod tests {
    use super::{encode, unpack};
    use crate::kubevirt::StrategyError;

    #[test]
    fn refuses_a_decompression_bomb_with_little_memory() {
        let text = " ".repeat(1 << 20);
        let packed = encode(&text);
        assert!(packed.len() < 2000, "{}", packed.len());
        assert_eq!(unpack(&packed, 1 << 20).as_deref(), Ok(text.as_str()));
        assert_eq!(unpack(&packed, (1 << 20) - 1), Err(StrategyError::TooLarge));
        let counted = allocation_counter::measure(|| {
            assert_eq!(unpack(&packed, 1000), Err(StrategyError::TooLarge));
        });
        assert!(counted.bytes_max < 100_000, "{}", counted.bytes_max);
    }
}
