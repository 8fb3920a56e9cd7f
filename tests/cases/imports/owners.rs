//! `owners.claim`: claims objects by their labels, also when two owners want the same objects.

use std::collections::BTreeMap;

use anyhow::ensure;
use serde_json::{Value, json};
use windlass_tests::probe::{Call, Lab};
use windlass_tests::server::Kind;
use windlass_tests::wait::until;

use super::{all, config_map, on_both_servers};

on_both_servers!(
    a_claim_adopts_releases_and_leaves,
    a_primary_that_goes_adopts_nothing,
    what_cannot_be_claimed,
    two_owners_that_race_own_each_child_once,
);

/// The number of races between two owners: 100 if `WINDLASS_CLAIMS=full`.
const OWNER_RACES: usize = 15;
const CHILDREN: usize = 4;

fn claim(selector: &str) -> Value {
    json!({"call": "owners.claim", "kind": {"apiVersion": "v1", "kind": "ConfigMap"}, "labelSelector": selector})
}

fn labelled(name: &str, labels: &Value) -> Value {
    let mut object = config_map(name);
    object["metadata"]["labels"] = labels.clone();
    object
}

/// The UIDs of the controllers of an object.
fn controllers(object: &Value) -> Vec<String> {
    let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let controllers = owners.iter().filter(|owner| owner["controller"] == true);
    controllers.filter_map(|owner| owner["uid"].as_str().map(str::to_owned)).collect()
}

fn sorted<'a>(claimed: &'a Value, list: &str) -> Vec<&'a str> {
    let mut names = all(&claimed[list], "/name");
    names.sort_unstable();
    names
}

