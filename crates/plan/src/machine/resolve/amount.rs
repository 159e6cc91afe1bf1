//! Amounts of memory and storage.

use api::QuantityValue;

use super::Findings;
use crate::Quantity;

/// An amount in whole bytes, or a report of what is wrong with it.
pub(super) fn checked(path: &str, text: &str, findings: &mut Findings) -> Option<Quantity> {
    match parsed(text) {
        Ok(amount) => Some(amount),
        Err(why) => {
            findings.invalid(path, why);
            None
        }
    }
}

/// As [`checked`], for an amount that may be a number of bytes.
pub(super) fn checked_value(
    path: &str,
    value: &QuantityValue,
    findings: &mut Findings,
) -> Option<Quantity> {
    match value {
        QuantityValue::Bytes(bytes) if *bytes >= 1 << 20 => Some(Quantity::from_bytes(*bytes)),
        QuantityValue::Bytes(bytes) => checked(path, &bytes.to_string(), findings),
        QuantityValue::Quantity(text) => checked(path, text, findings),
    }
}

/// An amount in whole bytes of at least a mebibyte. Less is a slip: `512m` is half a byte.
pub(super) fn parsed(text: &str) -> Result<Quantity, String> {
    let amount = text
        .parse::<Quantity>()
        .map_err(|error| format!("{text:?} {error}"))?;
    if amount < Quantity::MEBIBYTE {
        return Err(format!(
            "{text:?} is less than 1Mi: give a quantity such as 4Gi"
        ));
    }
    Ok(amount.rounded_up())
}
