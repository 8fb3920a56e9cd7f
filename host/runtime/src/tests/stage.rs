//! A host on the embedded API server, to which tests give plugins.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use kube::client::Body;
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use tower::util::MapRequest;
use windlass_apiserver::{ApiServer, Config};
use windlass_core::budget::fair::Fair;
use windlass_kube::client::{self, ConnectOptions, Connection};
use windlass_wasm::{Plugin, Sandbox, SandboxOptions};

use crate::call_slots;
use crate::host::Host;
use crate::leadership::{Leadership, LeaseMode, LeaseSettings};
use crate::object_names::ObjectNames;
use crate::observe::admin::Admin;
use crate::observe::metrics::HostMetrics;
use crate::observe::status::{ControllerState, Status};
use crate::phases::Phases;
use crate::plugins::prepare;
use crate::plugins::reload::Reload;
use crate::plugins::reports::Reports;
use crate::plugins::serve::Serving;
use crate::plugins::supplies::Supplies;
use crate::policies::{GrantMode, Policies, PolicySettings};
use crate::settings::Settings;
use windlass_egress::tls::Trust;

/// A host without plugins.
pub(crate) struct Stage {
    pub(crate) host: Arc<Host>,
    pub(crate) supplies: Arc<Supplies>,
    sandbox: Sandbox,
    pub(crate) phases: Phases,
    pub(crate) plugins: PathBuf,
    settings: Settings,
    kubeconfig: PathBuf,
    _directory: TempDir,
    server: ApiServer,
    /// Whether the server has no socket.
    in_process: bool,
}

/// Creates an object by a raw HTTP request. Blocks, so the server must run on another thread.
pub(crate) fn create(server: SocketAddr, path: &str, body: &str) {
    let answer = send(server, "POST", path, body);
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
}

