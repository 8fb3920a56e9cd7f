//! Sends mutated manifests to both servers, and prints the validation rules in which they differ, the most frequent
//! first: `mutator [--seed N] [--mutations N] [KIND…]`. README.md explains the output.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use windlass_differential::client::{Call, Client};
use windlass_differential::manifests::{self, Manifest};
use windlass_differential::mutations::{self, Schemas};
use windlass_differential::ranking::Ranking;
use windlass_differential::servers::Servers;

/// The number of requests at the same time.
const CONCURRENCY: usize = 16;

struct Options {
    seed: u64,
    mutations: usize,
    kinds: Vec<String>,
}

/// Both servers' answers to a mutation.
struct Judged {
    kind: String,
    what: String,
    real: Value,
    ours: Value,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = options()?;
    let servers = Servers::start().await?;
    let schemas = schemas(&servers.real).await?;
    let (mut calls, mut invalid) = (Vec::new(), Vec::new());
    for manifest in manifests::read_all()?.into_iter().filter(|it| options.wants(&it.kind)) {
        match requests(&servers, &schemas, &manifest).await {
            Ok(found) => calls.extend(found),
            Err(error) => invalid.push(format!("{error:#}")),
        }
    }
    ensure!(invalid.is_empty(), "{}", invalid.join("\n"));
    let total = calls.len();
    // The seed alone decides which mutations are sent. They are sent in their original order.
    let mut order: Vec<usize> = (0..total).collect();
    order.sort_by_key(|index| shuffled(options.seed, *index));
    order.truncate(options.mutations);
    order.sort_unstable();
    let chosen: Vec<_> = order.into_iter().map(|index| calls[index].clone()).collect();
    let sent = chosen.len();
    let mut ranking = Ranking::default();
    for judged in judge(&servers, chosen).await? {
        ranking.add(&judged.kind, &judged.what, &judged.real, &judged.ours);
    }
    servers.stop().await;
    for (count, rule, example) in ranking.ranked() {
        println!("{count:6}  {rule}  ({example})");
    }
    println!("figures: {sent} of {total} mutations, seed {}, {} rules differ", options.seed, ranking.ranked().len());
    Ok(())
}

impl Options {
    fn wants(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|wanted| wanted == kind)
    }
}

fn options() -> anyhow::Result<Options> {
    let mut options = Options { seed: 1, mutations: usize::MAX, kinds: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seed" => options.seed = words.next().context("--seed N")?.parse()?,
            "--mutations" => options.mutations = words.next().context("--mutations N")?.parse()?,
            word if word.starts_with("--") => bail!("unknown option {word}"),
            kind => options.kinds.push(kind.to_owned()),
        }
    }
    Ok(options)
}

fn shuffled(seed: u64, index: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, index).hash(&mut hasher);
    hasher.finish()
}

/// All schemas of the real server's OpenAPI v3 documents.
async fn schemas(real: &Client) -> anyhow::Result<Schemas> {
    let get = async |path: &str| real.send(&call("GET", path, None)).await;
    let index = get("/openapi/v3").await?;
    let paths = index["body"]["paths"].as_object().context("the paths of /openapi/v3")?;
    let mut schemas = Schemas::new();
    for url in paths.values().filter_map(|path| path["serverRelativeURL"].as_str()) {
        let document = get(url).await?;
        let found = document.pointer("/body/components/schemas").and_then(Value::as_object);
        schemas.extend(found.into_iter().flatten().map(|(name, schema)| (name.clone(), schema.clone())));
    }
    Ok(schemas)
}

/// For each mutation, a dry-run creation and, if both servers can store the manifest itself, a dry-run update.
async fn requests(
    servers: &Servers,
    schemas: &Schemas,
    manifest: &Manifest,
) -> anyhow::Result<Vec<(String, String, Call)>> {
    let schema = manifest.schema(schemas).with_context(|| format!("no schema of {}", manifest.kind))?;
    // The quotas of a namespace, for example, affect the other objects in it. So each kind has its own namespace.
    let namespace = format!("mutated-{}", manifest.kind.to_lowercase());
    let made = json!({ "metadata": { "name": namespace } });
    send_both(&servers.real, &servers.ours, "POST", "/api/v1/namespaces", &made).await?;
    let collection = manifest.collection(&namespace);
    let dry = format!("{collection}?dryRun=All");
    let (real, ours) = send_both(&servers.real, &servers.ours, "POST", &dry, &manifest.object).await?;
    ensure!(real["code"] == 201, "the real server refuses {}: {}", manifest.title(), real["body"]["message"]);
    if ours["code"] != 201 {
        println!("our server refuses {}: {}", manifest.title(), ours["body"]["message"]);
    }
    let mut stored = manifest.object.clone();
    let name = format!("stored-{}", manifest.number);
    stored["metadata"]["name"] = json!(name);
    let (real, ours) = send_both(&servers.real, &servers.ours, "POST", &collection, &stored).await?;
    let is_stored = real["code"] == 201 && ours["code"] == 201;
    let mut calls = Vec::new();
    for mutation in mutations::mutations(schemas, schema, &manifest.object) {
        let title = |verb: &str| format!("{verb} #{} {}", manifest.number, mutation.what);
        calls.push((manifest.kind.clone(), title("create"), call("POST", &dry, Some(&mutation.object))));
        if is_stored && mutation.object["metadata"]["name"] == manifest.object["metadata"]["name"] {
            let mut object = mutation.object.clone();
            object["metadata"]["name"] = json!(name);
            let path = format!("{collection}/{name}?dryRun=All");
            calls.push((manifest.kind.clone(), title("update"), call("PUT", &path, Some(&object))));
        }
    }
    Ok(calls)
}

async fn judge(servers: &Servers, calls: Vec<(String, String, Call)>) -> anyhow::Result<Vec<Judged>> {
    let mut calls = calls.into_iter().enumerate();
    let mut tasks = JoinSet::new();
    let mut judged = Vec::new();
    loop {
        while tasks.len() < CONCURRENCY
            && let Some((index, (kind, what, call))) = calls.next()
        {
            let (real, ours) = (servers.real.clone(), servers.ours.clone());
            tasks.spawn(async move {
                let (real, ours) = tokio::try_join!(real.send(&call), ours.send(&call))?;
                anyhow::Ok((index, Judged { kind, what, real, ours }))
            });
        }
        let Some(done) = tasks.join_next().await else { break };
        judged.push(done??);
    }
    judged.sort_by_key(|(index, _)| *index);
    Ok(judged.into_iter().map(|(_, judged)| judged).collect())
}

async fn send_both(
    real: &Client,
    ours: &Client,
    method: &str,
    path: &str,
    body: &Value,
) -> anyhow::Result<(Value, Value)> {
    let call = Arc::new(call(method, path, Some(body)));
    tokio::try_join!(real.send(&call), ours.send(&call))
}

fn call(method: &str, path: &str, body: Option<&Value>) -> Call {
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    Call { method: method.to_owned(), path: path.to_owned(), headers, body }
}
