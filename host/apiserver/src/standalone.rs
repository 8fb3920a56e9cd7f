//! The server as a program of its own: what `windlass apiserver` and the example `serve` do.

use std::io;
use std::path::{Path, PathBuf};

use crate::files::{self, LoadError, ReactorFileError, StateFileError};
use crate::{ApiServer, Config, StartError};

/// The program's options.
#[derive(Clone, Debug, Default)]
pub struct StandaloneOptions {
    /// The server's own.
    pub config: Config,
    /// Where the port is written once the server is ready.
    pub port_file: Option<PathBuf>,
    /// Where a kubeconfig is written before that.
    pub kubeconfig: Option<PathBuf>,
    /// Manifests to begin with.
    pub load: Option<PathBuf>,
    /// The file that keeps the state over restarts.
    pub state: Option<PathBuf>,
    /// A file of reactors, which is followed.
    pub reactors: Option<PathBuf>,
}

/// Why the program could not start.
#[derive(Debug, thiserror::Error)]
pub enum StandaloneError {
    /// It cannot listen.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A manifest is wrong.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The kept state cannot be used.
    #[error(transparent)]
    State(#[from] StateFileError),
    /// The reactors cannot be used.
    #[error(transparent)]
    Reactors(#[from] ReactorFileError),
    /// A file for its clients cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
}

/// Starts a server with all that the options say. When this returns, it is ready, and its files are written.
///
/// # Errors
/// Says which of the options cannot be carried out; nothing runs then.
pub async fn serve(options: StandaloneOptions) -> Result<ApiServer, StandaloneError> {
    let mut server = ApiServer::start(options.config).await?;
    if let Some(path) = &options.state {
        server.keep_state(path)?;
    }
    if let Some(path) = &options.load {
        server.load(path)?;
    }
    if let Some(path) = &options.reactors {
        server.follow_reactors(path)?;
    }
    if let Some(path) = &options.kubeconfig {
        write(path, &server.kubeconfig())?;
    }
    if let Some(path) = &options.port_file {
        write(path, &format!("{}\n", server.address().port()))?;
    }
    Ok(server)
}

/// Somebody may wait for the file.
fn write(path: &Path, text: &str) -> Result<(), StandaloneError> {
    files::replace(path, text.as_bytes()).map_err(|source| StandaloneError::Write { path: path.to_owned(), source })
}
