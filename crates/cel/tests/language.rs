//! Expressions as a user of the crate compiles and evaluates them. What a server answers to hundreds of
//! expressions is compared in `crates/schema/tests/expressions.rs`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use cel::{
    CompileError, DataType, Environment, FieldType, ListSemantics, Program, TOO_EXPENSIVE, Value,
    Variable, VariableType,
};
use rstest::rstest;
use serde_json::{Value as Json, json};

const ENVIRONMENT: Environment = Environment { formats: &[] };

fn compile(text: &str, type_: VariableType) -> Result<Program, CompileError> {
    let variables = [Variable {
        name: "self",
        type_,
    }];
    Program::compile(text, &variables, ENVIRONMENT)
}

fn evaluate(text: &str, data: &Json, limit: u64) -> (Result<bool, String>, u64) {
    let type_ = DataType::any();
    let program = compile(text, VariableType::Dyn).unwrap();
    let (result, cost) = program.evaluate(vec![Value::of(data, &type_)], limit);
    let result = match result {
        Ok(Value::Bool(value)) => Ok(value),
        Ok(other) => Err(format!("{other:?}")),
        Err(error) => Err(error.to_string()),
    };
    (result, cost)
}

#[rstest]
#[case("self.name == 'a' && self.list[1] == 2.5 && self.none == null")]
#[case("self.list.exists(x, x == 1) && size(self) == 3")]
#[case("self.?nope.orValue(1) == 1 && has(self.name)")]
fn untyped_data_are_values_of_their_json_type(#[case] text: &str) {
    let data = json!({"name": "a", "list": [1, 2.5], "none": null});
    assert_eq!(evaluate(text, &data, 1000).0, Ok(true));
}

#[test]
fn evaluation_stops_at_the_limit() {
    let data = json!((0..1000).collect::<Vec<_>>());
    let text = "self.all(x, self.all(y, x != y || true))";
    let (result, cost) = evaluate(text, &data, 10_000);
    assert_eq!(result, Err(TOO_EXPENSIVE.to_owned()));
    assert!(cost > 10_000 && cost < 11_000, "{cost}");
}

#[test]
fn an_error_counts_only_if_nothing_else_decides() {
    let data = json!({});
    let (hidden, _) = evaluate("self.nope == 1 || true", &data, 1000);
    assert_eq!(hidden, Ok(true));
    let (shown, _) = evaluate("self.nope == 1 && true", &data, 1000);
    assert_eq!(shown, Err("no such key: nope".to_owned()));
}

#[rstest]
#[case::parentheses(format!("{}true{}", "(".repeat(100_000), ")".repeat(100_000)))]
#[case::sums(format!("1{} > 0", " + 1".repeat(20_000)))]
#[case::selections(format!("self{}", ".a".repeat(10_000)))]
#[case::conditions(format!("{}true", "true ? true : ".repeat(5_000)))]
fn sources_that_are_too_deep_are_refused(#[case] text: String) {
    assert!(matches!(
        compile(&text, VariableType::Dyn),
        Err(CompileError::Invalid(_))
    ));
}

#[test]
fn many_terms_are_a_balanced_tree() {
    let text = vec!["self == 1"; 5_000].join(" || ");
    let program = compile(&text, VariableType::Dyn).unwrap();
    let one = json!(1);
    let any = DataType::any();
    let (result, _) = program.evaluate(vec![Value::of(&one, &any)], 100_000);
    assert!(matches!(result, Ok(Value::Bool(true))));
}

#[test]
fn an_error_points_at_its_place() {
    let wrong = compile("self == 'é' && nope", VariableType::Dyn);
    let expected = "ERROR: <input>:1:16: undeclared reference to 'nope' (in container '')\n | self == 'é' && nope\n | .........\u{ff0e}.....^";
    assert_eq!(
        wrong.unwrap_err(),
        CompileError::Invalid(expected.to_owned())
    );
}

#[test]
fn a_bound_on_sizes_bounds_the_cost() {
    let list = |max| {
        let items = Arc::new(DataType::string(None, Some(10), None));
        let list = DataType::list(items, ListSemantics::Atomic, max);
        VariableType::Data(Arc::new(list))
    };
    let text = "self.all(x, self.exists(y, x == y))";
    let bounded = compile(text, list(Some(10))).unwrap().max_cost();
    let unbounded = compile(text, list(None)).unwrap().max_cost();
    assert!(bounded < 10_000, "{bounded}");
    assert!(unbounded > 1_000_000_000, "{unbounded}");
}

#[test]
fn fields_are_checked_by_name_and_type() {
    let count = FieldType {
        name: "count".to_owned(),
        type_: Arc::new(DataType::int()),
        is_required: true,
    };
    let object = Arc::new(DataType::object(vec![count]));
    let compile = |text| compile(text, VariableType::Data(Arc::clone(&object)));
    assert!(compile("self.count > 1").unwrap().is_bool());
    assert!(compile("self.count > 'a'").is_err());
    assert!(compile("self.name == 'a'").is_err());
}
