//! Tests of the conversion of YAML.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Problem, documents};

fn read(text: &str) -> Result<Vec<Value>, Problem> {
    let mut read = Vec::new();
    documents(text, |json, _| {
        read.push(serde_json::from_str(json).expect("what is written is JSON"));
        Ok(())
    })?;
    Ok(read)
}

#[rstest]
#[case::empty("", &[])]
#[case::markers_only("---\n---\n...\n---\n", &[])]
#[case::comments_only("# nothing\n--- # still nothing\n", &[])]
#[case::no_marker("a: 1", &[json!({"a": 1})])]
#[case::two("---\na: 1\n---\nb: 2\n", &[json!({"a": 1}), json!({"b": 2})])]
#[case::an_empty_one_between("a: 1\n---\n---\nb: 2", &[json!({"a": 1}), json!({"b": 2})])]
#[case::marker_and_content("--- {a: 1}\n--- [2]\n", &[json!({"a": 1}), json!([2])])]
#[case::json_is_yaml(r#"{"a": {"b": [1, "x"]}}"#, &[json!({"a": {"b": [1, "x"]}})])]
fn documents_are_those_of_yaml(#[case] text: &str, #[case] expected: &[Value]) {
    assert_eq!(read(text).unwrap(), expected);
}

#[rstest]
#[case::plain("a: x---y --- z\nb: 1\n", json!({"a": "x---y --- z", "b": 1}))]
#[case::quoted("a: \"\n  ---\n  x\"\n", json!({"a": " --- x"}))]
#[case::literal("a: |\n  ---\n  x\n", json!({"a": "---\nx\n"}))]
#[case::folded("a: >-\n  x\n  --- y\n", json!({"a": "x --- y"}))]
fn dashes_inside_a_string_end_no_document(#[case] text: &str, #[case] expected: Value) {
    assert_eq!(read(text).unwrap(), [expected]);
}

#[rstest]
#[case("", json!(null))]
#[case("~", json!(null))]
#[case("null", json!(null))]
#[case("'null'", json!("null"))]
#[case("nullable", json!("nullable"))]
#[case("~x", json!("~x"))]
#[case("true", json!(true))]
#[case("y", json!(true))]
#[case("Off", json!(false))]
#[case("\"no\"", json!("no"))]
#[case("0", json!(0))]
#[case("-7", json!(-7))]
#[case("+7", json!(7))]
#[case("017", json!(15))]
#[case("0o17", json!(15))]
#[case("0x1F", json!(31))]
#[case("0b101", json!(5))]
#[case("1_000", json!(1000))]
#[case("089", json!(89))]
#[case("9223372036854775807", json!(i64::MAX))]
#[case("-9223372036854775808", json!(i64::MIN))]
#[case("18446744073709551615", json!(u64::MAX))]
#[case("2.0", json!(2))]
#[case("2.5", json!(2.5))]
#[case("-.5", json!(-0.5))]
#[case("1e3", json!(1000))]
#[case("1e-3", json!(0.001))]
#[case("1.2.3", json!("1.2.3"))]
#[case("10.0.0.1", json!("10.0.0.1"))]
#[case("--x", json!("--x"))]
#[case("+-5", json!("+-5"))]
#[case("-", json!([null]))]
#[case("100m", json!("100m"))]
#[case("2Gi", json!("2Gi"))]
#[case("0xZZ", json!("0xZZ"))]
#[case("0x-5", json!("0x-5"))]
#[case("v1.9.0", json!("v1.9.0"))]
#[case("2026-07-27", json!("2026-07-27"))]
#[case("12:30:00", json!("12:30:00"))]
#[case("\"tab\\t and \\u00e9\"", json!("tab\t and é"))]
#[case("!!str 12", json!("12"))]
#[case("! 12", json!("12"))]
#[case("!!int \"12\"", json!(12))]
#[case("!!map {a: 1}", json!({"a": 1}))]
fn scalars_are_those_of_kubectl(#[case] text: &str, #[case] expected: Value) {
    assert_eq!(
        read(&format!("[{text}]"))
            .or_else(|_| read(&format!("- {text}")))
            .unwrap(),
        [if text.is_empty() {
            json!([])
        } else {
            json!([expected])
        }]
    );
}

