//! Random histories of objects that enter and leave a watch's `where`.

use serde_json::{Value, json};
use windlass_core::cache::watch::Projection;
use windlass_core::cache::where_clause::{WhereClause, WhereCondition};

use super::*;
use crate::informer::notice::Notice;
use crate::informer::parse::SeenObject;

/// Pods with the annotation `auto: "true"`. Each Pod also has one of two colours, in a part that the
/// cache does not keep.
fn spec() -> WatchSpec {
    let conditions = json!([{"annotation": "auto", "is": "true"}, {"field": "/spec/colour", "in": ["red", "green"]}]);
    let conditions: Vec<WhereCondition> = serde_json::from_value(conditions).expect("conditions");
    let clause = WhereClause::new(&conditions).map(|clause| clause.keeping("windlass.dev/x"));
    WatchSpec { where_clause: clause, projection: Projection::fields(["/spec/size".into()]), ..pods() }
}

/// Whether `pod` is in this watch, decided without a `where`.
fn is_in_watch(pod: &Value) -> bool {
    let metadata = &pod["metadata"];
    let holds =
        metadata["annotations"]["auto"] == "true" && ["red", "green"].iter().any(|it| pod["spec"]["colour"] == *it);
    holds || (!metadata["deletionTimestamp"].is_null() && metadata["finalizers"] == json!(["windlass.dev/x"]))
}

/// The objects of a server, and the events that it sends.
struct FakeServer {
    random: SmallRng,
    version: u32,
    pods: BTreeMap<String, Value>,
}

impl FakeServer {
    fn one_of(&mut self, values: &[Value]) -> Value {
        values[self.random.random_range(0..values.len())].clone()
    }

    /// Changes one object. Returns the event's line.
    fn change(&mut self) -> String {
        self.version += 1;
        let name = format!("p{}", self.random.random_range(0..6));
        let mut pod = self.pods.get(&name).cloned().unwrap_or_else(|| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "uid": format!("u{}", self.version)}})
        });
        pod["metadata"]["resourceVersion"] = self.version.to_string().into();
        let annotations = [json!({"auto": "true"}), json!({"auto": "no"}), json!({}), Value::Null];
        pod["metadata"]["annotations"] = self.one_of(&annotations);
        pod["metadata"]["finalizers"] = self.one_of(&[json!([]), json!(["windlass.dev/x"]), Value::Null]);
        pod["metadata"]["deletionTimestamp"] = self.one_of(&[Value::Null, json!("2026-01-01T00:00:00Z")]);
        let colours = ["red", "green", "blue"].map(Value::from);
        pod["spec"] = json!({"colour": self.one_of(&colours), "size": self.version});
        let is_deletion = self.pods.contains_key(&name) && self.random.random_bool(0.2);
        let kind = match is_deletion {
            true => "DELETED",
            false if self.pods.contains_key(&name) => "MODIFIED",
            false => "ADDED",
        };
        let line = json!({"type": kind, "object": pod}).to_string();
        if is_deletion {
            self.pods.remove(&name)
        } else {
            self.pods.insert(name, pod)
        };
        line
    }

    fn list(&self, parser: &mut ObjectParser) -> CompleteList {
        let seen = self.pods.values().map(|pod| parser.seen(&pod.to_string()).expect("an object"));
        let objects = seen.filter_map(|seen| match seen {
            SeenObject::Admitted(object) => Some(object),
            SeenObject::Excluded(_) => None,
        });
        list(objects.collect(), self.version)
    }

    fn wanted(&self) -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let wanted = self.pods.values().filter(|pod| is_in_watch(pod)).map(|pod| &pod["metadata"]);
        wanted.map(|metadata| (text(&metadata["name"]), text(&metadata["resourceVersion"]))).collect()
    }
}

fn take(feed: &Feed, parser: &mut ObjectParser, line: &str) {
    let taken = match Notice::read_whole(line.as_bytes(), parser).expect("an event") {
        Notice::Applied(object) => feed.apply(&object),
        Notice::Deleted(object) => feed.delete(object),
        Notice::Excluded(object) => feed.exclude(object),
        Notice::Bookmark { .. } => panic!("the server sends none"),
    };
    taken.expect("no budget");
}

#[test]
fn caches_and_subscribers_have_exactly_the_objects_that_match() {
    let feed = Arc::new(Feed::new(spec(), usize::MAX));
    let mut parser = ObjectParser::new(&spec()).expect("pointers");
    let mut server = FakeServer { random: SmallRng::seed_from_u64(17), version: 0, pods: BTreeMap::new() };
    let mut subscriptions = vec![feed.subscribe()];
    let believer = Believer::of(&feed, 0);
    let (mut entered, mut left) = (0, 0);
    for round in 0..6_000 {
        let before = server.wanted();
        let line = server.change();
        if round % 50 == 7 {
            // The watch has missed this change and the next one, so the cache is listed again.
            server.change();
            feed.replace(server.list(&mut parser)).expect("no budget");
        } else {
            take(&feed, &mut parser, &line);
        }
        let wanted = server.wanted();
        entered += usize::from(wanted.len() > before.len());
        left += usize::from(wanted.len() < before.len());
        let stored = feed.store.all().into_iter().map(|object| {
            assert!(!object.glance().contains("colour"), "the cache keeps only what the projection names");
            (object.header.key.name.to_string(), object.header.version.to_string())
        });
        assert_eq!(stored.collect::<BTreeMap<_, _>>(), wanted, "round {round}");
        assert_eq!(feed.store.version(), Some(server.version.to_string().as_str().into()));
        if round % 400 == 0 {
            subscriptions.push(feed.subscribe());
        }
    }
    assert!(entered > 500 && left > 500, "{entered} {left}");
    assert_eq!(*believer.state.lock().expect("no panic"), believer.stored());
    for subscription in subscriptions {
        assert_eq!(replayed(subscription), believer.stored());
    }
}

#[test]
fn an_object_that_leaves_is_mapped_by_its_last_state_in_the_watch() {
    let feed = Arc::new(Feed::new(spec(), usize::MAX));
    let mut parser = ObjectParser::new(&spec()).expect("pointers");
    let event = |version: u32, auto: &str, label: &str| {
        let metadata = json!({"name": "a", "uid": "u", "resourceVersion": version.to_string(),
            "annotations": {"auto": auto}, "labels": {"for": label}});
        json!({"type": "MODIFIED", "object": {"metadata": metadata, "spec": {"colour": "red"}}}).to_string()
    };
    feed.replace(list(Vec::new(), 1)).expect("no budget");
    let mut subscription = feed.subscribe();
    take(&feed, &mut parser, &event(2, "true", "shop"));
    take(&feed, &mut parser, &event(3, "no", "other"));
    let mut next = || subscription.next().now_or_never().flatten().expect("an event");
    assert!(matches!(next(), WatchEvent::Applied { old: None, .. }));
    let WatchEvent::Deleted(tombstone) = next() else { panic!("it left") };
    let header = &tombstone.last.header;
    assert_eq!((header.labels.get("for").map(|value| &**value), &header.version), (Some("shop"), &"3".into()));
    assert!(!tombstone.final_state_unknown && tombstone.last.glance().contains("shop"));
}
