//! Turns a compiler's output into a plugin: makes it a component, loads it as a host would, and then replaces the file
//! at its destination atomically.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_componentize::ComponentizeError;
use windlass_wasm::{LoadError, LoadProblem, Plugin, Sandbox};

use windlass_files::{read_whole, replace};

/// The maximum size of the built file. The sandbox checks the limit for plugins later.
const BUILT_PLUGIN_BYTES_MAX: u64 = 1 << 30;

/// The reason why the compiler's output did not become a plugin.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    #[error("the build succeeded but created no {}: {source}", path.display())]
    NoOutput { path: PathBuf, source: std::io::Error },
    #[error("the build's output cannot be turned into a plugin: {0}")]
    NotMade(#[from] ComponentizeError),
    #[error("the plugin that was built is refused: {0}")]
    Refused(String),
    #[error("cannot write {}: {source}{}", path.display(), room(source))]
    Write { path: PathBuf, source: std::io::Error },
}

fn room(source: &std::io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ". Nothing was replaced",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            ". A build writes to `build/` in the plugin's folder, and to the path given with --out"
        }
        _ => "",
    }
}

/// A finished plugin.
#[derive(Debug)]
pub(crate) struct Finished {
    pub plugin: Arc<Plugin>,
    pub path: PathBuf,
    /// Whether the plugin differs from the earlier file.
    pub changed: bool,
}

/// Turns the file `built`, which a compiler wrote, into a component.
pub(crate) fn component(built: &Path) -> Result<Vec<u8>, FinishError> {
    let unread = |source| FinishError::NoOutput { path: built.to_owned(), source };
    let module = read_whole(built, BUILT_PLUGIN_BYTES_MAX).map_err(unread)?;
    Ok(windlass_componentize::componentize(&module)?)
}

/// Turns a component into a plugin named `name`, using the directory `work`, and moves it to `out`. `explain` describes
/// the reason if the sandbox refuses the plugin.
pub(crate) async fn finish(
    component: &[u8],
    name: &str,
    work: &Path,
    out: &Path,
    sandbox: &Sandbox,
    explain: impl FnOnce(&LoadError) -> String,
) -> Result<Finished, FinishError> {
    // The sandbox takes the plugin's name from the file name, as a host does.
    let staged = work.join(format!("{name}.wasm"));
    std::fs::write(&staged, component).map_err(|source| FinishError::Write { path: staged.clone(), source })?;
    let plugin = sandbox.load(&staged).await.map_err(|error| FinishError::Refused(explain(&error)))?;
    let changed = put(component, out).map_err(|source| FinishError::Write { path: out.to_owned(), source })?;
    Ok(Finished { plugin, path: out.to_owned(), changed })
}

/// The reason why a plugin is refused, in terms of its sources.
pub(crate) fn refusal(LoadError { problem, .. }: &LoadError, name: &str) -> String {
    match problem {
        LoadProblem::OtherName { manifest, .. } => format!(
            "its manifest says that its name is {manifest:?}, and {} says {name:?}: make them the same",
            super::file::NAME
        ),
        LoadProblem::Describe { reason, message } => format!(
            "it failed when it was asked for its manifest ({reason}): {message}\n  A plugin is asked for its manifest whenever it is \
             built or loaded, without an object. The code that makes the manifest may use only the clock, random numbers and the \
             configuration."
        ),
        other => other.to_string(),
    }
}

/// The text that a plugin logged before its `describe` failed, from the host's message about that. The host appends
/// functions of the interpreter, which the author does not know.
pub(crate) fn logged(message: &str) -> Option<&str> {
    let logged = message.split_once("; it had logged: ")?.1;
    Some(logged.rsplit_once("; in function ").map_or(logged, |(logged, _)| logged))
}

/// Writes atomically, so that a host that watches the directory never sees a part of the file. Returns false if the
/// file already had this content and was not touched.
fn put(component: &[u8], out: &Path) -> std::io::Result<bool> {
    if read_whole(out, component.len() as u64).is_ok_and(|there| there == component) {
        return Ok(false);
    }
    let directory = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    replace(out, component)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(problem: LoadProblem) -> String {
        refusal(&LoadError { path: "build/.windlass/shop.wasm".into(), problem }, "shop")
    }

    #[test]
    fn refusals_refer_to_sources_and_not_to_files() {
        let text = refused(LoadProblem::OtherName { manifest: "store".into(), file: "shop".into() });
        assert!(text.contains("\"store\"") && text.contains("windlass.yaml says \"shop\""), "{text}");
        let text = refused(LoadProblem::Describe { reason: "trap", message: "KeyError: 'x'".into() });
        assert!(text.contains("asked for its manifest (trap): KeyError: 'x'"), "{text}");
    }

    #[test]
    fn the_same_bytes_leave_the_file_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let out = directory.path().join("made/shop.wasm");
        assert!(put(b"one", &out).expect("it is written"));
        let first = std::fs::metadata(&out).and_then(|it| it.modified()).expect("it is there");
        assert!(!put(b"one", &out).expect("nothing to do"));
        assert_eq!(std::fs::metadata(&out).and_then(|it| it.modified()).expect("it is there"), first);
        assert!(put(b"two", &out).expect("it is written"));
        assert_eq!(std::fs::read(&out).expect("it is there"), b"two");
        assert_eq!(
            std::fs::read_dir(directory.path().join("made")).expect("it is there").count(),
            1,
            "nothing is left over"
        );
    }

    #[test]
    fn a_file_that_cannot_be_replaced_stays_unchanged() {
        let directory = tempfile::tempdir().expect("a directory");
        // A directory with that name cannot be replaced by a file, whichever user runs the test.
        let out = directory.path().join("shop.wasm");
        std::fs::create_dir(&out).expect("it is made");
        assert!(put(b"one", &out).is_err());
        assert_eq!(std::fs::read_dir(directory.path()).expect("it is there").count(), 1, "nothing is left over");
    }
}
