//! `plugins/s3-bucket`: Buckets become buckets of a small S3 in the test.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, ensure};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::MutexGuard;
use tokio::task::JoinSet;
use windlass_tests::kubectl::Kubectl;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use super::{gives_no_finding, installed, running, sources};
use crate::traces::request;

/// The address in the plugin's manifest and in its configuration for `windlass dev`.
const S3_ADDRESS: &str = "127.0.0.1:9000";

/// A story that has the address. Others wait.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A bucket's parts as they were put, by name: `tagging` and the like.
type Parts = HashMap<String, String>;

/// An S3 for one account, which keeps buckets and their parts, and checks no signature.
pub(super) struct SmallS3 {
    buckets: Arc<Mutex<BTreeMap<String, Parts>>>,
    _serving: JoinSet<()>,
    _turn: MutexGuard<'static, ()>,
}

impl SmallS3 {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let turn = TURN.lock().await;
        // The serving task of the last story may not have ended yet.
        let bound = || TcpListener::bind(S3_ADDRESS);
        let what = format!("{S3_ADDRESS} is free, which the plugin's manifest names");
        let listener = until(&what, bound).await?;
        let buckets = Arc::new(Mutex::new(BTreeMap::new()));
        let (mut serving, all) = (JoinSet::new(), buckets.clone());
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let buckets = all.clone();
                // A request without a response is an error of the plugin, which the stories notice.
                connections.spawn(async move { respond(stream, &buckets).await });
            }
        });
        Ok(Self { buckets, _serving: serving, _turn: turn })
    }

    pub(super) fn bucket(&self, name: &str) -> Option<Parts> {
        locked(&self.buckets).get(name).cloned()
    }

    fn put(&self, name: &str, part: &str, body: &str) {
        locked(&self.buckets).entry(name.to_owned()).or_default().insert(part.to_owned(), body.to_owned());
    }
}

