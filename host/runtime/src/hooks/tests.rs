//! Hooks whose targets are test doubles: which deliveries count, and what is remembered and shown.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use windlass_core::cache::mapping::Mapping;
use windlass_kube::SecretError;
use windlass_policy::{OpenHook, SecretKeyRef};

use super::deliveries::{DELIVERIES_BURST, DELIVERIES_PER_SECOND, DELIVERY_RETRY_AFTER};
use super::signature::tests::{SECRET, headers};
use super::*;
use crate::files::{Change, Content};
use crate::observe::metrics::HostMetrics;
use crate::policies::{GrantMode, Policies, PolicySettings};

const DELIVERED_AT: Duration = Duration::from_secs(1_700_000_000);
const BODY: &[u8] = br#"{"name":"prod/shop"}"#;

/// A target that notes the deliveries.
pub(super) struct NotingTarget {
    pub(super) answer: Result<usize, DeliveryFailure>,
    pub(super) deliveries: Mutex<Vec<Arc<str>>>,
}

impl NotingTarget {
    pub(super) fn answering(answer: Result<usize, DeliveryFailure>) -> Arc<Self> {
        Arc::new(Self { answer, deliveries: Mutex::default() })
    }

    pub(super) fn count(&self) -> usize {
        self.deliveries.lock().expect("no panic").len()
    }
}

impl DeliveryTarget for NotingTarget {
    fn hook(&self) -> Arc<str> {
        "pushed".into()
    }

    fn deliver(&self, delivery: Arc<str>) -> BoxFuture<'_, Result<usize, DeliveryFailure>> {
        self.deliveries.lock().expect("no panic").push(delivery);
        futures::future::ready(self.answer).boxed()
    }
}

pub(super) fn name(plugin: &str, hook: &str) -> HookName {
    (plugin.into(), hook.into())
}

/// The hooks of these names that the policy of `shop` opens, each with a key of a Secret.
fn opened<const N: usize>(hooks: [(&str, &str); N]) -> BTreeMap<String, Vec<OpenHook>> {
    let open = hooks.map(|(name, key)| {
        let secret = SecretKeyRef { namespace: "ops".into(), name: "hooks".into(), key: key.into() };
        OpenHook { name: name.into(), secrets: vec![secret] }
    });
    BTreeMap::from([("shop".to_owned(), open.into())])
}

/// Hooks of which `shop/pushed` is open.
pub(super) async fn open_hooks() -> Hooks {
    let hooks = Hooks::new(HostMetrics::new().hooks().clone());
    hooks.keep(opened([("pushed", "pushed")]));
    hooks.read_due(&|_| async { Ok(SECRET.into()) }.boxed()).await;
    hooks
}

/// The result of a delivery with this id and body that `secret` signs.
async fn delivered(hooks: &Hooks, hook: &HookName, id: &str, body: &[u8], secret: &str) -> DeliveryResult {
    let headers = headers(id, DELIVERED_AT, body, secret);
    let checked = hooks.authenticated(Some(hook), &headers, body, DELIVERED_AT);
    hooks.deliver(Some(hook), checked, body, DELIVERED_AT).await
}

async fn pushed(hooks: &Hooks, id: &str) -> DeliveryResult {
    delivered(hooks, &name("shop", "pushed"), id, BODY, SECRET).await
}