/// Sends a request and returns the answer. Blocks.
fn send(server: SocketAddr, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(server).expect("it listens");
    let length = body.len();
    let head = "Host: localhost\r\nConnection: close\r\nContent-Type: application/json";
    write!(stream, "{method} {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

impl Stage {
    /// Creates a `ConfigMap` in the namespace `default`.
    pub(crate) async fn create_config_map(&self, name: &str) {
        let metadata = format!(r#"{{"name":"{name}","labels":{{"chameleon":"true"}}}}"#);
        let object = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata}}}"#);
        let answer = self.send("POST", "/api/v1/namespaces/default/configmaps", object).await;
        assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    }

    /// Deletes a `ConfigMap` in the namespace `default`.
    pub(crate) async fn delete_config_map(&self, name: &str) {
        let path = format!("/api/v1/namespaces/default/configmaps/{name}");
        let answer = self.send("DELETE", &path, "{}".to_owned()).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }

    /// Sends a raw HTTP request as the administrator, and returns the answer.
    pub(crate) async fn send(&self, method: &'static str, path: &str, body: String) -> String {
        if self.in_process {
            let bearer = format!("Bearer {}", self.server.token().unwrap_or_default());
            let request = Request::builder().method(method).uri(path).header(AUTHORIZATION, bearer);
            let request = request.header(CONTENT_TYPE, "application/json").body(Full::<Bytes>::from(body));
            let answer = self.server.service().oneshot(request.expect("a request")).await.expect("an answer");
            let status = answer.status();
            let text = answer.into_body().collect().await.expect("the whole answer").to_bytes();
            return format!("HTTP/1.1 {status}\r\n\r\n{}", String::from_utf8_lossy(&text));
        }
        let (server, path) = (self.server.address(), path.to_owned());
        // The server runs on the thread of the test, which must not block.
        tokio::task::spawn_blocking(move || send(server, method, &path, &body)).await.expect("an answer")
    }

    /// A host without leases and without policies.
    pub(crate) async fn new() -> Self {
        Self::with(LeaseMode::None, GrantMode::Manifest).await
    }

    pub(crate) async fn with(leases: LeaseMode, grants: GrantMode) -> Self {
        let server = ApiServer::start(Config::default()).await.expect("loopback");
        let directory = tempfile::tempdir().expect("a directory");
        let kubeconfig = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, server.kubeconfig()).expect("it can be written");
        let connection = connection(&kubeconfig).await;
        let options = SandboxOptions { threads: 1, concurrent_calls: 4, ..SandboxOptions::default() };
        let stage = Self::on(server, connection, directory, options, leases, grants).await;
        Self { kubeconfig, ..stage }
    }

    /// A host in one thread and without sockets, so that a test can pause time. It is the user of the first token in
    /// `config`, if there is one.
    pub(crate) async fn in_one_thread(config: &Config, grants: GrantMode) -> Self {
        let server = ApiServer::in_process(config);
        let bearer = config.tokens.first().map(|token| format!("Bearer {}", token.token));
        let service = MapRequest::new(server.service(), move |mut request: Request<Body>| {
            if let Some(bearer) = &bearer {
                request.headers_mut().insert(AUTHORIZATION, bearer.parse().expect("a header"));
            }
            request
        });
        let connection = Connection::in_process(service, &"http://localhost".parse().expect("a URL"));
        let (directory, options) = (tempfile::tempdir().expect("a directory"), SandboxOptions::in_one_thread());
        let stage = Self::on(server, connection, directory, options, LeaseMode::None, grants).await;
        Self { in_process: true, ..stage }
    }

    async fn on(
        server: ApiServer,
        connection: Connection,
        directory: TempDir,
        options: SandboxOptions,
        leases: LeaseMode,
        grants: GrantMode,
    ) -> Self {
        let plugins = directory.path().join("plugins");
        std::fs::create_dir(&plugins).expect("a directory");
        let settings = settings(&plugins, grants, leases);
        let (policies, _) = Policies::read(settings.policies.clone()).await.expect("no policies");
        let (stop, replica) = (CancellationToken::new(), Arc::from("one"));
        let leadership = Leadership::new(settings.leases.clone(), &connection, &replica, &stop).expect("no leases");
        let shown = Admin { status: Status::new(stop.clone()), metrics: HostMetrics::new() };
        let trust = Trust::with(None).expect("the usual authorities");
        let host = Arc::new(Host::new(connection.clone(), &settings, policies, leadership, replica, shown, trust));
        let supplies = Supplies::new(&connection, &host.discovery, &settings, Fair::new(2, 4), ObjectNames::default());
        host.leadership.start(&host.informers, &host.panics);
        let sandbox = Sandbox::new(options).expect("a sandbox");
        let (phases, kubeconfig, in_process) = (Phases::of(stop), PathBuf::new(), false);
        Self {
            host,
            supplies,
            sandbox,
            phases,
            plugins,
            settings,
            kubeconfig,
            _directory: directory,
            server,
            in_process,
        }
    }

    /// Makes the server forget its history, so that the host lists everything again.
    pub(crate) fn forget_history(&self) {
        self.server.compact();
    }

    /// The number of lists of `ConfigMap`s that the host has made.
    pub(crate) fn config_map_lists(&self) -> u64 {
        let requests = self.server.requests().into_iter();
        let lists = requests.filter(|it| (&*it.verb, &*it.resource) == ("list", "configmaps"));
        lists.map(|it| it.count).sum()
    }

    /// A `ConfigMap` in the namespace `default`, as the server has it.
    pub(crate) async fn config_map(&self, name: &str) -> String {
        let found = self.send("GET", &format!("/api/v1/namespaces/default/configmaps/{name}"), String::new()).await;
        assert!(found.starts_with("HTTP/1.1 200 "), "{found}");
        found
    }

    /// Writes the plugin's configuration.
    pub(crate) fn configure(&self, config: &str) {
        let head = "apiVersion: windlass.dev/v1alpha1\nkind: PluginConfig\nplugin: chameleon\n";
        let path = self.plugins.join("chameleon.config.yaml");
        std::fs::write(path, format!("{head}config: {config}\n")).expect("it can be written");
    }

    /// Writes the plugin's file as generation `number`.
    pub(crate) fn put(&self, number: u8) -> PathBuf {
        self.put_as("chameleon.wasm", number, &[])
    }

    /// Writes the plugin to `file` as generation `number`, with each text in `replaced` replaced by one of the same
    /// length.
    pub(crate) fn put_as(&self, file: &str, number: u8, replaced: &[(&str, &str)]) -> PathBuf {
        let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/guests");
        let guests = std::env::var_os("WINDLASS_GUEST_DIR").map_or_else(default, PathBuf::from);
        let guest = guests.join("chameleon.wasm");
        let mut bytes = std::fs::read(&guest).unwrap_or_else(|error| {
            panic!("cannot read the guest {} ({error}): run `make plugins`, or set WINDLASS_GUEST_DIR", guest.display())
        });
        for (from, to) in replaced.iter().map(|(from, to)| (from.as_bytes(), to.as_bytes())) {
            assert_eq!(from.len(), to.len(), "nothing moves");
            let places = (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from));
            let places: Vec<_> = places.collect();
            assert!(!places.is_empty(), "the guest has it");
            for at in places {
                bytes[at..at + to.len()].copy_from_slice(to);
            }
        }
        // A custom section that is ignored.
        bytes.extend([0, 3, 1, b'n', number]);
        let path = self.plugins.join(file);
        std::fs::write(&path, bytes).expect("it can be written");
        path
    }

    pub(crate) async fn load(&self, number: u8) -> Arc<Plugin> {
        self.load_as(number, &[]).await
    }

    /// Loads the plugin as generation `number`, with each text in `replaced` replaced by one of the same length.
    pub(crate) async fn load_as(&self, number: u8, replaced: &[(&str, &str)]) -> Arc<Plugin> {
        prepare::load(&self.sandbox, &self.put_as("chameleon.wasm", number, replaced))
            .await
            .unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    /// The leases of another replica, which has the same plugins.
    pub(crate) async fn another(&self, name: &str) -> Leadership {
        let connection = connection(&self.kubeconfig).await;
        let leadership = Leadership::new(self.settings.leases.clone(), &connection, &name.into(), &self.phases.stop);
        let leadership = leadership.expect("names that can be");
        leadership.start(&self.host.informers, &self.host.panics);
        leadership.join();
        leadership
    }

    /// The service of `plugin`, and the sender for its newer generations.
    pub(crate) fn serving(
        &self,
        plugin: &Arc<Plugin>,
        reports: Reports,
        stop: CancellationToken,
    ) -> (Serving, watch::Sender<Arc<Plugin>>) {
        Serving::new(&self.host, &self.supplies, plugin, reports, self.phases.of_plugin(stop))
    }

    pub(crate) fn reload(&self) -> Reload {
        let (host, sandbox) = (self.host.clone(), self.sandbox.clone());
        Reload::new(host, sandbox, self.supplies.clone(), self.phases.clone(), None, mpsc::unbounded_channel().0, None)
    }

    /// Whether the plugin's controller is at work.
    pub(crate) fn works(&self) -> bool {
        let controllers = self.host.status.plugin("chameleon").controllers();
        !controllers.is_empty() && controllers.iter().all(|it| it.state().0 == ControllerState::Running)
    }

    pub(crate) fn panics(&self) -> u64 {
        self.host.panics.of("serving")
    }
}

/// The defaults of the command line, for the plugins in one directory.
pub(crate) fn settings(plugins: &Path, grants: GrantMode, leases: LeaseMode) -> Settings {
    let base = Settings::in_process();
    Settings {
        plugins: plugins.to_owned(),
        concurrent_calls: 2,
        call_slots: call_slots(2),
        policies: PolicySettings { mode: grants, directory: plugins.to_owned(), ..base.policies },
        rollback: true,
        leases: LeaseSettings { mode: leases, ..base.leases },
        ..base
    }
}

async fn connection(kubeconfig: &Path) -> Connection {
    let options = ConnectOptions { kubeconfig: Some(kubeconfig.to_owned()), ..ConnectOptions::default() };
    client::connect(&options).await.expect("it answers")
}

/// Waits until `condition` holds.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    let reached = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), reached).await.expect("it comes about");
}
