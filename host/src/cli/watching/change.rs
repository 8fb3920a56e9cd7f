//! Manual changes: show the operator the change, ask, then change only the objects that were shown, with the host's own
//! writer, and report the result for each.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use windlass_core::call::ports::CallContext;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::ObjectRef;
use windlass_core::rights::principal::{Principal, Role};
use windlass_core::write::Operation;
use windlass_kube::Writer;
use windlass_kube::sweep::{self, Carrier};

use crate::cli::watching::marked::{SweptCluster, reference};

/// Attempts for an object that changes concurrently.
const CHANGE_ATTEMPTS_MAX: usize = 4;

/// The flags that ask before a change, or only show it.
#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    /// Only show what would be done.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation.
    #[arg(long, short)]
    yes: bool,
}

impl ChangeArgs {
    /// Shows the change and asks, unless `--yes`. `false` if it must not be made.
    pub(crate) fn agreed(&self, shown: &str, question: &str) -> anyhow::Result<bool> {
        crate::cli::print(shown)?;
        if self.dry_run {
            crate::cli::print("nothing was done (--dry-run)\n")?;
            return Ok(false);
        }
        if !self.yes && !confirmed(question)? {
            bail!("nothing was done");
        }
        Ok(true)
    }
}

/// Asks at the terminal.
fn confirmed(question: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!(
            "cannot ask for confirmation, as this is not a terminal: use --yes, or --dry-run to see what would be done"
        );
    }
    eprint!("{question} Type yes: ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(answer.trim() == "yes")
}

/// A change to each object.
pub(crate) struct ManualChange<'a> {
    /// The plugin in whose name the change is made.
    pub(crate) plugin: &'a str,
    /// The role in which the host makes the change. It determines the rights over the object.
    pub(crate) role: Role,
    /// The word for what was done, such as "released".
    pub(crate) done: &'a str,
    /// The write for the object's current state. `None` if there is nothing left to do.
    pub(crate) operation: &'a dyn Fn(&Carrier) -> Option<Operation>,
}

impl ManualChange<'_> {
    /// Changes all objects found. Returns the number of failures.
    pub(crate) async fn all(&self, looked: &SweptCluster) -> anyhow::Result<usize> {
        let writer = Writer::new(looked.connection.client.clone(), looked.discovery.clone());
        let (mut failed, done) = (0, self.done);
        for carrier in &looked.swept.carriers {
            let object = reference(carrier);
            let line = match self.one(looked, &writer, carrier.clone()).await {
                Ok(true) => format!("{object}: {done}\n"),
                Ok(false) => format!("{object}: nothing to do any more\n"),
                Err(error) => {
                    failed += 1;
                    format!("{object}: NOT {done}: {error:#}\n")
                }
            };
            crate::cli::print(&line)?;
        }
        Ok(failed)
    }

    /// Changes the object if it is still the object that was shown. `false` if nothing is left to do, or if the object
    /// is gone.
    async fn one(&self, looked: &SweptCluster, writer: &Writer, mut carrier: Carrier) -> anyhow::Result<bool> {
        let mut last: Option<ApiError> = None;
        for _ in 0..CHANGE_ATTEMPTS_MAX {
            let Some(operation) = (self.operation)(&carrier) else { return Ok(false) };
            match writer.write(Arc::new(self.call(&carrier)), operation).await {
                Ok(_) => return Ok(true),
                Err(error) if error.is_object_missing() => return Ok(false),
                // The object has changed since the listing, or the write may have gone through.
                Err(error)
                    if matches!(error.reason, ApiReason::Conflict | ApiReason::Invalid | ApiReason::UnknownOutcome) =>
                {
                    last = Some(error);
                }
                Err(error) => return Err(error.into()),
            }
            match sweep::look_again(&looked.discovery, &carrier).await? {
                Some(now) => carrier = now,
                None => return Ok(false),
            }
        }
        Err(last.map_or_else(|| anyhow::anyhow!("it keeps changing"), Into::into))
    }

    /// The call context: the role acts manually for the plugin, with rights over this object only.
    fn call(&self, carrier: &Carrier) -> CallContext {
        let role = self.role.name().unwrap_or_default();
        let by_hand = Principal::of_plugin(self.plugin, "by-hand", format!("windlass-{role}"));
        let namespaces = carrier.key.namespace.iter().map(ToString::to_string).collect();
        let names = vec![carrier.key.name.to_string()];
        let grants = self.role.grants(carrier.resource.group(), &carrier.resource.plural, namespaces, names);
        CallContext {
            trace_id: format!("{:032x}", windlass_world::random::<u128>()).into(),
            ..CallContext::detached(
                by_hand.in_role(self.role, grants),
                role,
                carrier.resource.kind.clone(),
                carrier.key.clone(),
            )
        }
    }
}

/// A reference to the listed object, including its UID.
pub(crate) fn incarnation(carrier: &Carrier) -> ObjectRef {
    ObjectRef { kind: carrier.resource.kind.clone(), key: carrier.key.clone(), uid: Some(carrier.uid.as_str().into()) }
}
