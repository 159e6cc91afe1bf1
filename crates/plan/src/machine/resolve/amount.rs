//! Amounts of memory and storage.

use api::QuantityValue;

use super::Findings;
use crate::Quantity;

/// An amount, or a report of what is wrong with it.
pub(super) fn checked(
    path: &str,
    amount: Result<Quantity, String>,
    findings: &mut Findings,
) -> Option<Quantity> {
    amount.map_err(|why| findings.invalid(path, why)).ok()
}

/// As [`parsed`], for an amount that may be a number of bytes, which is printed with binary
/// suffixes.
pub(super) fn of(value: &QuantityValue) -> Result<Quantity, String> {
    match value {
        QuantityValue::Bytes(bytes) => {
            parsed(&bytes.to_string()).map(|_| Quantity::from_bytes(*bytes))
        }
        QuantityValue::Quantity(text) => parsed(text),
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
