//! Transcripts of commands in the documentation.

use std::{fs, path::Path};

/// Commands and their output in the ```console blocks of a file of this repository.
pub(crate) fn transcripts(file: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = fs::read_to_string(root.join(file)).unwrap();
    let mut found: Vec<(String, String)> = Vec::new();
    for block in document.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for line in block.lines() {
            match (line.strip_prefix("$ "), found.last_mut()) {
                (Some(command), _) => found.push((command.to_owned(), String::new())),
                (None, Some((_, output))) => {
                    output.push_str(line);
                    output.push('\n');
                }
                (None, None) => panic!("{file}: output without a command: {line}"),
            }
        }
    }
    found
}

/// Compares a transcript with the output of its command; `...` stands for omitted lines.
pub(crate) fn compare_output(file: &str, (command, shown): (&str, &str), printed: &str) {
    let mut rest = printed;
    for (index, part) in shown.split("...\n").enumerate() {
        let at = rest
            .find(part)
            .unwrap_or_else(|| panic!("{file}: {command} does not print\n{part}\nbut\n{printed}"));
        assert!(
            index > 0 || at == 0,
            "{file}: {command} begins otherwise:\n{printed}"
        );
        rest = &rest[at + part.len()..];
    }
    assert!(
        shown.ends_with("...\n") || rest.is_empty(),
        "{file}: {command} also prints\n{rest}"
    );
}
