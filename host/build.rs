//! Tells the program what it is built from, for `windlass version`. Nothing here depends on the time or the machine, so
//! that the same sources give the same bytes.

use std::path::Path;

fn main() {
    let root = Path::new("..");
    println!("cargo:rerun-if-env-changed=WINDLASS_COMMIT");
    let commit = std::env::var("WINDLASS_COMMIT").ok().filter(|commit| !commit.is_empty()).or_else(|| commit(root));
    println!("cargo:rustc-env=WINDLASS_COMMIT={}", commit.unwrap_or_else(|| "unknown".to_owned()));
    println!("cargo:rustc-env=WINDLASS_TARGET={}", std::env::var("TARGET").unwrap_or_default());
    let lock = root.join("Cargo.lock");
    println!("cargo:rerun-if-changed={}", lock.display());
    let wasmtime = std::fs::read_to_string(lock).ok().and_then(|lock| version_of("wasmtime", &lock));
    println!("cargo:rustc-env=WINDLASS_WASMTIME={}", wasmtime.unwrap_or_else(|| "unknown".to_owned()));
}

/// The commit that is checked out. None: it is no Git repository, as in a source archive.
fn commit(root: &Path) -> Option<String> {
    let dot_git = root.join(".git");
    // In a work tree of its own, it is a file that says where.
    let directory = match std::fs::read_to_string(&dot_git) {
        Ok(text) => root.join(text.strip_prefix("gitdir:")?.trim()),
        Err(_) => dot_git,
    };
    let common = std::fs::read_to_string(directory.join("commondir"));
    let common = common.map_or_else(|_| directory.clone(), |common| directory.join(common.trim()));
    let head = followed(&directory.join("HEAD"))?;
    // It changes with each commit, wherever that is noted.
    let log = directory.join("logs/HEAD");
    if log.exists() {
        println!("cargo:rerun-if-changed={}", log.display());
    }
    let Some(branch) = head.strip_prefix("ref:").map(str::trim) else { return Some(head) };
    let packed = || {
        let refs = followed(&common.join("packed-refs"))?;
        refs.lines().find_map(|line| line.strip_suffix(branch)?.strip_suffix(' ').map(str::to_owned))
    };
    followed(&common.join(branch)).or_else(packed)
}

/// The contents of a file, which build the program anew when they change.
fn followed(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    println!("cargo:rerun-if-changed={}", file.display());
    Some(text.trim().to_owned())
}

/// The version of `package` in a `Cargo.lock`.
fn version_of(package: &str, lock: &str) -> Option<String> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name).skip(1);
    Some(lines.next()?.strip_prefix("version = \"")?.strip_suffix('"')?.to_owned())
}
