//! `windlass keys`: the keys of a plugin that are not done, or the story of one.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use windlass_core::deceptive;

use crate::cli::view::{self, ViewFormat, count, cut, text, time};
use crate::cli::watching::admin::{AdminArgs, AdminFailure, PluginHost, encoded};

/// The most characters of an error in a table.
const SHOWN_ERROR_CHARACTERS: usize = 80;

/// Arguments of `windlass keys`.
#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    /// The plugin.
    #[arg(value_name = "PLUGIN")]
    plugin: String,
    /// Only this key, with everything that is known of it: NAMESPACE/NAME, or NAME for cluster-scoped objects.
    #[arg(value_name = "KEY", value_parser = path_of)]
    key: Option<KeyPath>,
    #[command(flatten)]
    admin: AdminArgs,
    /// Only keys in this state; repeatable. Default: all that are not done.
    #[arg(long, value_name = "STATE", value_delimiter = ',', conflicts_with_all = ["key", "all"])]
    state: Vec<String>,
    /// Also keys that are done.
    #[arg(long, conflicts_with = "key")]
    all: bool,
    /// The output format.
    #[arg(long, short, value_enum, default_value = "table")]
    output: ViewFormat,
}

/// A key in the form of the admin endpoint's paths.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPath(String);

fn path_of(key: &str) -> Result<KeyPath, String> {
    let (namespace, name) = key.split_once('/').unwrap_or(("-", key));
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        return Err("a key is NAMESPACE/NAME, or NAME where objects have no namespace".to_owned());
    }
    Ok(KeyPath(format!("{}/{}", encoded(namespace), encoded(name))))
}

