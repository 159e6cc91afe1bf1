//! Number bounds; integers are compared as integers, as in kube-apiserver.

use serde_json::{Number, Value};

use super::StructuralResult;
use crate::{
    Problem,
    go_format::shown_float,
    node::{Node, Type},
    path::Path,
};

/// Integral floats count as integers.
pub(super) fn is_integer(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_i64() || number.as_f64().is_some_and(is_whole),
        _ => false,
    }
}

/// Whether a float is an integer that JSON represents exactly.
fn is_whole(float: f64) -> bool {
    const MOST: f64 = 9_007_199_254_740_991.0;
    float.is_finite() && float.abs() <= MOST && float.fract() == 0.0
}

pub(super) fn check(node: &Node, number: &Number, path: &Path<'_>, outcome: &mut StructuralResult) {
    let Some(float) = number.as_f64() else { return };
    let bounds = &node.bounds;
    let integer = number.as_i64();
    check_range(node, float, integer, "Checked", path, outcome);
    let mut invalid = |detail: String| {
        outcome.push(
            path,
            Problem::Invalid {
                value: Some(number.clone().into()),
                detail,
            },
        );
    };
    let should_be = |invalid: &mut dyn FnMut(String), what: String| {
        invalid(format!("{} in body should be {what}", path.dotted()));
    };
    if let Some(factor) = bounds.multiple_of {
        let is_multiple = match (integer, truncated(factor)) {
            (Some(_), 0) => false,
            (Some(integer), factor) => integer % factor == 0,
            (None, _) if factor < 1.0 => is_whole(1.0 / factor * float),
            (None, _) => is_whole(float / factor),
        };
        if integer.is_some() && truncated(factor) == 0 {
            // kube-apiserver uses integer division here.
            invalid(format!(
                "factor MultipleOf declared for {} must be positive: 0",
                path.dotted()
            ));
        } else if !is_multiple {
            should_be(
                &mut invalid,
                format!("a multiple of {}", shown_bound(factor, integer)),
            );
        }
    }
    if let Some(minimum) = bounds.minimum {
        let (below, at_most) = match integer {
            Some(integer) => (integer < truncated(minimum), integer <= truncated(minimum)),
            None => (float < minimum, float <= minimum),
        };
        let minimum = shown_bound(minimum, integer);
        if bounds.exclusive_minimum && at_most {
            should_be(&mut invalid, format!("greater than {minimum}"));
        } else if below {
            should_be(&mut invalid, format!("greater than or equal to {minimum}"));
        }
    }
    if let Some(maximum) = bounds.maximum {
        let (above, at_least) = match integer {
            Some(integer) => (integer > truncated(maximum), integer >= truncated(maximum)),
            None => (float > maximum, float >= maximum),
        };
        let maximum = shown_bound(maximum, integer);
        if bounds.exclusive_maximum && at_least {
            should_be(&mut invalid, format!("less than {maximum}"));
        } else if above {
            should_be(&mut invalid, format!("less than or equal to {maximum}"));
        }
    }
}

/// Bound converted to an integer, as Go converts it.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the API server truncates as well"
)]
fn truncated(bound: f64) -> i64 {
    bound as i64
}

fn shown_bound(bound: f64, integer: Option<i64>) -> String {
    match integer {
        Some(_) => truncated(bound).to_string(),
        None => shown_float(bound),
    }
}

fn check_range(
    node: &Node,
    float: f64,
    integer: Option<i64>,
    what: &str,
    path: &Path<'_>,
    outcome: &mut StructuralResult,
) {
    if node.int_or_string {
        return;
    }
    let format = node.format.as_deref();
    let (type_, fits) = match node.type_ {
        Some(Type::Integer) => {
            let whole = integer.or_else(|| is_whole(float).then(|| truncated(float)));
            let fits = match format {
                Some("int32") => whole.is_some_and(|whole| i32::try_from(whole).is_ok()),
                _ => whole.is_some(),
            };
            ("integer", fits)
        }
        Some(Type::Number) => {
            let fits = format != Some("float") || float.abs() <= f64::from(f32::MAX);
            ("number", fits)
        }
        _ => return,
    };
    if !fits {
        let format = match format {
            Some(format) => format!("with format {format}"),
            None => "(default format)".to_owned(),
        };
        outcome.push_without_path(format!(
            "{what} value must be of type {type_} {format} in {}",
            path.dotted()
        ));
    }
}
