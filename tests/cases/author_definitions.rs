//! `crd.yaml` follows from types in Rust, as docs/authoring.md shows.

use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context, ensure};
use tokio::process::Command;
use windlass_tests::markdown::snippets;
use windlass_tests::{busy, paths};

use crate::author::{edit, texts};

const AUTHORING: &str = include_str!("../../docs/authoring.md");

async fn windlass(folder: &Path, arguments: &[&str]) -> anyhow::Result<Output> {
    let mut command = Command::new(paths::windlass()?);
    // Cargo fetches the crates that the page names.
    command.env("CARGO_TARGET_DIR", paths::windlass()?.with_file_name("author-definitions"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).kill_on_drop(true);
    Ok(command.output().await?)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/soak types fetches the crates"]
async fn types_in_rust_make_the_definition_as_the_page_shows() -> anyhow::Result<()> {
    let _turn = busy::turn().await?;
    let at = tempfile::tempdir()?;
    let made = windlass(at.path(), &["new", "rust", "shop"]).await?;
    ensure!(made.status.success(), "{:?}", texts(&made));
    let folder = at.path().join("shop");
    std::fs::copy(paths::root().join("rust-toolchain.toml"), folder.join("rust-toolchain.toml"))?;
    let shown = snippets(AUTHORING);
    let snippet = |part: &str| {
        let found = shown.iter().find(|snippet| snippet.text.contains(part));
        found.map(|snippet| snippet.text.clone()).with_context(|| format!("the page has {part:?}"))
    };
    std::fs::create_dir(folder.join("examples"))?;
    std::fs::write(folder.join("src/api.rs"), snippet("kube::CustomResource,")?)?;
    std::fs::write(folder.join("examples/crd.rs"), snippet("kube::CustomResourceExt>")?)?;
    // The template has serde and serde_json already.
    let dependencies = snippet("k8s-openapi =")?;
    let new = dependencies.lines().filter(|line| !line.starts_with("serde")).collect::<Vec<_>>().join("\n");
    edit(&folder.join("Cargo.toml"), "[dependencies]", &new)?;
    edit(&folder.join("windlass.yaml"), "language: rust\n", "language: rust\ndefinitions: {from: rust}\n")?;
    let written = windlass(&folder, &["crd"]).await?;
    ensure!(written.status.success(), "{:?}", texts(&written));
    let crd = std::fs::read_to_string(folder.join("crd.yaml"))?;
    ensure!(crd.contains("name: shops.example.com") && crd.contains("minimum: 1"), "{crd}");

    edit(&folder.join("src/api.rs"), "min = 1", "min = 2")?;
    let built = windlass(&folder, &["build"]).await?;
    let errors = texts(&built).1;
    let expected = "properties[spec].properties[size].minimum: crd.yaml has 1.0, and the types give 2.0";
    ensure!(built.status.code() == Some(1) && errors.contains(expected), "{errors}");
    Ok(())
}
