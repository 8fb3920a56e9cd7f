//! Shared by `finalizers` and `children`: finds the objects that carry a mark of the host, and shows them.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use windlass_core::deceptive;
use windlass_core::queue::aggregate::Aggregate;
use windlass_core::rights::grants::resource_name;
use windlass_kube::Discovery;
use windlass_kube::client::{self, ConnectOptions, Connection};
use windlass_kube::sweep::{self, Carrier, Sought, SweepScope, Swept};

/// The flags that select where to look.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// Only objects in this namespace, and cluster-scoped ones. Default: the context's namespace.
    #[arg(long, short, value_name = "NAMESPACE", value_parser = crate::cli::namespace)]
    namespace: Option<String>,
    /// Objects in all namespaces.
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only objects of this kind, such as WebApp, webapps or webapps.apps.kubedojo.io; repeatable.
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Vec<String>,
    /// The kubeconfig file. Default: KUBECONFIG, then ~/.kube/config, then the Pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    Text,
    Json,
    Name,
}

/// A cluster and the objects found in it.
pub(crate) struct SweptCluster {
    pub(crate) connection: Connection,
    pub(crate) discovery: Discovery,
    pub(crate) swept: Swept,
    /// The searched place, in words.
    pub(crate) place: String,
}

impl PlaceArgs {
    /// Finds the `sought` objects that are also `wanted`.
    pub(crate) async fn look(self, sought: &Sought, wanted: impl Fn(&Carrier) -> bool) -> anyhow::Result<SweptCluster> {
        let options = ConnectOptions { kubeconfig: self.kubeconfig, context: self.context, namespace: self.namespace };
        let connection = client::connect(&options).await?;
        let namespace = (!self.all_namespaces)
            .then(|| options.namespace.clone().unwrap_or_else(|| connection.default_namespace.clone()));
        let place = match &namespace {
            Some(namespace) => format!("in the namespace {namespace} or without a namespace (-A looks everywhere)"),
            None => "in the cluster".to_owned(),
        };
        let scope = SweepScope { namespace, kinds: self.kind, gently: false };
        let discovery = Discovery::new(connection.client.clone());
        let swept = sweep::sweep(&discovery, &scope, sought, wanted).await;
        let swept = swept.with_context(|| format!("cannot ask {} what kinds it serves", connection.server))?;
        Ok(SweptCluster { connection, discovery, swept, place })
    }
}

/// An error that names the kinds that could not be listed.
pub(crate) fn complete(swept: &Swept) -> anyhow::Result<()> {
    match Aggregate::of(swept.unseen.iter().map(|(kind, error)| Some(format!("{kind}: {error}")))) {
        None => Ok(()),
        Some(unseen) => bail!("some kinds could not be listed: {unseen}"),
    }
}

pub(crate) fn full_resource(carrier: &Carrier) -> String {
    resource_name(carrier.resource.group(), &carrier.resource.plural, "")
}

/// The object as kubectl's arguments: `webapps.apps.kubedojo.io/shop -n prod`.
pub(crate) fn reference(carrier: &Carrier) -> String {
    let namespace = carrier.key.namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    let reference = format!("{}/{}{namespace}", full_resource(carrier), carrier.key.name);
    deceptive::escape_line(&reference).into_owned()
}

/// The first columns of each table.
pub(crate) fn place_and_name(carrier: &Carrier) -> [String; 3] {
    let namespace = carrier.key.namespace.as_deref().unwrap_or("-").to_owned();
    [namespace, full_resource(carrier), carrier.key.name.to_string()]
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use windlass_core::object::{ObjectKey, ObjectKind};
    use windlass_kube::Resource;

    use super::*;

    /// A `WebApp` that is being deleted and waits for its plugin.
    pub(in crate::cli) fn carrier(namespace: Option<&str>) -> Carrier {
        let resource = Resource {
            kind: ObjectKind::new("apps.kubedojo.io/v1beta1", "WebApp"),
            plural: "webapps".to_owned(),
            namespaced: namespace.is_some(),
            subresources: vec![],
            verbs: vec![],
            comparable: false,
        };
        Carrier {
            resource: Arc::new(resource),
            key: ObjectKey { namespace: namespace.map(Arc::from), name: "shop".into() },
            uid: "u-1".to_owned(),
            version: "1".to_owned(),
            deleting: true,
            finalizers: vec!["other/x".to_owned(), "windlass.dev/webapp".to_owned()],
            created_by: None,
            controller: None,
        }
    }

    #[test]
    fn a_name_can_be_given_to_kubectl() {
        assert_eq!(reference(&carrier(Some("prod"))), "webapps.apps.kubedojo.io/shop -n prod");
        assert_eq!(reference(&carrier(None)), "webapps.apps.kubedojo.io/shop");
    }
}