impl KeysArgs {
    pub(crate) async fn run(self) -> Result<ExitCode, AdminFailure> {
        let shown = self.look().await?;
        let keys = shown["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
        let unknown = if keys.is_empty() { self.unknown().await } else { None };
        if let Some(why) = &unknown {
            eprintln!("windlass: {}", deceptive::escape(why));
        }
        if !view::print_document(self.output, &shown)? && unknown.is_none() {
            crate::cli::print(&self.text(keys))?;
        }
        Ok(if unknown.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The reason why the host shows no keys of the plugin, if the plugin is not at work there. `None` if it is at
    /// work, so that all its keys are done.
    async fn unknown(&self) -> Option<String> {
        let shown = self.admin.plugins(Some(&self.plugin)).await.ok()?;
        shown.plugins.first().and_then(|plugin| not_at_work(&self.plugin, &plugin["health"]))
    }

    async fn look(&self) -> Result<Value, AdminFailure> {
        let host = self.admin.host_of(&self.plugin).await?;
        match &self.key {
            Some(KeyPath(key)) => host.look(&format!("{}/{key}", self.path())).await,
            None => self.list(&host).await,
        }
    }

    /// As text, for people.
    fn text(&self, keys: &[Value]) -> String {
        if self.key.is_some() {
            let stories = keys.iter().map(|key| story(&self.plugin, key));
            return stories.collect::<Vec<_>>().join("\n");
        }
        if keys.is_empty() { self.none() } else { rows(keys, self.output == ViewFormat::Wide) }
    }

    fn path(&self) -> String {
        format!("/plugins/{}/keys", encoded(&self.plugin))
    }

    /// All pages, combined.
    async fn list(&self, host: &PluginHost<'_>) -> Result<Value, AdminFailure> {
        let mut states = self.state.join(",");
        if states.is_empty() && !self.all {
            "not-done".clone_into(&mut states);
        }
        let query = if states.is_empty() { String::new() } else { format!("&state={}", encoded(&states)) };
        let (mut keys, mut next) = (Vec::new(), String::new());
        loop {
            let mut page = host.look(&format!("{}?limit=1000{query}{next}", self.path())).await?;
            let Value::Array(more) = page["keys"].take() else {
                return Err(AdminFailure::Unknown(anyhow::anyhow!(
                    "the host has no list of keys: is it of this version?"
                )));
            };
            keys.extend(more);
            let Some(token) = page["continue"].as_str() else { break };
            let after = format!("&continue={}", encoded(token));
            if after == next {
                return Err(AdminFailure::Unknown(anyhow::anyhow!("the host keeps returning the same page of keys")));
            }
            next = after;
        }
        Ok(json!({"plugin": self.plugin, "keys": keys}))
    }

    fn none(&self) -> String {
        let plugin = &self.plugin;
        if self.all {
            format!("{plugin} has no keys: no object of the kinds that it reconciles is in its caches here\n")
        } else if self.state.is_empty() {
            format!("every key of {plugin} is done; --all lists them\n")
        } else {
            format!("no key of {plugin} is {}\n", self.state.join(" or "))
        }
    }
}

/// The reason why a plugin with this health has no keys on the queried host. `None` if the host would show its keys.
fn not_at_work(plugin: &str, health: &Value) -> Option<String> {
    let state = text(&health["state"]);
    if matches!(state, "running" | "paused" | "breaker-open" | "server-unreachable" | "caches-unproven") {
        return None;
    }
    let why = health["why"].as_str().map(|why| format!(": {why}")).unwrap_or_default();
    Some(format!("the host does not know the keys of {plugin}, because the plugin is {state}{why}"))
}

fn rows(keys: &[Value], is_wide: bool) -> String {
    let is_of_many = keys.iter().any(|key| key["controller"] != keys[0]["controller"]);
    let with_controller = is_wide || is_of_many;
    let mut heading = vec!["KEY", "STATE", "FOR", "FAILURES", "RETRY IN", "LAST ERROR"];
    if with_controller {
        heading.insert(1, "CONTROLLER");
    }
    let rows = keys.iter().map(|key| {
        let error = key["lastError"].as_str().unwrap_or_default();
        let mut row = vec![
            text(&key["key"]).to_owned(),
            text(&key["state"]).to_owned(),
            time(&key["sinceSeconds"]),
            count(&key["failures"]),
            time(&key["retryInSeconds"]),
            if is_wide { error.replace('\n', " ") } else { cut(error, SHOWN_ERROR_CHARACTERS) },
        ];
        if with_controller {
            row.insert(1, text(&key["controller"]).to_owned());
        }
        row
    });
    view::table(&heading, rows)
}

/// Everything that is known of a key, as text for people.
fn story(plugin: &str, key: &Value) -> String {
    let named = format!("{}  of {plugin}, controller {}", text(&key["key"]), text(&key["controller"]));
    let mut lines = vec![deceptive::escape_line(&named).into_owned()];
    let mut line = |name: &str, value: String| {
        // Only an error may have several lines, which are indented.
        let value = if name == "error" { deceptive::escape(&value) } else { deceptive::escape_line(&value) };
        lines.push(format!("  {name:<10}{value}"));
    };
    line("state", text(&key["state"]).to_owned());
    line("why", text(&key["why"]).to_owned());
    if let Some(object) = key["loopsOver"].as_str() {
        line("loops", format!("it writes {object} over and over"));
    }
    let unchanged = &key["unchanged"];
    if !unchanged.is_null() {
        let (seconds, saved) = (time(&unchanged["seconds"]), count(&unchanged["savedCalls"]));
        line("unchanged", format!("the last call, {seconds} ago, changed nothing; calls saved since: {saved}"));
    }
    let waits = &key["waitsFor"];
    if !waits.is_null() {
        let (watch, what) = (text(&waits["watch"]), text(&waits["what"]));
        line("waits for", format!("{what}, in the cache of {watch}, for {}", time(&waits["seconds"])));
        let version = waits["cacheVersion"]
            .as_str()
            .map_or("has no complete list yet".to_owned(), |it| format!("is at version {it}"));
        let silence = if waits["silentSeconds"].is_null() {
            "its watch has not begun".to_owned()
        } else {
            format!("the API server last sent something on its watch {} ago", time(&waits["silentSeconds"]))
        };
        line("the cache", format!("{version}; {silence}"));
    }
    if !key["sinceSeconds"].is_null() {
        line("since", format!("{} ago", time(&key["sinceSeconds"])));
    }
    let triggers: Vec<_> = key["triggers"].as_array().into_iter().flatten().map(text).collect();
    if !triggers.is_empty() {
        line("because", triggers.join(", "));
    }
    // The last two say what is wrong with the timer.
    let timer = &key["timer"];
    for (name, time) in [
        ("due at", "dueTime"),
        ("last due", "lastDueTime"),
        ("next due", "nextDueTime"),
        ("waits", "waits"),
        ("not kept", "notKept"),
    ] {
        if let Some(time) = timer[time].as_str() {
            line(name, time.to_owned());
        }
    }
    if !key["retryInSeconds"].is_null() {
        line("runs in", time(&key["retryInSeconds"]));
    }
    if key["failures"].as_u64().is_some_and(|failures| failures > 0) {
        line("failures", format!("{} in a row, {} of them counted", key["failures"], key["attempts"]));
    }
    let error = &key["lastError"];
    if !error.is_null() {
        line("error", format!("{} ago: {}", time(&error["secondsAgo"]), text(&error["error"]).replace('\n', "\n    ")));
    }
    for (at, logged) in error["log"].as_array().into_iter().flatten().enumerate() {
        let name = if at == 0 { "logged" } else { "" };
        line(name, format!("{} {}", text(&logged["level"]), text(&logged["message"])));
    }
    if key["exists"] == false {
        line("object", "it is not in the cache: it is gone, or never existed".to_owned());
    }
    let calls = key["calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    if calls.is_empty() {
        line("calls", "none is remembered, as for most keys that are done".to_owned());
        return lines.join("\n") + "\n";
    }
    line("calls", "the latest first".to_owned());
    let table = call_rows(calls);
    lines.extend(table.lines().map(|line| format!("    {line}")));
    lines.join("\n") + "\n"
}

fn call_rows(calls: &[Value]) -> String {
    let rows = calls.iter().map(|call| {
        let wrote: Vec<_> = call["wrote"].as_array().into_iter().flatten().map(text).collect();
        let error = call["error"].as_str().unwrap_or_default();
        vec![
            time(&call["secondsAgo"]),
            time(&call["tookSeconds"]),
            text(&call["outcome"]).to_owned(),
            count(&call["writes"]),
            cut(if error.is_empty() { wrote.join(", ") } else { error.to_owned() }.as_str(), SHOWN_ERROR_CHARACTERS),
        ]
    });
    view::table(&["AGO", "TOOK", "OUTCOME", "WRITES", "ERROR, OR WHAT IT WROTE"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_name_with_or_without_a_namespace() {
        let path = |key| path_of(key).map(|KeyPath(path)| path);
        assert_eq!(path("prod/shop"), Ok("prod/shop".to_owned()));
        assert_eq!(path("system:node"), Ok("-/system:node".to_owned()));
        for bad in ["", "/", "prod/", "/shop", "a/b/c"] {
            assert!(path(bad).is_err(), "{bad:?}");
        }
    }

    fn listed(controller: &str) -> Value {
        json!({
            "key": "prod/shop", "controller": controller, "state": "backoff", "failures": 3, "retryInSeconds": 12.5,
            "lastError": "no image\nat all",
        })
    }

    #[test]
    fn a_key_with_line_breaks_stays_on_one_line() {
        let shown = story("a", &json!({"key": "x\n  state     done\u{1b}", "controller": "c", "state": "backoff"}));
        assert_eq!(shown.lines().next(), Some(r"x\n  state     done\u{1b}  of a, controller c"));
    }

    #[test]
    fn a_plugin_that_is_not_at_work_is_not_reported_as_done() {
        assert_eq!(not_at_work("a", &json!({"state": "running", "why": null})), None);
        let standby = json!({"state": "standing-by", "why": "another replica has its lease"});
        let expected =
            "the host does not know the keys of a, because the plugin is standing-by: another replica has its lease";
        assert_eq!(not_at_work("a", &standby).as_deref(), Some(expected));
        assert!(not_at_work("a", &json!({"state": "not-loaded"})).is_some());
    }

    #[test]
    fn a_list_names_controllers_if_there_are_several() {
        let expected = "\
            KEY        STATE    FOR  FAILURES  RETRY IN  LAST ERROR\n\
            prod/shop  backoff  -    3         12.5s     no image…\n";
        assert_eq!(rows(&[listed("web")], false), expected);
        let several = rows(&[listed("web"), listed("db")], false);
        assert!(several.starts_with("KEY        CONTROLLER  STATE "), "{several}");
        assert!(rows(&[listed("web")], true).contains("no image at all"));
    }

    #[test]
    fn the_story_of_a_key_explains_why_it_is_not_done() {
        let call = json!({
            "secondsAgo": 2.5, "tookSeconds": 0.012, "outcome": "failed", "error": "no image", "writes": 1,
            "wrote": ["Deployment prod/shop"], "triggers": ["Resync"], "traceId": "4bf9",
        });
        let done = json!({"secondsAgo": 75, "tookSeconds": 0.1, "outcome": "done", "writes": 1, "wrote": ["Deployment prod/shop"]});
        let key = json!({
            "key": "prod/shop", "controller": "web", "state": "backoff", "why": "its last call failed", "exists": true,
            "sinceSeconds": null, "triggers": ["Changed WebApp prod/shop"], "failures": 3, "attempts": 2,
            "retryInSeconds": 12.5, "waitsFor": null, "loopsOver": null,
            "lastError": {"error": "no image", "secondsAgo": 2.5, "log": [
                {"level": "INFO", "message": "deploys"}, {"level": "WARN", "message": "no image=web"},
            ]},
            "calls": [call, done],
        });
        let expected = "\
            prod/shop  of webapp, controller web\n  \
              state     backoff\n  \
              why       its last call failed\n  \
              because   Changed WebApp prod/shop\n  \
              runs in   12.5s\n  \
              failures  3 in a row, 2 of them counted\n  \
              error     2.5s ago: no image\n  \
              logged    INFO deploys\n            \
                        WARN no image=web\n  \
              calls     the latest first\n    \
                AGO    TOOK   OUTCOME  WRITES  ERROR, OR WHAT IT WROTE\n    \
                2.5s   12ms   failed   1       no image\n    \
                1m15s  100ms  done     1       Deployment prod/shop\n";
        assert_eq!(story("webapp", &key), expected);
    }

    #[test]
    fn the_key_of_a_timer_shows_when_it_is_due() {
        let timer = json!({
            "rule": "every 3600s", "dueTime": null, "lastDueTime": "2026-11-29T02:00:00Z",
            "nextDueTime": "2026-11-29T03:00:00Z", "waits": null, "notKept": "it is down",
        });
        let key = json!({
            "key": "hourly", "controller": "hourly", "state": "idle", "why": "nothing is left to do", "exists": true,
            "timer": timer, "calls": [],
        });
        let story = story("webapp", &key);
        assert!(
            story.contains(
                "  last due  2026-11-29T02:00:00Z\n  next due  2026-11-29T03:00:00Z\n  not kept  it is down\n"
            ),
            "{story}"
        );
        assert!(!story.contains("due at"), "{story}");
    }

    #[test]
    fn a_held_key_shows_what_it_waits_for() {
        let waits = json!({
            "watch": "deployments.apps", "what": "version 7 or later", "seconds": 4,
            "cacheVersion": "5", "silentSeconds": 90,
        });
        let key = json!({
            "key": "shop", "controller": "web", "state": "held", "why": "it waits", "exists": false, "waitsFor": waits,
            "loopsOver": "Secret prod/a", "calls": [],
        });
        let story = story("webapp", &key);
        for part in [
            "waits for version 7 or later, in the cache of deployments.apps, for 4.0s\n",
            "the cache is at version 5; the API server last sent something on its watch 1m30s ago\n",
            "it writes Secret prod/a over and over\n",
            "it is gone, or never existed",
            "none is remembered",
        ] {
            assert!(story.contains(part), "{part:?} in {story}");
        }
    }
}
