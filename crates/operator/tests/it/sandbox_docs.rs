//! docs/sandbox.md: lists every option and every fault, and no others.

use std::collections::BTreeSet;

use super::{
    docs::{document, rows},
    run, text,
};

const FILE: &str = "docs/sandbox.md";

#[test]
fn every_fault_is_documented() {
    let documented: BTreeSet<(String, String)> = rows(&document(FILE), "| kind | word |")
        .into_iter()
        .map(|row| (row[0].clone(), row[1].trim_matches('`').to_owned()))
        .collect();
    let known: BTreeSet<(String, String)> = sandbox::faults::VOCABULARY
        .iter()
        .map(|(kind, word, _)| ((*kind).to_owned(), (*word).to_owned()))
        .collect();
    assert_eq!(documented, known);
}

#[test]
fn every_option_is_documented() {
    let help = run(&["sandbox", "--help"]);
    let help = text(&help.stdout);
    let options: BTreeSet<&str> = help
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("--"))
        .filter_map(|line| line.split([' ', '<']).next())
        .collect();
    assert!(options.len() > 4, "{help}");
    let documented: Vec<String> = rows(&document(FILE), "| option |")
        .into_iter()
        .map(|row| row[0].clone())
        .collect();
    for option in options {
        let named = format!("--{option}");
        assert!(
            documented.iter().any(|row| row.contains(&named)),
            "{named} is missing in docs/sandbox.md"
        );
    }
    assert_eq!(documented.len(), 11);
}

#[test]
fn the_documented_fault_file_is_valid() {
    let document = document(FILE);
    let block = document
        .split("```\n")
        .find(|block| block.starts_with("- kind:"))
        .expect("a fault file");
    sandbox::faults::Faults::from_yaml(block).expect("as written");
}
