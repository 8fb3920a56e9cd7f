//! Runs the embedded API server by itself, to try it with `kubectl`:
//!
//! ```text
//! cargo run -p windlass-apiserver --example serve -- 8001 /tmp/kubeconfig
//! KUBECONFIG=/tmp/kubeconfig kubectl get namespaces
//! ```
//!
//! All arguments may be left out: a free port, and `windlass.kubeconfig` in the temporary directory. A third argument `rbac`
//! has requests authorized by roles.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use windlass_apiserver::{ApiServer, Authorization, Config};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().map_or(Ok(0), |port| port.parse())?;
    let path = arguments.next().map_or_else(|| std::env::temp_dir().join("windlass.kubeconfig"), PathBuf::from);

    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let by_roles = arguments.next().as_deref() == Some("rbac");
    let authorization = if by_roles { Authorization::Rbac } else { Authorization::AlwaysAllow };
    let server = ApiServer::start(Config { address, authorization, ..Config::default() }).await?;
    std::fs::write(&path, server.kubeconfig())?;
    println!("serving at {}; export KUBECONFIG={}", server.url(), path.display());
    tokio::signal::ctrl_c().await?;
    server.shutdown().await;
    Ok(())
}
