//! `windlass finalizers`: which objects carry a plugin's finalizer, and taking it off.

mod release;

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use windlass_core::finalizer;
use windlass_core::grants::resource_name;
use windlass_kube::Discovery;
use windlass_kube::client::{self, ConnectOptions, Connection};
use windlass_kube::sweep::{self, Carrier, Scope, Swept};

/// Arguments of `windlass finalizers`.
#[derive(Debug, Args)]
pub(super) struct FinalizersArgs {
    #[command(subcommand)]
    command: FinalizersCommand,
}

#[derive(Debug, Subcommand)]
enum FinalizersCommand {
    /// List the objects that carry a finalizer of a plugin.
    ///
    /// Looks at every kind that the API server serves and this user may list. Exits with 0 when it could look at all of them,
    /// and with 1 when not: what it prints is then not everything.
    #[command(
        after_help = "Examples:\n  windlass finalizers list -A\n  windlass finalizers list --plugin webapp -n prod -o json"
    )]
    List(ListArgs),
    /// Take a plugin's finalizer off objects, so that they can be deleted. The plugin does not clean up after them.
    ///
    /// First shows what it would do, and asks. Nothing but the one finalizer is changed, and only on the very object that was
    /// shown. While a plugin runs with `finalizer: true`, it puts its finalizer back on whatever is not being deleted: remove
    /// the plugin first. Exits with 0 when the finalizer is off everywhere, and with 1 when not.
    #[command(after_help = "Examples:\n  windlass finalizers release webapp -A --dry-run\n  \
        windlass finalizers release webapp -n prod shop --yes\n  windlass finalizers release webapp -A --kind WebApp")]
    Release(release::ReleaseArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only the finalizer of this plugin.
    #[arg(long, value_name = "NAME", value_parser = super::namespace)]
    plugin: Option<String>,
    /// How the list looks: `text` for people, `json` with all there is to know, `name` for `kubectl` by way of `xargs -L1`.
    #[arg(long, short, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Where to look.
#[derive(Debug, Args)]
struct PlaceArgs {
    /// Only objects in this namespace, and those of kinds without namespaces. Default: the context's namespace.
    #[arg(long, short, value_name = "NAMESPACE", value_parser = super::namespace)]
    namespace: Option<String>,
    /// Objects in all namespaces.
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only objects of this kind: WebApp, webapps or webapps.apps.kubedojo.io. May be given more than once.
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,
    /// The kubeconfig file. Default: KUBECONFIG, then ~/.kube/config, then the Pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
    Name,
}

impl FinalizersArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        match self.command {
            FinalizersCommand::List(args) => args.run().await,
            FinalizersCommand::Release(args) => args.run().await,
        }
    }
}

/// A cluster, and what was found there.
struct Looked {
    connection: Connection,
    discovery: Discovery,
    swept: Swept,
    /// Where, for people.
    place: String,
}

impl PlaceArgs {
    /// Finds what carries a finalizer for which `wanted` is true.
    async fn look(self, wanted: impl Fn(&str) -> bool) -> anyhow::Result<Looked> {
        let options = ConnectOptions { kubeconfig: self.kubeconfig, context: self.context, namespace: self.namespace };
        let connection = client::connect(&options).await?;
        let namespace = (!self.all_namespaces)
            .then(|| options.namespace.clone().unwrap_or_else(|| connection.default_namespace.clone()));
        let place = match &namespace {
            Some(namespace) => format!("in the namespace {namespace} and outside of any (-A looks everywhere)"),
            None => "in the cluster".to_owned(),
        };
        let scope = Scope { namespace, kinds: self.kind };
        let discovery = Discovery::new(connection.client.clone());
        let swept = sweep::sweep(&connection.client, &discovery, &scope, wanted).await;
        let swept = swept.with_context(|| format!("cannot ask {} what kinds it serves", connection.server))?;
        Ok(Looked { connection, discovery, swept, place })
    }
}

