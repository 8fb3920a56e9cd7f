//! Tests claims: which objects are adopted, released and left alone, and who wins a race.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::cache::watch::WatchSpec;
use windlass_core::call::ports::{CallContext, Claimed, LiveGet, OwnerClaim, ask};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::{Header, Object, ObjectKey, ObjectKind};
use windlass_core::rights::grants::Rule;
use windlass_core::write::{Operation, PatchType, WriteOptions};
use windlass_kube::{ApiPort, Discovery, Informers, LiveBudget, LiveReader, Readable, Reader, Subscription, Writer};

use crate::cluster::{Cluster, cluster, config_maps, create};
use crate::script::{Reply, Script, call, call_with, key, list, object_of, pod, pods};

/// Claims Pods of a scripted server, using a cache that always shows `items`.
struct Scripted {
    script: Script,
    port: ApiPort,
    _subscription: Subscription,
    _informers: Informers,
}

/// After the list, `live` answers the reads of the primary.
async fn scripted(spec: WatchSpec, items: &[Value], live: Value, patches: Vec<Reply>) -> Scripted {
    let script = Script::default().lists([list(10, items), Reply::Json(200, live)]).mutations(patches);
    let client = script.client();
    let discovery = Discovery::new(client.clone());
    let informers = Informers::new(client.clone(), discovery.clone());
    let subscription = informers.subscribe(spec.clone());
    subscription.synced().await;
    let reader = Reader::new(vec![Readable { spec, store: subscription.store().clone(), indexes: vec![] }]);
    let live = LiveReader::new(client.clone(), discovery.clone(), LiveBudget::default());
    let port = ApiPort::new(Arc::new(reader), live, Writer::new(client, discovery));
    Scripted { script, port, _subscription: subscription, _informers: informers }
}

impl Scripted {
    async fn claim(&self, call: &Arc<CallContext>, selector: &str) -> Result<Claimed, Vec<ApiError>> {
        let (kind, label_selector) = (ObjectKind::new("v1", "Pod"), selector.to_owned());
        ask(&self.port, call.clone(), OwnerClaim { kind, label_selector }).await
    }
}

/// A Pod with the label `app`, owned by `owners`: UIDs, and whether each controls it.
fn labelled(name: &str, app: &str, owners: &[(&str, bool)]) -> Value {
    let mut pod = pod(name, &format!("u-{name}"), 5);
    pod["metadata"]["labels"] = json!({"app": app});
    pod["metadata"]["ownerReferences"] = owners
        .iter()
        .map(|(uid, controller)| json!({"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": uid, "controller": controller}))
        .collect();
    pod
}

fn shop() -> Value {
    pod("shop", "u-shop", 1)
}

fn names(references: &[windlass_core::object::ObjectRef]) -> Vec<String> {
    references.iter().map(|reference| reference.key.name.to_string()).collect()
}

fn reasons(errors: &[ApiError]) -> Vec<ApiReason> {
    errors.iter().map(|error| error.reason).collect()
}

#[tokio::test(start_paused = true)]
async fn a_patch_is_for_one_incarnation_at_one_version_and_keeps_other_owners() {
    let items = [
        labelled("orphan", "shop", &[("other", false)]),
        labelled("stray", "api", &[("other", false), ("u-shop", true)]),
        labelled("mine", "shop", &[("u-shop", true)]),
        labelled("theirs", "shop", &[("u-2", true)]),
        labelled("foreign", "api", &[]),
    ];
    let scripted = scripted(pods(), &items, shop(), vec![Reply::Json(200, pod("x", "u", 9))]).await;
    let claimed = scripted.claim(&Arc::new(call()), "app=shop").await.expect("claimed");
    assert_eq!((names(&claimed.adopted), names(&claimed.released)), (vec!["orphan".into()], vec!["stray".into()]));
    let mut patches = scripted.script.mutations_asked();
    patches.sort_by(|a, b| a.path.cmp(&b.path));
    let bodies: Vec<_> = patches.iter().map(|asked| asked.json()["metadata"].clone()).collect();
    assert_eq!(patches[0].path, "/api/v1/namespaces/prod/pods/orphan");
    assert_eq!(patches[0].content_type, "application/merge-patch+json");
    assert_eq!((&bodies[0]["uid"], &bodies[0]["resourceVersion"]), (&json!("u-orphan"), &json!("5")));
    let owners = bodies[0]["ownerReferences"].as_array().expect("a list");
    assert_eq!((owners.len(), &owners[0]["uid"]), (2, &json!("other")));
    assert_eq!((&owners[1]["uid"], &owners[1]["controller"]), (&json!("u-shop"), &json!(true)));
    assert_eq!(bodies[1]["ownerReferences"].as_array().expect("a list").len(), 1, "{}", bodies[1]);
}

