//! The author's workflow in each language, for both kinds of plugins: a new folder, its tests as its README runs them,
//! the running plugin, a change that takes over, and a mistake that is reported.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use anyhow::{Context, ensure};
use tokio::process::Command;
use windlass_tests::host::Host;
use windlass_tests::objects::Objects;
use windlass_tests::{busy, paths, server};

use crate::author::{BUILD_TIMEOUT, edit, for_cargo, message, texts};

/// A language, with what the test needs to know about its templates.
struct Language {
    name: &'static str,
    /// The command that runs the tests of a new folder.
    tests: &'static str,
    /// The source file that the test edits.
    source: &'static str,
    /// The text of the message in that file, for a reconciler and for a composer, and the text `changed` that replaces
    /// it.
    edit: [(&'static str, &'static str); 2],
    /// Source to append that makes the plugin fail with `on purpose`, before or while it is asked for its manifest.
    mistake: &'static str,
}

const GO: Language = Language {
    name: "go",
    tests: "go vet ./... && go test ./...",
    source: "main.go",
    edit: [(r#""message": primary.Spec.Message}"#, r#""message": "changed"}"#); 2],
    mistake: "\nfunc init() { panic(\"on purpose\") }\n",
};
const PYTHON: Language = Language {
    name: "python",
    tests: "python -m unittest",
    source: "app.py",
    edit: [(r#""message": obj["spec"]["message"]"#, r#""message": "changed""#); 2],
    mistake: "\nraise RuntimeError(\"on purpose\")\n",
};
/// The program that makes components in Python.
const PYTHON_COMPILER: &str = "componentize-py";
const JAVASCRIPT: Language = Language {
    name: "js",
    tests: "npm test --silent",
    source: "plugin.js",
    edit: [
        ("message: primary.spec.message", "message: 'changed'"),
        ("message: parent.spec.message", "message: 'changed'"),
    ],
    mistake: "\nthrow new Error('on purpose');\n",
};
const TYPESCRIPT: Language = Language { name: "ts", source: "plugin.ts", ..JAVASCRIPT };
const C: Language = Language {
    name: "c",
    tests: r#"cc() { python3 -m ziglang cc "$@"; }; eval "$(grep -- '-o build/tests' README.md)""#,
    source: "plugin.c",
    edit: [
        (r#"windlass_json_text_at(primary, "/spec/message"))})"#, r#"windlass_text("changed"))})"#),
        (r#"windlass_json_text_at(parent, "/spec/message"))})"#, r#"windlass_text("changed"))})"#),
    ],
    mistake: "\n#include <stdio.h>\n#include <stdlib.h>\n__attribute__((constructor)) static void fail(void) { fputs(\"on purpose\\n\", stderr); abort(); }\n",
};
const STARLARK: Language = Language {
    name: "starlark",
    // Its tests are its scenarios.
    tests: "exec $WINDLASS check --runs 12 --budget 10m",
    source: "plugin.star",
    edit: [(r#""message": object["spec"]["message"]"#, r#""message": "changed""#); 2],
    mistake: "\nfail(\"on purpose\")\n",
};
const RUST: Language = Language {
    name: "rust",
    tests: "cargo test --quiet",
    source: "src/lib.rs",
    edit: [(r#""message": object.spec.message"#, r#""message": "changed""#); 2],
    mistake: "",
};

#[tokio::test(flavor = "multi_thread")]
async fn a_new_plugin_in_go_is_tested_runs_and_changes() -> anyhow::Result<()> {
    both(&GO).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_plugin_in_python_is_tested_runs_and_changes() -> anyhow::Result<()> {
    both(&PYTHON).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_plugin_in_javascript_is_tested_runs_and_changes() -> anyhow::Result<()> {
    both(&JAVASCRIPT).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_plugin_in_typescript_is_tested_runs_and_changes() -> anyhow::Result<()> {
    both(&TYPESCRIPT).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_plugin_in_c_is_tested_runs_and_changes() -> anyhow::Result<()> {
    both(&C).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_plugin_in_starlark_is_built_runs_and_changes() -> anyhow::Result<()> {
    both(&STARLARK).await
}

/// The module `author` tests a reconciler in Rust, with more of the author's mistakes.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_composing_plugin_in_rust_is_tested_runs_and_changes() -> anyhow::Result<()> {
    let folder = Folder::new(&RUST, true).await?;
    folder.is_tested().await?;
    folder.runs_and_changes().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_for_an_existing_kind_has_its_types() -> anyhow::Result<()> {
    let definition = paths::root().join("examples/webapp/crd.yaml");
    for (language, types) in
        [(&GO, "types.go"), (&PYTHON, "kinds.py"), (&TYPESCRIPT, "types.ts"), (&RUST, "src/types.rs")]
    {
        let arguments = format!("--from-crd {}", definition.display());
        let folder = Folder::made(language, false, &arguments).await?;
        folder.is_tested().await?;
        let check = format!("exec $WINDLASS types {} --out {types} --check", language.name);
        let checked = folder.shell(&check).await?;
        ensure!(checked.status.success(), "{:?}", texts(&checked));

        edit(&folder.at.path().join("crd.yaml"), "replicas:", "copies:")?;
        let checked = folder.shell(&check).await?;
        let errors = texts(&checked).1;
        ensure!(checked.status.code() == Some(1) && errors.contains("is out of date: line "), "{errors}");
        let written = folder.shell(&format!("$WINDLASS types {} --out {types} && {check}", language.name)).await?;
        ensure!(written.status.success(), "{:?}", texts(&written));
    }
    Ok(())
}

async fn both(language: &'static Language) -> anyhow::Result<()> {
    for composes in [false, true] {
        let folder = Folder::new(language, composes).await?;
        folder.is_tested().await?;
        folder.runs_and_changes().await.with_context(|| format!("{} (composes: {composes})", language.name))?;
        folder.says_what_is_wrong().await?;
    }
    Ok(())
}

/// A plugin's folder, as the author sees it.
struct Folder {
    language: &'static Language,
    composes: bool,
    environment: Vec<(&'static str, PathBuf)>,
    at: tempfile::TempDir,
}

impl Folder {
    async fn new(language: &'static Language, composes: bool) -> anyhow::Result<Self> {
        Self::made(language, composes, if composes { "--composite" } else { "" }).await
    }

    /// A folder that `windlass new` makes with these arguments.
    async fn made(language: &'static Language, composes: bool, arguments: &str) -> anyhow::Result<Self> {
        let mut environment = for_cargo()?;
        environment.push(("PATH", paths::languages()?.into()));
        // All packages are fetched already.
        environment.push(("GOPROXY", "off".into()));
        environment.push(("WINDLASS_CACHE_DIR", paths::cache()?));
        environment.push(("WINDLASS", paths::windlass()?));
        let mut folder = Self { language, composes, environment, at: tempfile::tempdir()? };
        let (windlass, name) = (paths::windlass()?, folder.name());
        let made = format!("{} new {} {name} --dir . {arguments}", windlass.display(), language.name);
        let made = folder.shell(&made).await?;
        ensure!(made.status.success(), "{:?}", texts(&made));
        folder.installed()?;
        folder.counted()?;
        Ok(folder)
    }

    /// Puts a program in front of componentize-py that counts how often it runs.
    fn counted(&mut self) -> anyhow::Result<()> {
        if self.language.name != PYTHON.name {
            return Ok(());
        }
        let bin = self.at.path().join(".bin");
        let path = self.environment.iter_mut().find(|(name, _)| *name == "PATH").context("it has a PATH")?;
        let found =
            std::env::split_paths(&path.1).map(|folder| folder.join(PYTHON_COMPILER)).find(|file| file.exists());
        let compiler = found.context("componentize-py is installed")?;
        std::fs::create_dir(&bin)?;
        let counting =
            format!("#!/bin/sh\necho >> '{}'\nexec '{}' \"$@\"\n", bin.join("runs").display(), compiler.display());
        std::fs::write(bin.join(PYTHON_COMPILER), counting)?;
        std::fs::set_permissions(bin.join(PYTHON_COMPILER), std::fs::Permissions::from_mode(0o755))?;
        path.1 = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path.1)))?.into();
        Ok(())
    }

    /// The number of runs of componentize-py, including those that print its version.
    fn compiler_runs(&self) -> anyhow::Result<usize> {
        Ok(std::fs::read_to_string(self.at.path().join(".bin/runs"))?.lines().count())
    }

    /// The name differs between the two kinds: Rust plugins are built to one directory, with files of this name.
    fn name(&self) -> &'static str {
        if self.composes { "my-mall" } else { "my-shop" }
    }

    /// Fetches the packages that an author would fetch.
    fn installed(&self) -> anyhow::Result<()> {
        let folder = self.at.path();
        if self.language.name == "rust" {
            // Use the crate versions that the workspace has fetched, and the toolchain with a standard library for
            // plugins.
            for file in ["Cargo.lock", "rust-toolchain.toml"] {
                std::fs::copy(paths::root().join(file), folder.join(file))?;
            }
        }
        if !folder.join("package.json").exists() {
            return Ok(());
        }
        let (there, here) = (paths::npm_packages()?, folder.join("node_modules"));
        std::fs::create_dir_all(here.join("@types"))?;
        for package in [".bin", "esbuild", "typescript", "componentize-qjs", "@types/node", "undici-types"] {
            std::os::unix::fs::symlink(there.join(package), here.join(package))?;
        }
        Ok(std::os::unix::fs::symlink("../sdk", here.join("windlass"))?)
    }

    async fn shell(&self, command: &str) -> anyhow::Result<Output> {
        let _turn = busy::turn().await?;
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).current_dir(self.at.path()).envs(self.environment.iter().cloned());
        Ok(shell.stdin(Stdio::null()).kill_on_drop(true).output().await?)
    }

    /// Runs the tests with the command of the README.
    async fn is_tested(&self) -> anyhow::Result<()> {
        let Language { name, tests, .. } = self.language;
        let tested = self.shell(tests).await?;
        ensure!(tested.status.success(), "the tests of the template in {name}: {:?}", texts(&tested));
        Ok(())
    }

    async fn runs_and_changes(&self) -> anyhow::Result<()> {
        let environment: Vec<_> = self.environment.iter().map(|(name, value)| (*name, value.as_os_str())).collect();
        // This builds and compiles twice, with an unoptimised host.
        let _turn = busy::turn().await?;
        let compiled = ["--limit".as_ref(), "compile-cpu=180s".as_ref()];
        let dev = ["dev".as_ref(), self.at.path().as_os_str(), compiled[0], compiled[1]];
        let host = Host::start_with(&dev, &environment, None)?;
        let kubeconfig = self.at.path().join(".windlass/kubeconfig");
        host.says_within(BUILD_TIMEOUT, &["controller started"]).await?;
        let objects = Objects::new(server::client(&kubeconfig).await?, "default");
        message(&objects, "Hello, world").await.with_context(|| host.log())?;
        let runs = if self.language.name == PYTHON.name { Some(self.compiler_runs()?) } else { None };

        if runs.is_some() {
            // A module that is missing in a package of the plugin needs no other base.
            std::fs::create_dir(self.at.path().join("parts"))?;
            std::fs::write(self.at.path().join("parts/__init__.py"), "")?;
            let tried = "import windlass\n\ntry:\n    from parts import fast\nexcept ImportError:\n    fast = None\n";
            edit(&self.source(), "import windlass\n", tried)?;
        }
        let (from, to) = self.language.edit[usize::from(self.composes)];
        edit(&self.source(), from, to)?;
        host.says_within(BUILD_TIMEOUT, &["a new generation has taken over"]).await?;
        message(&objects, "changed").await.with_context(|| host.log())?;
        if let Some(runs) = runs {
            ensure!(runs > 0 && self.compiler_runs()? == runs, "an edit in Python only exchanges the sources");
            // A mistake is found equally fast, and reported with its file and line.
            edit(&self.source(), "import windlass\n", "import windlass)\n")?;
            let said = ["SyntaxError", "the build failed: fix it and save; the previous build continues"];
            host.says_within(BUILD_TIMEOUT, &said[..1]).await?;
            host.says_within(BUILD_TIMEOUT, &said[1..]).await?;
            ensure!(host.log().contains("File \"app.py\", line"), "{}", host.log());
            ensure!(self.compiler_runs()? == runs, "{}", host.log());
            edit(&self.source(), "import windlass)\n", "import windlass\n")?;
        }
        let status = host.terminate().await?;
        ensure!(status.success(), "{status}");
        Ok(())
    }

    /// A plugin that fails before it returns its manifest is refused with its own error.
    async fn says_what_is_wrong(&self) -> anyhow::Result<()> {
        let (source, built) = (self.source(), self.at.path().join(format!("build/{}.wasm", self.name())));
        let (text, before) = (std::fs::read_to_string(&source)?, std::fs::read(&built)?);
        std::fs::write(&source, text + self.language.mistake)?;
        let failed = self.shell(&format!("{} build", paths::windlass()?.display())).await?;
        let (out, errors) = texts(&failed);
        ensure!(failed.status.code() == Some(1), "{:?} {out}{errors}", failed.status);
        ensure!(errors.contains("on purpose"), "the author's own words are not told: {out}{errors}");
        ensure!(std::fs::read(&built)? == before, "what was built before is still there");
        Ok(())
    }

    fn source(&self) -> PathBuf {
        Path::new(self.at.path()).join(self.language.source)
    }
}
