//! Implementations of functions.
//!
//! The types of arguments that the checker knew are certain; `dyn` arguments may be of any type, for
//! which a function answers that there is no such overload.

pub(crate) mod conversions;
pub(crate) mod format;
mod kubernetes;
mod lists;
mod network;
mod operators;
mod optional;
pub(crate) mod patterns;
pub(crate) mod semver;
mod strings;
pub(crate) mod time;
pub(crate) mod url;

pub(crate) use kubernetes::format as format_named;

use crate::value::{Error, NamedFormat, Result, Value};

/// A function: its arguments begin with the target of a member call.
pub(crate) type Function = for<'a> fn(&Environment, &[Value<'a>]) -> Result<Value<'a>>;

/// What functions need besides their arguments.
#[derive(Clone, Copy, Debug)]
pub struct Environment {
    pub formats: &'static [NamedFormat],
}

/// Implementation of a declared function. Operators that do not evaluate all their arguments have
/// none, nor have those of authorizers.
pub(crate) fn implementation(name: &str) -> Option<Function> {
    operators::implementation(name)
        .or_else(|| conversions::implementation(name))
        .or_else(|| strings::implementation(name))
        .or_else(|| lists::implementation(name))
        .or_else(|| optional::implementation(name))
        .or_else(|| time::implementation(name))
        .or_else(|| network::implementation(name))
        .or_else(|| kubernetes::implementation(name))
}

/// Error for arguments of other types than declared.
fn no_overload(function: &str, arguments: &[Value<'_>]) -> Error {
    let types: Vec<&str> = arguments.iter().map(Value::type_name).collect();
    Error::new(format!(
        "no such overload: {function}({})",
        types.join(", ")
    ))
}

/// The error of a function for arguments of other types.
fn refuse<'a>(function: &str, arguments: &[Value<'_>]) -> Result<Value<'a>> {
    Err(no_overload(function, arguments))
}
