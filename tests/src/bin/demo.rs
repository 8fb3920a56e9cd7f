//! `make demo`: starts `windlass dev` with the `WebApp` plugin, runs the story of a `WebApp`, and checks each step.
//!
//! It prints the lines of the host's log that belong to the story, shortened. The whole log goes to a file.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;
use windlass_tests::host::Host;
use windlass_tests::objects::Objects;
use windlass_tests::story::{StepResult, Story};
use windlass_tests::{paths, server};

/// Shows how a WebAssembly plugin reconciles, on the embedded API server.
#[derive(Debug, Parser)]
struct Arguments {
    /// Stop before the `WebApp` is deleted, and leave everything running until Ctrl-C.
    #[arg(long)]
    keep: bool,
}

/// The file of the host's whole log, relative to the root of the checkout.
const LOG: &str = ".windlass/demo.log";

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
    print(&story.create().await?);
    print(&story.run().await?);
    println!("\n$ kubectl patch webapp shop --type merge -p '{{\"spec\":{{\"replicas\":4}}}}'");
    print(&story.scale().await?);
    println!("\n$ kubectl delete deployment shop");
    print(&story.delete_deployment().await?);
    println!("\n$ kubectl patch service shop --type merge -p '{{\"spec\":{{\"selector\":…}}}}'");
    print(&story.edit_service().await?);
    if arguments.keep {
        return keep(host).await;
    }
    println!("\n$ kubectl delete webapp shop");
    print(&story.delete().await?);
    println!("\n$ kill -TERM windlass");
    let status = host.terminate().await?;
    ensure!(status.success(), "windlass stopped with {status}");
    println!(
        "\nThat was the main job. `make demo KEEP=1` leaves it running for you to try. The host's whole log: {LOG}"
    );
    Ok(())
}

fn start(kubeconfig: &Path) -> anyhow::Result<Host> {
    let plugins = paths::plugins()?;
    // Hide the audit lines: they repeat for machines what the plugin's own lines report.
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
    let log = paths::root().join(LOG);
    if let Some(folder) = log.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let log = File::create(&log).with_context(|| format!("write {}", log.display()))?;
    let listener = move |line: &str| {
        // A failed write, such as to a full disk, must not stop the demo.
        let _ = writeln!(&log, "{line}");
        if let Some(short) = shorten(line) {
            println!("    {short}");
        }
    };
    Host::start(&arguments, Some(Box::new(listener))).context("start windlass dev")
}

/// The log messages that belong to the story, with the fields to show.
const SHOWN: [(&str, &[&str]); 5] = [
    ("embedded API server is ready", &[]),
    ("plugin loaded", &["plugin", "version"]),
    ("controller started", &["primary"]),
    ("applied a child", &["kind", "reason"]),
    ("stopped", &["clean", "took_ms"]),
];

/// Shortens a line of the host's log for the demo. Keeps warnings and errors without their time, and the messages in
/// [`SHOWN`] with some fields. Returns `None` for all other lines.
fn shorten(line: &str) -> Option<String> {
    let (_time, rest) = line.split_once(' ')?;
    let (level, rest) = rest.trim_start().split_once(' ')?;
    match level {
        "WARN" | "ERROR" => Some(format!("{level} {rest}")),
        "INFO" => {
            let (message, fields) = SHOWN.iter().find(|(message, _)| rest.starts_with(message))?;
            Some(fields.iter().fold((*message).to_owned(), |short, field| short + &shown_field(rest, field)))
        }
        _ => None,
    }
}

/// Returns the field ` name=value` of a log line, or an empty text if the line lacks it. In the log, the plugin's own
/// fields begin with `fields.`.
fn shown_field(line: &str, name: &str) -> String {
    let line = line.replace(" fields.", " ").replace('"', "");
    let Some((_, after)) = line.split_once(&format!(" {name}=")) else { return String::new() };
    // A value may contain blanks, so it ends before the next word with an equals sign.
    let value: Vec<&str> = after
        .split(' ')
        .enumerate()
        .take_while(|(at, word)| *at == 0 || !word.contains('='))
        .map(|(_, word)| word)
        .collect();
    format!(" {name}={}", value.join(" "))
}

fn print(result: &StepResult) {
    println!("  ✓ {} ({} ms)", result.line, result.took.as_millis());
}

async fn keep(mut host: Host) -> anyhow::Result<()> {
    println!(
        "\nwindlass runs until Ctrl-C. In another terminal, from this folder:\n\
         \n  export KUBECONFIG=.windlass/kubeconfig\
         \n  kubectl get webapps,deployments,services\
         \n  kubectl describe webapp shop\
         \n  kubectl scale webapp shop --replicas=3\
         \n  kubectl delete service shop        # it comes back\
         \n  kubectl edit webapp shop           # try replicas: 51, or an empty image\n"
    );
    let status = tokio::select! {
        status = host.ends_at_last() => status?,
        // On a terminal, windlass receives the signal too and stops by itself. Otherwise, stop it here.
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

#[cfg(test)]
mod tests {
    use super::shorten;

    #[test]
    fn the_lines_of_the_story_are_shown_with_few_fields() {
        let started = "2026-11-23T05:55:28.163862Z  INFO controller started plugin=webapp controller=webapp \
                       primary=\"apps.kubedojo.io/v1beta1 WebApp\" workers=16";
        let expected = "controller started primary=apps.kubedojo.io/v1beta1 WebApp";
        assert_eq!(shorten(started).as_deref(), Some(expected));
        let applied = "2026-11-23T05:55:28.170500Z  INFO applied a child plugin=webapp controller=webapp \
                       key=default/shop trace_id=18 fields.kind=Deployment fields.reason=Created";
        assert_eq!(shorten(applied).as_deref(), Some("applied a child kind=Deployment reason=Created"));
    }

    #[test]
    fn trouble_is_shown_whole_and_the_rest_is_not() {
        assert_eq!(shorten("2026-11-23T05:55:28.1Z  WARN slow key=a/b").as_deref(), Some("WARN slow key=a/b"));
        assert_eq!(shorten("2026-11-23T05:55:28.1Z  INFO the watches have ended took_ms=0"), None);
        assert_eq!(shorten("   and so on"), None);
    }
}
