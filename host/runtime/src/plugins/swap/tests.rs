//! A probation that ends, and a swap during which the host stops, on the embedded API server.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;

use windlass_core::object::ObjectKey;

use super::*;
use crate::object_names::ObjectNames;
use crate::tests::stage::{Stage, until};

#[tokio::test]
async fn a_file_delivered_before_its_failure_is_not_retried_a_later_one_is() {
    let stage = Stage::new().await;
    let (one, other) = (stage.load(1).await, stage.load(2).await);
    let (reports, _reported) = mpsc::unbounded_channel();
    let stop = stage.phases.stop.child_token();
    let (mut serving, newest) = stage.serving(&one, reports, stop.clone());
    let mut past = ServingState::default();
    let former = serving.generation(one.clone(), &mut past).expect("it can be configured");
    former.record.called(&("webapps".into(), ObjectKey::namespaced("prod", "shop")), None, || false);
    let generation = serving.generation(other.clone(), &mut past).expect("so can this");
    past.succeeds(&generation, &former);
    let term = PluginTerm::unshared(&stop);
    let mut swaps = Swaps::of(&mut serving, &mut past, &term);
    let begun = swaps.begin(&generation, None).expect("it has no definitions");
    let (mut current, mut next) = (RunningGeneration { generation, begun, is_on_probation: true }, None);

    newest.send_replace(other.clone());
    swaps.judged(&Judged::Failed("it traps".to_owned()), &mut current, &mut next);
    let next = next.expect("the one before it comes back");
    assert!(next.comes_back && next.generation.plugin.digest() == one.digest());
    drop(swaps);
    serving.newest(&mut past);
    assert!(past.rejected.contains(other.digest()), "it was delivered before");
    newest.send_replace(other.clone());
    serving.newest(&mut past);
    assert!(!past.rejected.contains(other.digest()));
    stop.cancel();
}

/// It takes a while to fill caches, so the policy of an object may change meanwhile.
#[tokio::test]
async fn a_version_that_was_excluded_meanwhile_does_not_come_back() {
    let stage = Stage::new().await;
    let (one, other) = (stage.load(1).await, stage.load(2).await);
    let (reports, mut reported) = mpsc::unbounded_channel();
    let stop = stage.phases.stop.child_token();
    let (mut serving, _newest) = stage.serving(&one, reports, stop.clone());
    let mut past = ServingState::default();
    let former = serving.generation(one.clone(), &mut past).expect("it can be configured");
    former.record.called(&("webapps".into(), ObjectKey::namespaced("prod", "shop")), None, || false);
    let generation = serving.generation(other.clone(), &mut past).expect("so can this");
    past.succeeds(&generation, &former);
    let term = PluginTerm::unshared(&stop);
    let mut swaps = Swaps::of(&mut serving, &mut past, &term);
    let begun = swaps.begin(&generation, None).expect("it has no definitions");
    let (mut current, mut next) = (RunningGeneration { generation, begun, is_on_probation: true }, None);
    swaps.judged(&Judged::Failed("it traps".to_owned()), &mut current, &mut next);
    let names = ObjectNames::new(Path::new("/objects"), BTreeMap::new());
    names.claim("chameleon", [other.digest().to_string()].into());
    stage.host.policies.set_names(names);
    swaps.take_over(&mut current, &mut next, &mut Vec::new());
    assert!(next.is_none() && current.generation.plugin.digest() == other.digest());
    reported.recv().await.expect("it was rolled back");
    assert!(matches!(reported.recv().await, Some((_, Swapped::Runs(now))) if now.digest() == other.digest()));
    drop(swaps);
    assert!(past.former.is_none() && past.rejected.contains(other.digest()));
    stop.cancel();
}

