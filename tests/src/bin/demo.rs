//! `make demo`: starts `windlass dev` with the `WebApp` plugin and tells the story of a `WebApp`, each step checked.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;
use windlass_tests::host::Host;
use windlass_tests::objects::Objects;
use windlass_tests::story::{Story, Told};
use windlass_tests::{paths, server};

/// Shows a WebAssembly plugin reconcile, on the embedded API server.
#[derive(Debug, Parser)]
struct Arguments {
    /// Stop before the `WebApp` is deleted, and leave everything running until Ctrl-C.
    #[arg(long)]
    keep: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match demo(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nThe demo failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn demo(arguments: &Arguments) -> anyhow::Result<()> {
    let kubeconfig = paths::root().join(".windlass/kubeconfig");
    println!("$ windlass dev --plugins target/plugins");
    let host = start(&kubeconfig)?;
    host.says("embedded API server is ready").await?;
    let objects = Objects::new(server::client(&kubeconfig).await?, "default");
    println!("\n$ kubectl apply -f examples/webapp/crd.yaml -f examples/webapp/webapp.yaml");
    server::install_webapp(&objects).await?;
    let story = Story::new(&objects);
    tell(&story.create().await?);
    tell(&story.run().await?);
    println!("\n$ kubectl patch webapp shop --type merge -p '{{\"spec\":{{\"replicas\":4}}}}'");
    tell(&story.scale().await?);
    println!("\n$ kubectl delete deployment shop");
    tell(&story.delete_deployment().await?);
    println!("\n$ kubectl patch service shop --type merge -p '{{\"spec\":{{\"selector\":…}}}}'");
    tell(&story.edit_service().await?);
    if arguments.keep {
        return keep(host).await;
    }
    println!("\n$ kubectl delete webapp shop");
    tell(&story.delete().await?);
    println!("\n$ kill -TERM windlass");
    let status = host.terminate().await?;
    ensure!(status.success(), "windlass stopped with {status}");
    println!("\nThat was the main job. `make demo KEEP=1` leaves it running for you to try.");
    Ok(())
}

fn start(kubeconfig: &Path) -> anyhow::Result<Host> {
    let plugins = paths::plugins()?;
    // The audit lines say for machines what the plugin's own lines say for people.
    let quiet = "info,windlass::audit=warn";
    let arguments: [&OsStr; 7] = [
        "dev".as_ref(),
        "--log-level".as_ref(),
        quiet.as_ref(),
        "--plugins".as_ref(),
        plugins.as_ref(),
        "--kubeconfig-out".as_ref(),
        kubeconfig.as_ref(),
    ];
    Host::start(&arguments, Some(Box::new(|line| println!("    {line}")))).context("start windlass dev")
}

fn tell(told: &Told) {
    println!("  ✓ {} ({} ms)", told.line, told.took.as_millis());
}

async fn keep(mut host: Host) -> anyhow::Result<()> {
    println!(
        "\nIt goes on running until Ctrl-C. In another terminal, from this folder:\n\
         \n  export KUBECONFIG=.windlass/kubeconfig\
         \n  kubectl get webapps,deployments,services\
         \n  kubectl describe webapp shop\
         \n  kubectl scale webapp shop --replicas=3\
         \n  kubectl delete service shop        # it comes back\
         \n  kubectl edit webapp shop           # try replicas: 51, or an empty image\n"
    );
    let status = tokio::select! {
        status = host.ends_at_last() => status?,
        // In a terminal windlass has the signal too, and stops by itself; elsewhere it is told here.
        interrupt = tokio::signal::ctrl_c() => {
            interrupt?;
            match tokio::time::timeout(Duration::from_secs(1), host.ends_at_last()).await {
                Ok(status) => status?,
                Err(_) => host.terminate().await?,
            }
        }
    };
    println!("windlass ended: {status}");
    Ok(())
}
