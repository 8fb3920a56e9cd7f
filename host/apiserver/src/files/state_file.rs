//! A file that keeps the state across restarts: a header line, and then one object per line. It has no history, so
//! clients must list again, as after a compaction.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::{MissedTickBehavior, interval};

use crate::resources::resource::GroupResource;
use crate::storage::ObjectKey;
use crate::storage::state::{Shared, State};

const API_VERSION: &str = "windlass.dev/v1alpha1";
const KIND: &str = "ServerState";
/// The pause between two writes.
const STATE_WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// The largest state file, in bytes. Its whole state must fit into memory.
const STATE_BYTES_MAX: u64 = 8 << 30;

/// Why a state file was not read or written. A failed read leaves the state unchanged.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// The file cannot be read or written.
    #[error("cannot {verb} the state file {path}")]
    Access {
        /// `read` or `write`.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// The file is not a state file.
    #[error("{path} is not a state file of an API server: {message}; move it away, or use another path")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The difference from a valid state file.
        message: String,
    },
    /// The file is truncated, or was modified by another program.
    #[error("the state file {path} is damaged: {message}; its contents are ignored")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The part of the file that is wrong.
        message: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    api_version: String,
    kind: String,
    revision: u64,
    objects: usize,
    /// The digest of everything after the first line.
    sha256: String,
}

#[derive(Serialize, Deserialize)]
struct Line<T> {
    group: String,
    resource: String,
    object: T,
}

/// Writes the state atomically: readers see either the old or the new file.
pub(crate) fn write(state: &State, path: &Path) -> Result<(), StateFileError> {
    let failed = |source| StateFileError::Access { verb: "write", path: path.to_owned(), source };
    let text = to_text(state).map_err(|error| failed(error.into()))?;
    super::replace(path, &text).map_err(failed)
}

fn to_text(state: &State) -> serde_json::Result<Vec<u8>> {
    let mut lines = Vec::new();
    let mut objects = 0;
    for resource in state.store.resources() {
        for object in state.store.list(&resource, None) {
            let line = Line { group: resource.group.clone(), resource: resource.plural.clone(), object: &**object };
            serde_json::to_writer(&mut lines, &line)?;
            lines.push(b'\n');
            objects += 1;
        }
    }
    let header = Header {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        revision: state.store.revision(),
        objects,
        sha256: digest(&lines),
    };
    let mut text = serde_json::to_vec(&header)?;
    text.push(b'\n');
    text.extend(lines);
    Ok(text)
}

fn digest(bytes: &[u8]) -> String {
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    digest.map(|byte| format!("{byte:02x}")).concat()
}

/// Writes the state soon after each change, until the server stops.
pub(crate) async fn keep(shared: Arc<Shared>, path: PathBuf) {
    let mut written = None;
    let mut looks = interval(STATE_WRITE_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while shared.stop.run_until_cancelled(looks.tick()).await.is_some() {
        let state = shared.lock().clone();
        let revision = state.store.revision();
        if written == Some(revision) {
            continue;
        }
        let to = path.clone();
        match tokio::task::spawn_blocking(move || write(&state, &to)).await {
            Ok(Ok(())) => written = Some(revision),
            Ok(Err(error)) => tracing::error!(
                error = &error as &dyn std::error::Error,
                "cannot save the state; the file is unchanged"
            ),
            Err(error) => tracing::error!(%error, "cannot save the state; the file is unchanged"),
        }
    }
}

/// Replaces the state by the state in the file. False if there is no file; then the state is unchanged.
pub(crate) fn read(state: &mut State, path: &Path) -> Result<bool, StateFileError> {
    let text = match windlass_files::read_whole(path, STATE_BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(StateFileError::Access { verb: "read", path: path.to_owned(), source }),
    };
    let foreign = |message: String| StateFileError::Foreign { path: path.to_owned(), message };
    let damaged = |message: String| StateFileError::Damaged { path: path.to_owned(), message };
    let (first, rest) = text.split_at(text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |end| end + 1));
    let header: Header = serde_json::from_slice(first).map_err(|error| foreign(format!("its first line: {error}")))?;
    if header.kind != KIND || header.api_version != API_VERSION {
        let expected =
            format!("it should be {KIND} of {API_VERSION}, and is {} of {}", header.kind, header.api_version);
        return Err(foreign(expected));
    }
    if digest(rest) != header.sha256 {
        return Err(damaged("the digest of its objects differs from the digest in its first line".to_owned()));
    }
    let lines = rest.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let objects = lines
        .map(|line| {
            let line: Line<Value> = serde_json::from_slice(line)?;
            Ok((ObjectKey::of(&GroupResource::new(&line.group, &line.resource), &line.object), line.object))
        })
        .collect::<serde_json::Result<Vec<_>>>()
        .map_err(|error| damaged(error.to_string()))?;
    if objects.len() != header.objects {
        return Err(damaged(format!("it has {} objects instead of {}", objects.len(), header.objects)));
    }
    state.replace_objects(header.revision, objects);
    Ok(true)
}