/// The version may still wait for its definitions, which would then be installed without its knowledge.
#[tokio::test]
async fn a_running_version_that_is_wanted_again_keeps_installing_definitions() {
    let stage = Stage::new().await;
    let one = stage.load(1).await;
    let stop = stage.phases.stop.child_token();
    let (mut serving, _newest) = stage.serving(&one, mpsc::unbounded_channel().0, stop.clone());
    let mut past = ServingState::default();
    let generation = serving.generation(one.clone(), &mut past).expect("it can be configured");
    let term = PluginTerm::unshared(&stop);
    let mut swaps = Swaps::of(&mut serving, &mut past, &term);
    let begun = swaps.begin(&generation, None).expect("it has no definitions");
    let installing = begun.installing.clone();
    let mut current = RunningGeneration { generation, begun, is_on_probation: false };
    swaps.want(&one, &mut current, &mut None);
    assert!(!installing.is_cancelled());

    installing.cancel();
    swaps.want(&one, &mut current, &mut None);
    assert!(!current.begun.installing.is_cancelled(), "another's were installed meanwhile");
}

/// No other generation is at work, so this one takes over before its definitions are installed.
#[tokio::test]
async fn a_version_restored_by_hand_learns_of_definitions_ready_after_takeover() {
    let stage = Stage::new().await;
    let (one, other) = (stage.load(1).await, stage.load(2).await);
    let stop = stage.phases.stop.child_token();
    let (mut serving, _newest) = stage.serving(&one, mpsc::unbounded_channel().0, stop.clone());
    // The definitions are installed as soon as other tasks run.
    serving.install = |_, _, _, _, stop| {
        let (sender, ready) = tokio::sync::watch::channel(false);
        let (there, stop) = (async move { sender.send_replace(true) }, stop.clone());
        tokio::spawn(async move { stop.run_until_cancelled(there).await });
        Some(ready)
    };
    stage.host.policies.register(&one, &stage.host.status.plugin("chameleon"));
    let mut past = ServingState::default();
    let former = serving.generation(one.clone(), &mut past).expect("it can be configured");
    serving.runs(&mut past, &former);
    former.record.called(&("webapps".into(), ObjectKey::namespaced("prod", "shop")), None, || false);
    let generation = serving.generation(other, &mut past).expect("so can this");
    past.succeeds(&generation, &former);
    let term = PluginTerm::unshared(&stop);
    let mut swaps = Swaps::of(&mut serving, &mut past, &term);
    let begun = swaps.begin(&generation, None).expect("definitions");
    let (mut current, mut next) = (RunningGeneration { generation, begun, is_on_probation: true }, None);
    swaps.want(&one, &mut current, &mut next);
    let mut next = next.expect("it gets ready");
    assert!(next.comes_back && swaps.is_due(&mut next, &current));
    swaps.swap(&mut current, next);
    until(|| stage.works()).await;
    stop.cancel();
}

/// The next generation learns at the same time that it may begin and that the host stops. The test has one thread, so
/// that nothing runs in between.
#[tokio::test]
async fn a_stop_during_a_swap_leaves_no_generation_waiting_for_the_other() {
    let stage = Stage::new().await;
    let (one, other) = (stage.load(1).await, stage.load(2).await);
    let (reports, _reported) = mpsc::unbounded_channel();
    let stop = stage.phases.stop.child_token();
    let (serving, newest) = stage.serving(&one, reports, stop.clone());
    let status = stage.host.status.plugin("chameleon");
    stage.host.policies.register(&one, &status);
    let mut served = pin!(serving.run());
    tokio::select! {
        end = &mut served => panic!("nothing stops it: {end:?}"),
        () = until(|| stage.works()) => {}
    }
    newest.send_replace(other.clone());
    let end = poll_fn(|context| {
        let polled = served.as_mut().poll(context);
        if status.generation().is_some_and(|now| now.digest() == other.digest()) {
            stop.cancel();
        }
        polled
    });
    assert_eq!(timeout(Duration::from_mins(1), end).await, Ok(ControllerEnd::Clean));
}

