use std::sync::Arc;

use rstest::rstest;
use serde_json::{Value, json};

use super::{Document, MAX_DOCUMENTS, ReadError, parse};

fn read(text: impl AsRef<[u8]>) -> Vec<Result<Document, ReadError>> {
    parse(&Arc::from("file"), text.as_ref()).unwrap()
}

fn values(text: &str) -> Vec<Value> {
    read(text)
        .into_iter()
        .map(|document| document.unwrap().value)
        .collect()
}

fn message(text: impl AsRef<[u8]>) -> String {
    match parse(&Arc::from("file"), text.as_ref()) {
        Err(error) => error.to_string(),
        Ok(mut documents) => documents.remove(0).unwrap_err().to_string(),
    }
}

#[rstest]
#[case("a: 1", 1)]
#[case("---\na: 1\n", 1)]
#[case("# only\n# comments\n---\na: 1\n---\n\n---\nb: 2\n...\n", 2)]
#[case("%YAML 1.2\n---\na: 1\n", 1)]
#[case("--- {a: 1}\n--- {b: 2}\n", 2)]
#[case("---\r\na: 1\r\n---\r\nb: 2\r\n", 2)]
#[case("\u{feff}a: 1\n", 1)]
#[case("", 0)]
#[case("---\n---\n---\n", 0)]
fn a_stream_is_split_into_documents(#[case] text: &str, #[case] count: usize) {
    assert_eq!(values(text).len(), count);
}

#[test]
fn dashes_inside_a_text_do_not_split_it() {
    let text = "a: |\n  ---\n  x\nb: \"---\"\nc: ---x\n";
    assert_eq!(
        values(text),
        [json!({"a": "---\nx\n", "b": "---", "c": "---x"})]
    );
}

#[test]
fn documents_are_counted_from_one_and_empty_ones_do_not_count() {
    let origins: Vec<_> = read("---\n---\na: 1\n---\n# nothing\n---\nb: 2\n")
        .into_iter()
        .map(|document| document.unwrap().origin.to_string())
        .collect();
    assert_eq!(origins, ["file:1", "file:2"]);
}

#[test]
fn the_items_of_a_list_are_documents() {
    let list = "apiVersion: v1\nkind: List\nitems: [{kind: A}, {kind: B}]\n";
    let documents = read(list);
    let origins: Vec<_> = documents
        .iter()
        .map(|d| d.as_ref().unwrap().origin.to_string())
        .collect();
    assert_eq!(origins, ["file:1[0]", "file:1[1]"]);
    assert_eq!(values(list), [json!({"kind": "A"}), json!({"kind": "B"})]);
}

#[test]
fn a_document_that_only_resembles_a_list_is_kept_whole() {
    for text in ["kind: Thing\nitems: [1]\n", "kind: List\nitems: 5\n"] {
        assert!(values(text)[0].get("items").is_some(), "{text}");
    }
}

#[test]
fn one_bad_document_does_not_hide_the_others() {
    let documents = read("a: 1\n---\nb: [\n---\nc: 3\n");
    let found: Vec<_> = documents.iter().map(Result::is_ok).collect();
    assert_eq!(found, [true, false, true]);
}

#[test]
fn an_error_names_the_document_and_the_line_in_the_file() {
    let documents = read("a: 1\n---\nb: 2\nc: [1, 2\nd: 4\n");
    let error = documents[1].as_ref().unwrap_err().to_string();
    assert!(error.starts_with("file:2: line "), "{error}");
    let line: usize = error["file:2: line ".len()..]
        .split(':')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!((4..=5).contains(&line), "{error}");
}

#[test]
fn an_error_does_not_quote_the_document() {
    let error = message("password: hunter2\nother: [hunter2\n");
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn invalid_utf_8_is_reported_with_its_offset() {
    assert_eq!(
        message(b"a: \xff\xfe"),
        "file: is not UTF-8 text: invalid byte at offset 3"
    );
}

#[test]
fn a_file_of_very_many_documents_is_refused() {
    let error = message("--- 1\n".repeat(MAX_DOCUMENTS + 1));
    assert_eq!(
        error,
        "file: has more than 100000 documents: split it into several files"
    );
}

#[test]
fn json_objects_one_after_the_other_are_documents() {
    assert_eq!(
        values("{\"a\": 1}\n{\"b\": 2}\n"),
        [json!({"a": 1}), json!({"b": 2})]
    );
}

#[test]
fn alias_expansion_is_limited() {
    let mut bomb = vec!["a0: &a0 [x, x, x, x, x, x, x, x, x, x]".to_owned()];
    for level in 1..12 {
        let below = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push(format!("a{level}: &a{level} [{below}]"));
    }
    let error = message(bomb.join("\n"));
    assert!(
        error.ends_with(": its aliases expand to too much data"),
        "{error}"
    );
}

#[rstest]
#[case('[')]
#[case('{')]
fn nesting_is_limited(#[case] open: char) {
    let error = message(open.to_string().repeat(100_000));
    assert!(error.starts_with("file:1: line "), "{error}");
}

/// Each message has one line number and no quotation.
#[rstest]
#[case(
    "spec: {a: small}\nspec: {a: large}\n",
    "file:1: line 2: a mapping contains a key twice"
)]
#[case("a: &a [*a]\n", "file:1: line 1: an alias refers to itself")]
#[case(
    "pin: 8e31337\n",
    "file:1: line 1: a number is too large: put it in quotes if it is meant as text"
)]
#[case(
    "a: 1\n...\nb: 2\n",
    "file:1: line 3: has content after its end: separate documents with ---"
)]
fn errors_are_plain_and_do_not_quote_the_document(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(message(text), expected);
}

/// Expected values come from `kubectl create --dry-run=client -o json`.
#[rstest]
#[case("yes", json!(true))]
#[case("n", json!(false))]
#[case("\"n\"", json!("n"))]
#[case("017", json!(15))]
#[case("0x1F", json!(31))]
#[case("1e3", json!(1000))]
#[case("2.0", json!(2))]
#[case("2.5", json!(2.5))]
#[case("1e15", json!(1_000_000_000_000_000_i64))]
#[case("12:30:45", json!("12:30:45"))]
#[case("~", json!(null))]
#[case("4294967296", json!(4_294_967_296_i64))]
fn scalars_are_read_as_kubectl_reads_them(#[case] text: &str, #[case] value: Value) {
    assert_eq!(values(&format!("a: {text}"))[0]["a"], value);
}
