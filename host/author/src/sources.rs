//! Notices changes of the sources of a plugin's folder, and of the SDK that it uses.
//!
//! Notifications of the file system and a slow poll trigger a comparison of the files, which decides what has changed.
//! Files that builds, editors and version control write are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_files::DirectoryWatcher;

/// The files are compared after this time without further notifications, because an editor or a checkout writes many
/// files.
const SOURCES_QUIET_TIME: Duration = Duration::from_millis(150);
/// The interval between comparisons if there are no notifications.
const SOURCES_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// The maximum depth of folders. It ends cycles of links.
pub(crate) const SOURCES_DEPTH_MAX: usize = 16;

/// Folders with generated or downloaded files.
pub(crate) const NO_SOURCES: [&str; 6] = ["build", "target", "node_modules", "packages", "__pycache__", "zig-out"];
/// Suffixes of files that are not sources and are written frequently.
const NO_SOURCE_ENDS: [&str; 4] = ["~", ".log", ".tmp", ".md"];
/// Files that builds write themselves. Every change of them that matters comes with a change of a manifest.
const WRITTEN_BY_TOOLS: [&str; 3] = ["Cargo.lock", "go.sum", "package-lock.json"];

/// Watches the sources of a folder while it lives.
pub struct SourceWatcher {
    folder: PathBuf,
    /// The SDK's folder. It is watched even if it is outside the author's folder.
    sdk: PathBuf,
    patterns: Vec<glob::Pattern>,
    /// The patterns that begin with `../`.
    outside: Vec<OutsidePattern>,
    watcher: DirectoryWatcher,
    seen: BTreeMap<PathBuf, Identity>,
}

/// A pattern of sources outside the author's folder.
struct OutsidePattern {
    /// The folder above which no file matches.
    base: PathBuf,
    /// The pattern with the whole path.
    pattern: glob::Pattern,
    /// The depth at which the search begins, so that it goes no deeper than the pattern.
    depth: usize,
}

impl OutsidePattern {
    /// `None` if the pattern is about the folder itself.
    fn of(folder: &Path, pattern: &str) -> Option<Self> {
        let (mut root, mut rest) = (folder.to_owned(), pattern);
        while let Some(above) = rest.strip_prefix("../") {
            root.pop();
            rest = above;
        }
        let whole = format!("{}/{rest}", glob::Pattern::escape(&root.display().to_string()));
        let parts: Vec<&str> = rest.split('/').collect();
        let is_literal = |part: &&&str| !part.contains(['*', '?', '[']);
        let literal = parts[..parts.len() - 1].iter().take_while(is_literal).count();
        let depth = if rest.contains("**") { 0 } else { SOURCES_DEPTH_MAX.saturating_sub(parts.len() - 1 - literal) };
        let base = parts[..literal].iter().fold(root, |base, part| base.join(part));
        (rest != pattern).then_some(Self { base, pattern: glob::Pattern::new(&whole).ok()?, depth })
    }
}

/// Values of a file that change when it is written or replaced.
pub(crate) type Identity = (u64, u64, i64, i64);

pub(crate) fn identity(it: &Metadata) -> Identity {
    (it.ino(), it.size(), it.mtime(), it.mtime_nsec())
}

/// The files to which this process writes its own output, as device and inode. They are ignored, because otherwise each
/// build would trigger another.
fn own_output() -> Vec<(u64, u64)> {
    let files = ["/dev/fd/1", "/dev/fd/2"].into_iter().filter_map(|path| std::fs::metadata(path).ok());
    files.filter(Metadata::is_file).map(|it| (it.dev(), it.ino())).collect()
}