#[tokio::test(start_paused = true)]
async fn an_authentic_delivery_reaches_its_target_once() {
    let (hooks, target) = (open_hooks().await, NotingTarget::answering(Ok(1)));
    let _served = hooks.serve(&"shop".into(), vec![target.clone()]);
    assert_eq!(pushed(&hooks, "a").await, DeliveryResult::Queued(1));
    assert_eq!(pushed(&hooks, "a").await, DeliveryResult::Duplicate);
    let expected = r#"{"apiVersion":"windlass.dev/v1alpha1","kind":"HookDelivery","metadata":{"name":"pushed"},"payload":{"name":"prod/shop"}}"#;
    assert_eq!(*target.deliveries.lock().expect("no panic"), [expected.into()]);
    assert_eq!(pushed(&hooks, "b").await, DeliveryResult::Queued(1));
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_was_not_queued_may_come_again() {
    let hooks = open_hooks().await;
    assert_eq!(pushed(&hooks, "a").await, DeliveryResult::NotServing);
    for (failure, result) in
        [(DeliveryFailure::NotReady, DeliveryResult::NotServing), (DeliveryFailure::Mapper, DeliveryResult::Failed)]
    {
        let _served = hooks.serve(&"shop".into(), vec![NotingTarget::answering(Err(failure))]);
        assert_eq!(pushed(&hooks, "a").await, result);
        assert_eq!(pushed(&hooks, "a").await, DeliveryResult::Limited(DELIVERY_RETRY_AFTER), "not at once");
        tokio::time::advance(DELIVERY_RETRY_AFTER).await;
    }
    let _served = hooks.serve(&"shop".into(), vec![NotingTarget::answering(Ok(0))]);
    assert_eq!(pushed(&hooks, "a").await, DeliveryResult::Queued(0));
}

#[tokio::test(start_paused = true)]
async fn nothing_reaches_a_target_without_a_signature_by_its_secret() {
    let (hooks, target) = (open_hooks().await, NotingTarget::answering(Ok(1)));
    let _served = hooks.serve(&"shop".into(), vec![target.clone()]);
    let _other = hooks.serve(&"bank".into(), vec![target.clone()]);
    let refused = |hook: HookName, secret: &'static str| {
        let hooks = hooks.clone();
        async move { delivered(&hooks, &hook, "a", BODY, secret).await }
    };
    let wrong = refused(name("shop", "pushed"), "the secret of another hook").await;
    assert_eq!(wrong, DeliveryResult::Refused(HookRefusal::Signature));
    for (plugin, hook) in [("bank", "pushed"), ("shop", "merged"), ("shop", ""), ("", "pushed")] {
        assert_eq!(refused(name(plugin, hook), SECRET).await, DeliveryResult::Refused(HookRefusal::Unknown));
    }
    assert_eq!(target.count(), 0, "no policy opens the other plugin's hook");
}

#[tokio::test(start_paused = true)]
async fn only_authentic_deliveries_use_up_the_rate() {
    let (hooks, target) = (open_hooks().await, NotingTarget::answering(Ok(1)));
    let _served = hooks.serve(&"shop".into(), vec![target.clone()]);
    for _ in 0..2 * DELIVERIES_BURST {
        let hook = name("shop", "pushed");
        delivered(&hooks, &hook, "forged", BODY, "the secret of another hook").await;
    }
    for number in 0..DELIVERIES_BURST {
        assert_eq!(pushed(&hooks, &number.to_string()).await, DeliveryResult::Queued(1));
    }
    let wait = Duration::from_secs(1) / DELIVERIES_PER_SECOND;
    assert_eq!(pushed(&hooks, "more").await, DeliveryResult::Limited(wait));
    assert_eq!(pushed(&hooks, "0").await, DeliveryResult::Duplicate, "a repetition costs nothing");
    tokio::time::advance(wait).await;
    assert_eq!(pushed(&hooks, "more").await, DeliveryResult::Queued(1));
}

#[tokio::test(start_paused = true)]
async fn a_payload_is_json_whose_depth_is_bounded() {
    let (hooks, target) = (open_hooks().await, NotingTarget::answering(Ok(1)));
    let _served = hooks.serve(&"shop".into(), vec![target.clone()]);
    let hook = name("shop", "pushed");
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    for body in [&b""[..], b"name=shop", b"{} {}", b"{},\"metadata\":{}", b"\"\xff\"", deep.as_bytes()] {
        assert_eq!(delivered(&hooks, &hook, "a", body, SECRET).await, DeliveryResult::NotJson);
        tokio::time::advance(DELIVERY_RETRY_AFTER).await;
    }
    assert_eq!(target.count(), 0);
    assert_eq!(delivered(&hooks, &hook, "a", b"null", SECRET).await, DeliveryResult::Queued(1));
}

#[tokio::test(start_paused = true)]
async fn the_target_of_a_later_round_stays_when_the_earlier_one_ends() {
    let hooks = open_hooks().await;
    let (earlier, later) = (NotingTarget::answering(Ok(1)), NotingTarget::answering(Ok(2)));
    let first = hooks.serve(&"shop".into(), vec![earlier.clone()]);
    let second = hooks.serve(&"shop".into(), vec![later]);
    drop(first);
    assert_eq!(pushed(&hooks, "a").await, DeliveryResult::Queued(2));
    drop(second);
    assert_eq!((pushed(&hooks, "b").await, earlier.count()), (DeliveryResult::NotServing, 0));
}

