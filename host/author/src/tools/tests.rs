//! Tests the messages about tools that are missing, old or broken. The tools are scripts that print what a test needs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::facts::Facts;
use crate::{file, language};

/// A machine with these programs. Each is given with the body of its script.
fn machine(programs: &[(&str, &str)]) -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a directory");
    for (program, script) in programs {
        let path = place.path().join("bin").join(program);
        fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("it is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is a program");
    }
    place
}

/// The message to the author of a plugin in `language` whose sources exist. Empty if nothing is missing.
async fn complaint_of(language: &str, machine: &tempfile::TempDir) -> String {
    let folder = machine.path().join("shop");
    for path in ["sdk/x", "Cargo.toml", "go.mod", "app.py", "plugin.js", "plugin.ts", "package.json"] {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
        fs::write(path, "").expect("it is written");
    }
    let text = format!("name: shop\nlanguage: {language}\n");
    let file = file::parse(Path::new(file::NAME), text.as_bytes()).expect("a build file");
    let plan = language::plan(&Facts::of(&folder, file).expect("it can be read"), false);
    let places = ToolPaths::of(&folder, Some(machine.path().join("bin").as_os_str()));
    match Toolbox::gather(&plan.needs, &places).await {
        Ok(_) => String::new(),
        Err(missing) => missing.iter().fold(String::new(), |text, missing| format!("{text}{missing}\n")),
    }
}

#[tokio::test]
async fn on_an_empty_machine_every_missing_tool_comes_with_advice() {
    let machine = machine(&[]);
    for (language, tool, how) in [
        ("rust", "cargo: not found; needed is 1.95 or newer", "rustup"),
        ("go", "go: not found; needed is 1.26 or newer, tested with 1.26.8", "https://go.dev/dl"),
        ("python", "componentize-py: not found", "pip install componentize-py==0.25.1"),
        ("js", "componentize-qjs: not found", "npm install"),
        ("ts", "node: not found", "apt install nodejs"),
        ("c", "zig: not found", "pip install ziglang==0.17.0"),
    ] {
        let complaint = complaint_of(language, &machine).await;
        assert!(complaint.contains(tool) && complaint.contains(how), "{language}: {complaint}");
    }
}

#[tokio::test]
async fn an_old_tool_is_reported_with_its_version_and_path() {
    let machine = machine(&[("go", "echo go version go1.19.8 linux/amd64")]);
    let complaint = complaint_of("go", &machine).await;
    assert!(complaint.contains("/bin/go is 1.19.8, which is too old; needed is 1.26 or newer"), "{complaint}");
}

#[tokio::test]
async fn a_broken_tool_is_reported_with_its_output() {
    let machine = machine(&[("componentize-py", "echo 'No module named componentize_py' >&2; exit 1")]);
    let complaint = complaint_of("python", &machine).await;
    assert!(complaint.contains("exists but does not work: No module named componentize_py"), "{complaint}");
}

#[tokio::test]
async fn a_missing_rust_target_is_reported_with_the_command_to_add_it() {
    let rustc = |directory: &str| format!("echo {directory}");
    let cargo = ("cargo", "echo cargo 1.95.0");
    for (directory, of, how) in [
        (
            "/home/me/.rustup/toolchains/1.95.0-x86_64/lib/rustlib/wasm32-unknown-unknown/lib",
            "of the toolchain 1.95.0-x86_64: not found",
            "rustup: rustup target add wasm32-unknown-unknown --toolchain 1.95.0-x86_64\n",
        ),
        ("/usr/lib/rustlib/wasm32-unknown-unknown/lib", "/bin/rustc: not found", "apt install libstd-rust-dev-wasm32"),
    ] {
        let complaint = complaint_of("rust", &machine(&[cargo, ("rustc", &rustc(directory))])).await;
        assert!(complaint.contains(of) && complaint.contains(how), "{complaint}");
    }
    let whole = tempfile::tempdir().expect("a directory");
    fs::write(whole.path().join("libstd-1.rlib"), "").expect("it is written");
    let whole_machine = machine(&[cargo, ("rustc", &rustc(&whole.path().display().to_string()))]);
    assert_eq!(complaint_of("rust", &whole_machine).await, "");
}

