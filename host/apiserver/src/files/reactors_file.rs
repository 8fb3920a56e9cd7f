//! Follows a file of reactors: whenever its content changes, the new rules take effect.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::reactors::{ReactorDocument, ReactorError, Reactors};

/// The pause between two looks at the file. The whole content is compared, because modification times may be too coarse
/// for a test that writes the file twice.
const REACTORS_LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// The largest file of reactors, in bytes.
const REACTORS_BYTES_MAX: u64 = 16 << 20;

/// Why a file of reactors is not used.
#[derive(Debug, thiserror::Error)]
pub enum ReactorFileError {
    /// The file cannot be read.
    #[error("cannot read the reactors file {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// The file is not a valid document of reactors.
    #[error("the reactors file {path} is invalid: {source}")]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The problem, with its place in the document.
        #[source]
        source: ReactorError,
    },
}

/// Puts the rules of a file into effect. Returns the file's text.
pub(crate) fn use_file(reactors: &Reactors, path: &Path) -> Result<String, ReactorFileError> {
    let text = windlass_files::read_text(path, REACTORS_BYTES_MAX)
        .map_err(|source| ReactorFileError::Read { path: path.to_owned(), source })?;
    let wrong = |source| ReactorFileError::Wrong { path: path.to_owned(), source };
    reactors.set(ReactorDocument::parse(&text).map_err(wrong)?).map_err(wrong)?;
    Ok(text)
}

/// Puts each valid new text of the file into effect. If a new text is invalid, logs a warning and keeps the old rules.
pub(crate) async fn follow(reactors: Reactors, path: PathBuf, mut text: String) {
    let mut looks = interval(REACTORS_LOOK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let Ok(found) = windlass_files::read_text(&path, REACTORS_BYTES_MAX) else { continue };
        if found == text {
            continue;
        }
        match use_file(&reactors, &path) {
            Ok(_) => tracing::info!(path = %path.display(), "the reactors file changed and was reloaded"),
            Err(error) => tracing::warn!(%error, "the reactors file is invalid; the current rules stay in effect"),
        }
        text = found;
    }
}