impl ListArgs {
    async fn run(self) -> anyhow::Result<()> {
        let only = self.plugin.as_deref().map(finalizer::name);
        let wanted =
            |name: &str| only.as_ref().map_or_else(|| name.starts_with(finalizer::PREFIX), |only| name == only);
        let Looked { swept, place, .. } = self.place.look(wanted).await?;
        let text = match self.output {
            Output::Text if swept.carriers.is_empty() => {
                format!("no object {place} carries {}\n", ours(only.as_deref()))
            }
            Output::Text => table(&swept.carriers),
            Output::Json => format!("{:#}\n", Value::from(swept.carriers.iter().map(document).collect::<Vec<_>>())),
            Output::Name => swept.carriers.iter().map(|carrier| reference(carrier) + "\n").collect(),
        };
        super::print(&text)?;
        complete(&swept)
    }
}

fn ours(only: Option<&str>) -> String {
    only.map_or_else(|| format!("a finalizer {}…", finalizer::PREFIX), |only| format!("the finalizer {only}"))
}

/// An error that names what could not be looked at.
fn complete(swept: &Swept) -> anyhow::Result<()> {
    if swept.unseen.is_empty() {
        return Ok(());
    }
    let unseen: Vec<_> = swept.unseen.iter().map(|(kind, error)| format!("{kind}: {error}")).collect();
    bail!("not everything could be looked at: {}", unseen.join("; "))
}

fn full_resource(carrier: &Carrier) -> String {
    resource_name(carrier.resource.group(), &carrier.resource.plural, "")
}

/// As kubectl takes it: `webapps.apps.kubedojo.io/shop -n prod`.
fn reference(carrier: &Carrier) -> String {
    let namespace = carrier.key.namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    format!("{}/{}{namespace}", full_resource(carrier), carrier.key.name)
}

/// The finalizers of this project that it carries.
fn its_finalizers(carrier: &Carrier) -> Vec<&str> {
    carrier.finalizers.iter().map(String::as_str).filter(|name| name.starts_with(finalizer::PREFIX)).collect()
}

fn document(carrier: &Carrier) -> Value {
    json!({
        "apiVersion": *carrier.resource.kind.api_version,
        "kind": *carrier.resource.kind.kind,
        "namespace": carrier.key.namespace,
        "name": carrier.key.name,
        "uid": carrier.uid,
        "deleting": carrier.deleting,
        "finalizers": its_finalizers(carrier),
    })
}

fn table(carriers: &[Carrier]) -> String {
    let heading = ["NAMESPACE", "KIND", "NAME", "DELETING", "FINALIZERS"].map(str::to_owned);
    let rows = carriers.iter().map(|carrier| {
        [
            carrier.key.namespace.as_deref().unwrap_or("-").to_owned(),
            full_resource(carrier),
            carrier.key.name.to_string(),
            if carrier.deleting { "yes" } else { "no" }.to_owned(),
            its_finalizers(carrier).join(","),
        ]
    });
    let rows: Vec<_> = std::iter::once(heading).chain(rows).collect();
    let widths: [usize; 5] = std::array::from_fn(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0));
    let line = |row: &[String; 5]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windlass_core::object::{ObjectKey, ObjectKind};
    use windlass_kube::Resource;

    use super::*;

    fn carrier(namespace: Option<&str>) -> Carrier {
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
        }
    }

    #[test]
    fn a_name_can_be_given_to_kubectl() {
        assert_eq!(reference(&carrier(Some("prod"))), "webapps.apps.kubedojo.io/shop -n prod");
        assert_eq!(reference(&carrier(None)), "webapps.apps.kubedojo.io/shop");
    }

    #[test]
    fn the_table_shows_what_waits_for_whom() {
        let expected = "\
            NAMESPACE  KIND                      NAME  DELETING  FINALIZERS\n\
            prod       webapps.apps.kubedojo.io  shop  yes       windlass.dev/webapp\n";
        assert_eq!(table(&[carrier(Some("prod"))]), expected);
    }
}