#[tokio::test]
async fn a_missing_rust_toolchain_is_reported_by_name() {
    let rustup = "echo \"error: toolchain '1.95.0-x86_64' is not installed\" >&2
        [ \"$RUST_BACKTRACE$RUST_LIB_BACKTRACE\" = 00 ] || echo 'Stack backtrace: 0: std::rt' >&2
        exit 1";
    let complaint = complaint_of("rust", &machine(&[("cargo", rustup), ("rustc", rustup)])).await;
    assert!(complaint.contains("does not work: error: toolchain '1.95.0-x86_64' is not installed;"), "{complaint}");
    let how = "    rustup: rustup toolchain install 1.95.0-x86_64 --target wasm32-unknown-unknown\n";
    assert!(complaint.ends_with(how) && !complaint.contains("rustup.rs"), "{complaint}");
}

#[test]
fn another_program_in_a_tools_place_has_another_identity() {
    let machine = machine(&[("componentize-py", "echo 1"), ("other", "echo 12")]);
    let places = ToolPaths::of(machine.path(), Some(machine.path().join("bin").as_os_str()));
    let identity = || places.identity(&language::python::COMPONENTIZE_PY);
    let first = identity().expect("it is there");
    assert_eq!(identity(), Some(first.clone()));
    fs::rename(machine.path().join("bin/other"), machine.path().join("bin/componentize-py")).expect("it is replaced");
    assert_ne!(identity().expect("it is there"), first);
    fs::remove_file(machine.path().join("bin/componentize-py")).expect("it was there");
    assert_eq!(identity(), None);
}

#[tokio::test]
async fn zig_may_be_a_python_package() {
    let machine = machine(&[("python3", "[ \"$2 $3\" = 'ziglang version' ] && echo 0.17.0")]);
    assert_eq!(complaint_of("c", &machine).await, "");
    let without = self::machine(&[("python3", "echo 'No module named ziglang' >&2; exit 1")]);
    assert!(complaint_of("c", &without).await.contains("zig: not found"), "an interpreter without the package is none");
}

#[tokio::test]
async fn packages_that_npm_installed_for_the_folder_come_first() {
    let machine = machine(&[("node", "echo v20.1.0"), ("esbuild", "echo 0.1.0"), ("componentize-qjs", "")]);
    assert!(complaint_of("js", &machine).await.contains("esbuild: "), "the one of the machine is too old");
    let modules = machine.path().join("shop/node_modules");
    fs::create_dir_all(modules.join(".bin")).expect("it is made");
    fs::create_dir_all(modules.join("componentize-qjs")).expect("it is made");
    fs::write(modules.join(".bin/esbuild"), "#!/bin/sh\necho 0.25.1\n").expect("it is written");
    fs::set_permissions(modules.join(".bin/esbuild"), fs::Permissions::from_mode(0o755)).expect("it is a program");
    assert_eq!(complaint_of("js", &machine).await, "");
    fs::write(modules.join("componentize-qjs/package.json"), r#"{"version": "0.3.0"}"#).expect("it is written");
    assert!(complaint_of("js", &machine).await.contains("is 0.3.0, which is too old"));
}

#[tokio::test]
async fn missing_sources_are_reported_too() {
    let machine = machine(&[("go", "echo go version go1.26.8")]);
    let folder = machine.path().join("bare");
    fs::create_dir_all(&folder).expect("it is made");
    let file = file::parse(Path::new(file::NAME), b"name: shop\nlanguage: go\nsdk: ../sdk/go\n").expect("a build file");
    let plan = language::plan(&Facts::of(&folder, file).expect("it can be read"), false);
    let places = ToolPaths::of(&folder, Some(machine.path().join("bin").as_os_str()));
    let missing = Toolbox::gather(&plan.needs, &places).await.expect_err("nothing is there");
    let complaint: String = missing.iter().map(ToString::to_string).collect();
    assert!(
        complaint.contains("../sdk/go: not found")
            && complaint.contains("`sdk: ../sdk/go`")
            && complaint.contains("go.mod"),
        "{complaint}"
    );
}
