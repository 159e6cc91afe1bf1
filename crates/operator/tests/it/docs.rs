//! Parser of the documentation's tables.

use std::fs;

use super::root;

pub(crate) fn document(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap()
}

/// Rows of the table whose heading begins with `heading`, cell by cell.
pub(crate) fn rows(document: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, table) = document
        .split_once(heading)
        .unwrap_or_else(|| panic!("no table with the columns {heading}"));
    table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let line = line.trim_start_matches('|').trim_end_matches('|');
            let cells = line.replace("\\|", "/");
            cells
                .split('|')
                .map(|cell| cell.trim().to_owned())
                .collect()
        })
        .collect()
}

/// Texts between backticks.
pub(crate) fn quoted(text: &str) -> Vec<String> {
    let parts = text.split('`').skip(1).step_by(2);
    parts.map(str::to_owned).collect()
}
