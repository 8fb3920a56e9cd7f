//! Mappings and predicates by a plugin's code, tested with the guest `chameleon`: which objects a change wakes, and
//! what happens if the code fails.

use anyhow::ensure;
use serde_json::{Value, json};
use windlass_tests::chameleon;
use windlass_tests::delivery;
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use crate::caches::runs;

/// Services `web` and `api`, each of which selects its own name, and a host that runs the chameleon with its mapper.
struct Stage {
    server: Server,
    host: Host,
    _plugins: tempfile::TempDir,
}

impl Stage {
    async fn new(kind: Kind) -> anyhow::Result<Self> {
        let server = Server::start(kind).await?;
        for name in ["web", "api"] {
            let spec = json!({"selector": {"app": name}, "ports": [{"port": 80}]});
            let metadata = json!({"name": name, "labels": {"chameleon": "true"}});
            let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec});
            server.objects().apply(&service).await?;
        }
        let plugins = tempfile::tempdir()?;
        chameleon::write("mapping", &plugins.path().join("chameleon.wasm"))?;
        let host = Host::run(server.kubeconfig(), server.objects().namespace(), plugins.path())?;
        let stage = Self { server, host, _plugins: plugins };
        stage.run_more_than([0, 0]).await?;
        Ok(stage)
    }

    /// The number of runs of each Service.
    fn ran(&self) -> [usize; 2] {
        ["web", "api"].map(|name| runs(&self.host, name))
    }

    async fn run_more_than(&self, before: [usize; 2]) -> anyhow::Result<[usize; 2]> {
        let more = |now: [usize; 2]| now.iter().zip(before).all(|(now, before)| *now > before);
        until("both ran again", || async { if more(self.ran()) { Ok(self.ran()) } else { Err(self.ran()) } }).await
    }

    async fn web_runs_more_than(&self, before: usize) -> anyhow::Result<[usize; 2]> {
        self.runs_more_than(0, before).await
    }

    async fn runs_more_than(&self, which: usize, before: usize) -> anyhow::Result<[usize; 2]> {
        until("it ran again", || async { if self.ran()[which] > before { Ok(self.ran()) } else { Err(self.ran()) } })
            .await
    }

    async fn map(&self, name: &str, app: &str, data: Value) -> anyhow::Result<()> {
        let metadata = json!({"name": name, "labels": {"app": app}});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        self.server.objects().apply(&map).await?;
        Ok(())
    }
}

