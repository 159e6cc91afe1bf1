//! Roles that are filled from other roles.

use serde_json::Value;

use super::Rule;
use apimachinery::label_selector;

/// The rules that a role with an `aggregationRule` must have: those of all roles that one of its
/// selectors chooses, in the order of the selectors and of the roles' names, each once. `None` for
/// a role that is not filled from others.
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
