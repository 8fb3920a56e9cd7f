//! `/plugins/NAME/keys` and `/plugins/NAME/keys/NAMESPACE/NAME`: the keys of a plugin, in pages, and the story of one
//! key.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::StatusCode;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use windlass_core::object::ObjectKey;
use windlass_core::queue::key_state::KeyState;

use crate::observe::status::{KeyListing, PluginStatus, Status};

/// The default number of keys on a page.
const PAGE_KEYS_DEFAULT: usize = 500;
/// The most keys on a page.
const PAGE_KEYS_MAX: usize = 5000;
/// The most existing names that a not-found message lists.
const LISTED_NAMES_MAX: usize = 10;
/// Stands for the namespace of cluster-scoped objects.
const CLUSTER: &str = "-";
/// The pseudo-state for all states except `done`.
const NOT_DONE: &str = "not-done";

/// Why there is no answer, with its status code.
pub(super) type KeysRefusal = (StatusCode, String);

/// The part of a query that selects keys.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyQuery {
    limit: usize,
    after: Option<(ObjectKey, String)>,
    /// Empty for all.
    states: Vec<KeyState>,
    /// A substring of the key, in lower case. Empty for all.
    search: String,
}

/// The answer to a request for `path`, if it is about keys.
pub(super) fn answer(status: &Status, path: &str, query: Option<&str>) -> Option<Result<Value, KeysRefusal>> {
    let mut parts = path.strip_prefix("/plugins/")?.split('/');
    let (plugin, "keys") = (parts.next()?, parts.next()?) else { return None };
    let rest: Vec<_> = parts.collect();
    Some(match rest[..] {
        [] => find(status, plugin).and_then(|plugin| Ok(page(&plugin, &KeyQuery::read(query.unwrap_or_default())?))),
        [namespace, name] => find(status, plugin).and_then(|plugin| one(&plugin, &key(namespace, name))),
        _ => {
            let why =
                "the path of a key is /plugins/PLUGIN/keys/NAMESPACE/NAME, with - as the namespace if it has none\n";
            Err((StatusCode::NOT_FOUND, why.to_owned()))
        }
    })
}

fn key(namespace: &str, name: &str) -> ObjectKey {
    let [namespace, name] = [namespace, name].map(decoded);
    if namespace == CLUSTER { ObjectKey::cluster(name) } else { ObjectKey::namespaced(namespace, name) }
}

pub(super) fn find(status: &Status, plugin: &str) -> Result<Arc<PluginStatus>, KeysRefusal> {
    // A file of any name is shown, if only as a plugin that is not loaded.
    let plugin = decoded(plugin);
    status.known(&plugin).ok_or_else(|| {
        let there = names(status.plugins().iter().map(|plugin| plugin.name.to_string()));
        (StatusCode::NOT_FOUND, format!("there is no plugin {plugin}; there are: {there}\n"))
    })
}

/// One key, as seen by each controller of `plugin` that knows it.
fn one(plugin: &PluginStatus, key: &ObjectKey) -> Result<Value, KeysRefusal> {
    let found: Vec<_> = plugin.controllers().iter().filter_map(|controller| controller.key(key)).collect();
    if !found.is_empty() {
        return Ok(json!({"plugin": &*plugin.name, "keys": found}));
    }
    let mut all: Vec<_> = listed(plugin).into_iter().map(|listing| listing.key).collect();
    all.sort_unstable();
    let near = |other: &&ObjectKey| other.name == key.name || other.namespace == key.namespace;
    let shown = all.iter().filter(near).chain(&all).map(ToString::to_string);
    let there = names(shown);
    let why = format!(
        "{} knows no {key}: no such object is in its caches, and nothing is queued for it. It knows {}: {there}\n",
        plugin.name,
        all.len()
    );
    Err((StatusCode::NOT_FOUND, why))
}

/// A page of keys, ordered by key and controller.
fn page(plugin: &PluginStatus, query: &KeyQuery) -> Value {
    let mut all = listed(plugin);
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    for listing in &all {
        *states.entry(listing.state.as_str()).or_default() += 1;
    }
    all.retain(|listing| query.chooses(listing));
    let total = all.len();
    all.retain(|listing| {
        query.after.as_ref().is_none_or(|(key, controller)| order(listing) > (key, controller.as_str()))
    });
    let left = all.len();
    if left > query.limit {
        // Only the keys of the page need to be sorted.
        all.select_nth_unstable_by(query.limit, |one, other| order(one).cmp(&order(other)));
        all.truncate(query.limit);
    }
    all.sort_unstable_by(|one, other| order(one).cmp(&order(other)));
    let next = all.last().filter(|_| left > query.limit).map(|last| format!("{}/{}", last.controller, last.key));
    json!({
        "plugin": &*plugin.name,
        "keys": all.iter().map(KeyListing::to_json).collect::<Vec<_>>(),
        "total": total,
        "states": states,
        "continue": next,
    })
}

