//! The server as a standalone program, for `windlass apiserver` and the example `serve`.

use std::io;
use std::path::{Path, PathBuf};

use crate::files::{self, LoadError, ReactorFileError, StateFileError};
use crate::{ApiServer, Config, StartError};

/// The program's options.
#[derive(Clone, Debug, Default)]
pub struct StandaloneOptions {
    /// The options of the server itself.
    pub config: Config,
    /// The file to which the port is written when the server is ready.
    pub port_file: Option<PathBuf>,
    /// The file to which the kubeconfig is written, before the port.
    pub kubeconfig: Option<PathBuf>,
    /// The manifests that are applied at the start.
    pub load: Option<PathBuf>,
    /// The file that keeps the state across restarts.
    pub state: Option<PathBuf>,
    /// The file of reactors. The server follows its changes.
    pub reactors: Option<PathBuf>,
}

/// The reason why the program could not start.
#[derive(Debug, thiserror::Error)]
pub enum StandaloneError {
    /// The server cannot listen.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A manifest is invalid.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The stored state cannot be used.
    #[error(transparent)]
    State(#[from] StateFileError),
    /// The file of reactors cannot be used.
    #[error(transparent)]
    Reactors(#[from] ReactorFileError),
    /// The port or the kubeconfig cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
}

/// Starts a server with these options. When this returns, the server is ready and its files are written.
///
/// # Errors
/// If an option cannot be carried out. The error names it, and nothing runs.
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

/// Writes a file atomically, because another process may wait for it.
fn write(path: &Path, text: &str) -> Result<(), StandaloneError> {
    files::replace(path, text.as_bytes()).map_err(|source| StandaloneError::Write { path: path.to_owned(), source })
}
