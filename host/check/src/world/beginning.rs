//! The server at the beginning of a scenario.

use std::time::{Duration, SystemTime};

use serde_json::Value;
use tokio::time::sleep;
use windlass_apiserver::{ApiServer, Clock, Config};

use super::user::{User, UserError};
use super::{WAIT_LOOK_INTERVAL, WorldError};
use crate::outcome::USER;
use crate::scenario::{ObjectName, Scenario};

/// The configuration of a server that starts at this time since 1970.
pub(super) fn config(scenario: &Scenario, start: Duration) -> Config {
    let stand_ins = scenario.parsed_stand_ins().unwrap_or_default();
    let clock = Clock::Given(SystemTime::UNIX_EPOCH + start);
    Config { clock, seed: Some(0), stand_ins, ..Config::default() }
}

/// A server with the objects that a scenario loads.
pub(super) async fn loaded(config: &Config, scenario: &Scenario) -> Result<ApiServer, WorldError> {
    let server = ApiServer::in_process(config);
    let user = User::of(scenario, server.service(), USER);
    for object in in_order(&scenario.load) {
        let failed = |error: UserError| WorldError::Load {
            object: ObjectName::of(object).to_string(),
            message: error.to_string(),
        };
        user.apply(object).await.map_err(failed)?;
    }
    // Give the server time to create service accounts and the like.
    sleep(WAIT_LOOK_INTERVAL).await;
    Ok(server)
}

/// Sorts the objects: namespaces first, then CRDs, then objects that need both.
fn in_order(objects: &[Value]) -> Vec<&Value> {
    let mut ordered: Vec<&Value> = objects.iter().collect();
    ordered.sort_by_key(|object| match object["kind"].as_str() {
        Some("Namespace") => 0,
        Some("CustomResourceDefinition") => 1,
        _ => 2,
    });
    ordered
}
