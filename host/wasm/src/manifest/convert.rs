//! From the manifest's words to the types of `windlass-core`.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::grants::{self, Allowance, HttpRule, Rule};
use windlass_core::object::ObjectKind;
use windlass_core::queue::{ItemExponential, Limiter, MaxOf, TokenBucket};
use windlass_core::watch::WatchSpec;
use windlass_core::{mapping, predicate, watch};

use super::{
    Backoff, HttpHost, IndexSource, LimiterKind, Manifest, Mapping, Options, Permission, Predicate, Projection, Scheme,
    Watch,
};

impl Manifest {
    /// The explicit permissions as rules. What the watches imply is in
    /// [`Controller::implied_access`](super::Controller::implied_access).
    #[must_use]
    pub fn permission_rules(&self) -> Vec<Rule> {
        self.permissions.iter().map(Permission::rule).collect()
    }

    /// All that the manifest asks for, with `rules` as what it asks of the API.
    #[must_use]
    pub fn asked(&self, rules: Vec<Rule>) -> Allowance {
        let keeps_finalizer = self.controllers.iter().any(|controller| controller.options.finalizer);
        Allowance {
            rules,
            http: self.http.iter().map(HttpHost::rule).collect(),
            crds: self.crd_names().map(str::to_owned).collect(),
            finalizers: self.finalizers.iter().cloned().chain(keeps_finalizer.then(|| self.finalizer())).collect(),
        }
    }

    /// The finalizer that the host keeps on primaries for the plugin, if it wants one (ADR 8).
    #[must_use]
    pub fn finalizer(&self) -> String {
        format!("windlass.dev/{}", self.name)
    }

    /// The names of the definitions that it brings.
    pub fn crd_names(&self) -> impl Iterator<Item = &str> {
        self.crds.iter().filter_map(|crd| crd.get("metadata")?.get("name")?.as_str())
    }
}

impl HttpHost {
    fn rule(&self) -> HttpRule {
        HttpRule {
            scheme: match self.scheme {
                Scheme::Https => grants::Scheme::Https,
                Scheme::Http => grants::Scheme::Http,
            },
            host: self.host.to_lowercase(),
            port: self.port,
            methods: self.methods.iter().map(|method| method.to_uppercase()).collect(),
            addresses: vec![],
        }
    }
}

impl Watch {
    /// The kind that is watched.
    #[must_use]
    pub fn object_kind(&self) -> ObjectKind {
        ObjectKind::new(&*self.api_version, &*self.kind)
    }

    /// One watch for each namespace, or one for all.
    #[must_use]
    pub fn specs(&self) -> Vec<WatchSpec> {
        let shared = |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(Arc::from);
        let spec = |namespace: Option<&String>| WatchSpec {
            kind: self.object_kind(),
            namespace: namespace.map(|namespace| Arc::from(&**namespace)),
            label_selector: shared(&self.label_selector),
            field_selector: shared(&self.field_selector),
            projection: self.core_projection(),
        };
        if self.namespaces.is_empty() {
            vec![spec(None)]
        } else {
            self.namespaces.iter().map(|namespace| spec(Some(namespace))).collect()
        }
    }

    /// The part of the objects that is kept: what the manifest says, and what the host itself reads of them for it.
    fn core_projection(&self) -> watch::Projection {
        match &self.projection {
            Projection::Full {} => watch::Projection::Full,
            Projection::Metadata {} => watch::Projection::Metadata,
            Projection::Fields { pointers } => {
                let own = pointers.iter().map(String::as_str);
                watch::Projection::fields(own.chain(self.pointers()).map(Arc::from))
            }
        }
    }

    /// Where the host looks into the objects of this watch.
    pub(super) fn pointers(&self) -> impl Iterator<Item = &str> {
        let indexes = self.indexes.iter().filter_map(|index| match &index.source {
            IndexSource::Field { pointer } => Some(pointer),
            IndexSource::Label { .. } => None,
        });
        let predicates = self.predicates.iter().filter_map(|predicate| match predicate {
            Predicate::Fields { pointers } => Some(pointers),
            Predicate::Generation {} | Predicate::Labels {} | Predicate::Annotations {} => None,
        });
        let mapping = self.mapping.iter().filter_map(|mapping| match mapping {
            Mapping::Field { pointer } => Some(pointer),
            _ => None,
        });
        indexes.chain(predicates.flatten()).chain(mapping).map(String::as_str)
    }