#[tokio::test(start_paused = true)]
async fn the_primary_is_read_once_before_adoption_and_not_before_release() {
    let looks = |script: &Script| script.asked().iter().filter(|asked| asked.path.ends_with("/pods/shop")).count();
    let answer = vec![Reply::Json(200, pod("x", "u", 9))];
    let orphans = ["a", "b", "c"].map(|name| labelled(name, "shop", &[]));
    let claims = scripted(pods(), &orphans, shop(), answer.clone()).await;
    assert_eq!(claims.claim(&Arc::new(call()), "app=shop").await.expect("claimed").adopted.len(), 3);
    assert_eq!(looks(&claims.script), 1);
    let claims = scripted(pods(), &[labelled("a", "api", &[("u-shop", true)])], shop(), answer).await;
    assert_eq!(claims.claim(&Arc::new(call()), "app=shop").await.expect("claimed").released.len(), 1);
    assert_eq!(looks(&claims.script), 0);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_primary_adopts_nothing_and_still_releases() {
    let items = [labelled("orphan", "shop", &[]), labelled("stray", "api", &[("u-shop", true)])];
    let answer = vec![Reply::Json(200, pod("x", "u", 9))];
    let mut going = shop();
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    for (live, reason) in [(pod("shop", "another", 1), ApiReason::NotFound), (going, ApiReason::Conflict)] {
        let claims = scripted(pods(), &items, live, answer.clone()).await;
        let errors = claims.claim(&Arc::new(call()), "app=shop").await.expect_err("it must not adopt");
        assert_eq!(reasons(&errors), [reason]);
        assert_eq!(errors[0].object.as_ref().map(|object| object.key.clone()), Some(key("shop")), "about the primary");
        let patched: Vec<_> = claims.script.mutations_asked().into_iter().map(|asked| asked.path).collect();
        assert_eq!(patched, ["/api/v1/namespaces/prod/pods/stray"]);
    }
    let gone = Arc::new(CallContext { primary: None, ..call() });
    let claims = scripted(pods(), &items, shop(), answer).await;
    assert_eq!(reasons(&claims.claim(&gone, "app=shop").await.expect_err("gone")), [ApiReason::NotFound]);
}

#[tokio::test(start_paused = true)]
async fn all_claims_are_attempted_and_all_errors_but_deletions_returned() {
    let items = ["a", "b", "c"].map(|name| labelled(name, "shop", &[]));
    let conflict = Reply::Json(409, json!({"code": 409, "reason": "Conflict"}));
    let gone = Reply::Json(404, json!({"code": 404, "reason": "NotFound", "details": {"name": "b"}}));
    let claims = scripted(pods(), &items, shop(), vec![conflict.clone(), gone, conflict]).await;
    let errors = claims.claim(&Arc::new(call()), "app=shop").await.expect_err("two conflicts");
    assert_eq!(reasons(&errors), [ApiReason::Conflict, ApiReason::Conflict]);
    assert_eq!(claims.script.mutations_asked().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_kind_that_is_no_longer_served_fails() {
    let unserved = Reply::Text(404, "404 page not found".into());
    let claims = scripted(pods(), &[labelled("a", "shop", &[])], shop(), vec![unserved]).await;
    let errors = claims.claim(&Arc::new(call()), "app=shop").await.expect_err("nothing was adopted");
    assert_eq!(reasons(&errors), [ApiReason::NotFound]);
    assert!(!errors[0].is_object_missing(), "{}", errors[0]);
}

#[tokio::test(start_paused = true)]
async fn an_object_adopted_in_this_call_is_not_adopted_again() {
    // The cache always shows the orphan, but the call has a later state.
    let mut adopted = labelled("a", "shop", &[("u-shop", true)]);
    adopted["metadata"]["resourceVersion"] = "6".into();
    let items = [labelled("a", "shop", &[])];
    let claims = scripted(pods(), &items, shop(), vec![Reply::Json(200, adopted)]).await;
    let call = Arc::new(call());
    assert_eq!(claims.claim(&call, "app=shop").await.expect("claimed").adopted.len(), 1);
    assert_eq!(claims.claim(&call, "app=shop").await.expect("claimed"), Claimed::default());
    assert_eq!(claims.script.mutations_asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_hides_objects_is_not_claimed_from() {
    let narrow = WatchSpec { label_selector: Some("app=shop".parse().expect("a selector")), ..pods() };
    let elsewhere = WatchSpec { namespace: Some("test".into()), ..pods() };
    for (spec, word) in [(narrow, "app=shop"), (elsewhere, "prod")] {
        let claims = scripted(spec, &[], shop(), vec![]).await;
        let errors = claims.claim(&Arc::new(call()), "app=shop").await.expect_err("not seen");
        assert_eq!(reasons(&errors), [ApiReason::NotWatched]);
        assert!(errors[0].message.contains(word), "{}", errors[0]);
    }
    let claims = scripted(pods(), &[], shop(), vec![]).await;
    for selector in ["", "  ", "app in"] {
        let errors = claims.claim(&Arc::new(call()), selector).await.expect_err("no selector");
        assert_eq!(reasons(&errors), [ApiReason::Invalid], "{selector:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_takes_the_rights_to_list_patch_and_delete() {
    let rule = |verbs: &[&str], names: &[&str]| Rule {
        groups: vec![String::new()],
        resources: vec!["pods".into()],
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        namespaces: vec![],
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Rule::default()
    };
    let items = ["a", "b"].map(|name| labelled(name, "shop", &[]));
    let claims = scripted(pods(), &items, shop(), vec![Reply::Json(200, pod("x", "u", 9))]).await;
    let claim = async |rules| claims.claim(&Arc::new(call_with(rules)), "app=shop").await.expect_err("not granted");
    assert_eq!(reasons(&claim(vec![rule(&["get", "patch", "delete"], &[])]).await), [ApiReason::NotGranted]);
    let of_primary = claim(vec![rule(&["list", "patch", "delete"], &[])]).await;
    assert_eq!(reasons(&of_primary), [ApiReason::NotGranted], "the primary");
    assert_eq!(reasons(&claim(vec![rule(&["list", "get", "delete"], &[])]).await), [ApiReason::NotGranted; 2]);
    let without_delete = claim(vec![rule(&["list", "get", "patch"], &[])]).await;
    assert_eq!(reasons(&without_delete), [ApiReason::NotGranted; 2]);
    assert!(
        without_delete[0].message.contains(r#"verbs: ["delete"]"#),
        "it does not say what to grant: {}",
        without_delete[0]
    );
    assert_eq!(claims.script.mutations_asked().len(), 0);
    for (all, of_a) in [(["list", "get", "delete"], "patch"), (["list", "get", "patch"], "delete")] {
        let sent = claims.script.mutations_asked().len();
        let some = vec![rule(&all, &[]), rule(&[of_a], &["a"])];
        assert_eq!(reasons(&claim(some).await), [ApiReason::NotGranted]);
        assert_eq!(claims.script.mutations_asked().len(), sent + 1, "what is granted is done");
    }
}

/// A claimant with its own cache that may claim config maps as the owner `object`.
struct Claimant {
    port: ApiPort,
    primary: Object,
    _subscription: Subscription,
    _informers: Informers,
}

impl Cluster {
    /// A config map that claims other config maps.
    async fn claimant(&self, name: &str) -> Claimant {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let created = self.write(create(&object)).await.expect("created").expect("an object");
        let header = Header {
            key: ObjectKey::namespaced(self.namespace.clone(), name),
            uid: created["metadata"]["uid"].as_str().expect("a uid").into(),
            ..object_of(name, "u").header.clone()
        };
        let informers = Informers::new(self.connection.client.clone(), self.discovery.clone());
        let spec = self.all(config_maps());
        let subscription = informers.subscribe(spec.clone());
        subscription.synced().await;
        let reader = Reader::new(vec![Readable { spec, store: subscription.store().clone(), indexes: vec![] }]);
        let port = ApiPort::new(Arc::new(reader), self.claims_live(), self.writer.clone());
        let primary = Object::new(header, created.to_string());
        Claimant { port, primary, _subscription: subscription, _informers: informers }
    }

    fn claims_live(&self) -> LiveReader {
        let plenty = LiveBudget { per_second: 1_000, burst: 10_000 };
        LiveReader::new(self.connection.client.clone(), self.discovery.clone(), plenty)
    }

    /// As in a reconcile: a claim that fails is repeated with the cache's later state.
    async fn claimed(&self, claimant: &Claimant, selector: &str) -> Claimed {
        for _ in 0..200 {
            let call = CallContext {
                primary_kind: config_maps(),
                primary_key: claimant.primary.header.key.clone(),
                primary: Some(claimant.primary.clone()),
                ..self.call()
            };
            let claim = OwnerClaim { kind: config_maps(), label_selector: selector.to_owned() };
            match ask(&claimant.port, Arc::new(call), claim).await {
                Ok(claimed) => return claimed,
                Err(errors) => {
                    assert!(errors.iter().all(|error| error.reason == ApiReason::Conflict), "{errors:?}");
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                }
            }
        }
        panic!("the claims of {} never end without a conflict", claimant.primary.header.key);
    }

    async fn child(&self, name: &str, labels: &Value) {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}});
        self.write(create(&object)).await.expect("created");
    }

    /// The UIDs of the controllers of an object.
    async fn controllers(&self, name: &str) -> Vec<String> {
        let live = self.claims_live();
        let asked = LiveGet::whole(self.target(name, None));
        let text = ask(&live, Arc::new(self.call()), asked).await.expect("an answer").expect("there");
        let object: Value = serde_json::from_str(&text).expect("JSON");
        let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let controlling = owners.iter().filter(|owner| owner["controller"] == true);
        controlling.map(|owner| owner["uid"].as_str().expect("a uid").to_owned()).collect()
    }
}

#[tokio::test]
async fn an_orphan_is_adopted_and_released_when_its_labels_change() {
    let cluster = cluster().await;
    cluster.child("a", &json!({"app": "shop"})).await;
    let claimant = cluster.claimant("owner").await;
    assert_eq!(names(&cluster.claimed(&claimant, "app=shop").await.adopted), ["a"]);
    assert_eq!(cluster.controllers("a").await, [claimant.primary.header.uid.text().to_string()]);
    let patch = Operation::Patch {
        target: cluster.target("a", None),
        patch_type: PatchType::Merge,
        patch: json!({"metadata": {"labels": {"app": "api"}}}).to_string(),
        options: WriteOptions::default(),
    };
    cluster.write(patch).await.expect("patched");
    let released = async {
        loop {
            let claimed = cluster.claimed(&claimant, "app=shop").await;
            if !claimed.released.is_empty() {
                return names(&claimed.released);
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let released = tokio::time::timeout(std::time::Duration::from_secs(30), released).await;
    assert_eq!(released.expect("the cache shows the label"), ["a"]);
    assert!(cluster.controllers("a").await.is_empty());
}

#[tokio::test]
async fn two_owners_that_race_for_the_same_orphans_never_share_one() {
    const CLAIM_ROUNDS: usize = 12;
    let cluster = cluster().await;
    let (one, two) = (cluster.claimant("one").await, cluster.claimant("two").await);
    for round in 0..CLAIM_ROUNDS {
        let names: Vec<_> = (0..4).map(|number| format!("child-{round}-{number}")).collect();
        for name in &names {
            cluster.child(name, &json!({"app": "shop", "round": round.to_string()})).await;
        }
        // Each claimant may adopt the objects that its cache shows at the time, so both continue until every object has
        // an owner.
        let selector = format!("app=shop,round={round}");
        let (mut left, mut adopted) = (names.clone(), Vec::new());
        let all_owned = async {
            while let Some(name) = left.last() {
                let (first, second) = tokio::join!(cluster.claimed(&one, &selector), cluster.claimed(&two, "app=shop"));
                adopted.extend(first.adopted.into_iter().chain(second.adopted).map(|object| object.key));
                match cluster.controllers(name).await.len() {
                    0 => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
                    1 => drop(left.pop()),
                    several => panic!("{name} has {several} controllers"),
                }
            }
        };
        tokio::time::timeout(std::time::Duration::from_mins(1), all_owned).await.expect("all have an owner");
        let several = adopted.len();
        adopted.sort();
        adopted.dedup();
        assert_eq!(adopted.len(), several, "both got the answer that they had adopted it");
        for name in &names {
            assert_eq!(cluster.controllers(name).await.len(), 1, "{name}");
        }
    }
}
