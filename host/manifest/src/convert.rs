//! Converts a manifest into the types of `windlass-core`.

use std::time::Duration;

use windlass_core::object::ObjectKind;
use windlass_core::queue::{
    ITEM_BACKOFF_MAX, ITEM_BACKOFF_MIN, ItemExponential, Limiter, MaxOf, RETRIES_BURST, RETRIES_PER_SECOND, TokenBucket,
};
use windlass_core::rights::grants::{Allowance, HttpRule, Rule};

use super::{Backoff, Controller, HttpHost, LimiterKind, Manifest, Options, Permission, Watch};

impl Manifest {
    /// The explicit permissions as rules, without those that the watches imply
    /// ([`Controller::implied_access`](super::Controller::implied_access)).
    #[must_use]
    pub fn permission_rules(&self) -> Vec<Rule> {
        self.permissions.iter().map(Permission::rule).collect()
    }

    /// Everything that the manifest asks for. `rules` are its requests for access to the API.
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

    /// The finalizer that the host keeps on primaries for the plugin, if the plugin asks for one (ADR 8).
    #[must_use]
    pub fn finalizer(&self) -> String {
        format!("windlass.dev/{}", self.name)
    }

    /// The names of the custom resource definitions that the plugin brings.
    pub fn crd_names(&self) -> impl Iterator<Item = &str> {
        self.crds.iter().filter_map(|crd| crd.get("metadata")?.get("name")?.as_str())
    }
}

impl HttpHost {
    fn rule(&self) -> HttpRule {
        HttpRule {
            scheme: self.scheme,
            host: self.host.to_lowercase(),
            port: self.port,
            methods: self.methods.iter().map(|method| method.to_uppercase()).collect(),
            addresses: vec![],
        }
    }
}

impl Controller {
    /// The kinds whose writes the host always sends, even if they would change nothing.
    pub fn always_sent(&self) -> impl Iterator<Item = ObjectKind> {
        self.all_watches().filter(|watch| !watch.no_op_skip).map(Watch::object_kind)
    }
}

impl Options {
    /// How long a call may take.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        Duration::from_millis(self.deadline_ms.into())
    }

    /// The interval at which every primary is reconciled, even if nothing has changed.
    #[must_use]
    pub fn resync(&self) -> Duration {
        Duration::from_millis(self.resync_ms.into())
    }
}

impl Backoff {
    /// The first delay, in milliseconds.
    pub(super) fn base_ms(&self) -> u32 {
        self.base_ms.unwrap_or_else(|| millis(ITEM_BACKOFF_MIN))
    }

    /// The longest delay, in milliseconds.
    pub(super) fn max_ms(&self) -> u32 {
        self.max_ms.unwrap_or_else(|| millis(ITEM_BACKOFF_MAX))
    }

    /// The rate limit for the retries of all keys together: retries per second, and the burst.
    pub(super) fn rate(&self) -> (u32, u32) {
        (self.per_second.unwrap_or(RETRIES_PER_SECOND), self.burst.unwrap_or(RETRIES_BURST))
    }

    /// The limiter with these settings.
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

pub(super) fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_client_go_and_controller_runtime() {
        let Options { workers, max_retries, backoff, resync_ms, deadline_ms, .. } = Options::default();
        assert_eq!((workers, max_retries), (16, 15));
        assert_eq!((backoff.base_ms(), backoff.max_ms(), backoff.rate()), (5, 1_000_000, (10, 100)));
        assert_eq!((resync_ms, deadline_ms), (36_000_000, 30_000));
    }
}
