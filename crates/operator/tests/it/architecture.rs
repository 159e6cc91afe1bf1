//! Existence of every file and module that docs/architecture.md names.

use std::{fs, path::Path};

use super::{
    docs::{document, quoted},
    root,
};

const DOCUMENT: &str = "docs/architecture.md";

/// Files and folders of the repository; folders end with a slash.
struct Tree(Vec<String>);

impl Tree {
    fn read() -> Self {
        let mut all = Vec::new();
        walk(root(), "/", &mut all);
        Self(all)
    }

    /// Whether a path below `base` ends with `name`, at the boundary of a component.
    fn has(&self, base: &str, name: &str) -> bool {
        let end = format!("/{name}");
        let mut paths = self.0.iter();
        paths.any(|path| path.starts_with(&format!("/{base}")) && path.ends_with(&end))
    }

    fn has_module(&self, base: &str, name: &str) -> bool {
        self.has(base, &format!("{name}.rs")) || self.has(base, &format!("{name}/"))
    }
}

/// Adds the contents of a folder, except build artifacts and hidden ones.
fn walk(folder: &Path, prefix: &str, all: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with('.') || name == "target" {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            let path = format!("{prefix}{name}/");
            walk(&entry.path(), &path, all);
            all.push(path);
        } else {
            all.push(format!("{prefix}{name}"));
        }
    }
}

/// Alternatives of a path with braces: `a/{b,c}.rs`.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else {
        return vec![path.to_owned()];
    };
    let (names, after) = rest.split_once('}').unwrap();
    let names = names.split(',');
    names.map(|name| format!("{before}{name}{after}")).collect()
}

#[test]
fn every_quoted_path_of_the_architecture_exists() {
    let tree = Tree::read();
    let document = document(DOCUMENT);
    let is_path = |text: &String| {
        let plain = text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "/._-{},".contains(c));
        let is_rust = Path::new(text).extension().is_some_and(|ext| ext == "rs");
        plain && (is_rust || text.ends_with('/') || text.contains("crates/"))
    };
    let paths: Vec<_> = quoted(&document).into_iter().filter(is_path).collect();
    assert!(paths.len() > 60, "{paths:?}");
    let missing: Vec<_> = paths
        .iter()
        .flat_map(|path| expanded(path))
        .filter(|path| !tree.has("", path) && !tree.has("", &format!("{path}/")))
        .collect();
    assert!(missing.is_empty(), "{DOCUMENT} names {missing:?}");
}

/// The list of crates: a crate or folder at the start of a line, its modules below it.
#[test]
fn every_crate_and_module_of_the_architecture_exists() {
    let tree = Tree::read();
    let document = document(DOCUMENT);
    let (_, list) = document.split_once("## Crates\n\n```\n").unwrap();
    let (list, _) = list.split_once("\n```\n").unwrap();
    let mut base = String::new();
    let mut missing = Vec::new();
    let mut modules = 0;
    for line in list.lines() {
        let text = line.trim_start();
        let names = text.split("  ").next().unwrap_or_default();
        match line.len() - text.len() {
            0 => {
                let folders = names.split_whitespace();
                let folders = folders.map(|name| name.trim_end_matches('/'));
                for folder in folders {
                    base = format!("{folder}/");
                    let is_there = tree.has("", &base) || tree.has("", folder);
                    missing.extend((!is_there).then(|| folder.to_owned()));
                }
            }
            // Below a crate its folders; right of it its modules.
            2 | 24 => {
                for name in names.split_whitespace() {
                    modules += 1;
                    let name = name.trim_end_matches('/').trim_end_matches(".rs");
                    let is_there = tree.has_module(&base, name);
                    missing.extend((!is_there).then(|| format!("{base}: {name}")));
                }
            }
            _ => {}
        }
    }
    assert!(modules > 30, "{modules}");
    assert!(missing.is_empty(), "{DOCUMENT} names {missing:?}");
}
