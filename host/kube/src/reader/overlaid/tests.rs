//! Compares reads with an overlay with reads of a store that has the same writes.

mod stamped;

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use windlass_core::cache::overlay::Overlay;
use windlass_core::cache::watch::{Index, IndexSource, Projection, WatchSpec};
use windlass_core::cache::where_clause::{Scalar, WantedValue, WhereClause, WhereCondition, WhereSubject, WhereTest};
use windlass_core::call::ports::{CallContext, ListQuery, Reads as _};
use windlass_core::object::progress::Stamp;
use windlass_core::object::{Object, ObjectKey, ObjectKind, ObjectRef};
use windlass_core::rights::grants::{Grants, LiveGrants, Rule};
use windlass_core::rights::principal::Principal;

use super::*;
use crate::discovery::Resource;
use crate::informer::parse::ObjectParser;
use crate::informer::store::{Store, StoreWriter};
use crate::reader::Reader;
use crate::writer::answer::whole;

fn kind() -> ObjectKind {
    ObjectKind::new("v1", "ConfigMap")
}

/// Objects of the tier gold.
fn gold() -> WhereClause {
    let subject = WhereSubject::Field("/data/tier".into());
    let test = WhereTest { subject, wanted: WantedValue::In([Scalar::Text("gold".into())].into()) };
    WhereClause::new(&[WhereCondition::Test(test)]).expect("a condition")
}

fn resource() -> Arc<Resource> {
    let verbs = ["get", "list", "watch"].map(str::to_owned).into();
    let (plural, subresources) = ("configmaps".into(), vec![]);
    Arc::new(Resource { kind: kind(), plural, namespaced: true, subresources, verbs, comparable: true })
}

/// The state of every object after each write. The first state is the one before the call.
type World = BTreeMap<(String, String), Value>;

struct Random(SmallRng);

impl Random {
    fn one_of<'a>(&mut self, values: &[&'a str]) -> &'a str {
        values[self.0.random_range(0..values.len())]
    }

    fn key(&mut self) -> (String, String) {
        (self.one_of(&["dev", "prod"]).to_owned(), self.one_of(&["a", "b", "c", "d"]).to_owned())
    }

    fn object(&mut self, (namespace, name): &(String, String), version: usize) -> Value {
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "controller": true,
            "uid": self.one_of(&["u-shop", "other"])});
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": name, "namespace": namespace, "uid": format!("{namespace}-{name}"),
                "resourceVersion": version.to_string(), "labels": {"app": self.one_of(&["x", "y"])},
                "ownerReferences": [owner],
            },
            "data": {"tier": self.one_of(&["gold", "silver"]), "rest": version.to_string()},
        })
    }

    fn spec(&mut self) -> WatchSpec {
        let projection = match self.0.random_range(0..4) {
            0 => Projection::Full,
            1 => Projection::Metadata,
            2 => Projection::Digest(["/data".into()].into()),
            _ => Projection::fields(["/data/tier".into()]),
        };
        let mut sometimes = || self.0.random_bool(0.4);
        WatchSpec {
            namespace: sometimes().then(|| "prod".into()),
            label_selector: sometimes().then(|| "app=x".parse().expect("a selector")),
            field_selector: sometimes().then(|| "metadata.name!=b".parse().expect("a selector")),
            where_clause: sometimes().then(gold),
            projection,
            ..WatchSpec::all(kind())
        }
    }

    fn query(&mut self) -> ListQuery {
        let index = self.one_of(&["", "", "tier", "app"]);
        let value = if index == "tier" { self.one_of(&["gold", "silver"]) } else { self.one_of(&["x", "y"]) };
        ListQuery {
            kind: kind(),
            namespace: self.0.random_bool(0.3).then(|| "prod".into()),
            label_selector: self.0.random_bool(0.3).then(|| self.one_of(&["app=x", "app!=x"]).to_owned()),
            index: (!index.is_empty()).then(|| (index.to_owned(), value.to_owned())),
            owned: self.0.random_bool(0.3),
            fields: None,
            limit: self.0.random_range(1..6),
            max_bytes: None,
            page_token: None,
        }
    }
}

