//! Configuration files against schemas, and how a change reaches the plugin.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use serde_json::json;
use tokio::sync::watch;

use super::*;
use crate::dispatch::configured::{Configured, requeue_on_change};
use crate::object_names::ObjectNames;

fn manifest(schema: Option<Value>) -> Manifest {
    let mut manifest = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "webapp", "version": "0.1.0",
        "controllers": [{"name": "webapp", "primary": {"apiVersion": "v1", "kind": "ConfigMap"}}],
    });
    if let Some(schema) = schema {
        manifest["config"] = json!({"schema": schema});
    }
    Manifest::from_json(&manifest.to_string()).expect("valid")
}

fn schema() -> Schema {
    let schema = json!({
        "type": "object", "required": ["smtp"], "additionalProperties": false,
        "properties": {"smtp": {"type": "object", "properties": {
            "port": {"type": "integer", "maximum": 65535},
            "password": {"type": "string", "maxLength": 10},
        }}},
    });
    Schema::of(&manifest(Some(schema))).expect("a schema")
}

fn file(rest: &str) -> String {
    format!("apiVersion: windlass.dev/v1alpha1\nkind: PluginConfig\nplugin: webapp\n{rest}")
}

#[test]
fn a_file_is_for_one_plugin_and_says_so() {
    let parsed = parse(&file("config: {smtp: {port: 25}}\n"), "webapp").expect("valid");
    assert_eq!(Value::Object(parsed.config), json!({"smtp": {"port": 25}}));
    let wrong = [
        (file(""), "other", "plugin: webapp"),
        (file("colour: green\n"), "webapp", "colour"),
        (file("config: [1]\n"), "webapp", "config"),
        (file("").replace("v1alpha1", "v9"), "webapp", "windlass.dev/v9"),
        ("a: [".to_owned(), "webapp", "line"),
    ];
    for (text, plugin, word) in wrong {
        let error = parse(&text, plugin).expect_err(&text);
        assert!(error.contains(word) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_secret_is_put_where_its_pointer_says() {
    let mut document = json!({"hosts": [{"name": "a"}]});
    for pointer in ["/smtp/password", "/hosts/0/token", "/a~1b"] {
        put(&mut document, pointer, &"hunter2".into()).expect(pointer);
    }
    let token = json!([{"name": "a", "token": "hunter2"}]);
    assert_eq!(document, json!({"hosts": token, "smtp": {"password": "hunter2"}, "a/b": "hunter2"}));
    for (pointer, why) in [
        ("smtp", "not a JSON pointer"),
        ("/smtp/password", "already"),
        ("/hosts/7/token", "no item"),
        ("/a~1b/c", "neither"),
    ] {
        let error = put(&mut document, pointer, &"other".into()).expect_err(pointer);
        assert!(error.contains(why) && !error.contains("hunter2"), "{error}");
    }
}

#[test]
fn a_document_that_does_not_fit_says_where() {
    let schema = schema();
    assert!(schema.problems(&json!({"smtp": {"port": 25}}), false).is_empty());
    let problems = schema.problems(&json!({"smtp": {"port": 70000}, "smpt": {}}), false).join("\n");
    assert!(problems.contains("config/smtp/port: 70000") && problems.contains("smpt"), "{problems}");
    let problems = schema.problems(&json!({"smtp": {"password": "correct horse"}}), true).join("\n");
    assert!(problems.contains("config/smtp/password") && !problems.contains("horse"), "{problems}");
}

#[test]
fn a_plugin_without_a_schema_takes_no_configuration() {
    let schema = Schema::of(&manifest(None)).expect("none");
    assert!(schema.problems(&json!({}), false).is_empty());
    assert!(schema.problems(&json!({"a": 1}), false)[0].contains("takes no configuration"));
}

/// The manifest of a plugin that takes kinds from `/kinds`.
fn manifest_of_kinds() -> Manifest {
    let mut manifest = manifest(Some(json!({"type": "object"})));
    let primary = &mut manifest.controllers[0].primary;
    (primary.api_version, primary.kind) = (String::new(), String::new());
    primary.kinds_from = Some("/kinds".to_owned());
    manifest
}

fn schema_of_kinds() -> Schema {
    Schema::of(&manifest_of_kinds()).expect("a schema")
}

#[test]
fn a_document_with_wrong_kinds_does_not_fit() {
    let schema = schema_of_kinds();
    let kinds = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]);
    assert!(schema.problems(&json!({"kinds": kinds}), false).is_empty());
    assert!(schema.problems(&json!({}), false).is_empty());
    let problems = schema.problems(&json!({"kinds": ["hunter2"]}), true);
    assert_eq!(problems, ["config/kinds/0: is not a kind, which has an `apiVersion`, a `kind`, and nothing else"]);
}

/// The former configuration then stays in force.
#[test]
fn a_document_with_kinds_for_too_many_workers_does_not_fit() {
    let mut manifest = manifest_of_kinds();
    manifest.controllers[0].options.workers = 64;
    let schema = Schema::of(&manifest).expect("a schema");
    let kinds = |count| (0..count).map(|at| json!({"apiVersion": "v1", "kind": format!("K{at}")})).collect::<Value>();
    assert!(schema.problems(&json!({"kinds": kinds(16)}), false).is_empty());
    let problems = schema.problems(&json!({"kinds": kinds(17)}), true);
    assert!(problems[0].contains("make 1088 workers, but at most 1024 are allowed"), "{problems:?}");
}

#[test]
fn no_secret_names_a_kind() {
    let schema = schema_of_kinds();
    for at in ["/kinds", "/kinds/0/kind"] {
        assert!(schema.shown_at(at).is_some_and(|why| why.contains(at)), "{at}");
    }
    for elsewhere in ["/kindsOfWine", "/smtp/kinds"] {
        assert_eq!(schema.shown_at(elsewhere), None);
    }
}

#[test]
fn kinds_are_read_from_the_file_without_its_secrets() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut manifest = manifest(Some(json!({"type": "object"})));
    let read = |manifest: &Manifest| configured_kinds(directory.path(), manifest);
    assert_eq!(read(&manifest).expect("nothing is read"), Some(ConfiguredKinds::default()));
    manifest.controllers[0].primary.kind.clear();
    manifest.controllers[0].primary.kinds_from = Some("/kinds".to_owned());
    assert_eq!(read(&manifest).expect("there is no file"), None);
    let path = path_in(directory.path(), "webapp");
    let write = |kinds: &str| {
        let secret = "secrets: [{path: /a, secretKeyRef: {namespace: ops, name: a, key: a}}]";
        std::fs::write(&path, file(&format!("config: {{kinds: {kinds}}}\n{secret}\n"))).expect("written");
    };
    write("[{apiVersion: v1, kind: Pod}]");
    let kinds = read(&manifest).expect("it can be read").expect("there is a file");
    assert_eq!(kinds.at("/kinds").iter().map(ToString::to_string).collect::<Vec<_>>(), ["v1 Pod"]);
    write("pods");
    let error = read(&manifest).expect_err("no list");
    assert!(error.contains("webapp.config.yaml: config/kinds: is not a list"), "{error}");
}

