//! `windlass finalizers release`: takes a plugin's finalizer off the objects that were shown, by the host's own writer.

use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::fence::Fenced;
use windlass_core::finalizer;
use windlass_core::grants::{Grants, LiveGrants};
use windlass_core::object::ObjectRef;
use windlass_core::overlay::Overlay;
use windlass_core::ports::{CallContext, Writes as _};
use windlass_core::principal::{Principal, Role};
use windlass_core::settle::Hold;
use windlass_core::write::{Operation, PatchType, WriteOptions};
use windlass_kube::Writer;
use windlass_kube::sweep::{self, Carrier};

use super::{Looked, PlaceArgs, complete, reference};

/// How often an object is tried that changes just then.
const ATTEMPTS: usize = 4;

#[derive(Debug, Args)]
pub(super) struct ReleaseArgs {
    /// The plugin whose finalizer is taken off.
    #[arg(value_name = "PLUGIN", value_parser = crate::cli::namespace)]
    plugin: String,
    /// Only objects of these names.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Show what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

impl ReleaseArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let finalizer = finalizer::name(&self.plugin);
        let mut looked = self.place.look(|name| name == finalizer).await?;
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
        let mut shown = format!("{finalizer} is taken off, and {} does not clean up after:\n", self.plugin);
        for carrier in carriers {
            let then =
                if carrier.deleting { "it is being deleted, and goes if nothing else holds it" } else { "it stays" };
            let _ = writeln!(shown, "  {}: {then}", reference(carrier));
        }
        crate::cli::print(&shown)?;
        if self.dry_run {
            crate::cli::print("nothing was done (--dry-run)\n")?;
            return complete(&looked.swept);
        }
        if !self.yes && !confirmed(carriers.len())? {
            bail!("nothing was done");
        }
        release_all(&looked, &self.plugin, &finalizer).await?;
        complete(&looked.swept)
    }
}

/// Asks whoever sits at the terminal.
fn confirmed(objects: usize) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("nobody can be asked, as this is no terminal: say --yes, or --dry-run to see what would be done");
    }
    eprint!("Take it off {objects} objects? Type yes: ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(answer.trim() == "yes")
}

async fn release_all(looked: &Looked, plugin: &str, finalizer: &str) -> anyhow::Result<()> {
    let writer = Writer::new(looked.connection.client.clone(), looked.discovery.clone());
    let mut failed = 0;
    for carrier in &looked.swept.carriers {
        let released = release(looked, &writer, plugin, finalizer, carrier.clone()).await;
        let line = match released {
            Ok(true) => format!("{}: released\n", reference(carrier)),
            Ok(false) => format!("{}: nothing to do any more\n", reference(carrier)),
            Err(error) => {
                failed += 1;
                format!("{}: NOT released: {error:#}\n", reference(carrier))
            }
        };
        crate::cli::print(&line)?;
    }
    match failed {
        0 => Ok(()),
        _ => bail!("{failed} of {} objects still carry {finalizer}", looked.swept.carriers.len()),
    }
}

/// Takes the finalizer off the incarnation that was shown. False: it has none any more, or has gone.
async fn release(
    looked: &Looked,
    writer: &Writer,
    plugin: &str,
    finalizer: &str,
    mut carrier: Carrier,
) -> anyhow::Result<bool> {
    let mut last: Option<ApiError> = None;
    for _ in 0..ATTEMPTS {
        let Some(patch) = finalizer::removal(&carrier.finalizers, finalizer) else { return Ok(false) };
        let call = call(plugin, &carrier);
        let target = ObjectRef {
            kind: carrier.resource.kind.clone(),
            key: carrier.key.clone(),
            uid: Some(carrier.uid.as_str().into()),
        };
        let options =
            WriteOptions { resource_version: Some(carrier.version.as_str().into()), ..WriteOptions::default() };
        let operation = Operation::Patch { target, patch_type: PatchType::Json, patch, options };
        match writer.write(Arc::new(call), operation).await {
            Ok(_) => return Ok(true),
            Err(error) if error.reason == ApiReason::NotFound => return Ok(false),
            // It has changed since it was looked at; or it may have been done.
            Err(error)
                if matches!(error.reason, ApiReason::Conflict | ApiReason::Invalid | ApiReason::UnknownOutcome) =>
            {
                last = Some(error);
            }
            Err(error) => return Err(error.into()),
        }
        match sweep::look_again(&looked.connection.client, &carrier).await? {
            Some(now) => carrier = now,
            None => return Ok(false),
        }
    }
    Err(last.map_or_else(|| anyhow::anyhow!("it changes all the time"), Into::into))
}

/// In the role that keeps finalizers, for the plugin, by hand.
fn call(plugin: &str, carrier: &Carrier) -> CallContext {
    let by_hand = Principal {
        role: Role::Plugin,
        plugin: plugin.into(),
        digest: "by-hand".into(),
        replica: "windlass-finalizers".into(),
        grants: LiveGrants::new(Grants::default()),
        impersonate: None,
        fence: Fenced::default(),
    };
    let namespaces = carrier.key.namespace.iter().map(ToString::to_string).collect();
    let names = vec![carrier.key.name.to_string()];
    let grants = Role::Finalizer.grants(carrier.resource.group(), &carrier.resource.plural, namespaces, names);
    CallContext {
        principal: Arc::new(by_hand.in_role(Role::Finalizer, grants)),
        controller: "finalizers".into(),
        primary_kind: carrier.resource.kind.clone(),
        primary_key: carrier.key.clone(),
        primary: None,
        trace_id: format!("{:032x}", rand::random::<u128>()).into(),
        hold: Hold::detached(),
        overlay: Overlay::default(),
        config: "{}".into(),
    }
}