#[tokio::test(start_paused = true)]
async fn a_changed_policy_closes_hooks_and_keeps_what_others_remember() {
    let (hooks, target) = (open_hooks().await, NotingTarget::answering(Ok(1)));
    let _served = hooks.serve(&"shop".into(), vec![target]);
    assert_eq!(pushed(&hooks, "a").await, DeliveryResult::Queued(1));
    hooks.keep(opened([("merged", "merged"), ("pushed", "pushed")]));
    assert_eq!(pushed(&hooks, "a").await, DeliveryResult::Duplicate);
    hooks.keep(opened([("pushed", "other")]));
    assert_eq!(pushed(&hooks, "b").await, DeliveryResult::Refused(HookRefusal::Unknown), "its secret is not read yet");
    hooks.read_due(&|_| async { Ok(SECRET.into()) }.boxed()).await;
    assert_eq!(pushed(&hooks, "a").await, DeliveryResult::Duplicate, "a copy counts for no other secret");
    hooks.keep(BTreeMap::new());
    assert_eq!(pushed(&hooks, "b").await, DeliveryResult::Refused(HookRefusal::Unknown));
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_is_gone_closes_its_hook_and_an_outage_does_not() {
    let (hooks, target) = (open_hooks().await, NotingTarget::answering(Ok(1)));
    let _served = hooks.serve(&"shop".into(), vec![target]);
    let reads = AtomicUsize::new(0);
    let timed_out = || SecretError::Request {
        namespace: "ops".into(),
        name: "hooks".into(),
        source: windlass_kube::RequestError::TimedOut { after: Duration::from_secs(30) },
    };
    let gone = || SecretError::NoKey { namespace: "ops".into(), name: "hooks".into(), key: "pushed".into() };
    let read = |_: SecretKeyRef| {
        let error = if reads.fetch_add(1, Ordering::Relaxed) == 0 { timed_out() } else { gone() };
        async move { Err(error) }.boxed()
    };
    hooks.read_due(&read).await;
    assert_eq!(reads.load(Ordering::Relaxed), 0, "it was read just now");
    tokio::time::advance(Duration::from_mins(10)).await;
    hooks.read_due(&read).await;
    assert_eq!(pushed(&hooks, "a").await, DeliveryResult::Queued(1), "the former secret counts");
    tokio::time::advance(Duration::from_secs(10)).await;
    hooks.read_due(&read).await;
    assert_eq!(pushed(&hooks, "b").await, DeliveryResult::Refused(HookRefusal::Unknown));
    let shown = hooks.to_json("shop", &[]);
    assert!(shown[0]["problem"].as_str().is_some_and(|problem| problem.contains("no such hook")), "{shown}");
}

/// The policy of `shop` that opens `pushed` with these keys of a Secret.
fn opened_with(keys: &[&str]) -> BTreeMap<String, Vec<OpenHook>> {
    let mut open = opened([("pushed", "")]);
    let hook = &mut open.get_mut("shop").expect("it is there")[0];
    let named = |key: &&str| SecretKeyRef { key: (*key).to_owned(), ..hook.secrets[0].clone() };
    hook.secrets = keys.iter().map(named).collect();
    open
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_cannot_be_used_closes_no_hook_with_another() {
    let (hooks, target) = (open_hooks().await, NotingTarget::answering(Ok(1)));
    let _served = hooks.serve(&"shop".into(), vec![target]);
    let read = |reference: SecretKeyRef| {
        let SecretKeyRef { namespace, name, key } = reference;
        let value = if key == "pushed" { Ok(SECRET.into()) } else { Err(SecretError::NoKey { namespace, name, key }) };
        async move { value }.boxed()
    };
    hooks.keep(opened_with(&["mistyped", "pushed"]));
    assert_eq!(pushed(&hooks, "a").await, DeliveryResult::Queued(1), "a secret that stays is not read first");
    hooks.read_due(&read).await;
    assert_eq!(pushed(&hooks, "b").await, DeliveryResult::Queued(1));
    let shown = hooks.to_json("shop", &[]);
    assert!(hooks.known().values().any(|hook| hook.problem().is_some_and(|it| it.contains("mistyped"))), "{shown}");
    hooks.keep(opened_with(&["mistyped"]));
    assert_eq!(pushed(&hooks, "c").await, DeliveryResult::Refused(HookRefusal::Unknown), "its secret is gone");
}

#[tokio::test(start_paused = true)]
async fn secrets_of_several_hooks_are_read_at_once() {
    let hooks = Hooks::new(HostMetrics::new().hooks().clone());
    hooks.keep(opened([("merged", "merged"), ("pushed", "pushed"), ("tagged", "tagged")]));
    let read = |_: SecretKeyRef| {
        let slow = async {
            tokio::time::sleep(Duration::from_secs(30)).await;
            Ok(SECRET.into())
        };
        slow.boxed()
    };
    let began = Instant::now();
    hooks.read_due(&read).await;
    assert_eq!(began.elapsed().as_secs(), 30);
    let interrupted = Hooks::new(HostMetrics::new().hooks().clone());
    interrupted.keep(opened([("pushed", "pushed")]));
    assert!(tokio::time::timeout(Duration::from_secs(1), interrupted.read_next(&read)).await.is_err());
    interrupted.read_next(&read).await;
    assert!(interrupted.known().values().all(|hook| hook.problem().is_none()), "an interrupted read is made again");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_leaves_the_policy_closes_during_a_slow_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("shop.policy.yaml");
    let policy = "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: shop\n\
                  hooks: [{name: pushed, secretKeyRefs: [{namespace: ops, name: hooks, key: pushed}]}]\n";
    std::fs::write(&path, policy).expect("written");
    let settings = PolicySettings {
        mode: GrantMode::Policy,
        directory: directory.path().to_owned(),
        ceiling: None,
        host_namespace: None,
    };
    let (policies, _files) = Policies::read(settings).await.expect("it can be read");
    let (hooks, reads) = (Hooks::new(HostMetrics::new().hooks().clone()), AtomicUsize::new(0));
    let read = |_: SecretKeyRef| {
        reads.fetch_add(1, Ordering::Relaxed);
        futures::future::pending().boxed()
    };
    let mut follow = std::pin::pin!(hooks.follow(&policies, &read));
    assert!(tokio::time::timeout(Duration::from_secs(1), follow.as_mut()).await.is_err());
    assert_eq!((hooks.known().len(), reads.load(Ordering::Relaxed)), (1, 1));
    policies.take(&[Change { path, content: Content::Gone }]);
    assert!(follow.as_mut().now_or_never().is_none());
    assert!(hooks.known().is_empty(), "the read still waits for its answer");
}

/// A target that never answers.
struct StuckTarget;

impl DeliveryTarget for StuckTarget {
    fn hook(&self) -> Arc<str> {
        "pushed".into()
    }

    fn deliver(&self, _: Arc<str>) -> BoxFuture<'_, Result<usize, DeliveryFailure>> {
        futures::future::pending().boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_a_delivery_that_is_being_mapped_is_not_mapped() {
    let hooks = open_hooks().await;
    let _served = hooks.serve(&"shop".into(), vec![Arc::new(StuckTarget)]);
    {
        let first = pushed(&hooks, "a");
        tokio::pin!(first);
        assert!(first.as_mut().now_or_never().is_none());
        assert_eq!(pushed(&hooks, "a").await, DeliveryResult::InWork);
    }
    assert_eq!(pushed(&hooks, "a").await, DeliveryResult::Limited(DELIVERY_RETRY_AFTER), "its connection was closed");
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_maps_nothing_takes_nothing_from_the_rate() {
    let hooks = open_hooks().await;
    for number in 0..2 * DELIVERIES_BURST {
        assert_eq!(pushed(&hooks, &number.to_string()).await, DeliveryResult::NotServing);
    }
    let _served = hooks.serve(&"shop".into(), vec![NotingTarget::answering(Ok(1))]);
    assert_eq!(pushed(&hooks, "0").await, DeliveryResult::Queued(1));
}

#[tokio::test(start_paused = true)]
async fn the_status_shows_each_hook_its_problem_and_its_requests() {
    let (hooks, target) = (open_hooks().await, NotingTarget::answering(Ok(1)));
    let _served = hooks.serve(&"shop".into(), vec![target]);
    pushed(&hooks, "a").await;
    delivered(&hooks, &name("shop", "pushed"), "b", BODY, "the secret of another hook").await;
    delivered(&hooks, &name("shop", "closed"), "b", BODY, SECRET).await;
    let declared = ["closed", "pushed"].map(|name| Hook { name: name.to_owned(), mapping: Mapping::All });
    let shown = hooks.to_json("shop", &declared.iter().collect::<Vec<_>>());
    assert_eq!(
        shown,
        json!([
            {
                "name": "closed", "served": false, "problem": "closed: the plugin's policy does not name its secret",
                "lastDelivery": null, "requests": {},
            },
            {
                "name": "pushed", "served": true, "problem": null, "lastDelivery": "2023-11-14T22:13:20Z",
                "requests": {"queued": 1, "wrong_signature": 1},
            },
        ])
    );
    assert_eq!(hooks.0.counts.of("", ""), BTreeMap::from([("unknown".to_owned(), 1)]), "its name may be any text");
}