#[test]
fn an_invalid_schema_or_one_with_remote_references_is_refused() {
    for schema in
        [json!({"type": "strnig"}), json!({"$ref": "http://127.0.0.1:1/x"}), json!({"$ref": "file:///etc/passwd"})]
    {
        assert!(Schema::of(&manifest(Some(schema.clone()))).is_err(), "{schema}");
    }
    assert!(Schema::of(&manifest(Some(json!({"$ref": "#"})))).is_err(), "it comes around");
}

#[tokio::test]
async fn a_follower_hears_of_its_own_file_and_not_of_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = ConfigFiles::of(directory.path(), ObjectNames::default());
    let path = |name: &str| path_in(directory.path(), name);
    let (mut own, mut neighbours) = (files.changes_of(&path("webapp")), files.changes_of(&path("other")));
    let following = files.clone();
    let task = tokio::spawn(async move { following.follow().await });
    // Skip the notifications of the first look: the files may have changed between the first read and that look.
    for changes in [&mut own, &mut neighbours] {
        changes.changed().await.expect("it is followed");
    }
    std::fs::write(path("webapp"), "anything").expect("written");
    own.changed().await.expect("it is followed");
    assert!(!neighbours.has_changed().expect("it is followed"));
    drop(own);
    std::fs::write(path("other"), "anything").expect("written");
    neighbours.changed().await.expect("it is followed");
    assert_eq!(files.followed(), 1, "a follower that is gone is forgotten");
    task.abort();
}

