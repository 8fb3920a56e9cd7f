//! `windlass finalizers release`: removes a plugin's finalizer from the objects shown, with the host's own writer.

use std::fmt::Write as _;

use anyhow::bail;
use clap::Args;
use windlass_core::object::finalizer;
use windlass_core::rights::principal::Role;
use windlass_core::write::{Operation, PatchType, WriteOptions};
use windlass_kube::sweep::{Carrier, Sought};

use crate::cli::watching::change::{ChangeArgs, ManualChange, incarnation};
use crate::cli::watching::marked::{PlaceArgs, complete, reference};

#[derive(Debug, Args)]
pub(super) struct ReleaseArgs {
    /// Remove the finalizer of this plugin.
    #[arg(value_name = "PLUGIN", value_parser = crate::cli::namespace)]
    plugin: String,
    /// Only from objects with these names.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

impl ReleaseArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let finalizer = finalizer::name(&self.plugin);
        let is_kept = |carrier: &Carrier| carrier.finalizers.contains(&finalizer);
        let mut looked = self.place.look(&Sought::Finalizers, is_kept).await?;
        let is_named =
            |carrier: &Carrier| self.names.is_empty() || self.names.iter().any(|name| **name == *carrier.key.name);
        looked.swept.carriers.retain(is_named);
        let carriers = &looked.swept.carriers;
        let missing = self.names.iter().filter(|name| !carriers.iter().any(|carrier| *carrier.key.name == ***name));
        let missing: Vec<_> = missing.map(String::as_str).collect();
        if !missing.is_empty() {
            bail!("no object {} named {} carries {finalizer}; nothing was done", looked.place, missing.join(", "));
        }
        if carriers.is_empty() {
            crate::cli::print(&format!("no object {} carries the finalizer {finalizer}\n", looked.place))?;
            return complete(&looked.swept);
        }
        let mut shown =
            format!("{finalizer} is removed from these objects, and {} does not clean up after them:\n", self.plugin);
        for carrier in carriers {
            let then = if carrier.deleting {
                "it is being deleted, and disappears unless something else holds it"
            } else {
                "it stays"
            };
            let _ = writeln!(shown, "  {}: {then}", reference(carrier));
        }
        if self.change.agreed(&shown, &format!("Remove it from {} objects?", carriers.len()))? {
            let operation = |carrier: &Carrier| removal(carrier, &finalizer);
            let release =
                ManualChange { plugin: &self.plugin, role: Role::Finalizer, done: "released", operation: &operation };
            let failed = release.all(&looked).await?;
            if failed > 0 {
                bail!("{failed} of {} objects still carry {finalizer}", carriers.len());
            }
        }
        complete(&looked.swept)
    }
}

/// The patch that removes the finalizer. `None` if the object no longer has it.
fn removal(carrier: &Carrier, finalizer: &str) -> Option<Operation> {
    let patch = finalizer::removal(&carrier.finalizers, finalizer)?;
    let options = WriteOptions { resource_version: Some(carrier.version.as_str().into()), ..WriteOptions::default() };
    Some(Operation::Patch { target: incarnation(carrier), patch_type: PatchType::Json, patch, options })
}
