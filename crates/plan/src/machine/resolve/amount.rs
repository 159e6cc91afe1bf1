//! Amounts of memory and storage.

use api::QuantityValue;

use super::Findings;
use crate::Quantity;

/// 1Ei.
const MOST_BYTES: i64 = 1 << 60;

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

/// An amount in whole bytes of at least a mebibyte and at most an exbibyte. Less is a slip: `512m` is
/// half a byte. More cannot be counted in 64 bits, or not be added up.
pub(super) fn parsed(text: &str) -> Result<Quantity, String> {
    let amount = text
        .parse::<Quantity>()
        .map_err(|error| format!("{text:?} {error}"))?;
    if amount < Quantity::MEBIBYTE {
        return Err(format!(
            "{text:?} is less than 1Mi: give a quantity such as 4Gi"
        ));
    }
    if amount > Quantity::from_bytes(MOST_BYTES) {
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
        assert!(of(&QuantityValue::Bytes(MOST_BYTES)).is_ok());
        assert!(of(&QuantityValue::Bytes(i64::MAX)).is_err());
        assert!(of(&QuantityValue::Bytes(i64::MIN)).is_err());
    }
}