/// Secrets by name, which tests change.
#[derive(Clone, Default)]
struct Vault(Arc<Mutex<HashMap<String, String>>>);

impl Vault {
    fn set(&self, name: &str, value: &str) {
        self.0.lock().expect("no panic").insert(name.to_owned(), value.to_owned());
    }
}

impl SecretSource for Vault {
    fn value<'a>(&'a self, reference: &'a SecretKeyRef) -> BoxFuture<'a, Result<Confidential, SecretError>> {
        let SecretKeyRef { namespace, name, key } = reference.clone();
        let value = self.0.lock().expect("no panic").get(&name).cloned();
        ready(value.map(Confidential::from).ok_or(SecretError::NoKey { namespace, name, key })).boxed()
    }
}

/// A follower of a file in a temporary directory, with paused time.
struct Stage {
    directory: tempfile::TempDir,
    vault: Vault,
    configured: Configured,
    refused: watch::Receiver<Option<String>>,
    task: tokio::task::JoinHandle<()>,
}

impl Stage {
    fn new(first: Option<&str>) -> Self {
        let (directory, vault) = (tempfile::tempdir().expect("a directory"), Vault::default());
        let (sender, configured) = watch::channel(None);
        let path = directory.path().join("webapp.config.yaml");
        if let Some(first) = first {
            std::fs::write(&path, file(first)).expect("written");
        }
        let source: Arc<dyn SecretSource> = Arc::new(vault.clone());
        let files = ConfigFiles::of(directory.path(), ObjectNames::default());
        let changes = files.changes_of(&path);
        let (refusals, refused) = watch::channel(None);
        let follower = ConfigFollower {
            plugin: "webapp".into(),
            path,
            changes,
            schema: schema(),
            source,
            configured: sender,
            refused: refusals,
        };
        let task = tokio::spawn(async move { tokio::join!(follower.run(), files.follow()).0 });
        Self { directory, vault, configured, refused, task }
    }

    fn write(&self, text: &str) {
        // Editors replace the file like this.
        let path = self.directory.path().join("new");
        std::fs::write(&path, file(text)).expect("written");
        std::fs::rename(path, self.directory.path().join("webapp.config.yaml")).expect("renamed");
    }

    async fn next(&mut self) -> Value {
        self.configured.changed().await.expect("it is followed");
        let document = self.configured.borrow_and_update().clone().expect("configured");
        serde_json::from_str(&document).expect("JSON")
    }