/// The sort order of keys.
fn order(listing: &KeyListing) -> (&ObjectKey, &str) {
    (&listing.key, &listing.controller)
}

fn listed(plugin: &PluginStatus) -> Vec<KeyListing> {
    plugin.controllers().iter().flat_map(|controller| controller.keys()).collect()
}

/// The first names of `all` on one line, with a note if there are more.
fn names(all: impl Iterator<Item = String>) -> String {
    let mut shown: Vec<String> = Vec::new();
    for name in all.map(|name| name.replace('\n', "\\n")) {
        if shown.contains(&name) {
            continue;
        }
        if shown.len() == LISTED_NAMES_MAX {
            shown.push("…".to_owned());
            break;
        }
        shown.push(name);
    }
    if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
}

impl KeyQuery {
    fn read(query: &str) -> Result<Self, KeysRefusal> {
        let mut read = Self { limit: PAGE_KEYS_DEFAULT, after: None, states: Vec::new(), search: String::new() };
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let value = decoded(value);
            match name {
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=PAGE_KEYS_MAX).contains(limit));
                    read.limit =
                        limit.ok_or_else(|| bad(format!("limit={value}: it must be from 1 to {PAGE_KEYS_MAX}")))?;
                }
                "continue" => {
                    let why = || bad(format!("continue={value}: it must be the `continue` of the previous page"));
                    read.after = Some(place(&value).ok_or_else(why)?);
                }
                "state" => {
                    for state in value.split(',') {
                        read.states.extend(states(state).ok_or_else(|| {
                            let all: Vec<_> = KeyState::ALL.iter().map(|state| state.as_str()).collect();
                            bad(format!("state={state}: it must be one of {}, or {NOT_DONE}", all.join(", ")))
                        })?);
                    }
                    // Remove duplicates, because every key is compared with each of these states.
                    let wanted = std::mem::take(&mut read.states);
                    read.states.extend(KeyState::ALL.into_iter().filter(|state| wanted.contains(state)));
                }
                "search" => read.search = value.to_lowercase(),
                _ => return Err(bad(format!("{name}: the parameters are limit, continue, state and search"))),
            }
        }
        Ok(read)
    }

    /// Whether `listing` matches the query, on whichever page.
    fn chooses(&self, listing: &KeyListing) -> bool {
        (self.states.is_empty() || self.states.contains(&listing.state))
            && (self.search.is_empty() || listing.key.to_string().to_lowercase().contains(&self.search))
    }
}

fn bad(why: String) -> KeysRefusal {
    (StatusCode::BAD_REQUEST, why + "\n")
}

/// The states for the name of one state or of a group of states.
fn states(name: &str) -> Option<Vec<KeyState>> {
    let states = KeyState::ALL.into_iter();
    let meant: Vec<_> = if name == NOT_DONE {
        states.filter(|state| *state != KeyState::Done).collect()
    } else {
        states.filter(|state| state.as_str() == name).collect()
    };
    (!meant.is_empty()).then_some(meant)
}

/// The position that `CONTROLLER/KEY` names.
fn place(token: &str) -> Option<(ObjectKey, String)> {
    let (controller, key) = token.split_once('/')?;
    let key = match key.split_once('/') {
        Some((namespace, name)) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster(key),
    };
    Some((key, controller.to_owned()))
}

