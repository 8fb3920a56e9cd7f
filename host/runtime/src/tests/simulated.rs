//! The engine on simulated time: one thread, seeded random numbers, no socket; two runs with one seed are identical to
//! the byte.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use kube::client::Body;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service};
use windlass_apiserver::{ApiServer, ApiService, Clock, Config};
use windlass_core::timer::DueTime;
use windlass_kube::client::Connection;
use windlass_wasm::{Plugin, Sandbox, SandboxOptions};

use super::stage;
use crate::leadership::LeaseMode;
use crate::policies::GrantMode;
use crate::run_loaded;

/// The time at which the simulated world begins.
const SIMULATED_WORLD_START: Duration = Duration::from_hours(24 * 365 * 50);

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A transport to the server that records each request.
#[derive(Clone)]
struct Noted {
    service: ApiService,
    notes: Arc<Mutex<String>>,
    begun: Instant,
}

impl Service<Request<Body>> for Noted {
    type Response = <ApiService as Service<Request<Full<Bytes>>>>::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut noted = self.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let at = noted.begun.elapsed();
            let line = format!("{at:?} {} {} {:?} ", parts.method, parts.uri, parts.headers.get("traceparent"));
            let text = String::from_utf8_lossy(&body);
            writeln!(noted.notes.lock().expect("no panic"), "{line}{text}").expect("a string");
            let request = Request::from_parts(parts, Full::<Bytes>::new(body));
            Ok(noted.service.call(request).await?)
        }
        .boxed()
    }
}

/// The WebApp plugin.
pub(crate) async fn plugin() -> Arc<Plugin> {
    let sandbox = Sandbox::new(SandboxOptions::in_one_thread()).expect("a sandbox");
    let plugins = std::env::var_os("WINDLASS_PLUGIN_DIR").map_or_else(|| root().join("target/plugins"), Into::into);
    sandbox.load(&plugins.join("webapp.wasm")).await.expect("`make plugins` has built it")
}

/// The guest `chameleon` in the mode that a timer calls once an hour.
async fn timed() -> Arc<Plugin> {
    let sandbox = Sandbox::new(SandboxOptions::in_one_thread()).expect("a sandbox");
    let guests = std::env::var_os("WINDLASS_GUEST_DIR").map_or_else(|| root().join("target/guests"), Into::into);
    let mut bytes = std::fs::read(guests.join("chameleon.wasm")).expect("`make plugins` has built it");
    let (good, timed) = (b"CHAMELEON-MODE=good.", b"CHAMELEON-MODE=timed");
    let at = bytes.windows(good.len()).position(|window| window == good).expect("the guest has a mode");
    bytes[at..at + timed.len()].copy_from_slice(timed);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("chameleon.wasm");
    std::fs::write(&path, bytes).expect("it can be written");
    sandbox.load(&path).await.expect("it is a plugin")
}

/// Creates WebApp's sample, lets an hour pass, and stops the host. Returns the requests and the objects.
async fn story(plugin: &Arc<Plugin>, seed: u64) -> (String, Vec<u8>) {
    run(plugin, seed, LeaseMode::None, Duration::from_hours(1)).await
}

/// The same with this plugin and these leases, for another time.
async fn run(plugin: &Arc<Plugin>, seed: u64, leases: LeaseMode, lasts: Duration) -> (String, Vec<u8>) {
    let begun = Instant::now();
    let _simulated = windlass_world::simulate(seed, move || SIMULATED_WORLD_START + begun.elapsed());
    let clock = Clock::Given(SystemTime::UNIX_EPOCH + SIMULATED_WORLD_START);
    let server = ApiServer::in_process(&Config { clock, seed: Some(seed), ..Config::default() });
    let notes = Arc::new(Mutex::default());
    let service = Noted { service: server.service(), notes: notes.clone(), begun };
    let connection = Connection::in_process(service, &"http://localhost".parse().expect("a URL"));
    let stop = CancellationToken::new();
    let directory = tempfile::tempdir().expect("a directory");
    let settings = stage::settings(directory.path(), GrantMode::Manifest, leases);
    let user = async {
        server.load(&root().join("examples/webapp")).expect("they are right");
        sleep(lasts).await;
        stop.cancel();
    };
    let newest = [watch::channel(plugin.clone()).1];
    let (ended, ()) = tokio::join!(run_loaded(connection, settings, &newest, stop.clone()), user);
    ended.expect("it stops cleanly");
    let state = directory.path().join("state");
    server.write_state(&state).expect("it can be written");
    (std::mem::take(&mut notes.lock().expect("no panic")), std::fs::read(state).expect("it is there"))
}

#[test]
fn two_runs_with_one_seed_send_equal_requests_and_leave_equal_objects() {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let plugin = plugin().await;
        let (requests, objects) = story(&plugin, 1).await;
        let text = String::from_utf8_lossy(&objects);
        assert!(text.contains(r#""readyReplicas":2"#), "it has converged: {text}");
        let again = story(&plugin, 1).await;
        for (first, second) in requests.lines().zip(again.0.lines()) {
            assert_eq!(first, second);
        }
        assert_eq!((requests.lines().count(), &objects), (again.0.lines().count(), &again.1));
        let other = story(&plugin, 2).await;
        assert!(other.1 != objects, "another seed gives another result");
    });
}

/// The last due times that the requests keep in the lease of timers, in seconds since the first one.
fn kept_due_times(requests: &str) -> Vec<u64> {
    let written = requests.lines().filter(|line| line.contains(" PUT ") && line.contains("windlass-main-timers"));
    let last = |line: &str| {
        let note = line.split_once(r#"\"last\":\""#)?.1;
        let time = DueTime::try_from(note.split_once('\\')?.0.to_owned()).expect("a time");
        Some(time.since_1970().as_secs())
    };
    let mut times: Vec<u64> = written.filter_map(last).collect();
    times.dedup();
    let first = times.first().copied().unwrap_or_default();
    times.iter().map(|time| time - first).collect()
}

#[test]
fn a_timer_follows_simulated_time_and_repeats_the_same_run() {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let plugin = timed().await;
        let lasts = Duration::from_mins(70);
        let (requests, _) = run(&plugin, 1, LeaseMode::Single, lasts).await;
        assert_eq!(kept_due_times(&requests), [0, 3600], "{requests}");
        let (again, _) = run(&plugin, 1, LeaseMode::Single, lasts).await;
        for (first, second) in requests.lines().zip(again.lines()) {
            assert_eq!(first, second);
        }
    });
}
