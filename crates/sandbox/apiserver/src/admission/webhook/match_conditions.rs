//! Match conditions: CEL expressions that decide whether a webhook is called.

use std::sync::{Arc, LazyLock};

use cel::{
    CompileError, DataType, Environment, FieldType, ListSemantics, Program, Value as CelValue,
    Variable, VariableType,
};
use serde_json::Value;

use super::{Request, hook::text, matching::Invocation, review};
use crate::{ApiError, ObjectRef};

/// Cost of one condition, and of all conditions of a webhook.
const MAX_COST: u64 = 1_000_000;
const BUDGET: u64 = 2_500_000;

/// Type of the variable `request`.
static REQUEST: LazyLock<Arc<DataType>> = LazyLock::new(|| {
    let text = || Arc::new(DataType::string(None, None, None));
    let object = |names: &[&str]| {
        let fields = names.iter().map(|name| field(name, text())).collect();
        Arc::new(DataType::declared(fields))
    };
    let list = || DataType::list(text(), ListSemantics::Atomic, None);
    let user = DataType::declared(vec![
        field("username", text()),
        field("uid", text()),
        field("groups", Arc::new(list())),
        field("extra", Arc::new(DataType::map(Arc::new(list()), None))),
    ]);
    let kind = || object(&["group", "version", "kind"]);
    let resource = || object(&["group", "version", "resource"]);
    Arc::new(DataType::declared(vec![
        field("kind", kind()),
        field("resource", resource()),
        field("subResource", text()),
        field("requestKind", kind()),
        field("requestResource", resource()),
        field("requestSubResource", text()),
        field("name", text()),
        field("namespace", text()),
        field("operation", text()),
        field("userInfo", Arc::new(user)),
        field("dryRun", Arc::new(DataType::bool())),
        field("options", Arc::new(DataType::any())),
    ]))
});

/// Type of objects, whose fields are not known.
static OBJECT: LazyLock<DataType> = LazyLock::new(DataType::any);

fn field(name: &str, type_: Arc<DataType>) -> FieldType {
    FieldType {
        name: name.to_owned(),
        type_,
        is_required: false,
    }
}

/// Whether all match conditions of a webhook are true.
///
/// As in kube-apiserver, one false condition outweighs evaluation errors; if there are only errors
/// and true conditions, the failure policy decides.
pub(super) fn matches(
    invocation: &Invocation<'_>,
    request: &Request<'_>,
) -> Result<bool, ApiError> {
    let conditions = invocation.hook.field("matchConditions").as_array();
    let Some(conditions) = conditions.filter(|conditions| !conditions.is_empty()) else {
        return Ok(true);
    };
    let review = review::request(invocation, request, "");
    let (matched, mut problems) = evaluate_all(conditions, &review);
    if !matched {
        return Ok(false);
    }
    if problems.is_empty() {
        return Ok(true);
    }
    if invocation.hook.ignores_failure() {
        return Ok(false);
    }
    problems.dedup();
    let why = match problems.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    let object = ObjectRef {
        group: request.resource.group,
        resource: request.resource.resource,
        name: request.name,
    };
    Err(ApiError::forbidden(object, &why))
}

/// Whether no condition is false, and the evaluation errors.
fn evaluate_all(conditions: &[Value], review: &Value) -> (bool, Vec<String>) {
    let mut problems = Vec::new();
    let mut budget = BUDGET;
    for condition in conditions {
        match evaluate(text(condition, "expression"), review, &mut budget) {
            Ok(true) => {}
            Ok(false) => return (false, problems),
            Err(problem) => problems.push(problem),
        }
    }
    (true, problems)
}

fn evaluate(expression: &str, review: &Value, budget: &mut u64) -> Result<bool, String> {
    let failed = |why: &str| format!("expression '{expression}' resulted in error: {why}");
    let dynamic = |name| Variable {
        name,
        type_: VariableType::Dyn,
    };
    let variables = [
        dynamic("object"),
        dynamic("oldObject"),
        Variable {
            name: "request",
            type_: VariableType::Data(Arc::clone(&REQUEST)),
        },
    ];
    let environment = Environment { formats: &[] };
    let program = Program::compile(expression, &variables, environment).map_err(|error| {
        let (CompileError::Invalid(why) | CompileError::Instantiation(why)) = error;
        failed(&why)
    })?;
    let values = vec![
        CelValue::of(&review["object"], &OBJECT),
        CelValue::of(&review["oldObject"], &OBJECT),
        CelValue::of(review, &REQUEST),
    ];
    let (result, cost) = program.evaluate(values, MAX_COST);
    *budget = budget.checked_sub(cost).ok_or_else(|| {
        "validation failed due to running out of cost budget, no further validation rules will be run".to_owned()
    })?;
    match result {
        Ok(CelValue::Bool(matched)) => Ok(matched),
        Ok(_) => Err(format!(
            "cel expression '{expression}' must evaluate to bool"
        )),
        Err(error) => Err(failed(&error.to_string())),
    }
}
