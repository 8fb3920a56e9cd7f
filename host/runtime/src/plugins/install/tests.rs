//! Definitions that are deleted while their plugin runs, on the embedded API server.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_core::rights::grants::LiveGrants;
use windlass_core::rights::principal::Role;

use super::*;
use crate::tests::stage::{Stage, until};

const NAME: &str = "broughts.brought.windlass.dev";
const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/broughts.brought.windlass.dev";

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": NAME},
        "spec": {
            "group": "brought.windlass.dev", "scope": "Namespaced", "names": {"plural": "broughts", "kind": "Brought"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

/// An installer for a plugin that brings the definition.
fn installer(stage: &Stage) -> Installer {
    let document = definition();
    let definitions = vec![Definition::read(document.as_object().expect("an object")).expect("a definition")];
    let keeping =
        Role::Definitions.grants("apiextensions.k8s.io", "customresourcedefinitions", vec![], vec![NAME.into()]);
    Installer {
        host: stage.host.clone(),
        supplies: stage.supplies.clone(),
        definitions,
        role: Principal {
            role: Role::Definitions,
            grants: LiveGrants::new(keeping),
            ..Principal::of_plugin("bringing", "0", "one")
        },
        asked: Allowance { crds: vec![NAME.into()], ..Allowance::default() },
        ready: watch::Sender::new(false),
    }
}

/// Makes the host follow definitions, as the manager does.
async fn follow(host: Arc<Host>) {
    host.kinds.wanted().await;
    let mut subscription = host.informers.subscribe(kinds::definitions());
    host.kinds.follow(&mut subscription, |group| host.discovery.invalidate(group)).await;
}

/// The UID of the definition, as the host's watch shows it.
fn seen(stage: &Stage) -> Option<String> {
    stage.host.kinds.snapshot().get(NAME).map(ToString::to_string)
}

#[tokio::test]
async fn a_deleted_definition_is_installed_again_until_the_plugin_is_removed() {
    let stage = Stage::new().await;
    let (installer, removed) = (installer(&stage), CancellationToken::new());
    let installing = tokio::spawn({
        let removed = removed.clone();
        async move { removed.run_until_cancelled(installer.run()).await }
    });
    let following = tokio::spawn(follow(stage.host.clone()));
    until(|| seen(&stage).is_some()).await;
    let first = seen(&stage);
    let answer = stage.send("DELETE", PATH, "{}".to_owned()).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    until(|| seen(&stage).is_some_and(|now| Some(now) != first)).await;

    removed.cancel();
    assert_eq!(installing.await.expect("no panic"), None, "the installation has ended");
    following.abort();
}

#[tokio::test]
async fn a_host_that_does_not_see_its_definitions_looks_for_them_again() {
    let stage = Stage::new().await;
    let installer = installer(&stage);
    let grants = Grants::asked(installer.asked.clone());
    let names = installer.install(&grants).await.expect("it can be installed").installed;
    assert_eq!(names, [Arc::from(NAME)]);
    tokio::time::pause();
    let before = stage.host.kinds.snapshot();
    let since = Instant::now();
    let lost = installer.lost(&names, &before);
    tokio::time::timeout(2 * Duration::from_mins(5), lost).await.expect("it is looked for");
    assert!(since.elapsed() >= Duration::from_mins(5));
}

#[test]
fn a_definition_deleted_repeatedly_is_installed_ever_more_rarely() {
    let mut pacing = Pacing::begin();
    let pauses: Vec<_> = (0..10).map(|_| pacing.after_loss(Duration::from_secs(3))).collect();
    assert!(pauses[0] <= 2 * Duration::from_secs(1) && pauses[9] >= Duration::from_mins(1), "{pauses:?}");
    assert!(pacing.after_loss(Duration::from_mins(10)) <= 2 * Duration::from_secs(1), "it was there long enough");
}