async fn respond(mut stream: TcpStream, buckets: &Mutex<BTreeMap<String, Parts>>) -> anyhow::Result<()> {
    let (head, body) = request(&mut stream).await?;
    let mut words = head.split(' ');
    let (method, target) = (words.next().context("a method")?, words.next().context("a path")?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let part = query.split(['&', '=']).next().unwrap_or_default();
    ensure!(head.contains("\r\nauthorization: aws4-hmac-sha256 "), "{head}");
    let (status, body) =
        carried_out(&mut locked(buckets), method, path.trim_matches('/'), part, String::from_utf8(body)?);
    let body = if method == "head" { String::new() } else { body };
    let head =
        format!("HTTP/1.1 {status} Answer\r\nContent-Type: application/xml\r\nContent-Length: {}\r\n\r\n", body.len());
    Ok(stream.write_all(format!("{head}{body}").as_bytes()).await?)
}

/// Carries out a request, and returns the status and the body of the response.
fn carried_out(
    buckets: &mut BTreeMap<String, Parts>,
    method: &str,
    name: &str,
    part: &str,
    body: String,
) -> (u16, String) {
    let error = |status, code: &str| (status, format!("<Error><Code>{code}</Code><Message>{code}</Message></Error>"));
    let Some(bucket) = buckets.get_mut(name) else {
        if (method, part) != ("put", "") {
            return error(404, "NoSuchBucket");
        }
        buckets.insert(name.to_owned(), Parts::new());
        return (200, String::new());
    };
    match (method, part) {
        ("put", "") => error(409, "BucketAlreadyOwnedByYou"),
        ("delete", "") if bucket.contains_key("objects") => error(409, "BucketNotEmpty"),
        ("delete", "") => {
            buckets.remove(name);
            (204, String::new())
        }
        ("put", _) => {
            bucket.insert(part.to_owned(), body);
            (200, String::new())
        }
        ("head", _) => (200, String::new()),
        _ => match (bucket.get(part), part) {
            (Some(body), _) => (200, body.clone()),
            (None, "tagging") => error(404, "NoSuchTagSet"),
            (None, "publicaccessblock") => error(404, "NoSuchPublicAccessBlockConfiguration"),
            (None, "encryption") => error(404, "ServerSideEncryptionConfigurationNotFoundError"),
            (None, _) => (200, "<VersioningConfiguration/>".to_owned()),
        },
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_follow_their_objects() -> anyhow::Result<()> {
    let (server, s3) = (Server::start(Kind::Embedded).await?, SmallS3::start().await?);
    let kubectl = Kubectl::new(server.kubeconfig(), "default");
    let (folder, plugins) = (sources("s3-bucket"), installed("s3-bucket")?);
    let [definition, sample] = ["crd.yaml", "sample.yaml"].map(|file| folder.join(file).display().to_string());
    kubectl.run(&["apply", "-f", &definition]).await?;
    // The key comes from a Secret.
    let secret = ["create", "secret", "generic", "s3-keys", "--from-literal=key=the-key-of-the-story"];
    kubectl.run(&secret).await?;
    let config = plugins.path().join("s3-bucket.config.yaml");
    let text = std::fs::read_to_string(&config)?.replace("  secretAccessKey: minioadmin\n", "");
    let key = "secretKeyRef: {namespace: default, name: s3-keys, key: key}";
    std::fs::write(&config, format!("{text}secrets:\n- {{path: /secretAccessKey, {key}}}\n"))?;
    let host = running(&server, &plugins).await?;

    until("the definition is served", || async { kubectl.run(&["apply", "-f", &sample]).await }).await?;
    let says = async |text: &str| {
        until(&format!("the Bucket says {text}"), || async {
            let status = kubectl.run(&["get", "bucket", "files", "-o", "jsonpath={.status}"]).await?;
            ensure!(status.contains(text), "{status}");
            Ok(())
        })
        .await
    };
    says("InSync").await?;
    let bucket = s3.bucket("shop-files").context("there is no bucket")?;
    let has = |part: &str, text: &str| bucket.get(part).is_some_and(|body| body.contains(text));
    ensure!(has("tagging", "<Value>shop</Value>") && has("tagging", "services.k8s.aws/namespace"), "{bucket:?}");
    ensure!(has("versioning", "Enabled") && has("encryption", "AES256"), "{bucket:?}");
    ensure!(has("publicaccessblock", "<RestrictPublicBuckets>true"), "{bucket:?}");

    // A change of the Bucket also mends what others have changed.
    s3.put("shop-files", "tagging", "<Tagging><TagSet/></Tagging>");
    let patch = json!({"spec": {"versioning": {"status": "Suspended"}}}).to_string();
    kubectl.run(&["patch", "bucket", "files", "--type=merge", "-p", &patch]).await?;
    until("the bucket has changed", || async {
        let bucket = s3.bucket("shop-files").context("there is no bucket")?;
        ensure!(bucket["versioning"].contains("Suspended") && bucket["tagging"].contains("shop"), "{bucket:?}");
        Ok(())
    })
    .await?;

    // A bucket with objects stays, and the Bucket waits for it.
    s3.put("shop-files", "objects", "some");
    kubectl.run(&["delete", "bucket", "files", "--wait=false"]).await?;
    says("BucketNotEmpty").await?;
    until("an Event says so", || async {
        let events = kubectl.run(&["get", "events"]).await?;
        ensure!(events.contains("BucketNotEmpty"), "{events}");
        Ok(())
    })
    .await?;
    ensure!(s3.bucket("shop-files").is_some());
    kubectl.run(&["annotate", "bucket", "files", "services.k8s.aws/deletion-policy=retain"]).await?;
    until("the Bucket is gone", || async { kubectl.refused(&["get", "bucket", "files"]).await }).await?;
    ensure!(s3.bucket("shop-files").is_some(), "the bucket is not retained");

    ensure!(!host.log().contains("the-key-of-the-story"), "the log contains the key");
    ensure!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_s3_bucket_plugin_gives_no_finding() -> anyhow::Result<()> {
    gives_no_finding("s3-bucket").await
}
