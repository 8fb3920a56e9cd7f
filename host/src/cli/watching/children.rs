//! `windlass children`: lists what composite plugins have created, and deletes what a new version has left behind.

mod prune;

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass_core::call::compose::CREATED_BY;
use windlass_kube::sweep::{Carrier, Parent, Sought, SweepScope};
use windlass_manifest::EntryPoint;

use crate::cli::flags::limits::LimitArgs;
use crate::cli::rights::examine::{self, CacheArgs};
use crate::cli::view;
use crate::cli::watching::marked::{self, ListFormat, PlaceArgs, SweptCluster, complete, reference};
use windlass_runtime::NamedKinds;

/// List the children that composite plugins have created, and delete those left behind.
///
/// Each child of a composite plugin has the label windlass.dev/created-by=PLUGIN. If a new version no longer owns a
/// kind, the children of that kind stay, and no plugin watches them. The host warns about them when it starts.
#[derive(Debug, Args)]
pub(crate) struct ChildrenArgs {
    #[command(subcommand)]
    command: ChildrenCommand,
}

#[derive(Debug, Subcommand)]
enum ChildrenCommand {
    /// List the children of composite plugins, or those that a new version leaves behind.
    ///
    /// Looks at every kind that the API server serves and you may list. Exit codes: 0, it has looked at all of them; 1,
    /// it could not, and the list may be incomplete.
    #[command(
        after_help = "Examples:\n  windlass children list -A\n  windlass children list --plugin webapp -n prod -o json\n  \
        windlass children list --left-behind plugins/webapp.wasm -A"
    )]
    List(ListChildrenArgs),
    /// Delete children that a composite plugin has left behind.
    ///
    /// Shows what it would delete, and asks first. Deletes only objects that it has shown, that the plugin's host
    /// created and that still have a controller; never an adopted one. A running plugin creates children of the kinds
    /// that it owns again: use --left-behind, which spares those kinds. Exit codes: 0, all deleted; 1, not all.
    #[command(
        after_help = "Examples:\n  windlass children prune webapp --left-behind plugins/webapp.wasm -A --dry-run\n  \
        windlass children prune webapp --kind secrets -n prod --yes"
    )]
    Prune(prune::PruneArgs),
}

#[derive(Debug, Args)]
struct ListChildrenArgs {
    /// Only children of this plugin.
    #[arg(long, value_name = "NAME", value_parser = crate::cli::namespace, conflicts_with = "left_behind")]
    plugin: Option<String>,
    /// Only children that this version of a plugin leaves behind: children of its objects, of kinds that it does not
    /// own.
    #[arg(long, value_name = "NAME.wasm")]
    left_behind: Option<PathBuf>,
    /// The output format: `text` for people, `json` with all details, `name` to pass to kubectl with `xargs -L1`.
    #[arg(long, short, value_enum, default_value = "text")]
    output: ListFormat,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

impl ChildrenArgs {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self.command {
            ChildrenCommand::List(args) => args.run().await,
            ChildrenCommand::Prune(args) => args.run().await,
        }
    }
}

impl ListChildrenArgs {
    async fn run(self) -> anyhow::Result<()> {
        let (looked, whose) = if let Some(file) = &self.left_behind {
            let (plugin, named) = version(file, &self.limits).await?;
            let whose = format!("was left behind by {plugin}");
            (left_behind(self.place, &plugin, &named).await?, whose)
        } else {
            let whose = match &self.plugin {
                Some(plugin) => format!("has the label {CREATED_BY}={plugin}"),
                None => format!("has the label {CREATED_BY}"),
            };
            (self.place.look(&Sought::Children { plugin: self.plugin }, |_| true).await?, whose)
        };
        let SweptCluster { swept, place, .. } = looked;
        match self.output {
            ListFormat::Text if swept.carriers.is_empty() => {
                crate::cli::print(&format!("no object {place} {whose}\n"))?;
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

/// The name of the plugin in `file`, and the kinds that it names.
async fn version(file: &Path, limits: &LimitArgs) -> anyhow::Result<(String, NamedKinds)> {
    let plugin = examine::load(file, limits, CacheArgs::default()).await?;
    if plugin.entry() != EntryPoint::Composer {
        bail!("{} is not a composite plugin, so it leaves no children behind", file.display());
    }
    Ok((plugin.name().to_string(), NamedKinds::of(plugin.manifest())))
}

/// The children that the plugin leaves behind if it runs in the version to which `named` belongs.
async fn left_behind(mut place: PlaceArgs, plugin: &str, named: &NamedKinds) -> anyhow::Result<SweptCluster> {
    // The result depends on all kinds, even if --kind selects some.
    let only = SweepScope { kinds: std::mem::take(&mut place.kind), ..SweepScope::default() };
    let mut looked = place.look(&Sought::Children { plugin: Some(plugin.to_owned()) }, |_| true).await?;
    let left = named.left_behind(&looked.swept.carriers);
    looked.swept.carriers = left.into_iter().filter(|carrier| only.includes(&carrier.resource)).cloned().collect();
    Ok(looked)
}

fn parent(carrier: &Carrier) -> String {
    carrier
        .controller
        .as_ref()
        .map_or_else(|| "-".to_owned(), |Parent { kind, name, .. }| format!("{}/{name}", kind.kind))
}

fn document(carrier: &Carrier) -> Value {
    let parent = carrier.controller.as_ref().map(|Parent { kind, name, uid }| {
        json!({"apiVersion": *kind.api_version, "kind": *kind.kind, "name": name, "uid": uid})
    });
    json!({
        "apiVersion": *carrier.resource.kind.api_version,
        "kind": *carrier.resource.kind.kind,
        "namespace": carrier.key.namespace,
        "name": carrier.key.name,
        "uid": carrier.uid,
        "deleting": carrier.deleting,
        "plugin": carrier.created_by,
        "parent": parent,
    })
}

fn table(carriers: &[Carrier]) -> String {
    let rows = carriers.iter().map(|carrier| {
        let [namespace, kind, name] = marked::place_and_name(carrier);
        [namespace, kind, name, carrier.created_by.clone().unwrap_or_default(), parent(carrier)]
    });
    view::table(&["NAMESPACE", "KIND", "NAME", "PLUGIN", "PARENT"], rows)
}

#[cfg(test)]
mod tests {
    use windlass_core::object::ObjectKind;

    use super::*;

    #[test]
    fn the_table_shows_each_child_with_its_creator_and_parent() {
        let parent = Parent { kind: ObjectKind::new("v1", "Composite"), name: "a".to_owned(), uid: "u".to_owned() };
        let child = Carrier {
            created_by: Some("composer".to_owned()),
            controller: Some(parent),
            ..marked::tests::carrier(Some("prod"))
        };
        let orphan = Carrier { controller: None, ..child.clone() };
        let expected = "\
            NAMESPACE  KIND                      NAME  PLUGIN    PARENT\n\
            prod       webapps.apps.kubedojo.io  shop  composer  Composite/a\n\
            prod       webapps.apps.kubedojo.io  shop  composer  -\n";
        assert_eq!(table(&[child, orphan]), expected);
    }
}