    /// The declared indexes by their names.
    #[must_use]
    pub fn core_indexes(&self) -> Vec<(Arc<str>, watch::IndexSource)> {
        self.indexes.iter().map(|index| (index.name.as_str().into(), index.source.to_core())).collect()
    }

    /// Which changes are worth a call; empty: all.
    #[must_use]
    pub fn core_predicates(&self) -> Vec<predicate::Predicate> {
        self.predicates.iter().map(Predicate::to_core).collect()
    }
}

impl Mapping {
    /// The mapping as `windlass-core` has it. None: it names an index that `primary` does not declare, which a valid
    /// manifest does not.
    #[must_use]
    pub fn to_core(&self, primary: &Watch) -> Option<mapping::Mapping> {
        Some(match self {
            Self::Owner {} => mapping::Mapping::Owner,
            Self::Label { key } => mapping::Mapping::Label(key.as_str().into()),
            Self::Annotation { key } => mapping::Mapping::Annotation(key.as_str().into()),
            Self::Field { pointer } => mapping::Mapping::Field(pointer.as_str().into()),
            Self::SameName {} => mapping::Mapping::SameName,
            Self::ReferencedBy { index } => {
                let declared = primary.indexes.iter().find(|declared| declared.name == *index)?;
                mapping::Mapping::ReferencedBy(declared.source.to_core())
            }
            Self::All {} => mapping::Mapping::All,
        })
    }
}

impl IndexSource {
    fn to_core(&self) -> watch::IndexSource {
        match self {
            Self::Field { pointer } => watch::IndexSource::Field(pointer.as_str().into()),
            Self::Label { key } => watch::IndexSource::Label(key.as_str().into()),
        }
    }
}

impl Predicate {
    /// The predicate as `windlass-core` has it.
    #[must_use]
    pub fn to_core(&self) -> predicate::Predicate {
        match self {
            Self::Generation {} => predicate::Predicate::Generation,
            Self::Labels {} => predicate::Predicate::Labels,
            Self::Annotations {} => predicate::Predicate::Annotations,
            Self::Fields { pointers } => {
                predicate::Predicate::Fields(pointers.iter().map(|pointer| pointer.as_str().into()).collect())
            }
        }
    }
}

impl Options {
    /// How long a call may take.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        Duration::from_millis(self.deadline_ms.into())
    }

    /// How often every primary is reconciled without a change.
    #[must_use]
    pub fn resync(&self) -> Duration {
        Duration::from_millis(self.resync_ms.into())
    }
}

impl Backoff {
    /// The first delay, in milliseconds.
    pub(super) fn base_ms(&self) -> u32 {
        self.base_ms.unwrap_or(5)
    }

    /// The longest delay, in milliseconds.
    pub(super) fn max_ms(&self) -> u32 {
        self.max_ms.unwrap_or(1_000_000)
    }

    /// Retries of all keys a second, and at once.
    pub(super) fn rate(&self) -> (u32, u32) {
        (self.per_second.unwrap_or(10), self.burst.unwrap_or(100))
    }

    /// The limiter that it describes.
    #[must_use]
    pub fn limiter(&self) -> MaxOf {
        let (base, max) = (Duration::from_millis(self.base_ms().into()), Duration::from_millis(self.max_ms().into()));
        let (per_second, burst) = self.rate();
        let exponential = || Box::new(ItemExponential::new(base, max)) as Box<dyn Limiter>;
        let bucket = || Box::new(TokenBucket::new(per_second, burst)) as Box<dyn Limiter>;
        MaxOf(match self.limiter {
            LimiterKind::Exponential => vec![exponential()],
            LimiterKind::TokenBucket => vec![bucket()],
            LimiterKind::MaxOf => vec![exponential(), bucket()],
        })
    }
}

impl Permission {
    fn rule(&self) -> Rule {
        Rule {
            groups: self.api_groups.clone(),
            resources: self.resources.clone(),
            verbs: self.verbs.clone(),
            namespaces: self.namespaces.clone(),
            names: self.names.clone(),
            cluster: self.namespaces.is_empty(),
        }
    }
}