#[rstest]
#[case::number("1: x", json!({"1": "x"}))]
#[case::bool("on: x", json!({"true": "x"}))]
#[case::quoted("\"a\\\"b\": x", json!({"a\"b": "x"}))]
#[case::unsorted("b: 1\na: 2\nc: 3", json!({"a": 2, "b": 1, "c": 3}))]
#[case::same_in_other_mappings("b: {a: 1}\na: {a: 2, b: 3}", json!({"b": {"a": 1}, "a": {"a": 2, "b": 3}}))]
fn keys_are_text(#[case] text: &str, #[case] expected: Value) {
    assert_eq!(read(text).unwrap(), [expected]);
}

#[rstest]
#[case::twice("a: 1\na: 2", 2, "a mapping has a duplicate key")]
#[case::twice_unsorted("b: 1\na: 2\nb: 3", 3, "a mapping has a duplicate key")]
#[case::twice_after_unsorted("b: 1\na: 2\nc: 3\nc: 4", 4, "a mapping has a duplicate key")]
#[case::twice_written_differently("x:\n  1: a\n  \"1\": b", 3, "a mapping has a duplicate key")]
#[case::null_key("~: 1", 1, "a key is null")]
#[case::mapping_as_key("{a: 1}: 2", 1, "a key is not text")]
#[case::alias("a: &x 1\nb: *x", 2, "an alias")]
#[case::merge_key("a: 1\n<<: {b: 1}", 2, "a merge key")]
#[case::tag("a: !secret x", 1, "a tag")]
#[case::wrong_tag("a: !!int x", 1, "a tag")]
#[case::wrong_tag_of_mapping("!!seq {a: 1}", 1, "a tag")]
#[case::infinite("a: .inf", 1, "a number is too large")]
#[case::too_large("a: 1e999", 1, "a number is too large")]
#[case::broken("a: [1\nb: 2", 2, "")]
fn ambiguous_yaml_is_refused_with_its_line(
    #[case] text: &str,
    #[case] line: usize,
    #[case] message: &str,
) {
    let problem = read(text).unwrap_err();
    assert!(problem.message.starts_with(message), "{problem:?}");
    assert_eq!(problem.line, line, "{problem:?}");
}

#[rstest]
#[case::flow("[".repeat(5000))]
#[case::flow_mappings("{a: ".repeat(5000))]
#[case::block((0..300).map(|depth| " ".repeat(depth) + "a:\n").collect())]
fn deep_nesting_is_refused(#[case] text: String) {
    assert!(read(&text).is_err());
}

#[test]
fn a_duplicate_among_many_keys_is_found_quickly() {
    let keys: Vec<_> = (0..50_000)
        .rev()
        .map(|key| format!("k{key}: 1\n"))
        .collect();
    let mut text = keys.concat();
    text.push_str("k77: 1\n");
    assert!(read(&text).unwrap_err().message.contains("duplicate key"));
}

#[test]
fn documents_come_with_their_first_line() {
    let mut lines = Vec::new();
    documents("a: 1\n---\n\nb: 1\n---\nc: 1\n", |_, line| {
        lines.push(line);
        Ok::<_, Problem>(())
    })
    .unwrap();
    assert_eq!(lines, [1, 2, 5]);
}

/// Text that resembles YAML.
fn nearly_yaml() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("---\n".to_owned()),
        Just("a: ".to_owned()),
        Just("- ".to_owned()),
        Just("\n".to_owned()),
        Just("  ".to_owned()),
        Just("|\n".to_owned()),
        Just(">-\n".to_owned()),
        Just("{".to_owned()),
        Just("}".to_owned()),
        Just("[".to_owned()),
        Just("]".to_owned()),
        Just(", ".to_owned()),
        Just("\"".to_owned()),
        Just("'".to_owned()),
        Just("&x ".to_owned()),
        Just("*x ".to_owned()),
        Just("!!int ".to_owned()),
        Just("? ".to_owned()),
        Just("%YAML 1.2\n".to_owned()),
        Just("...\n".to_owned()),
        "[-+.0-9eEx_]{1,6}",
        "\\PC{1,4}",
    ];
    proptest::collection::vec(word, 0..40).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in any::<String>()) {
        let _ = read(&text);
    }

    #[test]
    fn nearly_yaml_is_parsed_or_refused(text in nearly_yaml()) {
        let _ = read(&text);
    }

    #[test]
    fn any_text_survives_as_a_string(text in "[\t\n\r -~\u{a0}-\u{d7ff}\u{10000}-\u{1f6ff}]*", key in "[ -~é]*") {
        let value = json!({key: text});
        prop_assert_eq!(read(&value.to_string()).unwrap(), [value]);
    }
}
