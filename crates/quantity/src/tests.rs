use proptest::prelude::*;
use rstest::rstest;

use super::{ParseError, Quantity};

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap()
}

#[rstest]
#[case("0", "0")]
#[case("-0", "0")]
#[case("0Gi", "0")]
#[case("1024Mi", "1Gi")]
#[case("1536Mi", "1536Mi")]
#[case("1.5Gi", "1536Mi")]
#[case("1023", "1023")]
#[case("1023Ki", "1023Ki")]
#[case("0.5Ki", "512")]
#[case("0.3Ki", "307200m")]
#[case("3.5G", "3500M")]
#[case("1000", "1k")]
#[case("1500m", "1500m")]
#[case("1000m", "1")]
#[case("4294967296", "4294967296")]
#[case("1e3", "1e3")]
#[case("1E3", "1e3")]
#[case("1500e-3", "1500e-3")]
#[case("10e2", "1e3")]
#[case("1E", "1E")]
#[case("+20Gi", "20Gi")]
#[case("-2Gi", "-2Gi")]
#[case(".5Gi", "512Mi")]
#[case("5.Gi", "5Gi")]
#[case("007Gi", "7Gi")]
#[case("1n", "1n")]
fn prints_the_canonical_form_of_the_api_server(#[case] text: &str, #[case] printed: &str) {
    assert_eq!(quantity(text).to_string(), printed);
}

#[rstest]
#[case("0.1n", "1n")]
#[case("1.0000000001", "1000000001n")]
#[case("0.00000000000000000000000000000000000000001", "1n")]
#[case("1e-30", "1e-9")]
#[case("-0.1n", "-1n")]
fn more_than_nine_decimal_places_round_away_from_zero(#[case] text: &str, #[case] printed: &str) {
    assert_eq!(quantity(text).to_string(), printed);
}

#[rstest]
#[case("9223372036854775807")]
#[case("9223372036854775808")]
#[case("8Ei")]
#[case("99999999999999999999999999999999999999999999999Ei")]
#[case("1e9223372036854775807")]
fn amounts_above_the_largest_are_capped(#[case] text: &str) {
    assert_eq!(quantity(text).to_string(), "9223372036854775807");
}

#[rstest]
#[case("", ParseError::Empty)]
#[case("Gi", ParseError::Number)]
#[case("-", ParseError::Number)]
#[case(".", ParseError::Number)]
#[case("lots", ParseError::Number)]
#[case(" 1Gi", ParseError::Number)]
#[case("--1", ParseError::Number)]
#[case("1 Gi", ParseError::Suffix)]
#[case("1gi", ParseError::Suffix)]
#[case("1GB", ParseError::Suffix)]
#[case("1K", ParseError::Suffix)]
#[case("1i", ParseError::Suffix)]
#[case("1.1.M", ParseError::Suffix)]
#[case("1+1.0M", ParseError::Suffix)]
#[case("-3.01e-", ParseError::Suffix)]
#[case("1e1.5", ParseError::Suffix)]
#[case("1e+-5", ParseError::Suffix)]
#[case("1e99999999999999999999", ParseError::Suffix)]
#[case("1\u{661}Gi", ParseError::Suffix)]
fn text_outside_the_grammar_is_refused(#[case] text: &str, #[case] why: ParseError) {
    assert_eq!(text.parse::<Quantity>(), Err(why));
}

#[test]
fn amounts_are_compared_by_value() {
    assert_eq!(quantity("1Gi"), quantity("1073741824"));
    assert_eq!(quantity("1Gi"), Quantity::from_bytes(1 << 30));
    assert!(quantity("1G") < quantity("1Gi"));
    assert!(quantity("-1") < quantity("1m"));
    assert!(quantity("999m") < quantity("1"));
    assert!(!quantity("0").is_positive());
    assert!(quantity("1n").is_positive());
}

#[test]
fn rounding_up_gives_whole_units() {
    assert_eq!(quantity("2.1Gi").rounded_up().to_string(), "2254857831");
    assert_eq!(quantity("2Gi").rounded_up().to_string(), "2Gi");
    assert_eq!(quantity("1m").rounded_up().to_string(), "1");
    assert_eq!(quantity("-1m").rounded_up().to_string(), "0");
}

#[test]
fn bytes_are_printed_with_binary_suffixes() {
    assert_eq!(Quantity::from_bytes(4_294_967_296).to_string(), "4Gi");
    assert_eq!(
        Quantity::from_bytes(4_294_967_297).to_string(),
        "4294967297"
    );
}

/// The documented grammar.
const GRAMMAR: &str =
    r"[+-]?([0-9]{1,25}(\.[0-9]{0,25})?|\.[0-9]{1,25})([KMGTPE]i|[numkMGTPE]?|[eE][+-]?[0-9]{1,3})";

proptest! {
    #[test]
    fn the_whole_grammar_parses(text in GRAMMAR) {
        prop_assert!(text.parse::<Quantity>().is_ok());
    }

    #[test]
    fn printing_is_stable_and_keeps_the_value(text in GRAMMAR) {
        let read = quantity(&text);
        let printed = read.to_string();
        let again = quantity(&printed);
        prop_assert_eq!(again, read);
        prop_assert_eq!(again.to_string(), printed);
    }

    #[test]
    fn order_is_that_of_the_numbers(a in -1_000_000_i64..1_000_000, b in -1_000_000_i64..1_000_000) {
        prop_assert_eq!(quantity(&format!("{a}Mi")).cmp(&quantity(&format!("{b}Mi"))), a.cmp(&b));
        prop_assert_eq!(quantity(&format!("{a}m")).cmp(&quantity(&format!("{b}m"))), a.cmp(&b));
    }

    #[test]
    fn decimal_fractions_are_exact(units in 0_u32..1000, thousandths in 0_u32..1000) {
        let written = quantity(&format!("{units}.{thousandths:03}"));
        prop_assert_eq!(written, quantity(&format!("{}m", units * 1000 + thousandths)));
    }

    #[test]
    fn parsing_never_panics(text in ".*") {
        let _ = text.parse::<Quantity>();
    }
}

#[rstest]
#[case("0", "20Gi", "20Gi", "-20Gi")]
#[case("1Gi", "500M", "1573741824", "573741824")]
#[case("1500m", "500m", "2", "1")]
fn sums_and_differences_have_the_format_of_their_first_part(
    #[case] one: &str,
    #[case] other: &str,
    #[case] sum: &str,
    #[case] difference: &str,
) {
    let (one, other) = (quantity(one), quantity(other));
    assert_eq!((one + other).to_string(), sum);
    assert_eq!((one - other).to_string(), difference);
}
