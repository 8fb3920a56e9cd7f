//! The manifests that a server loads at its start, and the state file.

mod support;

use std::fs;
use std::path::Path;

use http::StatusCode;
use support::{CONFIG_MAPS, Cluster, WEBAPPS, config_map, version_of, webapp, webapp_definition};
use tempfile::TempDir;

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
    fs::write(path, text).expect("it is written");
}

#[tokio::test]
async fn manifests_are_applied_in_the_order_of_their_dependencies() {
    let folder = TempDir::new().expect("a folder");
    let custom = format!("{}\n---\n{}", webapp("a"), webapp_definition());
    write(folder.path(), "a/custom.yaml", &custom);
    write(folder.path(), "b.json", "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"shop\"}}");
    let listed = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: c\n    \
                  namespace: shop\n---\n# nothing\n";
    write(folder.path(), "a.yml", listed);
    write(folder.path(), "notes.txt", "no manifest");

    let cluster = Cluster::quiet().await;
    assert_eq!(cluster.server.load(folder.path()).expect("they are right"), 4);
    cluster.get(&format!("{WEBAPPS}/a")).await.expect(StatusCode::OK);
    let found = cluster.get("/api/v1/namespaces/shop/configmaps/c").await.expect(StatusCode::OK);
    // The second load changes nothing.
    assert_eq!(cluster.server.load(folder.path()).expect("they are right"), 4);
    let again = cluster.get("/api/v1/namespaces/shop/configmaps/c").await.expect(StatusCode::OK);
    assert_eq!(version_of(&again), version_of(&found));
}

#[tokio::test]
async fn manifests_are_yaml_1_1_as_for_kubectl() {
    let folder = TempDir::new().expect("a folder");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: octal, namespace: default}\nspec:\n  containers: [{name: c, image: i}]\n  \
               volumes: [{name: s, secret: {secretName: x, defaultMode: 0400, optional: yes}}]\n";
    write(folder.path(), "pod.yaml", pod);
    let cluster = Cluster::quiet().await;
    cluster.server.load(folder.path()).expect("it is right");
    let loaded = cluster.get("/api/v1/namespaces/default/pods/octal").await.expect(StatusCode::OK);
    assert_eq!(loaded["spec"]["volumes"][0]["secret"]["defaultMode"], 256);
    assert_eq!(loaded["spec"]["volumes"][0]["secret"]["optional"], true);
}

#[tokio::test]
async fn an_invalid_document_is_named_and_nothing_is_loaded() {
    let folder = TempDir::new().expect("a folder");
    write(folder.path(), "a.yaml", &config_map("a").to_string());
    write(folder.path(), "b.yaml", &format!("{}\n---\napiVersion: shop/v1\nkind: Cart\n", config_map("b")));
    let cluster = Cluster::quiet().await;
    let said = cluster.server.load(folder.path()).expect_err("no such kind").to_string();
    assert!(said.contains("b.yaml, document 2: no resource of this server has the kind Cart in shop/v1"), "{said}");
    assert_eq!(cluster.get(&format!("{CONFIG_MAPS}/a")).await.code, StatusCode::NOT_FOUND);

    write(folder.path(), "b.yaml", "a: b: c");
    let said = cluster.server.load(folder.path()).expect_err("invalid YAML").to_string();
    assert!(said.contains("b.yaml is not valid YAML") && said.contains("line 1"), "{said}");
}

#[tokio::test]
async fn the_state_survives_a_restart() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("state");
    let cluster = Cluster::with_webapps().await;
    assert!(!cluster.server.read_state(&file).expect("there is no file yet"));
    let made = cluster.post(WEBAPPS, &webapp("a")).await.expect(StatusCode::CREATED);
    cluster.server.write_state(&file).expect("it is written");
    cluster.server.shutdown().await;

    let cluster = Cluster::quiet().await;
    assert!(cluster.server.read_state(&file).expect("it is whole"));
    assert_eq!(cluster.get(&format!("{WEBAPPS}/a")).await.expect(StatusCode::OK), made);
    // The versions continue, but the earlier history is gone.
    let next = cluster.post(WEBAPPS, &webapp("b")).await.expect(StatusCode::CREATED);
    let number = |object| version_of(object).parse::<u64>().expect("a number");
    assert!(number(&next) > number(&made));
    let mut watch = cluster.watch(&format!("{WEBAPPS}?watch=true&resourceVersion=1")).await;
    assert_eq!(watch.next().await.expect("an event").1["code"], 410);
}

#[tokio::test]
async fn a_truncated_or_foreign_state_file_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("state");
    let cluster = Cluster::quiet().await;
    cluster.post(CONFIG_MAPS, &config_map("a")).await.expect(StatusCode::CREATED);
    cluster.server.write_state(&file).expect("it is written");
    let whole = fs::read(&file).expect("it is there");

    let other = Cluster::quiet().await;
    let mut cuts: Vec<usize> = (0..whole.len()).step_by(whole.len() / 20).collect();
    cuts.push(whole.len() - 1);
    for cut in cuts {
        fs::write(&file, &whole[..cut]).expect("it is written");
        let said = other.server.read_state(&file).expect_err("it is truncated").to_string();
        assert!(said.contains("damaged") || said.contains("not a state file"), "{said}");
    }
    fs::write(&file, "apiVersion: v1\nkind: Config\n").expect("it is written");
    let said = other.server.read_state(&file).expect_err("it is a kubeconfig").to_string();
    assert!(said.contains("not a state file"), "{said}");
    assert_eq!(other.get(&format!("{CONFIG_MAPS}/a")).await.code, StatusCode::NOT_FOUND);
    other.post(CONFIG_MAPS, &config_map("b")).await.expect(StatusCode::CREATED);
}
