//! The informers of a storm, and the comparison of each with a live list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use http::Request;
use serde_json::{Value, json};
use windlass_core::cache::watch::{IndexSource, Projection, WatchSpec};
use windlass_core::object::{Object, ObjectKey, ObjectKind};
use windlass_kube::Store;
use windlass_tests::objects::Objects;

use super::ledger::bare;
use super::replay;
use super::writer::{COLORS, TIERS};

/// One informer's view of the objects.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) spec: WatchSpec,
    /// The label value that its selector requires.
    pub(crate) tier: Option<&'static str>,
    /// The JSON pointer of its field index.
    field: &'static str,
}

impl View {
    /// The views: all objects, the objects with a label (which some gain and lose), and the metadata of all objects.
    pub(crate) fn all(namespace: &str) -> Vec<Self> {
        let spec =
            WatchSpec { namespace: Some(namespace.into()), ..WatchSpec::all(ObjectKind::new("v1", "ConfigMap")) };
        let gold = WatchSpec { label_selector: Some("tier=gold".parse().expect("a selector")), ..spec.clone() };
        let metadata = WatchSpec { projection: Projection::Metadata, ..spec.clone() };
        vec![
            Self { spec, tier: None, field: "/data/color" },
            Self { spec: gold, tier: Some("gold"), field: "/data/color" },
            Self { spec: metadata, tier: None, field: "/metadata/annotations/color" },
        ]
    }

    pub(crate) fn indexes(&self) -> [IndexSource; 2] {
        [IndexSource::Label("tier".into()), IndexSource::Field(self.field.into())]
    }

    /// The part of an object that the informer keeps.
    pub(crate) fn project(&self, mut object: Value) -> Value {
        if self.spec.projection == Projection::Metadata {
            object = json!({
                "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": object["metadata"].take(),
            });
        }
        object
    }

    /// The server's objects, read without the proxy.
    pub(crate) async fn live(&self, objects: &Objects) -> anyhow::Result<Live> {
        let selector = self.tier.map(|tier| format!("?labelSelector=tier%3D{tier}")).unwrap_or_default();
        let uri = format!("/api/v1/namespaces/{}/configmaps{selector}", objects.namespace());
        let list: Value = objects.client().request(Request::get(uri).body(Vec::new())?).await.context("a live list")?;
        let mut live = BTreeMap::new();
        for item in list["items"].as_array().context("a list without items")? {
            let mut item = bare(item.clone());
            item["apiVersion"] = "v1".into();
            item["kind"] = "ConfigMap".into();
            let name = item["metadata"]["name"].as_str().context("an object without a name")?;
            live.insert(ObjectKey::namespaced(objects.namespace(), name), self.project(item));
        }
        Ok(Live(live))
    }

    /// Compares the store and each of its indexes with a live list.
    pub(crate) fn check(&self, store: &Store, live: &Live, owners: &[(String, String)]) -> anyhow::Result<()> {
        let all = store.all();
        live.difference(&all).map_or(Ok(()), Err).context("the store differs")?;
        for object in &all {
            let (is, expected) = (replay::text(object)?, &live.0[&object.header.key]);
            ensure!(is == *expected, "{} is stored as {is}, but is {expected}", object.header.key);
        }
        let namespace = self.spec.namespace.as_deref().unwrap_or_default();
        live.compare("by namespace", &store.in_namespace(namespace), |_| true)?;
        live.compare("by another namespace", &store.in_namespace("default"), |_| false)?;
        for uid in owners.iter().map(|(uid, _)| uid.as_str()).chain(["nobody"]) {
            let is_owned = |object: &Value| {
                let owners = object["metadata"]["ownerReferences"].as_array();
                owners.into_iter().flatten().any(|owner| owner["uid"] == uid && owner["controller"] == true)
            };
            live.compare("by controller", &store.owned_by(uid), is_owned)?;
        }
        let [label, field] = self.indexes();
        for tier in TIERS.into_iter().chain(["none"]) {
            live.compare("by label", &store.indexed(&label, tier), |it| it["metadata"]["labels"]["tier"] == tier)?;
        }
        for color in COLORS.into_iter().chain(["none"]) {
            let has = |it: &Value| it.pointer(self.field).is_some_and(|value| value == color);
            live.compare("by field", &store.indexed(&field, color), has)?;
        }
        Ok(())
    }
}

/// A live list.
pub(crate) struct Live(BTreeMap<ObjectKey, Value>);

type Brief = (ObjectKey, Arc<str>, Arc<str>);

fn brief(object: &Object) -> Brief {
    (object.header.key.clone(), object.header.uid.text(), object.header.version.to_string().into())
}

impl Live {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn briefs(&self, is_meant: impl Fn(&Value) -> bool) -> BTreeSet<Brief> {
        let text = |value: &Value| value.as_str().unwrap_or_default().into();
        let meant = self.0.iter().filter(|(_, object)| is_meant(object));
        meant
            .map(|(key, it)| (key.clone(), text(&it["metadata"]["uid"]), text(&it["metadata"]["resourceVersion"])))
            .collect()
    }

    /// The first difference, if any.
    pub(crate) fn difference(&self, objects: &[Object]) -> Option<anyhow::Error> {
        self.compare("all", objects, |_| true).err()
    }

    fn compare(&self, by: &str, found: &[Object], is_meant: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
        let expected = self.briefs(is_meant);
        let found: Vec<_> = found.iter().map(brief).collect();
        ensure!(found.is_sorted(), "{by}: not in the order of keys");
        let found: BTreeSet<_> = found.into_iter().collect();
        let missing = expected.difference(&found).next();
        let extra = found.difference(&expected).next();
        ensure!(
            missing.is_none() && extra.is_none(),
            "{by}: {} objects instead of {}; missing: {missing:?}; not expected: {extra:?}",
            found.len(),
            expected.len()
        );
        Ok(())
    }
}
