//! YAML output.

use std::io;

use serde::Serialize;

/// Portable YAML: multi-line text is quoted, because parsers disagree on blocks with leading white space.
pub fn to_string(value: &impl Serialize) -> io::Result<String> {
    print(value, false)
}

fn print(value: &impl Serialize, blocks: bool) -> io::Result<String> {
    let options = serde_saphyr::ser_options! {
        prefer_block_scalars: blocks,
        // Long lines are not folded, so that grep finds them.
        folded_wrap_chars: usize::MAX,
        min_fold_chars: usize::MAX,
    };
    serde_saphyr::to_string_with_options(value, options).map_err(io::Error::other)
}

/// YAML of a CustomResourceDefinition, with whole numbers as integers: the Rust type has only
/// floating-point bounds.
pub fn crd(crd: &impl Serialize) -> io::Result<String> {
    let mut value = serde_json::to_value(crd)?;
    crate::documents::whole_numbers(&mut value);
    print(&value, true)
}