/// Its caches live on for a minute, so they may lack what its calls wrote.
#[tokio::test]
async fn a_kind_that_comes_back_proves_its_caches_before_it_works() {
    let stage = Stage::new().await;
    let one = stage.load_as(1, &[("CHAMELEON-MODE=good.", "CHAMELEON-MODE=kinds")]).await;
    let configs = stage.supplies.configs.clone();
    let following = tokio::spawn(async move { configs.follow().await });
    let stop = stage.phases.stop.child_token();
    let (serving, _newest) = stage.serving(&one, mpsc::unbounded_channel().0, stop.clone());
    let status = stage.host.status.plugin("chameleon");
    stage.host.policies.register(&one, &status);
    let mut served = pin!(serving.run());
    let shows = |name: &str| stage.host.metrics.text().contains(&format!("controller=\"{name}\""));
    let config_maps = "{kinds: [{apiVersion: v1, kind: ConfigMap}]}";
    let mut lists = vec![];
    for (kinds, wanted, unwanted) in [
        (config_maps, "chameleon.configmap", "chameleon"),
        ("{kinds: []}", "chameleon", "chameleon.configmap"),
        (config_maps, "chameleon.configmap", "chameleon"),
    ] {
        stage.configure(kinds);
        let has_come = || {
            let is_idle = wanted == "chameleon";
            shows(wanted) && !shows(unwanted) && (is_idle || stage.works())
        };
        tokio::select! {
            end = &mut served => panic!("nothing stops it: {end:?}"),
            () = until(has_come) => {}
        }
        lists.push(stage.config_map_lists());
    }
    let [first, between, again] = lists[..] else { unreachable!("three configurations") };
    assert_eq!(first, between);
    assert!(again > between, "a proof asks the server for its version");
    stop.cancel();
    assert_eq!(timeout(Duration::from_mins(1), served).await, Ok(ControllerEnd::Clean));
    following.abort();
}

/// Needs a guest whose primaries are of the kinds that its configuration names.
#[tokio::test]
async fn a_generation_has_a_controller_for_each_kind_of_its_configuration() {
    let stage = Stage::new().await;
    let by_configuration = [("CHAMELEON-MODE=good.", "CHAMELEON-MODE=kinds")];
    let (one, other) = (stage.load_as(1, &by_configuration).await, stage.load_as(2, &by_configuration).await);
    let configs = stage.supplies.configs.clone();
    let following = tokio::spawn(async move { configs.follow().await });
    let stop = stage.phases.stop.child_token();
    let (serving, newest) = stage.serving(&one, mpsc::unbounded_channel().0, stop.clone());
    let status = stage.host.status.plugin("chameleon");
    stage.host.policies.register(&one, &status);
    let mut served = pin!(serving.run());
    let shows = |name: &str| stage.host.metrics.text().contains(&format!("controller=\"{name}\""));
    let (config_maps, secrets) = ("{apiVersion: v1, kind: ConfigMap}", "{apiVersion: v1, kind: Secret}");
    for (kinds, wanted, delivered) in [
        (config_maps.to_owned(), &["chameleon.configmap"][..], &one),
        (format!("{config_maps}, {secrets}"), &["chameleon.configmap", "chameleon.secret"], &one),
        (format!("{secrets}, {config_maps}"), &["chameleon.configmap", "chameleon.secret"], &other),
        (secrets.to_owned(), &["chameleon.secret"], &other),
    ] {
        stage.configure(&format!("{{kinds: [{kinds}]}}"));
        newest.send_replace(delivered.clone());
        let has_come = || {
            let controllers = status.controllers();
            let runs = status.generation().is_some_and(|now| now.digest() == delivered.digest());
            runs && stage.works() && controllers.iter().map(|it| it.own_name()).eq(wanted.iter().copied())
        };
        tokio::select! {
            end = &mut served => panic!("nothing stops it: {end:?}"),
            () = until(has_come) => {}
        }
    }
    tokio::select! {
        end = &mut served => panic!("nothing stops it: {end:?}"),
        () = until(|| !shows("chameleon.configmap") && shows("chameleon.secret")) => {}
    }
    stop.cancel();
    assert_eq!(timeout(Duration::from_mins(1), served).await, Ok(ControllerEnd::Clean));
    following.abort();
}