/// The objects of a watch of `spec` in the state `world`, at `version`.
fn readable(spec: &WatchSpec, world: &World, version: usize) -> (Readable, StoreWriter) {
    let (store, mut writer) = Store::new();
    let index = |name: &str, source| Index { name: name.into(), source };
    let indexes =
        vec![index("tier", IndexSource::Field("/data/tier".into())), index("app", IndexSource::Label("app".into()))];
    let mut parser = ObjectParser::new(spec).expect("pointers");
    writer.update(|contents| {
        for Index { source, .. } in &indexes {
            contents.declare(source, usize::MAX).expect("a pointer");
        }
        for ((namespace, name), object) in world {
            let metadata = &object["metadata"];
            let selected = spec.namespace.as_deref().is_none_or(|watched| watched == namespace)
                && (spec.label_selector.is_none() || metadata["labels"]["app"] == "x")
                && (spec.field_selector.is_none() || name != "b")
                && (spec.where_clause.is_none() || object["data"]["tier"] == "gold");
            if selected {
                contents.insert(&parser.object(&object.to_string()).expect("an object"));
            }
        }
        contents.set_listed(resource(), version.to_string().as_str().into(), Stamp::take(), None);
    });
    (Readable { spec: spec.clone(), store, indexes }, writer)
}

fn call(overlay: Overlay) -> CallContext {
    let all = || vec!["*".to_owned()];
    let rules = vec![Rule { groups: all(), resources: all(), verbs: all(), ..Rule::default() }];
    let primary = json!({"metadata": {"name": "shop", "namespace": "prod", "uid": "u-shop"}}).to_string();
    CallContext {
        primary: Some(whole(&kind(), &primary).expect("an object")),
        trace_id: "".into(),
        overlay,
        ..CallContext::detached(
            Principal { grants: LiveGrants::new(Grants::new(rules)), ..Principal::of_plugin("webapp", "0", "host-1") },
            "webapp",
            kind(),
            ObjectKey::namespaced("prod", "shop"),
        )
    }
}

/// All pages of a list.
fn list(reader: &Reader, call: &CallContext, query: &ListQuery) -> Result<Vec<Arc<str>>, String> {
    let mut query = query.clone();
    let mut items = Vec::new();
    loop {
        let page = reader.list(call, &query).map_err(|error| error.to_string())?;
        assert!(page.items.len() <= query.limit as usize);
        items.extend(page.items);
        match page.next_token {
            Some(token) => query.page_token = Some(token),
            None => return Ok(items),
        }
    }
}

fn get(reader: &Reader, call: &CallContext, key: &(String, String)) -> Option<Arc<str>> {
    let key = ObjectKey::namespaced(&*key.0, &*key.1);
    let target = ObjectRef { kind: kind(), key, uid: None };
    reader.get(call, &target, None).unwrap_or_default()
}

/// One round: a random world, some watches of it that have seen a part of the call's writes, and queries. Returns the
/// number of answers that would have been different without the overlay.
fn round(seed: u64) -> usize {
    let mut random = Random(SmallRng::seed_from_u64(seed));
    let mut world = World::new();
    let mut version = 10;
    for _ in 0..5 {
        let key = random.key();
        let object = random.object(&key, version);
        world.insert(key, object);
    }
    let overlay = Overlay::default();
    let mut worlds = vec![(world.clone(), version)];
    for _ in 0..random.0.random_range(0..6) {
        version += 1;
        let key = random.key();
        let at = ObjectKey::namespaced(&*key.0, &*key.1);
        if random.0.random_bool(0.3) {
            world.remove(&key);
            overlay.gone(&kind(), at, None);
        } else {
            let object = random.object(&key, version);
            overlay.record(kind(), at, Some(whole(&kind(), &object.to_string()).expect("an object")));
            world.insert(key, object);
        }
        worlds.push((world.clone(), version));
    }
    let specs: Vec<_> = (0..random.0.random_range(1..3)).map(|_| random.spec()).collect();
    let late: Vec<_> = specs
        .iter()
        .map(|spec| {
            let (world, version) = &worlds[random.0.random_range(0..worlds.len())];
            readable(spec, world, *version).0
        })
        .collect();
    let fresh = Reader::new(specs.iter().map(|spec| readable(spec, &world, version).0).collect());
    let late = Reader::new(late);
    let (with, without) = (call(overlay), call(Overlay::default()));
    let mut stale = 0;
    for _ in 0..20 {
        let key = random.key();
        assert_eq!(get(&late, &with, &key), get(&fresh, &without, &key), "seed {seed}: get {key:?} of {specs:?}");
        let query = random.query();
        let (found, expected) = (list(&late, &with, &query), list(&fresh, &without, &query));
        assert_eq!(found, expected, "seed {seed}: {query:?} of {specs:?}");
        stale += usize::from(list(&late, &without, &query) != expected);
    }
    stale
}

