//! `fieldPath` of validation rules: `.spec.size`, `.labels['app']`.

use crate::node::Node;

/// Path in the form of violations; `None` if the schema does not have the field.
pub(crate) fn normalized(path: &str, node: &Node) -> Option<String> {
    let mut node = node;
    let mut rest = path.trim();
    let mut normalized = String::new();
    while !rest.is_empty() {
        let (name, after) = if let Some(after) = rest.strip_prefix("['") {
            let end = after.find("']")?;
            (after.get(..end)?, after.get(end + 2..)?)
        } else {
            let after = rest.strip_prefix('.')?;
            after.split_at(after.find(['.', '[']).unwrap_or(after.len()))
        };
        if name.is_empty() {
            return None;
        }
        if node.properties.is_empty() {
            node = node.additional_properties.schema()?;
            normalized.push('[');
            normalized.push_str(name);
            normalized.push(']');
        } else {
            node = node.properties.get(name)?;
            if !normalized.is_empty() {
                normalized.push('.');
            }
            normalized.push_str(name);
        }
        rest = after;
    }
    (!normalized.is_empty()).then_some(normalized)
}
