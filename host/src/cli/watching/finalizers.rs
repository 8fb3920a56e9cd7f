//! `windlass finalizers`: lists the objects that carry a plugin's finalizer, and removes it.

mod release;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass_core::object::finalizer;
use windlass_kube::sweep::{Carrier, Sought};

use crate::cli::view;
use crate::cli::watching::marked::{self, ListFormat, PlaceArgs, SweptCluster, complete, reference};

/// Find and remove the finalizers that plugins have left on objects.
///
/// If a manifest says `finalizer: true`, the host puts the finalizer windlass.dev/PLUGIN on the plugin's objects, so
/// that the plugin can clean up before they go. If you remove the plugin, or a new version drops the finalizer, nothing
/// removes it from the objects: once deleted, they stay "Terminating" for ever. These commands find such objects and
/// release them.
#[derive(Debug, Args)]
pub(crate) struct FinalizersArgs {
    #[command(subcommand)]
    command: FinalizersCommand,
}

#[derive(Debug, Subcommand)]
enum FinalizersCommand {
    /// List the objects that carry a finalizer of a plugin.
    ///
    /// Looks at every kind that the API server serves and you may list. Exit codes: 0, it has looked at all of them; 1,
    /// it could not, and the list may be incomplete.
    #[command(
        after_help = "Examples:\n  windlass finalizers list -A\n  windlass finalizers list --plugin webapp -n prod -o json"
    )]
    List(ListFinalizersArgs),
    /// Remove a plugin's finalizer from objects, so that they can be deleted. The plugin does not clean up after them.
    ///
    /// Shows the objects, and asks first. Changes nothing but this finalizer, and only on objects that it has shown.
    /// While a plugin with `finalizer: true` runs, the host puts the finalizer back on objects that are not being
    /// deleted: remove the plugin first. Exit codes: 0, removed from all; 1, not from all.
    #[command(after_help = "Examples:\n  windlass finalizers release webapp -A --dry-run\n  \
        windlass finalizers release webapp -n prod shop --yes\n  windlass finalizers release webapp -A --kind WebApp")]
    Release(release::ReleaseArgs),
}

#[derive(Debug, Args)]
struct ListFinalizersArgs {
    /// Only the finalizer of this plugin.
    #[arg(long, value_name = "NAME", value_parser = crate::cli::namespace)]
    plugin: Option<String>,
    /// The output format: `text` for people, `json` with all details, `name` to pass to kubectl with `xargs -L1`.
    #[arg(long, short, value_enum, default_value = "text")]
    output: ListFormat,
    #[command(flatten)]
    place: PlaceArgs,
}

impl FinalizersArgs {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self.command {
            FinalizersCommand::List(args) => args.run().await,
            FinalizersCommand::Release(args) => args.run().await,
        }
    }
}

impl ListFinalizersArgs {
    async fn run(self) -> anyhow::Result<()> {
        let only = self.plugin.as_deref().map(finalizer::name);
        let is_ours =
            |name: &str| only.as_ref().map_or_else(|| name.starts_with(finalizer::PREFIX), |only| name == only);
        let wanted = |carrier: &Carrier| carrier.finalizers.iter().any(|name| is_ours(name));
        let SweptCluster { swept, place, .. } = self.place.look(&Sought::Finalizers, wanted).await?;
        match self.output {
            ListFormat::Text if swept.carriers.is_empty() => {
                crate::cli::print(&format!("no object {place} carries {}\n", ours(only.as_deref())))?;
            }
            ListFormat::Text => crate::cli::print(&table(&swept.carriers))?,
            ListFormat::Json => crate::cli::print_json(&swept.carriers.iter().map(document).collect())?,
            ListFormat::Name => {
                crate::cli::print(&swept.carriers.iter().map(|carrier| reference(carrier) + "\n").collect::<String>())?;
            }
        }
        complete(&swept)
    }
}

fn ours(only: Option<&str>) -> String {
    only.map_or_else(|| format!("a finalizer {}…", finalizer::PREFIX), |only| format!("the finalizer {only}"))
}

/// The object's finalizers that belong to plugins.
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
    let rows = carriers.iter().map(|carrier| {
        let [namespace, kind, name] = marked::place_and_name(carrier);
        let deleting = if carrier.deleting { "yes" } else { "no" }.to_owned();
        [namespace, kind, name, deleting, its_finalizers(carrier).join(",")]
    });
    view::table(&["NAMESPACE", "KIND", "NAME", "DELETING", "FINALIZERS"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_the_finalizers_of_each_object() {
        let expected = "\
            NAMESPACE  KIND                      NAME  DELETING  FINALIZERS\n\
            prod       webapps.apps.kubedojo.io  shop  yes       windlass.dev/webapp\n";
        assert_eq!(table(&[marked::tests::carrier(Some("prod"))]), expected);
    }
}
