//! Decides which names a definition gets: those that no other definition in its group has. Like the naming controller
//! of `k8s.io/apiextensions-apiserver`, it ignores built-in resources.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::object::{self, strings, text};
use crate::resources::resource::ResourceType;

/// The names of other resources in a group.
#[derive(Default)]
pub(crate) struct TakenNames<'a> {
    resources: BTreeSet<&'a str>,
    kinds: BTreeSet<&'a str>,
}

impl<'a> TakenNames<'a> {
    /// Adds the accepted names of another definition.
    pub(crate) fn add(&mut self, definition: &'a Value) {
        let names = &definition["status"]["acceptedNames"];
        self.resources.extend([text(names, "/plural"), text(names, "/singular")]);
        self.resources.extend(strings(names, "/shortNames"));
        self.kinds.extend([text(names, "/kind"), text(names, "/listKind")]);
    }

    pub(crate) fn add_builtin(&mut self, resource: &'a ResourceType) {
        self.resources.extend([resource.id.plural.as_str(), resource.singular.as_str()]);
        self.resources.extend(resource.short_names.iter().map(String::as_str));
        self.kinds.extend([resource.kind.as_str(), resource.list_kind.as_str()]);
    }
}

/// The names that a definition gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NameDecision {
    /// The `status.acceptedNames` of the definition.
    pub(crate) accepted: Value,
    /// If a name is refused: the reason and message of the condition.
    pub(crate) conflict: Option<(&'static str, String)>,
}

/// Decides about each name separately. A name that was accepted before stays accepted.
pub(crate) fn decide(definition: &Value, taken: &TakenNames<'_>) -> NameDecision {
    let (wanted, had) = (&definition["spec"]["names"], &definition["status"]["acceptedNames"]);
    let mut accepted = Value::Object(had.as_object().cloned().unwrap_or_default());
    let mut conflict = None;
    let mut take = |field: &str, names: &BTreeSet<&str>, reason: &'static str| {
        let pointer = format!("/{field}");
        match refusals(&[text(wanted, &pointer)], &[text(had, &pointer)], names) {
            None => object::copy_field(&mut accepted, wanted, field),
            Some(why) => conflict = Some((reason, why)),
        }
    };
    take("plural", &taken.resources, "PluralConflict");
    take("singular", &taken.resources, "SingularConflict");
    take("kind", &taken.kinds, "KindConflict");
    take("listKind", &taken.kinds, "ListKindConflict");
    match refusals(&strings(wanted, "/shortNames"), &strings(had, "/shortNames"), &taken.resources) {
        None => object::copy_field(&mut accepted, wanted, "shortNames"),
        // A real server checks kinds last, and reports the last conflict.
        Some(why) if !matches!(conflict, Some(("KindConflict" | "ListKindConflict", _))) => {
            conflict = Some(("ShortNamesConflict", why));
        }
        Some(_) => {}
    }
    object::copy_field(&mut accepted, wanted, "categories");
    for field in ["plural", "kind"] {
        object::as_map_mut(&mut accepted).entry(field).or_insert_with(|| json!(""));
    }
    NameDecision { accepted, conflict }
}

fn refusals(wanted: &[&str], had: &[&str], taken: &BTreeSet<&str>) -> Option<String> {
    let refused = wanted.iter().filter(|name| !had.contains(name) && taken.contains(*name));
    let lines: Vec<String> = refused.map(|name| format!("{name:?} is already in use")).collect();
    (!lines.is_empty()).then(|| object::aggregate(&lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(names: &Value, accepted: &Value) -> Value {
        json!({ "spec": { "names": names }, "status": { "acceptedNames": accepted } })
    }

    #[test]
    fn a_definition_gets_the_names_that_are_free() {
        let other = definition(&json!({}), &json!({ "plural": "apples", "kind": "Apple", "shortNames": ["a", "ap"] }));
        let mut taken = TakenNames::default();
        taken.add(&other);
        let wanted = json!({ "plural": "pears", "singular": "apples", "kind": "Pear", "shortNames": ["a", "ap", "p"] });
        let decision = decide(&definition(&wanted, &json!({})), &taken);
        assert_eq!(decision.accepted, json!({ "plural": "pears", "kind": "Pear" }));
        let expected = "[\"a\" is already in use, \"ap\" is already in use]";
        assert_eq!(decision.conflict, Some(("ShortNamesConflict", expected.to_owned())));

        let wanted = json!({ "plural": "pears", "kind": "Apple" });
        let decision = decide(&definition(&wanted, &json!({})), &taken);
        assert_eq!(decision.accepted, json!({ "plural": "pears", "kind": "" }));
        assert_eq!(decision.conflict, Some(("KindConflict", "\"Apple\" is already in use".to_owned())));
    }

    #[test]
    fn accepted_names_stay_accepted() {
        let names = json!({ "plural": "pears", "kind": "Pear", "shortNames": ["p"] });
        let own = definition(&names, &names);
        let mut taken = TakenNames::default();
        taken.add(&own);
        assert_eq!(decide(&own, &taken), NameDecision { accepted: names, conflict: None });
    }
}
