//! A guest whose behaviour a test chooses by patching its bytes: one build, many plugins, most of them bad.
//!
//! The README lists the modes. It uses the SDK where the SDK lets it misbehave, and the raw bindings elsewhere.

mod keeping;
mod kinds;
mod mapping;
mod modes;
mod operator;
mod outside;
mod steady;
mod watching;
mod writing;

use std::hint::black_box;

use serde_json::{Value, json};
use windlass_sdk::bindings::exports::windlass::plugin::reconciler::{self, Guest};
use windlass_sdk::bindings::windlass::plugin::types;
use windlass_sdk::manifest::{Manifest, Options, Permission, Predicate, Watch};
use windlass_sdk::{Failures, ObjectRef, Outcome, Reconciler, Request, cache, clock, entry, info, random, writes};

use modes::Mode;

/// The number of calls that `hungry` makes at once.
const HUNGRY_WORKERS: u32 = 64;
/// The number of times that `requeue` asks to run again.
const REQUEUES: u64 = 5;
/// The annotation in which `requeue` counts its runs.
const RUNS: &str = "chameleon.windlass.dev/runs";

struct Chameleon;

// `plugin!` does not allow the misbehaviour of some modes.
impl Guest for Chameleon {
    fn describe() -> String {
        let manifest = entry::describe::<Self>();
        match modes::chosen() {
            Mode::DescribeTraps => panic!("chameleon: describe was told to trap"),
            Mode::ManifestNotJson => manifest.replacen('{', "{not json, ", 1),
            Mode::ManifestUnknownField => manifest.replacen('{', r#"{"colour":"green","#, 1),
            _ => manifest,
        }
    }

    fn reconcile(request: types::Request) -> Result<reconciler::Outcome, Vec<types::Failure>> {
        entry::reconcile::<Self>(request)
    }
}

windlass_sdk::export_guest!(Chameleon);
windlass_sdk::mapper!(Chameleon);

impl Reconciler for Chameleon {
    fn manifest() -> Manifest {
        let mode = modes::chosen();
        if let Mode::Operator(number) = mode {
            return operator::manifest(number);
        }
        let name = if mode == Mode::ManifestOtherName { "iguana" } else { "chameleon" };
        let kind = keeping::kind(mode);
        let mut primary = keeping::primary(mode, Watch::of(kind.0, kind.1));
        if !mode.is_wide() {
            primary = primary.labels("chameleon=true");
        }
        if mode == Mode::Requeue {
            // A change of the plugin's own annotation must not run a key again. Only the delay that the plugin asks for
            // may run it.
            primary = primary.predicate(Predicate::Fields { pointers: vec!["/data".into()] });
        }
        let mut controller = keeping::controller(mode, watching::controller(mode, primary));
        if mode == Mode::Hungry {
            controller = controller.options(Options { workers: Some(HUNGRY_WORKERS), ..Options::default() });
        }
        let manifest = Manifest::new(name, "0.1.0").controller(controller).permission(Permission::new(
            "",
            "configmaps",
            &["patch"],
        ));
        let manifest = keeping::manifest(mode, manifest);
        match mode {
            Mode::Outside(port) => outside::declare(manifest, port),
            Mode::DescribeUnstable => {
                manifest.description(format!("described at {} with {}", clock::now(), random::number()))
            }
            Mode::DescribeImports => {
                let read = cache::get::<Value>(&ObjectRef::namespaced("v1", "ConfigMap", "default", "any"));
                manifest.description(format!("read {}", read.is_ok()))
            }
            _ => manifest,
        }
    }

    fn reconcile(request: Request) -> Result<Outcome, Failures> {
        match modes::chosen() {
            Mode::ReconcileTraps => panic!("chameleon: reconcile of {} was told to trap", request.name),
            Mode::ReconcileTransient => {
                windlass_sdk::info!("chameleon: about to fail", attempt = request.attempt);
                Err(Failures::transient("chameleon: told to fail for now"))
            }
            Mode::ReconcileTerminal => Err(Failures::terminal("chameleon: told to fail for good")),
            Mode::ReconcileEmptyFailures => Err(Failures::new()),
            Mode::ReconcileLoops => spin(),
            Mode::ReconcileAllocates => devour(),
            Mode::Requeue => requeue(&request),
            Mode::Hungry => Ok(Outcome::RequeueAfter(0)),
            Mode::Referring => watching::count_referrers(&request),
            Mode::Slim => watching::tell_fields(&request),
            Mode::Batch => writing::batch(),
            Mode::Outside(port) => outside::visit(&request, port),
            Mode::Finalizing | Mode::Choosy => keeping::finalize(&request),
            Mode::Configured => keeping::greet(&request),
            Mode::Kinds => kinds::sweep(&request),
            Mode::Timed => watching::tell_time(&request),
            Mode::Steady(generation) => steady::reconcile(generation, &request),
            _ => {
                info!("chameleon reconciled", name = request.name, attempt = request.attempt);
                Ok(Outcome::Done)
            }
        }
    }
}

fn spin() -> ! {
    loop {
        black_box(());
    }
}

/// Allocates a mebibyte at a time until a limit is reached.
fn devour() -> ! {
    let mut eaten = Vec::new();
    loop {
        eaten.push(black_box(vec![1_u8; 1 << 20]));
    }
}

fn requeue(request: &Request) -> Result<Outcome, Failures> {
    let Some(object) = request.object::<Value>()? else { return Ok(Outcome::Done) };
    let runs = object["metadata"]["annotations"][RUNS].as_str().and_then(|runs| runs.parse().ok()).unwrap_or(0_u64) + 1;
    let target = ObjectRef::namespaced("v1", "ConfigMap", request.namespace.clone().unwrap_or_default(), &request.name);
    writes::merge(target, &json!({"metadata": {"annotations": {RUNS: runs.to_string()}}})).send()?;
    Ok(if runs <= REQUEUES { Outcome::RequeueAfter(50) } else { Outcome::Done })
}
