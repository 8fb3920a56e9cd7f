//! Measures how many snapshots a second a server restores:
//!
//! ```text
//! cargo run --release -p windlass-apiserver --example restores
//! ```

use std::error::Error;
use std::time::Instant;

use axum::body::Body;
use http::Request;
use tower::ServiceExt as _;
use windlass_apiserver::{ApiServer, Config, StandIns};

const RESTORED_OBJECTS: usize = 50;
const RESTORE_ROUNDS: u32 = 20_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let config = Config { stand_ins: StandIns::NONE, seed: Some(1), ..Config::default() };
    let server = ApiServer::in_process(&config);
    for number in 0..RESTORED_OBJECTS {
        create(&server, number).await?;
    }
    let snapshot = server.snapshot();

    let begun = Instant::now();
    for _ in 0..RESTORE_ROUNDS {
        server.restore(&snapshot);
    }
    report("restores of a running server", begun);

    let begun = Instant::now();
    for _ in 0..RESTORE_ROUNDS {
        server.restore(&snapshot);
        create(&server, RESTORED_OBJECTS).await?;
    }
    report("restores with a write after each", begun);

    let begun = Instant::now();
    for _ in 0..RESTORE_ROUNDS {
        drop(ApiServer::from_snapshot(&config, &snapshot));
    }
    report("servers made of a snapshot", begun);
    Ok(())
}

async fn create(server: &ApiServer, number: usize) -> Result<(), Box<dyn Error>> {
    let body = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"c{number}"}},"data":{{"key":"value"}}}}"#
    );
    let request = Request::post("/api/v1/namespaces/default/configmaps").header("content-type", "application/json");
    let answer = server.service().oneshot(request.body(Body::from(body))?).await?;
    if answer.status().is_success() { Ok(()) } else { Err(format!("not created: {}", answer.status()).into()) }
}

fn report(what: &str, begun: Instant) {
    let took = begun.elapsed();
    println!("{what}: {:.0} a second ({RESTORED_OBJECTS} objects)", f64::from(RESTORE_ROUNDS) / took.as_secs_f64());
}