    async fn is_quiet(&mut self) -> bool {
        tokio::time::timeout(std::time::Duration::from_mins(20), self.configured.changed()).await.is_err()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_is_taken_and_a_broken_one_keeps_the_former() {
    let mut stage = Stage::new(Some("config: {smtp: {port: 25}}\n"));
    assert_eq!(stage.next().await, json!({"smtp": {"port": 25}}));
    stage.write("config: {smtp: {port: many}}\n");
    assert!(stage.is_quiet().await);
    stage.write("config: {smtp: {port: 587}}\n");
    assert_eq!(stage.next().await, json!({"smtp": {"port": 587}}));
    stage.write("config:\n  smtp: {port: 587}  # as before\n");
    assert!(stage.is_quiet().await, "nothing has changed for the plugin");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_needs_a_configuration_waits_for_it() {
    let mut stage = Stage::new(None);
    assert!(stage.is_quiet().await);
    stage.write("config: {smtp: {}}\n");
    assert_eq!(stage.next().await, json!({"smtp": {}}));
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_waited_for_and_followed() {
    let secret = "config: {smtp: {port: 25}}\nsecrets:\n\
        - path: /smtp/password\n  secretKeyRef: {namespace: ops, name: smtp, key: password}\n";
    let mut stage = Stage::new(Some(secret));
    assert!(stage.is_quiet().await, "there is no such Secret yet");
    stage.vault.set("smtp", "hunter2");
    assert_eq!(stage.next().await, json!({"smtp": {"port": 25, "password": "hunter2"}}));
    stage.vault.set("smtp", "longer than ten");
    assert!(stage.is_quiet().await, "it does not fit, and the previous one stays");
    assert!(stage.refused.borrow().is_some(), "the status shows it");
    stage.vault.set("smtp", "hunter3");
    assert_eq!(stage.next().await["smtp"]["password"], "hunter3");
}

#[tokio::test]
async fn a_path_that_is_no_file_is_refused_at_once() {
    for path in ["/dev/zero", "/"] {
        let error = read(Path::new(path), "webapp").await.expect_err(path).to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
}

#[tokio::test]
async fn a_huge_file_is_refused_unread_and_does_not_delay_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let huge = path_in(directory.path(), "webapp");
    std::fs::File::create(&huge).expect("created").set_len(8 << 30).expect("it takes no space");
    let files = ConfigFiles::of(directory.path(), ObjectNames::default());
    let mut neighbour = files.changes_of(&path_in(directory.path(), "other"));
    let outcome = async {
        tokio::select! {
            () = files.follow() => unreachable!("for ever"),
            outcome = neighbour.changed() => outcome.expect("it is followed"),
        }
        read(&huge, "webapp").await.expect_err("huge")
    };
    let error = tokio::time::timeout(Duration::from_secs(30), outcome).await.expect("the file is not read");
    assert!(matches!(error, ConfigError::TooLarge { .. }) && error.to_string().contains("1048576"), "{error}");
}

#[test]
fn a_pointer_without_end_is_refused() {
    let mut document = json!({});
    let message = put(&mut document, &"/a".repeat(100_000), &"secret".into()).expect_err("too deep");
    assert!(message.contains("steps") && message.len() < 200, "{message}");
    assert_eq!(document, json!({}));
}

#[test]
fn a_schema_cannot_make_the_host_compile_without_end() {
    let took = std::time::Instant::now();
    let large = json!({"pattern": "(?:\\p{L}{50}){50}"});
    let message = Schema::of(&manifest(Some(large.clone()))).map(drop).expect_err("too large");
    assert!(message.starts_with("config.schema"), "{message}");
    let many = json!({"anyOf": vec![json!({"patternProperties": {"a": {}, "b": {}}}); 1_000]});
    let message = Schema::of(&manifest(Some(many))).map(drop).expect_err("too many");
    assert!(message.contains("2000 patterns"), "{message}");
    assert!(took.elapsed() < Duration::from_secs(30), "a few seconds in a debug build on a busy machine");
    for usual in ["^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", "^\\w+@\\w+$", "^.{1,253}$", "^\\d{4}-\\d{2}-\\d{2}$"] {
        assert!(Schema::of(&manifest(Some(json!({"pattern": usual})))).is_ok(), "{usual}");
    }
}

#[tokio::test]
async fn a_check_that_does_not_end_takes_one_thread_and_no_more() {
    let schema = Schema::of(&manifest(None)).expect("none");
    assert!(schema.check(json!({}), false).await.is_empty());
    let endless = schema.checking.clone().try_acquire_owned().expect("no check is in progress");
    assert!(schema.clone().check(json!({}), false).await[0].contains("takes longer"));
    drop(endless);
    assert!(schema.check(json!({}), false).await.is_empty());
}

#[test]
fn a_schema_cannot_have_the_smallest_document_checked_without_end() {
    let name = |at: u32| format!("#/$defs/d{at}");
    let twice = |at: u32| json!({"allOf": [{"$ref": name(at)}, {"$ref": name(at)}]});
    let definitions: Map<String, Value> = (0..40).map(|at| (format!("d{at}"), twice(at + 1))).collect();
    let message = Schema::of(&manifest(Some(json!({"$ref": name(0), "$defs": definitions})))).map(drop);
    assert!(message.expect_err("2⁴⁰ steps").starts_with("config.schema"));
}

#[test]
fn only_an_unseen_configuration_change_requeues_all_objects() {
    let (sender, mut configured) = watch::channel(None);
    sender.send_replace(Some(Confidential::from("{}")));
    configured.mark_unchanged();
    let times = Cell::new(0);
    let count = || times.set(times.get() + 1);
    assert_eq!(requeue_on_change(configured.clone(), count).now_or_never(), None);
    assert_eq!(times.get(), 0);
    let requeue = requeue_on_change(configured, count);
    sender.send_replace(Some(Confidential::from("{\"colour\": \"green\"}")));
    assert_eq!(requeue.now_or_never(), None);
    assert_eq!(times.get(), 1);
}
