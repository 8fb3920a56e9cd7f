//! Replaces a plugin's file again and again while the plugin runs: by good generations, by generations that trap, by
//! files that are not plugins, and by generations with other primaries. No key is lost, no key is in two calls at once,
//! nothing is listed a second time, and a generation that fails its probation is rolled back.
//!
//! `WINDLASS_SWAP=full` runs 200 swaps of a plugin with 1,000 keys.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::json;
use windlass_proxy::{Match, Verb};
use windlass_tests::host::{Host, Listener};
use windlass_tests::proxied::Proxied;
use windlass_tests::server::{Kind, Server};
use windlass_tests::{busy, chameleon, delivery, wait};

/// Enough time for a swap on a busy machine.
const SWAP_TIMEOUT: Duration = Duration::from_mins(3);

/// How long an unused cache is kept.
const LINGER: Duration = Duration::from_mins(1);

/// The number of swaps and of the plugin's keys.
fn form() -> (u16, usize) {
    if std::env::var("WINDLASS_SWAP").is_ok_and(|form| form == "full") { (200, 1_000) } else { (20, 200) }
}

/// The kind of file that replaces the plugin's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Good,
    Broken,
    Trapping,
    /// Selects other primaries.
    Replacement,
}

const COURSE: [Sort; 5] = [Sort::Good, Sort::Trapping, Sort::Good, Sort::Broken, Sort::Replacement];

/// Counts from the plugin's own log lines.
#[derive(Debug, Default)]
struct Ledger {
    keys: BTreeMap<String, Key>,
    /// The keys that were in two calls at once.
    doubled: Vec<String>,
    rollbacks: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Key {
    in_call: bool,
    /// The generation that began the last call, and the number of calls begun.
    generation: u16,
    calls: u64,
}

impl Ledger {
    fn line(&mut self, line: &str) {
        if line.contains("has not proven itself") {
            self.rollbacks += 1;
        }
        let Some((_, said)) = line.split_once("steady ") else { return };
        let mut words = said.split([' ', '"']);
        let (Some(word), Some(name), Some(number)) = (words.next(), words.next(), words.next()) else { return };
        let Ok(generation) = number.parse() else { return };
        let key = self.keys.entry(name.to_owned()).or_default();
        let began = word == "begin";
        if began && key.in_call {
            self.doubled.push(line.to_owned());
        }
        key.in_call = began;
        if began {
            (key.generation, key.calls) = (generation, key.calls + 1);
        }
    }
}

/// A host that runs the plugin.
struct Stage {
    server: Server,
    proxy: Proxied,
    host: Host,
    plugins: tempfile::TempDir,
    ledger: Arc<Mutex<Ledger>>,
    keys: usize,
}

impl Stage {
    async fn start(keys: usize) -> anyhow::Result<Self> {
        let server = Server::start(Kind::Embedded).await?;
        for number in 0..keys {
            let primary = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("key-{number}"), "labels": {"chameleon": "true"}},
            });
            server.objects().apply(&primary).await?;
        }
        let (proxy, plugins) = (Proxied::start(&server, 7).await?, tempfile::tempdir()?);
        chameleon::write("steady-0", &plugins.path().join("chameleon.wasm"))?;
        let ledger = Arc::<Mutex<Ledger>>::default();
        let heard = ledger.clone();
        let listener: Listener = Box::new(move |line| locked(&heard).line(line));
        let arguments: [&OsStr; 11] = [
            "run".as_ref(),
            // The ledger reads the plugin's log, which has two lines for each call, and each swap calls all keys.
            "--limit=log-lines-per-second=100000".as_ref(),
            "--limit=log-bytes-per-second=64Mi".as_ref(),
            "--grants=manifest".as_ref(),
            "--leases=none".as_ref(),
            "--kubeconfig".as_ref(),
            proxy.kubeconfig().as_ref(),
            "--namespace".as_ref(),
            server.objects().namespace().as_ref(),
            "--plugins".as_ref(),
            plugins.path().as_ref(),
        ];
        let host = Host::start(&arguments, Some(listener))?;
        let stage = Self { server, proxy, host, plugins, ledger, keys };
        stage.until_all_run(0).await?;
        Ok(stage)
    }

    /// Replaces the plugin's file atomically, so that the host never sees half of it.
    fn put(&self, write: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
        delivery::replace(&self.plugins.path().join("chameleon.wasm"), write)
    }

    /// Waits until a generation has run every key once more.
    async fn until_all_run(&self, generation: u16) -> anyhow::Result<()> {
        let before: BTreeMap<_, _> =
            locked(&self.ledger).keys.iter().map(|(key, it)| (key.clone(), it.calls)).collect();
        let what = format!("every key is called by generation {generation}");
        let waited = wait::until_within(SWAP_TIMEOUT, &what, || async {
            let ledger = locked(&self.ledger);
            let is_again = |(name, key): &(&String, &Key)| {
                key.generation == generation && before.get(*name).is_none_or(|before| key.calls > *before)
            };
            let again = ledger.keys.iter().filter(|key| is_again(key)).count();
            if again >= self.keys { Ok(()) } else { Err(format!("{again} of {} keys", self.keys)) }
        });
        waited.await.with_context(|| tail(&self.host.log()))
    }

    async fn until_rolled_back(&self, times: usize) -> anyhow::Result<()> {
        wait::until_within(SWAP_TIMEOUT, "the trapping generation is rolled back", || async {
            let rollbacks = locked(&self.ledger).rollbacks;
            if rollbacks == times { Ok(()) } else { Err(rollbacks) }
        })
        .await
    }
}

