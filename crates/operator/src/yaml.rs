//! YAML as we print it.

use std::io;

use serde::Serialize;

/// Anything as YAML.
pub fn to_string(value: &impl Serialize) -> io::Result<String> {
    let options = serde_saphyr::ser_options! {
        // Long lines stay one line: what people grep for is not folded.
        folded_wrap_chars: usize::MAX,
        min_fold_chars: usize::MAX,
    };
    serde_saphyr::to_string_with_options(value, options).map_err(io::Error::other)
}

/// A CustomResourceDefinition as YAML. Whole numbers are printed as such: the API has only
/// floating point bounds.
pub fn crd(crd: &impl Serialize) -> io::Result<String> {
    let mut value = serde_json::to_value(crd)?;
    crate::documents::whole_numbers(&mut value);
    to_string(&value)
}