/// `text` with percent-encoding decoded. Invalid sequences stay as they are.
fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio_util::sync::CancellationToken;
    use windlass_core::queue::outcome::Retry;
    use windlass_core::queue::{ItemExponential, Queue};

    use super::*;
    use crate::clock::SystemClock;
    use crate::observe::metrics::HostMetrics;
    use crate::observe::status::ControllerState;

    /// The status of a plugin with two controllers, each with these keys queued.
    fn status(names: &[&str]) -> Status {
        let status = Status::new(CancellationToken::new());
        for name in ["a", "b"] {
            let metrics = HostMetrics::new().controller("webapp", name);
            let controller = status.plugin("webapp").controller(name, 1, metrics);
            let queue = Queue::new(Arc::new(SystemClock::new()), ItemExponential::default());
            controller.begins(queue.clone());
            controller.set(ControllerState::Running, None);
            for key in names {
                let key = place(&format!("{name}/{key}")).expect("a place").0;
                queue.add_rate_limited(key, Retry::Counted, Some(Duration::from_mins(1)));
            }
        }
        status
    }

    fn asked(status: &Status, path: &str, query: &str) -> Result<Value, KeysRefusal> {
        answer(status, path, Some(query)).expect("it is about keys")
    }

    #[tokio::test]
    async fn pages_follow_each_other_until_every_key_of_every_controller_was_there() {
        let status = status(&["prod/c", "prod/a", "b"]);
        let (mut seen, mut next) = (Vec::new(), String::new());
        loop {
            let page = asked(&status, "/plugins/webapp/keys", &format!("limit=2{next}")).expect("a page");
            assert_eq!(page["total"], 6);
            for key in page["keys"].as_array().expect("keys") {
                seen.push(format!(
                    "{} {}",
                    key["key"].as_str().expect("one"),
                    key["controller"].as_str().expect("one")
                ));
            }
            let Some(token) = page["continue"].as_str() else { break };
            next = format!("&continue={}", token.replace('/', "%2F"));
        }
        assert_eq!(seen, ["b a", "b b", "prod/a a", "prod/a b", "prod/c a", "prod/c b"]);
    }

    #[tokio::test]
    async fn a_key_is_found_in_each_controller_with_or_without_a_namespace() {
        let status = status(&["prod/c", "b"]);
        for (path, key) in [("prod/c", "prod/c"), ("-/b", "b")] {
            let found = asked(&status, &format!("/plugins/webapp/keys/{path}"), "").expect("it is there");
            let controllers: Vec<_> = found["keys"].as_array().expect("keys").iter().collect();
            assert_eq!(controllers.len(), 2);
            assert_eq!((&controllers[0]["key"], &controllers[1]["controller"]), (&json!(key), &json!("b")));
        }
    }

    #[tokio::test]
    async fn states_are_chosen_by_their_names() {
        let status = status(&["prod/a"]);
        // The controllers have no dispatch here, so their keys are not known otherwise.
        let total = |query: &str| asked(&status, "/plugins/webapp/keys", query).expect("a page")["total"].clone();
        assert_eq!(total("state=not-served"), 2);
        assert_eq!(total("state=not-done"), 2);
        assert_eq!(total("state=done,backoff"), 0);
    }

    #[tokio::test]
    async fn a_search_selects_keys_by_substring_and_still_counts_all_states() {
        let status = status(&["prod/shop", "prod/cart", "test/shop"]);
        let page = |query: &str| asked(&status, "/plugins/webapp/keys", query).expect("a page");
        let found = page("search=D%2FSho");
        assert_eq!((&found["total"], &found["keys"][1]["key"]), (&json!(2), &json!("prod/shop")));
        assert_eq!(found["states"], json!({"not-served": 6}));
        assert_eq!(page("search=shop&state=done")["total"], 0);
    }

    #[tokio::test]
    async fn a_request_for_a_missing_plugin_or_key_lists_the_existing_ones() {
        let status = status(&["prod/a"]);
        let refused = |path: &str, query: &str| asked(&status, path, query).expect_err("refused");
        let (code, why) = refused("/plugins/shop/keys", "");
        assert!(code == StatusCode::NOT_FOUND && why.contains("there are: webapp"), "{why}");
        let (code, why) = refused("/plugins/webapp/keys/prod/b", "");
        assert!(code == StatusCode::NOT_FOUND && why.contains("knows no prod/b") && why.contains("prod/a"), "{why}");
        for query in ["limit=0", "limit=x", "state=broken", "continue=x", "sort=name"] {
            let (code, why) = refused("/plugins/webapp/keys", query);
            assert!(code == StatusCode::BAD_REQUEST && why.starts_with(query.trim_end_matches("=name")), "{why}");
        }
        assert_eq!(refused("/plugins/webapp/keys/prod", "").0, StatusCode::NOT_FOUND);
        assert!(answer(&status, "/plugins/webapp", None).is_none());
    }

    #[tokio::test]
    async fn plugins_with_odd_file_names_are_found_and_cannot_forge_a_line() {
        let status = status(&[]);
        for name in ["a b%41", "ünï", "new\nline"] {
            status.plugin(name);
        }
        for path in ["a%20b%2541", "%C3%BCn%C3%AF", "new%0Aline", "web%61pp"] {
            assert!(asked(&status, &format!("/plugins/{path}/keys"), "").is_ok(), "{path}");
        }
        let (_, why) = asked(&status, "/plugins/%C3%BC/keys", "").expect_err("refused");
        assert_eq!(why, "there is no plugin ü; there are: a b%41, new\\nline, webapp, ünï\n");
    }

    #[test]
    fn a_repeated_state_counts_once() {
        let states = |query: &str| KeyQuery::read(query).expect("a query").states;
        assert_eq!(states("state=done,done&state=done"), [KeyState::Done]);
        assert_eq!(states("state=not-done,backoff,done,not-done").len(), KeyState::ALL.len());
    }

    #[test]
    fn percent_signs_are_read_where_they_mean_something() {
        assert_eq!(["a%2Fb", "100%", "%zz", "%C3%BC"].map(decoded), ["a/b", "100%", "%zz", "ü"]);
    }
}
