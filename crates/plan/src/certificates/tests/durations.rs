//! Tests of durations.

use rstest::rstest;

use super::*;

#[rstest]
#[case("0", "0s")]
#[case("0s", "0s")]
#[case("168h", "168h0m0s")]
#[case("1h30m", "1h30m0s")]
#[case("90m", "1h30m0s")]
#[case("-1.5h", "-1h30m0s")]
#[case("+5s", "5s")]
#[case(".5s", "500ms")]
#[case("5.s", "5s")]
#[case("1us", "1\u{b5}s")]
#[case("1\u{b5}s", "1\u{b5}s")]
#[case("1\u{3bc}s", "1\u{b5}s")]
#[case("1100ns", "1.1\u{b5}s")]
#[case("2ms200us", "2.2ms")]
#[case("3.3s", "3.3s")]
#[case("4m5.001s", "4m5.001s")]
#[case("5h6m7.001s", "5h6m7.001s")]
#[case("8m0.000000001s", "8m0.000000001s")]
#[case("0.3333333333333333333h", "20m0s")]
#[case("2562047h47m16.854775807s", "2562047h47m16.854775807s")]
#[case("-9223372036854775808ns", "-2562047h47m16.854775808s")]
fn durations_are_parsed_and_formatted_as_in_go(#[case] text: &str, #[case] expected: &str) {
    let read = duration::parse(text).unwrap();
    assert_eq!(duration::format(read), expected);
    assert_eq!(duration::parse(expected), Some(read));
}

#[rstest]
#[case("")]
#[case("-")]
#[case("3")]
#[case("s")]
#[case(".s")]
#[case("1 h")]
#[case("1d")]
#[case("1H")]
#[case("--1s")]
#[case("1h-30m")]
#[case("9223372036854775808ns")]
#[case("3000000h")]
#[case("99999999999999999999s")]
fn texts_that_go_does_not_parse_are_refused(#[case] text: &str) {
    assert_eq!(duration::parse(text), None);
}

#[rstest]
#[case("&Duration{Duration:24h0m0s,}", Some("24h0m0s"))]
#[case("&Duration{Duration:168h0m0s,}", Some("168h0m0s"))]
#[case("24h", Some("24h0m0s"))]
#[case("&Duration{Duration:24h0m0s", None)]
#[case("&Duration{Duration:,}", None)]
#[case("&Duration{24h0m0s,}", None)]
fn annotations_are_parsed_in_virt_operators_format_and_plain(
    #[case] text: &str,
    #[case] expected: Option<&str>,
) {
    let read = duration::parse_annotation(text);
    assert_eq!(read.map(duration::format).as_deref(), expected);
    if let Some(read) = read {
        let written = duration::format_annotation(read);
        assert_eq!(duration::parse_annotation(&written), Some(read));
        assert!(written.starts_with("&Duration{Duration:"), "{written}");
    }
}
