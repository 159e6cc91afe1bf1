//! Parsing of memory and storage sizes.

use api::QuantityValue;

use super::Findings;
use crate::Quantity;

const MAX_BYTES: i64 = 1 << 60;

/// Reports the error of a size at `path`.
pub(super) fn checked(
    path: &str,
    amount: Result<Quantity, String>,
    findings: &mut Findings,
) -> Option<Quantity> {
    amount.map_err(|why| findings.invalid(path, why)).ok()
}

/// As [`parsed`], for a size that may be a number of bytes.
pub(super) fn of(value: &QuantityValue) -> Result<Quantity, String> {
    match value {
        QuantityValue::Bytes(bytes) => {
            parsed(&bytes.to_string()).map(|_| Quantity::from_bytes(*bytes))
        }
        QuantityValue::Quantity(text) => parsed(text),
    }
}

/// Parses a size from 1Mi to 1Ei and rounds it up to whole bytes. Less is a typo: `512m` is half a byte.
/// More overflows 64 bits, at least in sums.
pub(super) fn parsed(text: &str) -> Result<Quantity, String> {
    let amount = text
        .parse::<Quantity>()
        .map_err(|error| format!("{text:?} {error}"))?;
    if amount < Quantity::MEBIBYTE {
        return Err(format!(
            "{text:?} is less than 1Mi: give a quantity such as 4Gi"
        ));
    }
    if amount > Quantity::from_bytes(MAX_BYTES) {
        return Err(format!(
            "{text:?} is more than 1Ei: give a quantity such as 4Gi"
        ));
    }
    Ok(amount.rounded_up())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1Mi", None)]
    #[case("1Ei", None)]
    #[case("1023Pi", None)]
    #[case("1048575", Some("is less than 1Mi"))]
    #[case("1152921504606846977", Some("is more than 1Ei"))]
    #[case("2Ei", Some("is more than 1Ei"))]
    #[case("1e99", Some("is more than 1Ei"))]
    fn an_amount_is_from_a_mebibyte_to_an_exbibyte(#[case] text: &str, #[case] why: Option<&str>) {
        let refused = parsed(text).err();
        assert_eq!(refused.is_some(), why.is_some(), "{refused:?}");
        assert!(
            refused
                .unwrap_or_default()
                .contains(why.unwrap_or_default()),
            "{text}"
        );
    }

    #[test]
    fn a_number_of_bytes_has_the_same_bounds() {
        assert!(of(&QuantityValue::Bytes(MAX_BYTES)).is_ok());
        assert!(of(&QuantityValue::Bytes(i64::MAX)).is_err());
        assert!(of(&QuantityValue::Bytes(i64::MIN)).is_err());
    }
}
