//! CustomResourceDefinitions that are expensive to compile or to validate against, or very many.

use http::StatusCode;
use rstest::rstest;
use serde_json::{Value, json};

use crate::client::{Server, definition};

fn object(plural: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "robust.example.com/v1", "kind": format!("Kind{plural}"),
        "metadata": {"name": "a"}, "spec": spec,
    })
}

fn path(plural: &str) -> String {
    format!("/apis/robust.example.com/v1/namespaces/default/{plural}")
}

/// A thread with the stack size of tokio's workers, which a server has for a request.
fn on_small_stack<F: Future<Output = ()>>(work: impl FnOnce() -> F + Send + 'static) {
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(|| {
            tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap()
                .block_on(work());
        })
        .unwrap()
        .join()
        .unwrap();
}

/// Deeply nested rules: some are refused, none may crash the process.
#[rstest]
#[case::brackets("(", "self.a", ")")]
#[case::negations("!", "true", "")]
#[case::minus("-", "self.a", "")]
#[case::lists("[", "self.a", "]")]
#[case::maps("{'a':", "self.a", "}")]
#[case::conditions("true ? ", "self.a", " : 1")]
#[case::sums("1 + ", "self.a", "")]
#[case::conjunctions("true && ", "true", "")]
#[case::selections("", "self.a", ".a")]
#[case::indices("", "self.a", "[0]")]
#[case::calls("size(", "self.a", ")")]
#[case::macros("[1].all(x, ", "true", ")")]
#[case::unclosed("(", "", "")]
fn a_deeply_nested_rule_cannot_crash_the_process(
    #[case] before: &'static str,
    #[case] middle: &'static str,
    #[case] after: &'static str,
    #[values(12, 200, 900, 5000)] depth: usize,
) {
    on_small_stack(move || async move {
        let server = Server::start();
        let expression = format!("{}{middle}{}", before.repeat(depth), after.repeat(depth));
        let rules = [
            ("plains", expression.clone()),
            ("comparisons", format!("{expression} == 1")),
        ];
        for (plural, rule) in rules {
            let spec = json!({
                "type": "object",
                "properties": {"a": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": rule}],
            });
            let answer = server.define(&definition(plural, &spec)).await;
            if answer.status == StatusCode::CREATED {
                let object = object(plural, &json!({"a": 1}));
                let answer = server.post(&path(plural), &object).await;
                assert!(matches!(answer.status.as_u16(), 201 | 422), "{answer:?}");
            } else {
                assert_eq!(
                    answer.status,
                    StatusCode::UNPROCESSABLE_ENTITY,
                    "{answer:?}"
                );
            }
        }
    });
}

#[rstest]
#[case::nested_loops(
    "self.l.all(a, self.l.all(b, self.l.all(c, self.l.all(d, a + b + c + d >= 0))))"
)]
#[case::growing_text("self.l.map(a, self.t + self.t).all(x, x.matches('(a+)+$'))")]
#[case::growing_list("self.l.map(a, self.l.map(b, self.l)).size() > 0")]
#[tokio::test]
async fn an_expensive_rule_is_stopped(#[case] rule: &str) {
    let server = Server::start();
    let spec = json!({
        "type": "object",
        "properties": {
            "l": {"type": "array", "items": {"type": "integer"}},
            "t": {"type": "string"},
        },
        "x-kubernetes-validations": [{"rule": rule}],
    });
    let answer = server.define(&definition("slows", &spec)).await;
    if answer.status == StatusCode::UNPROCESSABLE_ENTITY {
        return;
    }
    answer.ok();
    let spec = json!({"l": (0..2000).collect::<Vec<_>>(), "t": "a".repeat(10_000)});
    let answer = server.post(&path("slows"), &object("slows", &spec)).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[rstest]
#[case::backtracking("(a+)+$")]
#[case::repetition("((a{1,100}){1,100}){1,100}")]
#[case::alternatives("(a|aa)+b")]
#[case::nested("((((((((((a*)*)*)*)*)*)*)*)*)*)*")]
#[case::classes(r"[\p{L}\p{N}]{1000}")]
#[tokio::test]
async fn an_expensive_pattern_completes(#[case] pattern: &str) {
    let server = Server::start();
    let spec = json!({
        "type": "object",
        "properties": {"t": {"type": "string", "pattern": pattern}},
    });
    let answer = server.define(&definition("patterns", &spec)).await;
    if answer.status == StatusCode::UNPROCESSABLE_ENTITY {
        return;
    }
    answer.ok();
    let text = "a".repeat(100_000) + "!";
    let object = object("patterns", &json!({"t": text}));
    let answer = server.post(&path("patterns"), &object).await;
    assert!(matches!(answer.status.as_u16(), 201 | 422), "{answer:?}");
}

#[tokio::test]
async fn a_deep_schema_is_refused_or_served() {
    for depth in [10, 30, 60] {
        on_small_stack(move || async move {
            let server = Server::start();
            let schema = (0..depth).fold(
                json!({"type": "string"}),
                |inner, _| json!({"type": "object", "properties": {"a": inner}}),
            );
            let answer = server.define(&definition("nested", &schema)).await;
            assert!(
                matches!(answer.status.as_u16(), 201 | 400 | 422),
                "{answer:?}"
            );
        });
    }
}

#[tokio::test]
async fn hundreds_of_definitions_are_served() {
    const COUNT: usize = 200;
    let server = Server::start();
    for number in 0..COUNT {
        let spec = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
        let plural = format!("many{number}s");
        server.define(&definition(&plural, &spec)).await.ok();
    }
    let list = server.get("/apis/robust.example.com/v1").await.ok();
    assert_eq!(list["resources"].as_array().unwrap().len(), COUNT);
    let plural = format!("many{}s", COUNT - 1);
    let object = object(&plural, &json!({"a": 1}));
    server.post(&path(&plural), &object).await.ok();
}
