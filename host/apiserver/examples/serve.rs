//! Runs the embedded API server by itself, to try it with `kubectl`:
//!
//! ```text
//! cargo run -p windlass-apiserver --example serve -- 8001 /tmp/kubeconfig
//! KUBECONFIG=/tmp/kubeconfig kubectl get namespaces
//! ```
//!
//! Both arguments are optional. The defaults are a free port, and `windlass.kubeconfig` in the temporary directory.
//! With a third argument `rbac`, requests are authorized by roles. Environment variables set the rest: `LOAD` has the
//! manifests to begin with, `STATE` the file that keeps the state, `REACTORS` the file of reactors, and `STAND_INS` the
//! stand-ins.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use windlass_apiserver::{Authorization, Config, StandIns, StandaloneOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().map_or(Ok(0), |port| port.parse())?;
    let path = arguments.next().map_or_else(|| std::env::temp_dir().join("windlass.kubeconfig"), PathBuf::from);
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);

    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let by_roles = arguments.next().as_deref() == Some("rbac");
    let authorization = if by_roles { Authorization::Rbac } else { Authorization::AlwaysAllow };
    let stand_ins = std::env::var("STAND_INS").map_or_else(|_| Ok(StandIns::default()), |names| names.parse())?;
    let server = windlass_apiserver::serve(StandaloneOptions {
        config: Config { address, authorization, stand_ins, ..Config::default() },
        kubeconfig: Some(path.clone()),
        load: named("LOAD"),
        state: named("STATE"),
        reactors: named("REACTORS"),
        port_file: None,
    })
    .await?;
    println!("serving at {}; export KUBECONFIG={}", server.url(), path.display());
    tokio::signal::ctrl_c().await?;
    server.shutdown().await;
    Ok(())
}