impl SourceWatcher {
    /// Watches the sources of `folder`, beginning with their current state. Without patterns, all files are watched.
    /// The build file, the objects and the policy are always watched. A pattern that begins with `../` adds files
    /// outside the folder.
    pub fn follow(folder: &Path, sdk: &Path, patterns: &[String]) -> Self {
        let (outside, inside): (Vec<_>, Vec<_>) = patterns.iter().partition(|pattern| pattern.starts_with("../"));
        let mut sources = Self {
            folder: folder.to_owned(),
            sdk: folder.join(sdk),
            // Reading the build file has refused invalid patterns.
            patterns: inside.into_iter().filter_map(|pattern| glob::Pattern::new(pattern).ok()).collect(),
            outside: outside.into_iter().filter_map(|pattern| OutsidePattern::of(folder, pattern)).collect(),
            watcher: DirectoryWatcher::new(SOURCES_QUIET_TIME, SOURCES_POLL_INTERVAL),
            seen: BTreeMap::new(),
        };
        sources.look();
        sources
    }

    /// Waits for changes. Returns the files that were changed, created or deleted since the last check.
    pub async fn changes(&mut self) -> Vec<PathBuf> {
        loop {
            self.watcher.due().await;
            let changed = self.look();
            self.watcher.looked();
            if !changed.is_empty() {
                return changed;
            }
        }
    }

    fn look(&mut self) -> Vec<PathBuf> {
        // Watch each folder separately: a recursive watch would include the many files that builds write.
        let mut found = self.scan();
        while self.watcher.watch_only(found.folders.iter().map(PathBuf::as_path)) {
            // A folder may have changed before it was watched.
            found = self.scan();
        }
        let is_other = |(path, now): &(&PathBuf, &Identity)| self.seen.get(*path) != Some(*now);
        let mut changed: Vec<PathBuf> = found.files.iter().filter(is_other).map(|(path, _)| path.clone()).collect();
        changed.extend(self.seen.keys().filter(|path| !found.files.contains_key(*path)).cloned());
        self.seen = found.files;
        changed
    }

    fn is_source(&self, path: &Path) -> bool {
        let Ok(path) = path.strip_prefix(&self.folder) else { return true };
        let is_own = path.components().count() == 1 && path.extension().is_some_and(|extension| extension == "yaml");
        let in_sdk = self.folder.join(path).starts_with(&self.sdk);
        self.patterns.is_empty() || is_own || in_sdk || self.patterns.iter().any(|pattern| pattern.matches_path(path))
    }

    fn scan(&self) -> SourceScan {
        let mut found = SourceScan { own_output: own_output(), ..SourceScan::default() };
        found.gather(&self.folder, &|path| self.is_source(path), 0);
        if !self.sdk.starts_with(&self.folder) || self.sdk.components().any(|part| part.as_os_str() == "..") {
            found.gather(&self.sdk, &|_| true, 0);
        }
        for outside in &self.outside {
            found.gather(&outside.base, &|path| outside.pattern.matches_path(path), outside.depth);
        }
        found
    }
}

#[derive(Default)]
struct SourceScan {
    own_output: Vec<(u64, u64)>,
    folders: BTreeSet<PathBuf>,
    files: BTreeMap<PathBuf, Identity>,
}

