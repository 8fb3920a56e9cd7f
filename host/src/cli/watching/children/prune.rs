//! `windlass children prune`: deletes the children that were shown, with the host's own writer.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{bail, ensure};
use clap::{ArgGroup, Args};
use windlass_core::rights::principal::Role;
use windlass_core::write::{DeleteOptions, Operation, Propagation};
use windlass_kube::sweep::{Carrier, Sought};

use super::{left_behind, parent, version};
use crate::cli::flags::limits::LimitArgs;
use crate::cli::watching::change::{ChangeArgs, ManualChange, incarnation};
use crate::cli::watching::marked::{PlaceArgs, complete, reference};
use windlass_runtime::NamedKinds;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["kind", "left_behind"]).required(true).multiple(true))]
pub(super) struct PruneArgs {
    /// Delete children of this plugin.
    #[arg(value_name = "PLUGIN", value_parser = crate::cli::namespace)]
    plugin: String,
    /// Only children that this version of the plugin leaves behind: children of its objects, of kinds that it does not
    /// own. Without it, name the kinds with --kind.
    #[arg(long, value_name = "NAME.wasm")]
    left_behind: Option<PathBuf>,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

impl PruneArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let Self { plugin, left_behind: file, change, limits, place } = self;
        let named = match &file {
            Some(file) => {
                let (name, named) = version(file, &limits).await?;
                ensure!(name == plugin, "{} is the plugin {name}, and not {plugin}; nothing was done", file.display());
                Some(named)
            }
            None => None,
        };
        let is_doomed = |carrier: &Carrier| is_doomed(carrier, &plugin, named.as_ref());
        let looked = match &named {
            Some(named) => left_behind(place, &plugin, named).await?,
            None => place.look(&Sought::Children { plugin: Some(plugin.clone()) }, is_doomed).await?,
        };
        let carriers = &looked.swept.carriers;
        if carriers.is_empty() {
            let what = if named.is_some() { "was left behind by" } else { "of these kinds is a child of" };
            crate::cli::print(&format!("no object {} {what} {plugin}\n", looked.place))?;
            return complete(&looked.swept);
        }
        let mut shown = format!("these children that {plugin} has created are deleted, with all that they own:\n");
        for carrier in carriers {
            let _ = writeln!(shown, "  {}: of {}", reference(carrier), parent(carrier));
        }
        if change.agreed(&shown, &format!("Delete {} objects?", carriers.len()))? {
            let operation = |carrier: &Carrier| is_doomed(carrier).then(|| deletion(carrier));
            let prune = ManualChange { plugin: &plugin, role: Role::Children, done: "deleted", operation: &operation };
            let failed = prune.all(&looked).await?;
            if failed > 0 {
                bail!("{failed} of {} objects were not deleted", carriers.len());
            }
        }
        complete(&looked.swept)
    }
}

/// True if the object may be deleted: the plugin's host created it, it has a controller, and it is not being deleted
/// already.
fn is_doomed(carrier: &Carrier, plugin: &str, named: Option<&NamedKinds>) -> bool {
    let is_child = named.map_or(carrier.controller.is_some(), |named| named.is_child(carrier));
    is_child && !carrier.deleting && carrier.created_by.as_deref() == Some(plugin)
}

/// The operation that deletes the object in exactly this state. If the object has changed, the caller reads it again
/// and retries.
fn deletion(carrier: &Carrier) -> Operation {
    let options = DeleteOptions {
        resource_version: Some(carrier.version.as_str().into()),
        propagation: Propagation::Background,
        grace_period_seconds: None,
        dry_run: false,
    };
    Operation::Delete { target: incarnation(carrier), options }
}

#[cfg(test)]
mod tests {
    use windlass_core::object::ObjectKind;
    use windlass_kube::sweep::Parent;

    use super::*;
    use crate::cli::watching::marked::tests::carrier;

    #[test]
    fn only_marked_controlled_children_that_are_not_terminating_are_pruned() {
        let parent = Parent { kind: ObjectKind::new("v1", "Composite"), name: "a".to_owned(), uid: "u".to_owned() };
        let child = Carrier {
            deleting: false,
            created_by: Some("composer".to_owned()),
            controller: Some(parent),
            ..carrier(Some("prod"))
        };
        assert!(is_doomed(&child, "composer", None));
        assert!(!is_doomed(&child, "webapp", None), "another plugin's");
        assert!(!is_doomed(&Carrier { created_by: None, ..child.clone() }, "composer", None), "adopted");
        assert!(!is_doomed(&Carrier { controller: None, ..child.clone() }, "composer", None), "nobody's");
        assert!(!is_doomed(&Carrier { deleting: true, ..child }, "composer", None), "going");
    }

    #[test]
    fn a_deletion_is_bound_to_the_uid_and_version_that_were_shown() {
        let Operation::Delete { target, options } = deletion(&carrier(Some("prod"))) else { panic!("no deletion") };
        assert_eq!((target.uid.as_deref(), options.resource_version.as_deref()), (Some("u-1"), Some("1")));
    }
}
