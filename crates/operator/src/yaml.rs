//! YAML as we print it.

use std::io;

use serde::Serialize;

/// Anything as YAML that every reader understands: text of several lines is quoted, because readers
/// disagree on blocks that begin with white space.
pub fn to_string(value: &impl Serialize) -> io::Result<String> {
    print(value, false)
}

fn print(value: &impl Serialize, blocks: bool) -> io::Result<String> {
    let options = serde_saphyr::ser_options! {
        prefer_block_scalars: blocks,
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
    print(&value, true)
}