impl SourceScan {
    /// Finds files below `folder`. A file that cannot be read is left out, because the compiler will report it.
    fn gather(&mut self, folder: &Path, wanted: &dyn Fn(&Path) -> bool, depth: usize) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        self.folders.insert(folder.to_owned());
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Ok(it) = std::fs::metadata(&path) else { continue };
            if name.starts_with('.') {
                continue;
            }
            if it.is_dir() {
                if depth < SOURCES_DEPTH_MAX && !NO_SOURCES.contains(&&*name) {
                    self.gather(&path, wanted, depth + 1);
                }
            } else if self.may_be_source(&name, &it) && wanted(&path) {
                self.files.insert(path, identity(&it));
            }
        }
    }

    fn may_be_source(&self, name: &str, it: &Metadata) -> bool {
        let is_none = NO_SOURCE_ENDS.iter().any(|end| name.ends_with(end)) || WRITTEN_BY_TOOLS.contains(&name);
        !is_none && !self.own_output.contains(&(it.dev(), it.ino()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path, path: &str, text: &str) {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
        std::fs::write(path, text).expect("it is written");
    }

    fn names(folder: &Path, changed: &[PathBuf]) -> Vec<String> {
        let short = |path: &PathBuf| path.strip_prefix(folder).unwrap_or(path).display().to_string();
        changed.iter().map(short).collect()
    }

    #[test]
    fn files_written_by_builds_and_editors_are_ignored() {
        let at = tempfile::tempdir().expect("a directory");
        let folder = at.path().join("shop");
        put(&folder, "src/lib.rs", "1");
        put(&at.path().join("sdk"), "core.rs", "1");
        let mut sources = SourceWatcher::follow(&folder, Path::new("../sdk"), &[]);
        for path in [
            "build/shop.wasm",
            "target/x",
            "node_modules/a/b.js",
            ".git/HEAD",
            ".src.swp",
            "src/lib.rs~",
            "Cargo.lock",
            "src/__pycache__/x.pyc",
            "dev.log",
            "README.md",
        ] {
            put(&folder, path, "new");
        }
        assert_eq!(sources.look(), Vec::<PathBuf>::new());
        put(&folder, "src/lib.rs", "changed");
        put(&folder, "src/deep/new.rs", "new");
        put(&at.path().join("sdk"), "core.rs", "changed");
        let changed = names(&folder, &sources.look());
        assert!(changed.iter().any(|path| path.ends_with("core.rs")), "{changed:?}");
        assert_eq!(changed.len(), 3, "{changed:?}");
        std::fs::remove_file(folder.join("src/deep/new.rs")).expect("it was there");
        assert_eq!(names(&folder, &sources.look()), ["src/deep/new.rs"]);
        assert_eq!(sources.look(), Vec::<PathBuf>::new());
    }

    #[test]
    fn patterns_add_to_the_files_that_are_always_watched() {
        let at = tempfile::tempdir().expect("a directory");
        put(at.path(), "sdk/x.zig", "1");
        let mut sources = SourceWatcher::follow(at.path(), Path::new("sdk"), &["src/**/*.zig".to_owned()]);
        for path in ["src/a/main.zig", "notes.txt", "src/notes.txt", "crd.yaml", "sdk/x.zig"] {
            put(at.path(), path, "new");
        }
        assert_eq!(names(at.path(), &sources.look()), ["crd.yaml", "sdk/x.zig", "src/a/main.zig"]);
    }

    #[test]
    fn patterns_may_add_files_outside_the_folder() {
        let at = tempfile::tempdir().expect("a directory");
        let folder = at.path().join("windlass");
        put(&folder, "main.go", "1");
        let patterns = ["**/*.go", "../*.go", "../api/**/*.go", "../a/*/b.go"].map(str::to_owned);
        let mut sources = SourceWatcher::follow(&folder, Path::new("sdk"), &patterns);
        for path in
            ["go.mod", "shop.go", "deep/shop.go", "api/v1/shop.go", "api/v1/shop.yaml", "a/x/b.go", "a/x/y/b.go"]
        {
            put(at.path(), path, "new");
        }
        put(&folder, "main.go", "changed");
        let expected = ["a/x/b.go", "api/v1/shop.go", "shop.go", "windlass/main.go"];
        assert_eq!(names(at.path(), &sources.look()), expected);
    }

    #[tokio::test]
    async fn a_change_in_a_new_folder_is_noticed() {
        let at = tempfile::tempdir().expect("a directory");
        let mut sources = SourceWatcher::follow(at.path(), Path::new("sdk"), &[]);
        put(at.path(), "src/a.go", "1");
        assert_eq!(names(at.path(), &sources.changes().await), ["src/a.go"]);
        put(at.path(), "src/a.go", "longer");
        assert_eq!(names(at.path(), &sources.changes().await), ["src/a.go"]);
    }
}
