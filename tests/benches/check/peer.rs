//! An API server in a separate process, over TLS, so that its work is not counted.

use std::io::{BufRead as _, BufReader, Read as _, Write as _, stdin, stdout};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::Context;
use windlass_apiserver::{ApiServer, Config, ServerCertificate, StandIns, Tls};

/// The running server. It ends when this is dropped.
pub(crate) struct Peer {
    directory: tempfile::TempDir,
    process: Child,
    /// The process ends when its input closes.
    input: Option<ChildStdin>,
}

impl Peer {
    /// Starts a server, and waits until it listens.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut process = Command::new(std::env::current_exe()?)
            .arg("peer")
            .arg(directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = process.stdin.take();
        let output = process.stdout.take().context("it is piped")?;
        BufReader::new(output).read_line(&mut String::new())?;
        Ok(Self { directory, process, input })
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        kubeconfig(self.directory.path())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ended = self.process.wait();
    }
}

fn kubeconfig(directory: &std::path::Path) -> PathBuf {
    directory.join("kubeconfig")
}

/// The process of a [`Peer`]: serves until its input ends.
pub(crate) fn serve(directory: &std::path::Path) -> anyhow::Result<()> {
    let tls = Some(Tls { certificate: ServerCertificate::SelfMade, client_authority: None });
    let runtime = tokio::runtime::Runtime::new()?;
    let server = runtime.block_on(ApiServer::start(Config { tls, stand_ins: StandIns::NONE, ..Config::default() }))?;
    std::fs::write(kubeconfig(directory), server.kubeconfig())?;
    writeln!(stdout(), "it listens")?;
    stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
