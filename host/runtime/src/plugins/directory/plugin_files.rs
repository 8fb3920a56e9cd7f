//! The files of one plugin: `NAME.wasm`; `NAME.next.wasm`, a version beside it; and `NAME.current.wasm`, the running
//! version while `NAME.wasm` waits (ADR 28). Decides which one runs, and which one is the next version.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_manifest::is_dns_label;

use crate::files::Content;

/// The role of a plugin's file, as its name shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileRole {
    /// `NAME.wasm`.
    Own,
    /// `NAME.current.wasm`: it runs, and a different `NAME.wasm` waits.
    Current,
    /// `NAME.next.wasm`.
    Next,
}

/// The plugin for which `file` is a `NAME.current.wasm` or `NAME.next.wasm`. `None` for other files.
#[must_use]
pub fn plugin_of(file: &Path) -> Option<Arc<str>> {
    let (plugin, role) = FileRole::of(file);
    (role != FileRole::Own).then_some(plugin)
}

impl FileRole {
    /// The suffix of the names of files with this role, after the plugin's name.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Own => ".wasm",
            Self::Current => ".current.wasm",
            Self::Next => ".next.wasm",
        }
    }

    /// The path of the file with this role, of `plugin` in `directory`.
    pub(crate) fn path(self, directory: &Path, plugin: &str) -> PathBuf {
        directory.join(format!("{plugin}{}", self.suffix()))
    }

    /// The plugin of the file `path`, and the file's role. If the name contains no valid name of a plugin, the file
    /// counts as the plugin's `NAME.wasm`, and is refused when it is loaded.
    pub(crate) fn of(path: &Path) -> (Arc<str>, Self) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let named = [Self::Current, Self::Next].into_iter().find_map(|role| {
            let plugin = name.strip_suffix(role.suffix()).filter(|plugin| is_dns_label(plugin))?;
            Some((plugin.into(), role))
        });
        named.unwrap_or_else(|| (path.file_stem().unwrap_or_default().to_string_lossy().into(), Self::Own))
    }
}

/// The states of the files of one plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PluginFiles {
    own: Content,
    current: Content,
    next: Content,
}

impl PluginFiles {
    /// The state without any file.
    pub(crate) fn none() -> Self {
        Self { own: Content::Gone, current: Content::Gone, next: Content::Gone }
    }

    /// Sets the state of one file.
    pub(crate) fn set(&mut self, role: FileRole, content: Content) {
        match role {
            FileRole::Own => self.own = content,
            FileRole::Current => self.current = content,
            FileRole::Next => self.next = content,
        }
    }

    /// The file that should run. Without `NAME.wasm`, no file should run, so deleting `NAME.wasm` ends the plugin.
    pub(crate) fn running(&self) -> (FileRole, Content) {
        if self.has_current() { (FileRole::Current, self.current.clone()) } else { (FileRole::Own, self.own.clone()) }
    }

    /// The file of the next version.
    pub(crate) fn next(&self) -> (FileRole, Content) {
        if !self.has_current() {
            return (FileRole::Next, self.next.clone());
        }
        let is_same = self.own == self.current;
        (FileRole::Own, if is_same { Content::Gone } else { self.own.clone() })
    }

    /// Whether there is a next version that is ignored, because `NAME.wasm` is the next version already.
    pub(crate) fn has_idle_next(&self) -> bool {
        self.has_current() && self.next != Content::Gone
    }

    /// Whether there is a current version that does not run, because `NAME.wasm` is gone.
    pub(crate) fn is_current_alone(&self) -> bool {
        self.own == Content::Gone && self.current != Content::Gone
    }

    fn has_current(&self) -> bool {
        self.own != Content::Gone && self.current != Content::Gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(letter: u8) -> Content {
        Content::Is([letter; 32])
    }

    #[test]
    fn a_file_is_of_the_plugin_that_its_name_says() {
        let of = |name: &str| {
            let (plugin, role) = FileRole::of(&Path::new("plugins").join(name));
            (plugin.to_string(), role)
        };
        assert_eq!(of("shop.wasm"), ("shop".to_owned(), FileRole::Own));
        assert_eq!(of("shop.next.wasm"), ("shop".to_owned(), FileRole::Next));
        assert_eq!(of("shop.current.wasm"), ("shop".to_owned(), FileRole::Current));
        assert_eq!(
            of("my.shop.next.wasm"),
            ("my.shop.next".to_owned(), FileRole::Own),
            "it is refused because of its name"
        );
    }

    #[test]
    fn a_plugin_of_one_file_runs_it_and_one_with_a_current_version_runs_that() {
        let mut files = PluginFiles::none();
        files.set(FileRole::Own, is(1));
        assert_eq!((files.running(), files.next()), ((FileRole::Own, is(1)), (FileRole::Next, Content::Gone)));
        files.set(FileRole::Current, is(1));
        assert_eq!((files.running(), files.next()), ((FileRole::Current, is(1)), (FileRole::Own, Content::Gone)));
        files.set(FileRole::Own, is(2));
        assert_eq!((files.running(), files.next()), ((FileRole::Current, is(1)), (FileRole::Own, is(2))));
        assert!(!files.has_idle_next());
        files.set(FileRole::Next, is(3));
        assert!(files.has_idle_next());
        files.set(FileRole::Current, Content::Gone);
        assert_eq!((files.running(), files.next()), ((FileRole::Own, is(2)), (FileRole::Next, is(3))));
    }

    #[test]
    fn a_plugin_whose_own_file_is_gone_runs_nothing() {
        let mut files = PluginFiles::none();
        files.set(FileRole::Own, is(2));
        files.set(FileRole::Current, is(1));
        files.set(FileRole::Own, Content::Gone);
        assert_eq!((files.running(), files.next()), ((FileRole::Own, Content::Gone), (FileRole::Next, Content::Gone)));
    }
}
