//! POST `/plugins/PLUGIN/resume`: makes a plugin retry what the host has stopped or postponed. A suspended plugin fills
//! its caches again, an open circuit admits a trial call, and failed keys run with all their retries.
//!
//! It does not bring back a version that was rolled back. A restart would not do so either; another file does.

use http::header::{HeaderValue, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use serde_json::json;
use tokio::time::Instant;
use windlass_core::life::plugin_state::{LeaseStatus, PluginPhase, PluginState};

use super::{AdminAnswer, JSON, TEXT, keys, respond};
use crate::observe::status::{PluginHealth, PluginStatus, Status};

/// The plugin that a request to `path` resumes, as named in the path.
pub(super) fn plugin_of(path: &str) -> Option<&str> {
    path.strip_prefix("/plugins/")?.strip_suffix("/resume").filter(|plugin| !plugin.contains('/'))
}

/// Resumes `plugin` for `user`. `None` if the host does not know the user.
pub(super) fn answer(status: &Status, plugin: &str, user: Option<&str>) -> AdminAnswer {
    let plugin = match keys::find(status, plugin) {
        Ok(plugin) => plugin,
        Err((code, why)) => return respond(code, TEXT, why),
    };
    let now = Instant::now();
    if let Err(wait) = plugin.may_resume(now) {
        let seconds = wait.as_secs().max(1);
        let why = format!("{} was resumed a moment ago: wait {seconds} s, and look at the result\n", plugin.name);
        let mut response = respond(StatusCode::TOO_MANY_REQUESTS, TEXT, why);
        let headers: &mut HeaderMap = response.headers_mut();
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        return response;
    }
    let (did, why) = match obstacle(&plugin) {
        Some(why) => (Vec::new(), Some(why)),
        None => match resume(&plugin) {
            did if did.is_empty() => (did, Some(nothing(&status.health(&plugin)))),
            did => (did, None),
        },
    };
    if !did.is_empty() {
        plugin.has_resumed(now);
        tracing::info!(plugin = %plugin.name, user, did = did.join("; "), "the plugin was resumed on request");
    }
    let shown = json!({"plugin": &*plugin.name, "resumed": !did.is_empty(), "did": did, "why": why});
    respond(StatusCode::OK, JSON, format!("{shown:#}\n"))
}

/// Why this request must go to another replica.
fn obstacle(plugin: &PluginStatus) -> Option<String> {
    let lease = plugin.lease()?;
    match (lease.status(), lease.holder()) {
        (LeaseStatus::Held, _) => None,
        (LeaseStatus::Lost, _) => {
            Some("this replica could not renew the plugin's lease in time: does the API server answer?".to_owned())
        }
        (LeaseStatus::NotHeld, Some(holder)) => Some(format!("the replica {holder} holds its lease: ask that one")),
        (LeaseStatus::NotHeld, None) => {
            Some("no replica holds its lease: it starts by itself on the replica that acquires the lease".to_owned())
        }
    }
}

/// Resumes everything that can be resumed. Returns a sentence about each.
fn resume(plugin: &PluginStatus) -> Vec<String> {
    if plugin.retry_suspended() {
        return vec!["it was suspended: its caches are filled again, within the same limits".to_owned()];
    }
    if plugin.phase() != PluginPhase::Started {
        return Vec::new();
    }
    let mut did = Vec::new();
    for controller in plugin.controllers() {
        let (name, resumed) = (controller.own_name().to_owned(), controller.resume().unwrap_or_default());
        if resumed.had_open_circuit {
            did.push(format!("controller {name}: its circuit was open: a trial call is made now"));
        }
        match resumed.failed_keys {
            0 => {}
            1 => did.push(format!("controller {name}: 1 key that had failed runs now, with all its retries")),
            keys => did.push(format!("controller {name}: {keys} keys that had failed run now, with all their retries")),
        }
    }
    did
}

/// Why there was nothing to resume of a plugin with this health.
fn nothing(health: &PluginHealth) -> String {
    let why = health.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    match health.state {
        PluginState::Running => format!("it runs{why}, and none of its keys waits for another attempt"),
        PluginState::Suspended => format!("it is suspended, and is being tried again already{why}"),
        PluginState::BreakerOpen => "its next call is a trial call already, and no key has failed".to_owned(),
        PluginState::Paused => "its policy pauses it: remove `paused: true` from the policy".to_owned(),
        state => format!("it is {}{why}: once the cause is fixed, it continues by itself", state.as_str()),
    }
}

#[cfg(test)]
mod tests;
