//! Tests a sweep while CRDs come and go.

use serde_json::{Value, json};
use windlass_kube::Discovery;
use windlass_kube::sweep::{Sought, SweepScope, Swept, sweep};

use crate::script::{Reply, Script};

const WIDGETS: &str = "/apis/example.com/v1/widgets";

fn is(answer: &Value) -> Reply {
    Reply::Json(200, answer.clone())
}

fn not_found() -> Reply {
    Reply::Json(404, json!({"kind": "Status", "code": 404}))
}

/// A list of the single object `name`, which a plugin's finalizer keeps.
fn kept(name: &str) -> Reply {
    let metadata = json!({"name": name, "uid": "u", "resourceVersion": "1", "finalizers": ["windlass.dev/webapp"]});
    is(&json!({"metadata": {}, "items": [{"metadata": metadata}]}))
}

fn resources(plural: &str) -> Reply {
    let resource = json!({"name": plural, "kind": plural, "namespaced": true, "verbs": ["list", "patch"]});
    is(&json!({"resources": [resource]}))
}

/// The groups of a server with Widgets in this version.
fn groups(version: &str) -> Reply {
    is(&json!({"groups": [{"name": "example.com", "versions": [{"groupVersion": format!("example.com/{version}")}]}]}))
}

/// A server with `ConfigMaps`, one of which is kept, and Widgets.
fn server() -> Script {
    Script::default()
        .answers("/api", is(&json!({"versions": ["v1"]})))
        .answers("/api/v1", resources("configmaps"))
        .answers("/api/v1/configmaps", kept("a"))
        .answers("/apis", groups("v1"))
        .answers("/apis/example.com/v1", resources("widgets"))
        .answers("/apis/example.com/v2", resources("widgets"))
        .answers(WIDGETS, is(&json!({"metadata": {}, "items": []})))
}

async fn swept(script: &Script) -> Swept {
    let swept = sweep(&Discovery::new(script.client()), &SweepScope::default(), &Sought::Finalizers, |_| true).await;
    swept.expect("its kinds are known")
}

fn names(swept: &Swept) -> Vec<&str> {
    swept.carriers.iter().map(|carrier| &*carrier.key.name).collect()
}

fn lists(script: &Script, path: &str) -> usize {
    script.asked().iter().filter(|asked| asked.path == path).count()
}

#[tokio::test(start_paused = true)]
async fn a_kind_removed_during_a_sweep_is_not_reported_as_unseen() {
    let none = is(&json!({"groups": []}));
    let script = server()
        .answers_in_turn("/apis", [groups("v1"), groups("v1"), none])
        .answers_in_turn("/apis/example.com/v1", [resources("widgets"), not_found()])
        .answers(WIDGETS, not_found());
    let swept = swept(&script).await;
    assert!(swept.unseen.is_empty(), "{:?}", swept.unseen);
    assert_eq!(names(&swept), ["a"]);
    assert_eq!(lists(&script, "/api/v1/configmaps"), 1, "what has been seen is not listed again");
}

#[tokio::test(start_paused = true)]
async fn a_kind_whose_served_version_changes_is_swept_in_the_new_version() {
    let script = server()
        .answers_in_turn("/apis", [groups("v1"), groups("v2")])
        .answers(WIDGETS, not_found())
        .answers("/apis/example.com/v2/widgets", kept("b"));
    let swept = swept(&script).await;
    assert!(swept.unseen.is_empty(), "{:?}", swept.unseen);
    assert_eq!(names(&swept), ["b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_listed_kind_that_is_never_served_is_reported_and_others_found_once() {
    let script = server().answers(WIDGETS, not_found());
    let swept = swept(&script).await;
    let unseen: Vec<_> = swept.unseen.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!((unseen.len(), names(&swept)), (1, vec!["a"]), "{unseen:?}");
    assert_eq!((lists(&script, WIDGETS), lists(&script, "/api/v1/configmaps")), (4, 1));
}

/// A group can be listed and not served if servers disagree, or while a CRD is established again. Its objects exist.
#[tokio::test(start_paused = true)]
async fn a_listed_group_that_is_never_served_is_reported() {
    let script = server().answers("/apis/example.com/v1", not_found());
    let swept = swept(&script).await;
    assert_eq!((&*swept.unseen[0].0, swept.unseen.len(), names(&swept)), ("example.com/v1", 1, vec!["a"]));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_may_not_be_listed_is_reported_once_per_sweep() {
    let forbidden = Reply::Json(403, json!({"kind": "Status", "code": 403}));
    let script = server().answers("/api/v1/configmaps", forbidden);
    let unseen = swept(&script).await.unseen;
    assert_eq!((unseen.len(), lists(&script, "/apis")), (1, 1), "{unseen:?}");
    let script = script.answers(WIDGETS, not_found());
    let unseen = swept(&script).await.unseen;
    assert_eq!((unseen.len(), lists(&script, "/api/v1/configmaps")), (2, 2), "{unseen:?}");
}

#[tokio::test(start_paused = true)]
async fn objects_already_found_are_kept_when_the_server_stops_answering() {
    let dead = Reply::Json(503, json!({"kind": "Status", "code": 503}));
    let script = server().answers(WIDGETS, not_found()).answers_in_turn("/apis", [groups("v1"), dead]);
    let swept = swept(&script).await;
    assert_eq!((swept.unseen.len(), names(&swept)), (1, vec!["a"]), "{:?}", swept.unseen);
}
