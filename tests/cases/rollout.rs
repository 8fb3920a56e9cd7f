//! Tests a next version beside the running one, as its operator sees it. The writes in which the next version differs
//! are shown but never made, and the command line promotes or rejects the version.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Output;

use anyhow::Context as _;
use serde_json::{Value, json};
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;
use windlass_tests::{chameleon, delivery, paths};

use crate::admin::{plugin, watched};

/// The annotation in which the guest's mode `requeue` counts its calls, and the annotation that the other version uses.
const COUNTED: [&str; 2] = ["chameleon.windlass.dev/runs", "chameleon.windlass.dev/runz"];

/// Writes the version that counts its calls in the second annotation.
fn write_other(path: &Path) -> anyhow::Result<()> {
    chameleon::write("requeue", path)?;
    let mut bytes = std::fs::read(path)?;
    let [from, to] = COUNTED.map(str::as_bytes);
    let at = bytes.windows(from.len()).position(|window| window == from).context("the guest has the annotation")?;
    bytes[at..at + to.len()].copy_from_slice(to);
    Ok(std::fs::write(path, bytes)?)
}

/// `windlass rollout COMMAND chameleon …`
async fn rollout<S: AsRef<OsStr>>(command: &str, more: &[S]) -> anyhow::Result<Output> {
    let mut windlass = tokio::process::Command::new(paths::windlass()?);
    windlass.args(["rollout", command, "chameleon"]).args(more).env_remove("WINDLASS_ADMIN_ADDRESS");
    Ok(windlass.output().await?)
}

async fn asked(command: &str, address: SocketAddr) -> anyhow::Result<(Option<i32>, String)> {
    let output = rollout(command, &["--admin-address", &address.to_string()]).await?;
    Ok((output.status.code(), String::from_utf8(output.stdout)? + &String::from_utf8(output.stderr)?))
}

async fn create(server: &Server, name: &str) -> anyhow::Result<()> {
    let metadata = json!({"name": name, "labels": {"chameleon": "true"}});
    server.objects().apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).await?;
    Ok(())
}

/// The annotations of an object, once `annotation` counts this many calls.
async fn counted(server: &Server, name: &str, annotation: &str, times: &str) -> anyhow::Result<Value> {
    until(&format!("{name} has {annotation}: {times}"), || async {
        let object = server.objects().get("ConfigMap", name).await?.unwrap_or_default();
        let annotations = object["metadata"]["annotations"].clone();
        anyhow::ensure!(annotations[annotation] == times, "{annotations}");
        Ok(annotations)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_writes_of_a_next_version_are_shown_before_it_makes_any() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let directory = tempfile::tempdir()?;
    let [current, next] = ["chameleon.wasm", "chameleon.next.wasm"].map(|name| directory.path().join(name));
    chameleon::write("requeue", &current)?;
    let (host, address) = watched(&server, directory.path(), &["--leases=none"]).await?;
    host.says("controller started").await?;
    let (code, said) = asked("diff", address).await?;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("no next version"), "{said}");

    delivery::replace(&next, write_other)?;
    host.says("the next version is called as a shadow").await?;
    create(&server, "first").await?;
    let annotations = counted(&server, "first", COUNTED[0], "6").await?;
    assert!(annotations.get(COUNTED[1]).is_none(), "nothing of the shadow's is written: {annotations}");
    until("the difference is told", || async {
        let (code, said) = asked("diff", address).await?;
        let is_explained =
            code == Some(1) && said.contains("ConfigMap") && COUNTED.iter().all(|name| said.contains(name));
        anyhow::ensure!(is_explained, "{code:?}: {said}");
        Ok(())
    })
    .await?;

    let place = [OsStr::new("--plugins"), directory.path().as_os_str()];
    let wrong = rollout("promote", &[&place[..], &["--digest".as_ref(), "000000000000".as_ref()]].concat()).await?;
    assert!(!wrong.status.success() && next.exists(), "it is another one");
    assert!(rollout("abort", &place).await?.status.success());
    host.says("there is no next version any more").await?;
    assert!(plugin(address, "chameleon").await?["next"].is_null());

    delivery::replace(&next, write_other)?;
    until("it is compared again", || async {
        let (_, said) = asked("status", address).await?;
        anyhow::ensure!(said.contains("shadowing") && said.contains("promotion by hand"), "{said}");
        Ok(())
    })
    .await?;
    assert!(rollout("promote", &place).await?.status.success());
    host.says("a new generation has taken over").await?;
    create(&server, "second").await?;
    let annotations = counted(&server, "second", COUNTED[1], "6").await?;
    assert!(annotations.get(COUNTED[0]).is_none(), "it is the only one now: {annotations}");
    Ok(())
}

/// A policy under which every new file waits for the operator.
const WAITS: &str = "\
apiVersion: windlass.dev/v1alpha1
kind: PluginPolicy
plugin: chameleon
rollout: shadow
rules: [{apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch, create, update, patch]}]
";

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_file_waits_as_the_policy_says_even_after_a_restart() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let directory = tempfile::tempdir()?;
    let own = directory.path().join("chameleon.wasm");
    std::fs::write(directory.path().join("chameleon.policy.yaml"), WAITS)?;
    chameleon::write("requeue", &own)?;
    let run = async || watched(&server, directory.path(), &["--leases=none", "--grants=policy"]).await;
    let (host, _) = run().await?;
    host.says("controller started").await?;
    host.terminate().await?;
    // While no host runs.
    delivery::replace(&own, write_other)?;
    let (host, address) = run().await?;
    host.says("the next version is called as a shadow").await?;
    create(&server, "first").await?;
    let annotations = counted(&server, "first", COUNTED[0], "6").await?;
    assert!(annotations.get(COUNTED[1]).is_none(), "what ran before runs: {annotations}");

    let place = [OsStr::new("--plugins"), directory.path().as_os_str()];
    let gave_up = rollout("abort", &place).await?;
    assert!(String::from_utf8(gave_up.stdout)?.contains("is the same as chameleon.current.wasm again"));
    host.says("there is no next version any more").await?;
    assert!(!rollout("promote", &place).await?.status.success(), "none waits");

    delivery::replace(&own, write_other)?;
    until("it waits again", || async {
        let (_, said) = asked("status", address).await?;
        anyhow::ensure!(said.contains("shadowing"), "{said}");
        Ok(())
    })
    .await?;
    let promoted = rollout("promote", &place).await?;
    assert!(String::from_utf8(promoted.stdout)?.contains("chameleon.wasm is the current version now"));
    host.says("a new generation has taken over").await?;
    create(&server, "second").await?;
    counted(&server, "second", COUNTED[1], "6").await?;
    Ok(())
}
