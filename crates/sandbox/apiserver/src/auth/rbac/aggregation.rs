//! ClusterRole aggregation.

use serde_json::Value;

use super::Rule;
use apimachinery::label_selector;

/// Rules of a role with an `aggregationRule`: those of all selected roles, in order of the
/// selectors and of the role names, without duplicates. `None` for other roles.
pub fn aggregate<'a>(
    role: &Value,
    all_roles: impl IntoIterator<Item = &'a Value>,
) -> Option<Vec<Rule>> {
    let selectors = role
        .get("aggregationRule")?
        .get("clusterRoleSelectors")?
        .as_array()?;
    let name = |role: &Value| role["metadata"]["name"].as_str().unwrap_or("").to_owned();
    let own = name(role);
    let mut others: Vec<&Value> = all_roles
        .into_iter()
        .filter(|other| name(other) != own)
        .collect();
    others.sort_by_key(|other| name(other));
    let mut rules: Vec<Rule> = Vec::new();
    for selector in selectors {
        let chosen = others.iter().filter(|other| {
            label_selector::matches(selector, &other["metadata"]["labels"]) == Ok(true)
        });
        for rule in chosen.flat_map(|other| Rule::all_of(other)) {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    Some(rules)
}