#[test]
fn reads_with_an_overlay_are_reads_of_a_store_that_has_the_writes() {
    let stale: usize = (0..400).map(round).sum();
    assert!(stale > 1_000, "only {stale} answers depended on the overlay");
}

#[test]
fn a_write_in_another_api_version_hides_the_cached_object_until_seen() {
    let other = ObjectKind::new("v2", "ConfigMap");
    let key = ("prod".to_owned(), "a".to_owned());
    let mut random = Random(SmallRng::seed_from_u64(1));
    let before = World::from([(key.clone(), random.object(&key, 10))]);
    let after = World::from([(key.clone(), random.object(&key, 11))]);
    let overlay = Overlay::default();
    let written = whole(&other, &after[&key].to_string()).expect("an object");
    overlay.record(other, ObjectKey::namespaced("prod", "a"), Some(written));
    let call = call(overlay);
    let spec = WatchSpec::all(kind());
    let reader = |world: &World, version| Reader::new(vec![readable(&spec, world, version).0]);
    assert_eq!(get(&reader(&before, 10), &call, &key), None);
    assert!(get(&reader(&after, 11), &call, &key).is_some());
}

#[test]
fn an_object_too_large_for_the_overlay_is_hidden_until_the_watch_has_it() {
    let key = ("prod".to_owned(), "a".to_owned());
    let object = |version: &str, text: &str| -> Object {
        let text = json!({"metadata": {"name": "a", "namespace": "prod", "resourceVersion": version}, "x": text});
        whole(&kind(), &text.to_string()).expect("an object")
    };
    let overlay = Overlay::default();
    let large = " ".repeat(windlass_core::cache::overlay::OVERLAY_BYTES_MAX);
    overlay.record(kind(), ObjectKey::namespaced("prod", "a"), Some(object("11", &large)));
    let call = call(overlay);
    let mut random = Random(SmallRng::seed_from_u64(1));
    let world = World::from([(key.clone(), random.object(&key, 10))]);
    let reader = |version| Reader::new(vec![readable(&WatchSpec::all(kind()), &world, version).0]);
    assert_eq!(get(&reader(10), &call, &key), None);
    assert!(get(&reader(11), &call, &key).is_some());
}

#[test]
fn recorded_past_states_win_over_newer_cached_objects() {
    let key = ("prod".to_owned(), "a".to_owned());
    let mut random = Random(SmallRng::seed_from_u64(1));
    let [before, after] = [10, 11].map(|version| World::from([(key.clone(), random.object(&key, version))]));
    let reader = Reader::new(vec![readable(&WatchSpec::all(kind()), &after, 11).0]);
    let at = ObjectKey::namespaced("prod", "a");
    let overlay = Overlay::fixed();
    let call = call(overlay.clone());
    assert!(get(&reader, &call, &key).is_some_and(|text| text.contains(r#""resourceVersion":"11""#)));
    overlay.record(kind(), at.clone(), Some(whole(&kind(), &before[&key].to_string()).expect("an object")));
    assert!(get(&reader, &call, &key).is_some_and(|text| text.contains(r#""resourceVersion":"10""#)));
    overlay.gone(&kind(), at, None);
    assert_eq!(get(&reader, &call, &key), None, "it was not there");
}
