//! Quick start of README.md.

use std::fs;

use crate::kubectl::Kubectl;

/// kubectl commands of a section.
fn commands(section: &str) -> Vec<String> {
    let readme = fs::read_to_string(crate::root().join("README.md")).unwrap();
    let (_, section) = readme.split_once(&format!("\n## {section}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let blocks = section.split("```sh\n").skip(1);
    blocks
        .filter_map(|block| block.split("```").next())
        .flat_map(str::lines)
        .filter_map(|line| line.strip_prefix("kubectl "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_quick_start_of_the_readme_works() {
    let kubectl = Kubectl::new("readme");
    let mut shown = Vec::new();
    for command in commands("A cluster in a minute") {
        shown.push((kubectl.ok(&command), command));
    }
    let of = |command: &str| {
        let found = shown.iter().find(|(_, other)| other == command);
        let (shown, _) =
            found.unwrap_or_else(|| panic!("the README does not show the output of {command}"));
        shown
    };
    assert!(of("get machines").contains("Running"), "{shown:?}");
    let described = of("describe machine debian");
    for words in ["Created VirtualMachine debian", "Running on node-"] {
        assert!(described.contains(words), "{described}");
    }
    assert_eq!(kubectl.ok("get machines,vm,vmi,pvc,pods -o name"), "");
}
