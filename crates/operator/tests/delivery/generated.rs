//! Files of the chart that are generated from others, and the version that all files name.

use std::{collections::BTreeSet, fs, path::Path};

use crate::{root, text, values};

const UPDATE_HINT: &str =
    "run `UPDATE_GENERATED=1 cargo test -p kubevirt-operator --test delivery generated`";

/// Files of config/ that the chart contains copies of.
const COPIES: [&str; 12] = [
    "crd/vitistack.io_machineclasses.yaml",
    "crd/vitistack.io_machines.yaml",
    "crd/vitistack.io_networkconfigurations.yaml",
    "prometheus/dashboard.yaml",
    "prometheus/rules.yaml",
    "prometheus/virt-operator/rules.yaml",
    "rbac/leader_election_role.yaml",
    "rbac/role.yaml",
    "rbac/virt-operator/rbac.yaml",
    "rbac/virt-operator/strategy_job.yaml",
    "rbac/webhook_role.yaml",
    "webhook/validating_webhook_configuration.yaml",
];

fn assert_up_to_date(file: &str, expected: &str) {
    let path = root().join(file);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{file} is stale: {UPDATE_HINT}");
}

fn files(folder: &Path, found: &mut BTreeSet<String>, below: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found, below);
        } else {
            let relative = path.strip_prefix(below).unwrap();
            found.insert(relative.to_str().unwrap().to_owned());
        }
    }
}

#[test]
fn the_chart_contains_the_files_of_config() {
    for file in COPIES {
        let copy = format!("charts/kubevirt-operator/files/{file}");
        assert_up_to_date(&copy, &text(&format!("config/{file}")));
    }
    let folder = root().join("charts/kubevirt-operator/files");
    let mut found = BTreeSet::new();
    files(&folder, &mut found, &folder);
    assert_eq!(found, COPIES.into_iter().map(str::to_owned).collect());
}

#[test]
fn the_charts_readme_lists_every_value() {
    let file = "charts/kubevirt-operator/README.md";
    let heading = "## Parameters\n\n";
    let readme = text(file);
    let (before, rest) = readme.split_once(heading).unwrap();
    let after = rest.find("\n## ").map_or("", |at| &rest[at..]);
    let mut table = "| Parameter | Default | Description |\n|---|---|---|\n".to_owned();
    for row in values::rows() {
        table += &format!(
            "| `{}` | {} | {} |\n",
            row.path, row.default, row.description
        );
    }
    assert_up_to_date(file, &format!("{before}{heading}{table}{after}"));
}

#[test]
fn every_file_names_the_version_of_the_workspace() {
    let version = env!("CARGO_PKG_VERSION");
    let image = format!("ghcr.io/vitistack/kubevirt-operator:{version}");
    let chart = text("charts/kubevirt-operator/Chart.yaml");
    for line in [
        format!("version: {version}"),
        format!("appVersion: {version}"),
    ] {
        assert!(
            chart.lines().any(|other| other == line),
            "Chart.yaml: {line}"
        );
    }
    for file in [
        "config/manager/manager.yaml",
        "config/manager/virt-operator/virt_operator.yaml",
    ] {
        let text = text(file);
        let mut images = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("image: "));
        assert!(images.all(|other| other == image), "{file}: not {image}");
    }
    for file in ["config/default/Kustomization", "docs/install.md"] {
        let text = text(file);
        for before in ["?ref=v", "kubevirt-operator:", "--version "] {
            for rest in text.split(before).skip(1) {
                let named = rest.split_whitespace().next().unwrap_or_default();
                let is_version = named.starts_with(|c: char| c.is_ascii_digit());
                assert!(!is_version || named == version, "{file}: {before}{named}");
            }
        }
    }
}
