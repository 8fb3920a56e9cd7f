//! Label selectors, in Kubernetes' syntax.

use serde_json::Value;

/// Whether `selector` matches an object's labels.
///
/// # Panics
/// If `selector` is not a label selector.
pub(super) fn matches(selector: &str, labels: &Value) -> bool {
    requirements(selector).into_iter().all(|requirement| holds(requirement, labels))
}

/// The parts between commas. Commas in parentheses separate values, not parts.
fn requirements(selector: &str) -> Vec<&str> {
    let (mut found, mut begin, mut depth) = (Vec::new(), 0, 0_u32);
    for (at, character) in selector.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.push(&selector[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(&selector[begin..]);
    found.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn holds(requirement: &str, labels: &Value) -> bool {
    let label = |key: &str| labels[key.trim()].as_str();
    if let Some((key, values)) = requirement.split_once(" notin ") {
        return !label(key).is_some_and(|label| listed(values).any(|value| value == label));
    }
    if let Some((key, values)) = requirement.split_once(" in ") {
        return label(key).is_some_and(|label| listed(values).any(|value| value == label));
    }
    if let Some((key, value)) = requirement.split_once("!=") {
        return label(key) != Some(value.trim());
    }
    if let Some((key, value)) = requirement.split_once("==").or_else(|| requirement.split_once('=')) {
        return label(key) == Some(value.trim());
    }
    match requirement.strip_prefix('!') {
        Some(key) => label(key).is_none(),
        None => label(requirement).is_some(),
    }
}

fn listed(values: &str) -> impl Iterator<Item = &str> {
    values.trim().trim_start_matches('(').trim_end_matches(')').split(',').map(str::trim)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::matches;

    #[test]
    fn selectors_match_as_in_kubernetes() {
        let labels = json!({"app": "web", "tier": "gold"});
        for selector in ["", "app=web", "app == web,tier!=silver", "tier in (gold, silver),app", "!x,x notin (a,b)"] {
            assert!(matches(selector, &labels), "{selector}");
        }
        for selector in ["app=x", "x", "!app", "tier notin (gold)", "app=web,tier in (silver)", "tier!=gold"] {
            assert!(!matches(selector, &labels), "{selector}");
        }
    }
}
