use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, timeout};
use windlass_core::cache::watch::{Tombstone, WatchEvent, WatchSpec};
use windlass_core::object::ObjectKind;
use windlass_kube::{Discovery, DiscoveryError, InformerError, Informers, ListReason, Subscription};

use crate::script::{Reply, Script, brief, key, line, list, pod, pods};

fn informers(script: &Script) -> Informers {
    let client = script.client();
    Informers::new(client.clone(), Discovery::new(client))
}

/// `+a@1` for an initial object, `a@1`, `a@1>2` for a change, `-a@2` for a deletion, `?a@2` for an unseen deletion.
pub(crate) fn described(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Applied { old: None, new, initial: true } => format!("+{}", brief(new)),
        WatchEvent::Applied { old: None, new, initial: false } => brief(new),
        WatchEvent::Applied { old: Some(old), new, .. } => format!("{}>{}", brief(old), new.header.version),
        WatchEvent::Deleted(Tombstone { last, final_state_unknown: false }) => format!("-{}", brief(last)),
        WatchEvent::Deleted(Tombstone { last, final_state_unknown: true }) => format!("?{}", brief(last)),
    }
}

pub(crate) async fn events(subscription: &mut Subscription, count: usize) -> Vec<String> {
    let mut events = Vec::new();
    while events.len() < count {
        let next = timeout(Duration::from_hours(1), subscription.next()).await;
        let event = next.unwrap_or_else(|_| panic!("no event after {events:?}: {:?}", subscription.status()));
        events.push(described(&event.expect("a running informer")));
    }
    events
}