async fn a_claim_adopts_releases_and_leaves(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let friend = lab.server.objects().apply(&config_map("friend")).await?;
    // The owner must exist, or the garbage collector would delete its dependents.
    let owner = |controller: bool| {
        let uid = &friend["metadata"]["uid"];
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "friend", "uid": uid, "controller": controller}])
    };
    let mut taken = labelled("taken", &json!({"side": "ours"}));
    taken["metadata"]["ownerReferences"] = owner(true);
    let mut befriended = labelled("befriended", &json!({"side": "ours"}));
    befriended["metadata"]["ownerReferences"] = owner(false);
    for object in [&taken, &befriended, &labelled("stranger", &json!({"side": "theirs"}))] {
        lab.server.objects().apply(object).await?;
    }
    lab.put(&labelled("orphan", &json!({"side": "ours"}))).await?;
    let call = lab.run([claim("side=ours"), claim("side=ours"), json!({
        "call": "cache.list", "query": {"kind": {"apiVersion": "v1", "kind": "ConfigMap"}, "owned": true, "fields": []},
    })]).await?;
    assert_eq!(sorted(call.ok(1), "adopted"), ["befriended", "orphan"]);
    assert_eq!(*call.ok(2), json!({"adopted": [], "released": []}), "again, there is nothing to do");
    assert_eq!(all(&call.ok(3)["items"], "/metadata/name"), ["befriended", "orphan"], "and `owned` shows them");
    let there = lab.server.objects().get("ConfigMap", "befriended").await?.unwrap_or_default();
    assert_eq!(there["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(2), "its other owner stays");

    lab.put(&labelled("orphan", &json!({"side": "theirs"}))).await?;
    let call = lab.run([claim("side=ours")]).await?;
    assert_eq!((sorted(call.ok(1), "adopted"), sorted(call.ok(1), "released")), (vec![], vec!["orphan"]));
    assert_eq!(call.ok(1)["released"][0]["kind"], "ConfigMap");
    let orphan = lab.server.objects().get("ConfigMap", "orphan").await?.unwrap_or_default();
    assert_eq!(controllers(&orphan), Vec::<String>::new());
    let left = lab.server.objects().get("ConfigMap", "taken").await?.unwrap_or_default();
    assert_eq!(left["metadata"]["ownerReferences"], owner(true));
    Ok(())
}

async fn a_primary_that_goes_adopts_nothing(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let objects = lab.server.objects();
    let _ = lab.run([json!({"call": "config.get"})]).await?;
    objects.merge("Probe", "probe", &json!({"metadata": {"finalizers": ["test.windlass.dev/wait"]}})).await?;
    objects.delete("Probe", "probe").await?;
    lab.put_as("other", &labelled("orphan", &json!({"side": "ours"}))).await?;
    let call = lab.run([claim("side=ours")]).await?;
    assert_eq!(call.request["deleting"], true);
    if let Ok(claimed) = &call.steps[0].answer {
        assert_eq!(sorted(claimed, "adopted"), Vec::<&str>::new());
    }
    let orphan = objects.get("ConfigMap", "orphan").await?.unwrap_or_default();
    assert_eq!(controllers(&orphan), Vec::<String>::new());
    objects.merge("Probe", "probe", &json!({"metadata": {"finalizers": null}})).await?;
    Ok(())
}

async fn what_cannot_be_claimed(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let of = |kind: &str| json!({"call": "owners.claim", "kind": {"apiVersion": "v1", "kind": kind}, "labelSelector": "a=b"});
    let call = lab.run([claim("a in (b"), of("Pod"), of("Config Map"), claim("")]).await?;
    for (step, reason) in [(1, "invalid"), (2, "not-watched"), (3, "invalid")] {
        let Err(errors) = &call.steps[step - 1].answer else { panic!("{call:?}") };
        assert_eq!(errors[0]["reason"], reason, "{errors}");
        assert_eq!(errors.as_array().map(Vec::len), Some(1));
    }
    assert_eq!(lab.sent(), 0);
    Ok(())
}

/// The names of the objects that a claim adopted. Empty if the claim failed.
fn adopted(call: &Call) -> Vec<String> {
    let claimed = call.steps[0].answer.as_ref().cloned().unwrap_or_default();
    all(&claimed["adopted"], "/name").into_iter().map(str::to_owned).collect()
}

async fn two_owners_that_race_own_each_child_once(kind: Kind) -> anyhow::Result<()> {
    let rounds = if std::env::var("WINDLASS_CLAIMS").is_ok_and(|form| form == "full") { 100 } else { OWNER_RACES };
    let lab = Lab::start(kind).await?;
    let (mut contested, mut won) = (0, BTreeMap::<&str, usize>::new());
    for round in 0..rounds {
        let mut last = Value::Null;
        for child in 0..CHILDREN {
            let labels = json!({"round": round.to_string(), "side": "both"});
            last = lab.server.objects().apply(&labelled(&format!("r{round}-{child}"), &labels)).await?;
        }
        lab.until_cached_by("watcher", &last).await?;
        let selectors = [
            ("left", format!("round={round},side in (left,both)")),
            ("right", format!("round={round},side in (both,right)")),
        ];
        let [left, right] = selectors.each_ref().map(|(name, selector)| lab.run_as(name, [claim(selector)]));
        let (left, right) = tokio::try_join!(left, right)?;
        let (left_adopted, right_adopted) = (adopted(&left), adopted(&right));
        assert!(
            left_adopted.iter().all(|name| !right_adopted.contains(name)),
            "both have {left_adopted:?} {right_adopted:?}"
        );
        contested += usize::from([&left, &right].iter().any(|call| call.steps[0].answer.is_err()));
        *won.entry("left").or_default() += left_adopted.len();
        *won.entry("right").or_default() += right_adopted.len();
        until("each child is owned once", || async {
            let children = lab.server.objects().list("ConfigMap", &format!("round={round}")).await?;
            let owned = children.iter().filter(|child| controllers(child).len() == 1).count();
            assert!(children.iter().all(|child| controllers(child).len() <= 1), "{children:?}");
            // Repeat the claim of the owner that failed, as a retry after its backoff would.
            if owned < CHILDREN {
                lab.run_as("left", [claim(&selectors[0].1)]).await?;
            }
            ensure!(owned == CHILDREN, "{children:?}");
            Ok(())
        })
        .await?;
    }
    println!("figures: {kind:?}: {rounds} races, {contested} of them with a conflict, won {won:?}");
    Ok(())
}
