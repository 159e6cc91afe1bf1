use std::collections::BTreeMap;

use rstest::rstest;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::*;

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Sample {
    text: String,
    flag: bool,
    count: i64,
    share: f64,
    list: Vec<Item>,
    map: BTreeMap<String, String>,
    inner: Inside,
    maybe: Option<Inside>,
    word: Word,
    tree: Value,
    many: Vec<Vec<String>>,
    named: BTreeMap<String, Vec<u8>>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Inside {
    names: Vec<String>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Item {
    name: String,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
enum Word {
    On,
    #[default]
    #[serde(other)]
    Other,
}

const FIELDS: [&str; 12] = [
    "text", "flag", "count", "share", "list", "map", "inner", "maybe", "word", "tree", "many",
    "named",
];

#[test]
fn a_null_field_decodes_as_an_absent_one() {
    for field in FIELDS {
        let text = json!({ field: null }).to_string();
        assert_eq!(
            from_str::<Sample>(&text).unwrap(),
            Sample::default(),
            "{field}"
        );
        let value = json!({ field: null });
        assert_eq!(from_value_ref::<Sample>(&value).unwrap(), Sample::default());
        assert_eq!(from_value::<Sample>(value).unwrap(), Sample::default());
    }
}

#[test]
fn null_inside_lists_and_maps_is_the_zero_value() {
    let sample: Sample = from_str(
        r#"{"list":[null,{"name":null}],"map":{"a":null},"inner":{"names":null},
            "maybe":{"names":null},"many":[null,[null]],"named":{"a":null},"tree":{"a":null}}"#,
    )
    .unwrap();
    assert_eq!(sample.list, [Item::default(), Item::default()]);
    assert_eq!(sample.map["a"], "");
    assert_eq!(sample.maybe, Some(Inside::default()));
    assert_eq!(sample.many, [Vec::<String>::new(), vec![String::new()]]);
    assert_eq!(sample.tree, json!({ "a": null }));
}

#[test]
fn other_values_decode_as_with_serde() {
    let value = json!({
        "text": "a", "flag": true, "count": -3, "share": 0.5, "list": [{ "name": "x" }],
        "map": { "k": "v" }, "inner": { "names": ["n"] }, "maybe": null, "word": "On",
        "tree": [1, { "a": null }], "many": [["a"], []], "named": { "b": [1, 2] }, "unknown": [{}],
    });
    let expected: Sample = serde_json::from_value(json!({
        "text": "a", "flag": true, "count": -3, "share": 0.5, "list": [{ "name": "x" }],
        "map": { "k": "v" }, "inner": { "names": ["n"] }, "word": "On",
        "tree": [1, { "a": null }], "many": [["a"], []], "named": { "b": [1, 2] },
    }))
    .unwrap();
    assert_eq!(from_str::<Sample>(&value.to_string()).unwrap(), expected);
    assert_eq!(from_value::<Sample>(value).unwrap(), expected);
}

#[rstest]
#[case(r#"{"count": "1"}"#)]
#[case(r#"{"list": {}}"#)]
#[case(r#"{"text": 1}"#)]
#[case(r#"{"map": []}"#)]
#[case(r#"{"inner": "x"}"#)]
#[case("{} {}")]
fn values_of_another_type_are_rejected(#[case] text: &str) {
    assert!(from_str::<Sample>(text).is_err());
}

#[test]
fn a_missing_required_field_is_refused() {
    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only decoded")]
    struct Strict {
        inner: Named,
    }
    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only decoded")]
    struct Named {
        name: String,
    }
    assert!(from_str::<Strict>("{}").is_err());
    assert!(from_str::<Strict>(r#"{"inner": null}"#).is_err());
    assert!(from_str::<Strict>(r#"{"inner": {"name": "a"}}"#).is_ok());
}

#[test]
fn raw_text_is_unchanged() {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(borrow)]
        items: Option<Vec<&'a RawValue>>,
    }
    let raw: Raw<'_> = from_str(r#"{"items": [{"a": null}, 1]}"#).unwrap();
    let texts: Vec<&str> = raw.items.unwrap().iter().map(|raw| raw.get()).collect();
    assert_eq!(texts, [r#"{"a": null}"#, "1"]);
    let none: Raw<'_> = from_str(r#"{"items": null}"#).unwrap();
    assert!(none.items.is_none());
}

#[test]
fn null_fields_are_removed_from_a_tree_at_any_depth() {
    let mut tree = json!({"a": null, "b": [{"c": null, "d": 1}, null], "e": {"f": {"g": null}}});
    without_null(&mut tree);
    assert_eq!(tree, json!({"b": [{"d": 1}, null], "e": {"f": {}}}));
}