async fn nothing_more(subscription: &mut Subscription) {
    let next = timeout(Duration::from_secs(5), subscription.next()).await;
    assert!(next.is_err(), "{next:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_is_followed_by_the_watch_from_its_version() {
    let script = Script::default()
        .lists([list(10, &[pod("a", "u", 5)])])
        .watches([Reply::Open(vec![line("MODIFIED", &pod("a", "u", 11)), line("ADDED", &pod("b", "v", 12))])]);
    let informers = informers(&script);
    let mut subscription = informers.subscribe(pods());
    assert!(subscription.synced().await);
    assert_eq!(events(&mut subscription, 3).await, ["+a@5", "a@5>11", "b@12"]);
    assert_eq!(script.watches_asked()[0].parameter("resourceVersion"), Some("10"));
    assert_eq!(subscription.store().len(), 2);
    nothing_more(&mut subscription).await;
}

#[tokio::test(start_paused = true)]
async fn later_subscribers_get_a_snapshot_and_share_the_list() {
    let script = Script::default()
        .lists([list(10, &[pod("a", "u", 5)])])
        .watches([Reply::Open(vec![line("MODIFIED", &pod("a", "u", 11))])]);
    let informers = informers(&script);
    let mut first = informers.subscribe(pods());
    events(&mut first, 2).await;
    let mut second = informers.subscribe(pods());
    assert!(second.synced().await);
    assert_eq!(events(&mut second, 1).await, ["+a@11"]);
    nothing_more(&mut second).await;
    assert_eq!(second.status().lists, 1);
    assert_eq!(script.asked().len(), 3, "discovery, list, watch");
}

#[tokio::test(start_paused = true)]
async fn a_list_is_read_page_by_page() {
    let page = |items, token| {
        let metadata = json!({"resourceVersion": "10", "continue": token});
        Reply::Json(200, json!({"metadata": metadata, "items": items}))
    };
    let script = Script::default().lists([page(vec![pod("a", "u", 5)], "t&1"), page(vec![pod("b", "v", 6)], "")]);
    let informers = informers(&script);
    let subscription = informers.subscribe(pods());
    subscription.synced().await;
    assert_eq!(subscription.store().len(), 2);
    let asked = script.asked();
    assert_eq!((asked[1].parameter("limit"), asked[1].parameter("resourceVersion")), (Some("500"), None));
    assert_eq!(asked[2].parameter("continue"), Some("t%261"));
}

#[tokio::test(start_paused = true)]
async fn pages_are_smaller_once_objects_have_proven_large() {
    let large = |name: &str| {
        let mut pod = pod(name, "u", 5);
        pod["metadata"]["annotations"] = json!({"x": "y".repeat(1 << 20)});
        pod
    };
    let page = json!({"metadata": {"resourceVersion": "10", "continue": "t"}, "items": [large("a"), large("b")]});
    let script = Script::default().lists([Reply::Json(200, page), list(10, &[pod("c", "u", 6)])]);
    let informers = informers(&script);
    assert!(informers.subscribe(pods()).synced().await);
    let asked: Vec<_> = script.asked().iter().filter_map(|it| it.parameter("limit").map(str::to_owned)).collect();
    assert_eq!(asked, ["500", "15"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_page_token_asks_for_the_whole_list() {
    let page = json!({"metadata": {"resourceVersion": "10", "continue": "t"}, "items": [pod("a", "u", 5)]});
    let script = Script::default().lists([
        Reply::Json(200, page),
        Reply::Json(410, json!({"reason": "Expired"})),
        list(20, &[pod("b", "v", 6)]),
    ]);
    let informers = informers(&script);
    let mut subscription = informers.subscribe(pods());
    assert_eq!(events(&mut subscription, 1).await, ["+b@6"]);
}

#[tokio::test(start_paused = true)]
async fn a_closed_watch_resumes_at_its_last_version() {
    let bookmark = json!({"kind": "Pod", "metadata": {"resourceVersion": "30"}});
    let script = Script::default().lists([list(10, &[])]).watches([
        Reply::Closed(vec![line("ADDED", &pod("a", "u", 11))]),
        Reply::Broken(vec![line("BOOKMARK", &bookmark)]),
        Reply::Open(vec![line("DELETED", &pod("a", "u", 31))]),
    ]);
    let informers = informers(&script);
    let mut subscription = informers.subscribe(pods());
    assert_eq!(events(&mut subscription, 2).await, ["a@11", "-a@31"]);
    let versions: Vec<_> =
        script.watches_asked().iter().map(|asked| asked.parameter("resourceVersion").map(str::to_owned)).collect();
    assert_eq!(versions, [Some("10".into()), Some("11".into()), Some("30".into())]);
    assert_eq!(subscription.status().lists, 1);
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_leads_to_a_list_that_is_compared_with_the_store() {
    let gone = json!({"kind": "Status", "code": 410, "reason": "Expired"});
    let before = [pod("kept", "k", 1), pod("changed", "c", 2), pod("gone", "g", 3), pod("reborn", "r1", 4)];
    let after = [pod("kept", "k", 1), pod("changed", "c", 12), pod("reborn", "r2", 14), pod("new", "n", 15)];
    let script = Script::default()
        .lists([list(10, &before), list(20, &after)])
        .watches([Reply::Open(vec![line("ERROR", &gone)])]);
    let informers = informers(&script);
    let mut subscription = informers.subscribe(pods());
    assert_eq!(events(&mut subscription, 4).await.len(), 4);
    assert_eq!(events(&mut subscription, 5).await, ["?gone@3", "changed@2>12", "?reborn@4", "reborn@14", "new@15"]);
    nothing_more(&mut subscription).await;
    assert_eq!(subscription.store().len(), 4);
    assert_eq!(reasons(&subscription), ["first", "expired"]);
}

/// The reasons for lists, in the order of all reasons.
fn reasons(subscription: &Subscription) -> Vec<&'static str> {
    let counts = subscription.status().lists_by_reason;
    let of = |reason: ListReason| {
        std::iter::repeat_n(reason.as_str(), usize::try_from(counts[reason as usize]).expect("few"))
    };
    ListReason::ALL.into_iter().flat_map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn the_time_since_the_servers_last_message_is_known() {
    let script = Script::default().lists([list(10, &[pod("a", "u", 5)])]);
    let informers = informers(&script);
    assert!(informers.figures().is_empty());
    let subscription = informers.subscribe(pods());
    assert_eq!(informers.figures()[0].silence, None);
    assert!(subscription.synced().await);
    tokio::time::advance(Duration::from_secs(40)).await;
    let silence = informers.figures()[0].silence.expect("a list has come");
    assert!((40..45).contains(&silence.as_secs()), "{silence:?}");
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_may_also_be_refused_at_once() {
    let script = Script::default()
        .lists([list(10, &[pod("a", "u", 5)]), list(20, &[])])
        .watches([Reply::Json(410, json!({"reason": "Expired"}))]);
    let informers = informers(&script);
    let mut subscription = informers.subscribe(pods());
    assert_eq!(events(&mut subscription, 2).await, ["+a@5", "?a@5"]);
}

#[tokio::test(start_paused = true)]
async fn garbage_leads_to_a_list_and_is_counted() {
    for garbage in ["not JSON\n", "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":7}}}\n", "{}\n"] {
        let script = Script::default()
            .lists([list(10, &[]), list(20, &[pod("a", "u", 15)])])
            .watches([Reply::Open(vec![garbage.to_owned()])]);
        let informers = informers(&script);
        let mut subscription = informers.subscribe(pods());
        assert_eq!(events(&mut subscription, 1).await, ["a@15"], "{garbage:?}");
        assert_eq!((subscription.status().malformed, subscription.status().lists), (1, 2), "{garbage:?}");
        assert_eq!(reasons(&subscription), ["first", "distrusted"], "{garbage:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_are_read_however_they_are_laid_out() {
    let event = |name: &str, version| json!({"type": "ADDED", "object": pod(name, "u", version)});
    let pretty = |name, version| serde_json::to_string_pretty(&event(name, version)).expect("JSON");
    let (a, b, bookmark) = (event("a", 11), event("b", 12), json!({"type": "BOOKMARK", "object": pod("", "", 13)}));
    let in_lines =
        pretty("a", 11).split_inclusive('\n').map(str::to_owned).chain(["\n".to_owned(), b.to_string()]).collect();
    for pieces in [
        vec![format!("\n{a}\n\n"), "\n \n".to_owned(), format!("\t{b}\n")],
        vec![format!("{a}\r\n{b}\r\n")],
        vec![format!("{a}{b}")],
        vec![format!("{a} {b}\n")],
        vec![format!("{}\n{}\n", pretty("a", 11), pretty("b", 12))],
        vec![format!("{}{}", pretty("a", 11), pretty("b", 12))],
        in_lines,
    ] {
        let more = format!("  {bookmark:#}{}", event("c", 14));
        let pieces = pieces.into_iter().chain([more]);
        let script = Script::default().lists([list(10, &[])]).watches([Reply::Open(pieces.clone().collect())]);
        let informers = informers(&script);
        let mut subscription = informers.subscribe(pods());
        assert_eq!(events(&mut subscription, 3).await, ["a@11", "b@12", "c@14"], "{pieces:?}");
        assert_eq!((subscription.status().malformed, subscription.status().lists), (0, 1), "{pieces:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_event_is_read_in_any_layout() {
    let expired = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}});
    for event in [format!("\n  {expired}"), format!("{expired:#}\n"), format!("{expired:#}")] {
        let script = Script::default()
            .lists([list(10, &[]), list(20, &[pod("a", "u", 15)])])
            .watches([Reply::Open(vec![event])]);
        let informers = informers(&script);
        let mut subscription = informers.subscribe(pods());
        assert_eq!(events(&mut subscription, 1).await, ["a@15"]);
        assert_eq!(reasons(&subscription), ["first", "expired"]);
    }
}

#[tokio::test(start_paused = true)]
async fn half_a_line_is_counted_and_asked_for_again() {
    let whole = line("ADDED", &pod("a", "u", 11));
    let script = Script::default().lists([list(10, &[])]).watches([
        Reply::Broken(vec![whole[..20].to_owned()]),
        Reply::Open(vec![whole[..20].to_owned(), whole[20..].to_owned()]),
    ]);
    let informers = informers(&script);
    let mut subscription = informers.subscribe(pods());
    assert_eq!(events(&mut subscription, 1).await, ["a@11"]);
    assert_eq!((subscription.status().malformed, subscription.status().lists), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn events_that_the_store_has_seen_are_not_delivered_again() {
    let script = Script::default().lists([list(10, &[pod("a", "u", 5)])]).watches([Reply::Open(vec![
        line("MODIFIED", &pod("a", "u", 5)),
        line("MODIFIED", &pod("a", "u", 12)),
        line("MODIFIED", &pod("a", "u", 12)),
        line("DELETED", &pod("a", "u", 13)),
        line("DELETED", &pod("a", "u", 13)),
        line("ADDED", &pod("b", "w", 16)),
    ])]);
    let informers = informers(&script);
    let mut subscription = informers.subscribe(pods());
    assert_eq!(events(&mut subscription, 4).await, ["+a@5", "a@5>12", "-a@13", "b@16"]);
    nothing_more(&mut subscription).await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_server_is_asked_until_it_answers_and_the_error_is_visible() {
    let script = Script::default().lists([
        Reply::Headed(429, "retry-after", "100", json!({"message": "busy"})),
        Reply::Never,
        Reply::Text(200, "no JSON".into()),
        list(10, &[pod("a", "u", 5)]),
    ]);
    let informers = informers(&script);
    let began = Instant::now();
    let mut subscription = informers.subscribe(pods());
    while subscription.status().error.is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let error = subscription.error().expect("an error");
    assert_eq!(error.to_string(), "the list failed: the API server answered 429 : busy");
    assert_eq!(events(&mut subscription, 1).await, ["+a@5"]);
    assert!(began.elapsed() > Duration::from_secs(160), "100 s as asked and 60 s for the silent answer");
    assert!(subscription.error().is_none());
    assert_eq!(subscription.status().malformed, 1);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_installed_later_is_found() {
    let script = Script::default().lists([list(10, &[pod("a", "u", 5)])]);
    script.set_widgets_missing(true);
    let informers = informers(&script);
    let mut subscription = informers.subscribe(WatchSpec::all(ObjectKind::new("example.com/v1", "Widget")));
    while subscription.error().is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let error = subscription.error().expect("an error");
    assert!(matches!(&*error, InformerError::Discovery(DiscoveryError::NotServed { .. })), "{error}");
    assert!(error.to_string().contains("example.com/v1 Widget"), "{error}");
    tokio::time::sleep(Duration::from_mins(5)).await;
    script.set_widgets_missing(false);
    assert_eq!(events(&mut subscription, 1).await, ["+a@5"]);
    assert!(subscription.error().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_last_subscriber_leaves_and_a_minute_later_the_informer_stops() {
    let script = Script::default().lists([list(10, &[])]);
    let informers = informers(&script);
    let first = informers.subscribe(pods());
    first.synced().await;
    drop(first);
    tokio::time::sleep(Duration::from_secs(59)).await;
    let second = informers.subscribe(pods());
    tokio::time::sleep(Duration::from_mins(2)).await;
    drop(second);
    assert_eq!(script.asked().len(), 3, "still the first informer");
    tokio::time::sleep(Duration::from_secs(61)).await;
    let third = informers.subscribe(pods());
    third.synced().await;
    assert_eq!(third.status().lists, 1);
    assert_eq!(script.asked().iter().filter(|asked| asked.parameter("limit").is_some()).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_informers_ends_subscriptions() {
    let script = Script::default().lists([list(10, &[])]);
    let informers = informers(&script);
    let mut subscription = informers.subscribe(pods());
    subscription.synced().await;
    drop(informers);
    assert_eq!(subscription.next().await, None);
    assert!(subscription.status().stopped);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_is_not_begun_without_pause() {
    let script = Script::default().lists([list(10, &[])]).watches(vec![Reply::Closed(Vec::new()); 8]);
    let informers = informers(&script);
    let subscription = informers.subscribe(pods());
    subscription.synced().await;
    let began = Instant::now();
    while script.watches_asked().len() < 8 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(began.elapsed() > Duration::from_secs(30), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn selectors_and_namespaces_are_sent_to_the_server() {
    let script = Script::default().lists([list(10, &[])]);
    let informers = informers(&script);
    let spec = WatchSpec {
        namespace: Some("prod".into()),
        label_selector: Some("app in (a,b)".parse().expect("a selector")),
        field_selector: Some("metadata.name=x".parse().expect("a selector")),
        ..pods()
    };
    let subscription = informers.subscribe(spec);
    subscription.synced().await;
    let asked = &script.asked()[1];
    assert_eq!(asked.path, "/api/v1/namespaces/prod/pods");
    assert_eq!(asked.parameter("labelSelector"), Some("app%20in%20%28a%2Cb%29"));
    assert_eq!(asked.parameter("fieldSelector"), Some("metadata.name%3Dx"));
    assert!(subscription.store().get(&key("a")).is_none());
}