async fn a_life(kind: Kind) -> anyhow::Result<()> {
    let stage = Stage::new(kind).await?;
    let [web, api] = stage.ran();
    stage.map("moving", "web", json!({})).await?;
    let [web, _] = stage.web_runs_more_than(web).await?;
    assert_eq!(stage.ran()[1], api, "its selector selects others:\n{}", stage.host.log());
    // The Service that the object no longer maps to runs too.
    stage.map("moving", "api", json!({})).await?;
    let [web, api] = stage.run_more_than([web, api]).await?;
    // The object `telling` refers to the object `told`, which the mapper reads from the cache.
    stage.map("told", "nobody", json!({"service": "api"})).await?;
    let [web, api] = [web, stage.runs_more_than(1, api).await?[1]];
    stage.map("telling", "nobody", json!({"via": "told"})).await?;
    let [_, api] = stage.runs_more_than(1, api).await?;
    assert_eq!(stage.ran()[0], web, "nobody has named it:\n{}", stage.host.log());
    // The object names a Service, which runs both for the change and for the deletion.
    stage.map("naming", "nobody", json!({"service": "web"})).await?;
    let [web, _] = stage.web_runs_more_than(web).await?;
    stage.server.objects().delete("ConfigMap", "naming").await?;
    stage.web_runs_more_than(web).await?;
    assert_eq!(stage.ran()[1], api, "nobody has named it:\n{}", stage.host.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mapper_chooses_which_primaries_run_on_the_embedded_server() -> anyhow::Result<()> {
    a_life(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mapper_chooses_which_primaries_run_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_life(Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_mapper_runs_every_primary_and_the_reason_is_logged() -> anyhow::Result<()> {
    let stage = Stage::new(Kind::Embedded).await?;
    let mut before = stage.ran();
    for (misbehave, words) in [
        ("fail", "chameleon: the mapper was told to fail"),
        ("trap", "chameleon: the mapper was told to trap"),
        ("live", "`map` calls `live.get`"),
        ("index", "the index `by-nothing`"),
    ] {
        stage.map(misbehave, "nobody", json!({"misbehave": misbehave})).await?;
        before = stage.run_more_than(before).await?;
        stage.host.says(words).await?;
        // Delete the object, so that it no longer maps anything; otherwise the pauses would add up.
        stage.server.objects().delete("ConfigMap", misbehave).await?;
        before = stage.run_more_than(before).await?;
    }
    stage.host.says("the mapper failed: every primary runs instead").await?;
    // The mapper is called again once it works.
    stage.map("naming", "nobody", json!({"service": "web"})).await?;
    stage.web_runs_more_than(before[0]).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mapper_cannot_run_a_primary_that_does_not_exist() -> anyhow::Result<()> {
    let stage = Stage::new(Kind::Embedded).await?;
    let [web, _] = stage.ran();
    stage.map("elsewhere", "web", json!({"service": "other", "namespace": "elsewhere"})).await?;
    stage.web_runs_more_than(web).await?;
    assert_eq!(runs(&stage.host, "other"), 0, "{}", stage.host.log());
    Ok(())
}

/// A host with the chameleon, whose predicate admits objects with the label `counts=yes`.
struct Judged {
    server: Server,
    host: Host,
    plugins: tempfile::TempDir,
}

impl Judged {
    /// Creates the `ConfigMaps` `led`, `other` and `wanted`, and a Secret `led`. Only `wanted` and the Secret count.
    async fn new(kind: Kind) -> anyhow::Result<Self> {
        let server = Server::start(kind).await?;
        for (name, counts) in [("led", "no"), ("other", "no"), ("wanted", "yes")] {
            server.objects().apply(&judged("ConfigMap", name, counts)).await?;
        }
        server.objects().apply(&judged("Secret", "led", "yes")).await?;
        let plugins = tempfile::tempdir()?;
        chameleon::write("judging-0", &plugins.path().join("chameleon.wasm"))?;
        let host = Host::run(server.kubeconfig(), server.objects().namespace(), plugins.path())?;
        Ok(Self { server, host, plugins })
    }

    async fn apply(&self, kind: &str, name: &str, counts: &str) -> anyhow::Result<()> {
        self.server.objects().apply(&judged(kind, name, counts)).await?;
        Ok(())
    }

    fn ran(&self, name: &str) -> usize {
        runs(&self.host, name)
    }

    async fn runs_more_than(&self, name: &str, before: usize) -> anyhow::Result<usize> {
        let what = format!("{name} runs");
        until(&what, || async { if self.ran(name) > before { Ok(self.ran(name)) } else { Err(self.ran(name)) } }).await
    }

    async fn has_finalizer(&self, name: &str) -> anyhow::Result<bool> {
        let object = self.server.objects().get("ConfigMap", name).await?.unwrap_or_default();
        Ok(object["metadata"]["finalizers"].is_array())
    }
}

fn judged(kind: &str, name: &str, counts: &str) -> Value {
    let metadata = json!({"name": name, "labels": {"chameleon": "true", "counts": counts}});
    json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})
}

async fn a_judged_life(kind: Kind) -> anyhow::Result<()> {
    let stage = Judged::new(kind).await?;
    for name in ["wanted", "led"] {
        stage.runs_more_than(name, 0).await?;
    }
    stage.host.says("chameleon judges other of judged").await?;
    // An object that is new, and then begins to match.
    stage.apply("ConfigMap", "new", "no").await?;
    stage.apply("ConfigMap", "new", "yes").await?;
    stage.runs_more_than("new", 0).await?;
    // An object that stops matching runs only if another object leads to it. The host's own addition of the
    // finalizer was judged too, so this is the fourth judgement.
    stage.apply("ConfigMap", "new", "no").await?;
    stage.host.says_times("chameleon judges new of judged", 4).await?;
    let new = stage.ran("new");
    stage.apply("Secret", "new", "yes").await?;
    stage.runs_more_than("new", new).await?;
    ensure!(
        stage.ran("other") == 0 && !stage.has_finalizer("other").await?,
        "nothing led to it:\n{}",
        stage.host.log()
    );
    ensure!(stage.has_finalizer("wanted").await? && stage.has_finalizer("new").await?, "{}", stage.host.log());
    // Another generation begins with the same keys.
    let [wanted, led] = ["wanted", "led"].map(|name| stage.ran(name));
    delivery::replace(&stage.plugins.path().join("chameleon.wasm"), |path| chameleon::write("judging-1", path))?;
    stage.runs_more_than("wanted", wanted).await?;
    stage.runs_more_than("led", led).await?;
    ensure!(stage.ran("other") == 0, "it still does not match:\n{}", stage.host.log());
    // Deletions count: an object with the finalizer is cleaned up, although it does not match any more.
    stage.server.objects().delete("ConfigMap", "new").await?;
    stage.server.objects().delete("ConfigMap", "other").await?;
    stage.runs_more_than("other", 0).await?;
    until("it is gone", || async {
        match stage.server.objects().get("ConfigMap", "new").await? {
            None => Ok(()),
            Some(object) => anyhow::bail!("{object}"),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn code_says_which_changes_count_on_the_embedded_server() -> anyhow::Result<()> {
    a_judged_life(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn code_says_which_changes_count_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_judged_life(Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_over_which_the_predicate_fails_counts() -> anyhow::Result<()> {
    let stage = Judged::new(Kind::Embedded).await?;
    stage.runs_more_than("wanted", 0).await?;
    for (misbehave, words) in
        [("fail", "chameleon: the predicate was told to fail"), ("trap", "chameleon: the predicate was told to trap")]
    {
        stage.apply("ConfigMap", misbehave, misbehave).await?;
        stage.runs_more_than(misbehave, 0).await?;
        stage.host.says(words).await?;
    }
    stage.host.says("the predicate failed: the change counts").await?;
    ensure!(stage.ran("other") == 0, "{}", stage.host.log());
    Ok(())
}
