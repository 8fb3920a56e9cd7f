//! Builds a plugin again whenever its sources change, and applies the files with objects to the API server again
//! whenever they change.
//!
//! `windlass dev` runs this beside a host that watches the folder's `build/`, so that the host swaps a new build in. If
//! a build fails, the error is shown and the running plugin continues.

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;
use windlass_kube::client::Connection;
use windlass_wasm::Sandbox;

use super::build::{self, BuildError, BuildRequest, Built};
use super::file::{self, BuildFile};
use super::objects;
use super::sources::SourceWatcher;

/// A followed folder.
pub struct FollowedFolder {
    pub folder: PathBuf,
    pub file: BuildFile,
    /// Loads and checks the built plugin.
    pub sandbox: Sandbox,
    /// The API server to which objects are applied.
    pub connection: Connection,
    /// Show the commands of a build.
    pub verbose: bool,
}

impl FollowedFolder {
    /// Applies the objects and builds once, before the host starts. The returned watcher reports the changes that
    /// happen meanwhile.
    pub async fn begin(&self) -> SourceWatcher {
        let sources = SourceWatcher::follow(&self.folder, &self.file.sdk, &self.file.watch);
        self.apply_from(0).await;
        self.build().await;
        sources
    }

    /// Builds after each change, until `stop`.
    pub async fn run(mut self, mut sources: SourceWatcher, stop: CancellationToken) {
        while let Some(changed) = stop.run_until_cancelled(sources.changes()).await {
            if stop.run_until_cancelled(self.changed(&changed, &mut sources)).await.is_none() {
                return;
            }
        }
    }

    async fn changed(&mut self, changed: &[PathBuf], sources: &mut SourceWatcher) {
        let is_own = |path: &Path, name: &str| path == self.folder.join(name);
        let is_object = |path: &PathBuf| objects::FILES.iter().any(|name| is_own(path, name));
        // If the CRD has changed, it may now accept a sample that it refused before.
        if let Some(first) = objects::FILES.iter().position(|name| changed.iter().any(|path| is_own(path, name))) {
            self.apply_from(first).await;
        }
        if changed.iter().any(|path| is_own(path, file::NAME)) {
            match file::read(&self.folder) {
                Ok(file) if file == self.file => {}
                Ok(file) => {
                    *sources = SourceWatcher::follow(&self.folder, &file.sdk, &file.watch);
                    self.file = file;
                }
                Err(error) => {
                    return tracing::error!(target: "windlass::build", %error, "cannot build: the running plugin continues");
                }
            }
        }
        // Changes of these files need no build: they are applied above, or the host itself watches them.
        let is_for_others = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            is_object(path) || name.ends_with(".policy.yaml") || name.ends_with(".config.yaml")
        };
        if changed.iter().any(|path| !is_for_others(path)) {
            tracing::info!(target: "windlass::build", "{}", summary(changed, &self.folder));
            self.build().await;
        }
    }

    /// Applies the object files in order, beginning with number `first`. If the CRD is refused, the samples are not
    /// applied.
    async fn apply_from(&self, first: usize) {
        for name in &objects::FILES[first..] {
            match objects::apply(&self.connection, &self.folder.join(name)).await {
                Ok(applied) if applied.is_empty() => {}
                Ok(applied) => tracing::info!(target: "windlass::build", "applied {}", applied.join(", ")),
                Err(error) => {
                    return tracing::error!(target: "windlass::build", "not applied: {error}; fix it and save");
                }
            }
        }
    }

    async fn build(&self) {
        let wish = BuildRequest {
            folder: self.folder.clone(),
            out: None,
            verbose: self.verbose,
            traceable: true,
            for_edits: true,
        };
        tracing::info!(target: "windlass::build", "building {}", self.file.name);
        match build::build(&wish, &self.sandbox).await {
            Ok(Built { plugin, changed, took, .. }) => {
                let took = format!("{:.1} s", took.as_secs_f64());
                let news = if changed { "" } else { "; it has not changed, so the running plugin continues" };
                let (name, version) = (plugin.name(), &plugin.manifest().version);
                tracing::info!(target: "windlass::build", "built {name} {version} in {took}{news}");
                self.warn_about_other_plugins();
            }
            Err(error) => {
                let advice = match &error {
                    BuildError::Missing { .. } => "install what is missing, and save a file",
                    _ => "fix it and save",
                };
                let runs = self.folder.join("build").join(format!("{}.wasm", self.file.name)).exists();
                let rest = if runs { "; the previous build continues" } else { "" };
                tracing::error!(target: "windlass::build", "{error}");
                tracing::error!(target: "windlass::build", "the build failed: {advice}{rest}");
            }
        }
    }

    /// Warns about other plugins in the folder, because the host runs all of them.
    fn warn_about_other_plugins(&self) {
        let Ok(entries) = std::fs::read_dir(self.folder.join("build")) else { return };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let is_plugin = path.extension().is_some_and(|extension| extension == "wasm") && !stem.starts_with('.');
            if is_plugin && stem != self.file.name {
                tracing::warn!(
                    target: "windlass::build", "{} runs too: delete it if it was built under an earlier name", path.display()
                );
            }
        }
    }
}

/// A short text that names the changed files.
fn summary(changed: &[PathBuf], folder: &Path) -> String {
    let short = |path: &PathBuf| path.strip_prefix(folder).unwrap_or(path).display().to_string();
    let (first, rest) =
        (changed.iter().take(3).map(short).collect::<Vec<_>>().join(", "), changed.len().saturating_sub(3));
    if rest == 0 { format!("changed: {first}") } else { format!("changed: {first} and {rest} more") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_summarized() {
        let folder = Path::new("/shop");
        let paths = |names: &[&str]| names.iter().map(|name| folder.join(name)).collect::<Vec<_>>();
        assert_eq!(summary(&paths(&["src/lib.rs"]), folder), "changed: src/lib.rs");
        assert_eq!(summary(&paths(&["a", "b", "c", "d", "e"]), folder), "changed: a, b, c and 2 more");
    }
}
