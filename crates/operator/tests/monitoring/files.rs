//! Parsed files of config/prometheus.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

/// PrometheusRules, and the names that promtool's tests use for them.
pub(crate) const RULES: [(&str, &str); 2] = [
    ("rules.yaml", "rules.yaml"),
    ("virt-operator/rules.yaml", "virt-operator-rules.yaml"),
];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn read(path: impl AsRef<Path>) -> Value {
    let path = root().join("config/prometheus").join(path);
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn rules() -> Vec<Value> {
    let files = RULES.iter().map(|(file, _)| read(file));
    files
        .flat_map(|file| list(&file["spec"]["groups"]))
        .flat_map(|group| list(&group["rules"]))
        .collect()
}

pub(crate) fn alerts() -> Vec<Value> {
    let mut rules = rules();
    rules.retain(|rule| rule.get("alert").is_some());
    rules
}

pub(crate) fn list(value: &Value) -> Vec<Value> {
    let list = value.as_array();
    list.unwrap_or_else(|| panic!("no list: {value}")).clone()
}

pub(crate) fn text(value: &Value) -> &str {
    let text = value.as_str();
    text.unwrap_or_else(|| panic!("no text: {value}"))
}

pub(crate) fn dashboard() -> Value {
    let config_map = read("dashboard.yaml");
    serde_json::from_str(text(&config_map["data"]["kubevirt-operator.json"])).unwrap()
}

/// Panels with their queries.
pub(crate) fn panels() -> Vec<(String, Vec<String>)> {
    let panels = list(&dashboard()["panels"]).into_iter();
    panels
        .filter(|panel| panel["type"] != "row")
        .map(|panel| {
            let queries = list(&panel["targets"]).into_iter();
            let queries = queries.map(|target| text(&target["expr"]).to_owned());
            (text(&panel["title"]).to_owned(), queries.collect())
        })
        .collect()
}

pub(crate) fn runbook_queries() -> Vec<String> {
    let pages = fs::read_dir(root().join("docs/runbooks")).unwrap();
    let pages = pages.map(|page| fs::read_to_string(page.unwrap().path()).unwrap());
    let queries: Vec<_> = pages
        .flat_map(|page| {
            let blocks = page.split("```promql\n").skip(1);
            let lines = blocks.flat_map(|block| block.split("```").next().unwrap().lines());
            lines.map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    assert!(!queries.is_empty());
    queries
}
