//! Tries the changes that were guessed from a schema. The schema does not show everything that the API server checks,
//! such as the rules of a definition.

use super::beginning;
use super::user::User;
use super::{WORLD_START, WorldError};
use crate::outcome::USER;
use crate::scenario::{Scenario, Step};

/// Leaves out the guessed changes of a scenario that the API server refuses, each with the step that undoes it.
/// Scenarios from files have none. The caller must use a single-threaded runtime with paused time.
///
/// # Errors
/// The scenario cannot be run at all.
pub async fn without_refused(mut scenario: Scenario) -> Result<Scenario, WorldError> {
    if scenario.guessed.is_empty() {
        return Ok(scenario);
    }
    let config = beginning::config(&scenario, scenario.parsed_start_time().unwrap_or(WORLD_START));
    let server = beginning::loaded(&config, &scenario).await?;
    let user = User::of(&scenario, server.service(), USER);
    let guesses: Vec<Step> = scenario.steps.splice(scenario.guessed.clone(), []).collect();
    let (before, after) = scenario.steps.split_at(scenario.guessed.start);
    let mut accepted = Vec::new();
    for step in before {
        if user.act(step).await.is_err() {
            // The reference run reports it.
            break;
        }
    }
    for pair in guesses.chunks(2) {
        let last = server.snapshot();
        if accepts(&user, pair).await {
            accepted.extend(pair.iter().cloned());
        } else {
            server.restore(&last);
        }
    }
    server.shutdown().await;
    scenario.guessed.end = scenario.guessed.start + accepted.len();
    scenario.steps = [before, &accepted, after].concat();
    Ok(scenario)
}

/// Whether the server accepts these steps one after the other.
async fn accepts(user: &User, steps: &[Step]) -> bool {
    for step in steps {
        if let Err(error) = user.act(step).await {
            tracing::debug!(%step, %error, "a guessed change is left out: the API server refuses it");
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::scenario::draft;

    #[tokio::test(start_paused = true)]
    async fn changes_that_the_rules_of_a_definition_forbid_are_left_out() {
        let rules = json!([
            {"rule": "!has(self.file) || self.kind == 'File'"},
            {"rule": "self.size == oldSelf.size"},
        ]);
        let spec = json!({"type": "object", "x-kubernetes-validations": rules, "properties": {
            "file": {"type": "string"}, "kind": {"type": "string"}, "on": {"type": "boolean"},
            "size": {"type": "integer"},
        }});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        let names = json!({"plural": "shops", "singular": "shop", "kind": "Shop", "listKind": "ShopList"});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "shops.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
        });
        let spec = json!({"kind": "Socket", "size": 1});
        let metadata = json!({"name": "a", "namespace": "default"});
        let sample = json!({"apiVersion": "example.com/v1", "kind": "Shop", "metadata": metadata, "spec": spec});
        let of = ("example.com/v1", "Shop");
        let scenario = draft("shop", of, vec![definition], vec![sample]).expect("a scenario");
        assert_eq!(scenario.steps.len(), 3 + 2 * 4);
        let scenario = without_refused(scenario).await.expect("it can be loaded");
        let steps: Vec<_> = scenario.steps.iter().map(ToString::to_string).collect();
        let expected = [
            "apply Shop default/a",
            r#"patch Shop default/a with {"spec":{"kind":"Socket-2"}}"#,
            r#"patch Shop default/a with {"spec":{"kind":"Socket"}}"#,
            r#"patch Shop default/a with {"spec":{"on":true}}"#,
            r#"patch Shop default/a with {"spec":{"on":null}}"#,
            "delete Shop default/a",
            "apply Shop default/a",
        ];
        assert_eq!(steps, expected);
        assert_eq!(scenario.guessed, 1..5);
    }
}