fn locked(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The end of the host's log, without the plugin's lines.
fn tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().filter(|line| !line.contains("steady ")).collect();
    format!("the host logged:\n{}", lines[lines.len().saturating_sub(60)..].join("\n"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_loses_no_key_doubles_no_call_and_rolls_back_failures() -> anyhow::Result<()> {
    let _turn = busy::turn().await?;
    let (swaps, keys) = form();
    let stage = Stage::start(keys).await?;
    let (mut runs, mut is_wide, mut rollbacks, mut replacements) = (0, false, 0, 0);
    let (mut replaced, mut late) = (Instant::now(), 0);
    for number in 1..=swaps {
        let (sort, began) = (COURSE[usize::from(number - 1) % COURSE.len()], Instant::now());
        let mode = |wide: bool| if wide { format!("steady-{number}-wide") } else { format!("steady-{number}") };
        match sort {
            Sort::Good => {
                stage.put(|path| chameleon::write(&mode(is_wide), path))?;
                runs = number;
            }
            Sort::Replacement => {
                (is_wide, replacements) = (!is_wide, replacements + 1);
                stage.put(|path| chameleon::write(&mode(is_wide), path))?;
                runs = number;
            }
            Sort::Broken => stage.put(|path| Ok(std::fs::write(path, format!("no plugin {number}"))?))?,
            Sort::Trapping => {
                let width = if is_wide { "-wide" } else { "" };
                stage.put(|path| chameleon::write(&format!("steady-{number}-traps{width}"), path))?;
                rollbacks += 1;
                stage.until_rolled_back(rollbacks).await?;
            }
        }
        stage.until_all_run(runs).await?;
        if sort == Sort::Replacement {
            // A cache to which a swap returns was unused for at most one replacement.
            late += u64::from(replaced.elapsed() >= LINGER);
            replaced = began;
        }
        let doubled = locked(&stage.ledger).doubled.clone();
        ensure!(doubled.is_empty(), "swap {number}: in two calls at once: {doubled:#?}");
    }
    ensure!(locked(&stage.ledger).rollbacks == rollbacks, "rolled back more often than {rollbacks} times");
    // The labelled ConfigMaps and all ConfigMaps are listed once each. If a replacement returns to a kept cache, it
    // checks that the cache is fresh with a list of one object. If the cache was dropped meanwhile, the new list is the
    // check.
    let all = Match::verb(Verb::List).resource("configmaps").first_pages();
    let (all, proofs) = (stage.proxy.count(&all), stage.proxy.count(&all.clone().limit(1)));
    ensure!(all == replacements + 1, "{all} lists and proofs for {replacements} replacements");
    let lists = all - proofs;
    ensure!((2..=2 + late).contains(&lists), "{lists} lists, where {late} replacements may have come too late");
    let Stage { host, server, .. } = stage;
    ensure!(host.terminate().await?.success(), "it ends cleanly");
    drop(server);
    Ok(())
}

/// Each generation waits for something while its predecessor keeps running.
#[tokio::test(flavor = "multi_thread")]
async fn a_generation_that_cannot_run_yet_waits_while_its_predecessor_runs() -> anyhow::Result<()> {
    let (server, plugins) = (Server::start(Kind::Embedded).await?, tempfile::tempdir()?);
    let create = async |name: &str| {
        let labels = json!({"chameleon": "true"});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}});
        server.objects().apply(&object).await
    };
    let put = |mode: &str| chameleon::write(mode, &plugins.path().join("chameleon.wasm"));
    put("good")?;
    let host = Host::run(server.kubeconfig(), server.objects().namespace(), plugins.path())?;
    host.says("controller started").await?;

    // The generation waits for its configuration.
    put("configured")?;
    host.says("a new generation gets ready").await?;
    create("first").await?;
    host.says("/first ").await?;
    let head = "apiVersion: windlass.dev/v1alpha1\nkind: PluginConfig\nplugin: chameleon\n";
    let config = plugins.path().join("chameleon.config.yaml");
    std::fs::write(&config, format!("{head}config: {{greeting: hello}}\n"))?;
    host.says("chameleon greets first with hello").await?;
    host.says_times("a new generation has taken over", 1).await?;

    // The new generation waits until its takeover would leave no finalizer behind.
    std::fs::remove_file(&config)?;
    put("finalizing")?;
    host.says("chameleon sees first with 1 finalizers").await?;
    put("good")?;
    let why = host.says("does not take over yet").await?;
    ensure!(why.contains("windlass.dev/chameleon") && why.contains("finalizers release chameleon"), "{why}");
    server.objects().delete("ConfigMap", "first").await?;
    host.says("chameleon cleans up first").await?;
    server.objects().merge("ConfigMap", "first", &json!({"data": {"cleaned": "yes"}})).await?;
    host.says_times("a new generation has taken over", 3).await?;
    create("second").await?;
    host.says("/second ").await?;
    ensure!(host.terminate().await?.success(), "it ends cleanly");
    Ok(())
}
