//! `windlass status`: the plugins of a running host, one line each, and their problems.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use crate::cli::view::{self, ViewFormat, count, cut, size, text, time};
use crate::cli::watching::admin::{AdminArgs, AdminFailure};
use crate::cli::watching::hook_rows::hook_rows;

/// The most characters of a reason in a table.
const SHOWN_REASON_CHARACTERS: usize = 80;

/// Arguments of `windlass status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Only this plugin.
    #[arg(value_name = "PLUGIN")]
    plugin: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
    /// The output format.
    #[arg(long, short, value_enum, default_value = "table")]
    output: ViewFormat,
}

impl StatusArgs {
    pub(crate) async fn run(self) -> Result<ExitCode, AdminFailure> {
        let shown = self.admin.plugins(self.plugin.as_deref()).await?;
        let plugins = &shown.plugins;
        if !view::print_document(self.output, &shown.document())? {
            let is_wide = self.output == ViewFormat::Wide;
            crate::cli::print(&if plugins.is_empty() { none(shown.is_starting) } else { tables(plugins, is_wide) })?;
        }
        let is_well = shown.is_complete && plugins.iter().all(|plugin| plugin["health"]["well"] == true);
        Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Why there is no plugin to show.
fn none(is_starting: bool) -> String {
    let why = if is_starting {
        "the host is starting, and has not looked at its plugins yet"
    } else {
        "the host has no plugin: put NAME.wasm into its plugin directory"
    };
    format!("{why}\n")
}

/// The sum over a plugin's controllers.
pub(crate) fn sum(plugin: &Value, of: impl Fn(&Value) -> &Value) -> String {
    let controllers = plugin["controllers"].as_array().into_iter().flatten();
    controllers.filter_map(|controller| of(controller).as_u64()).sum::<u64>().to_string()
}

fn lease(plugin: &Value) -> &str {
    let lease = &plugin["lease"];
    if lease.is_null() {
        "-"
    } else if lease["heldHere"] == true {
        "held"
    } else if lease["status"] == "lost" {
        "lost"
    } else {
        lease["holder"].as_str().map_or("free", |_| "elsewhere")
    }
}

/// A table of the plugins, and one of their hooks if there are any.
fn tables(plugins: &[Value], is_wide: bool) -> String {
    let hooks = hook_rows(plugins, is_wide, SHOWN_REASON_CHARACTERS);
    rows(plugins, is_wide) + &hooks.map(|hooks| format!("\n{hooks}")).unwrap_or_default()
}

fn rows(plugins: &[Value], is_wide: bool) -> String {
    let mut heading =
        vec!["NAME", "VERSION", "STATE", "LEASE", "QUEUE", "FAILING", "CPU", "MEMORY", "CACHE", "WRITES", "DENIED"];
    if is_wide {
        heading.extend(["DIGEST", "HOLDER", "BACKOFF", "HELD", "SETTLING", "PAUSED", "PEAK"]);
    }
    let with_replica = view::shows_replica(plugins, is_wide);
    if with_replica {
        heading.push("REPLICA");
    }
    heading.push("WHY");
    let rows = plugins.iter().map(|plugin| {
        let (usage, health) = (&plugin["usage"], &plugin["health"]);
        let mut row = vec![
            text(&plugin["name"]).to_owned(),
            text(&plugin["version"]).to_owned(),
            text(&health["state"]).to_owned(),
            lease(plugin).to_owned(),
            sum(plugin, |it| &it["queue"]["depth"]),
            sum(plugin, |it| &it["failing"]),
            time(&usage["cpuSeconds"]),
            size(&usage["memoryBytes"]),
            size(&usage["cacheBytes"]),
            count(&usage["writes"]),
            count(&usage["denied"]),
        ];
        if is_wide {
            row.extend([
                text(&plugin["digest"]).chars().take(12).collect(),
                text(&plugin["lease"]["holder"]).to_owned(),
                sum(plugin, |it| &it["queue"]["backoff"]),
                sum(plugin, |it| &it["queue"]["parked"]),
                sum(plugin, |it| &it["queue"]["settling"]),
                sum(plugin, |it| &it["paused"]),
                size(&usage["memoryPeakBytes"]),
            ]);
        }
        if with_replica {
            row.push(text(&plugin["replica"]).to_owned());
        }
        let why = health["why"].as_str().unwrap_or_default();
        row.push(if is_wide { why.replace('\n', " ") } else { cut(why, SHOWN_REASON_CHARACTERS) });
        row
    });
    view::table(&heading, rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn webapp() -> Value {
        let queue = |depth: u32| json!({"depth": depth, "parked": 1, "settling": 0, "backoff": 2});
        json!({
            "name": "webapp", "version": "0.1.0", "digest": "605a0172cb36aaaa", "lease": {"heldHere": true, "holder": "one"},
            "controllers": [{"queue": queue(3), "failing": 2}, {"queue": queue(1), "failing": 0}, {"queue": null}],
            "usage": {
                "cpuSeconds": 1.25, "memoryBytes": 1_114_112, "memoryPeakBytes": 2_097_152, "cacheBytes": 20_480,
                "writes": 14, "denied": 0,
            },
            "health": {"state": "running", "why": null, "well": true},
        })
    }

    #[test]
    fn a_plugin_is_a_line() {
        let expected = "\
            NAME    VERSION  STATE    LEASE  QUEUE  FAILING  CPU   MEMORY  CACHE   WRITES  DENIED  WHY\n\
            webapp  0.1.0    running  held   4      2        1.2s  1.1Mi   20.0Ki  14      0\n";
        assert_eq!(rows(&[webapp()], false), expected);
        let wide = rows(&[webapp()], true);
        for part in ["605a0172cb36 ", " PAUSED ", " PEAK ", " 2.0Mi", " one "] {
            assert!(wide.contains(part), "{part:?} in {wide}");
        }
        assert!(!wide.contains("605a0172cb36a"), "{wide}");
    }

    #[test]
    fn a_lease_that_was_lost_is_not_shown_as_held() {
        let shown = |of: Value| lease(&json!({"lease": of})).to_owned();
        assert_eq!(shown(json!({"heldHere": true, "status": "held", "holder": "me"})), "held");
        assert_eq!(shown(json!({"heldHere": false, "status": "lost", "holder": "me"})), "lost");
        assert_eq!(shown(json!({"heldHere": false, "status": "not-held", "holder": "other"})), "elsewhere");
        assert_eq!(shown(json!({"heldHere": false, "status": "not-held", "holder": null})), "free");
        assert_eq!(shown(Value::Null), "-");
    }

    #[test]
    fn a_starting_host_is_not_reported_as_one_without_plugins() {
        assert!(none(true).starts_with("the host is starting") && none(false).starts_with("the host has no plugin"));
    }

    #[test]
    fn the_replica_is_shown_in_wide_tables_and_for_plugins_of_two_replicas() {
        let of = |replica: &str| {
            let mut plugin = webapp();
            plugin["replica"] = replica.into();
            plugin
        };
        let (one, other) = (of("windlass-a"), of("windlass-b"));
        let alone = std::slice::from_ref(&one);
        assert!(!rows(alone, false).contains("REPLICA"));
        let wide = rows(alone, true);
        assert!(wide.contains(" REPLICA ") && wide.contains(" windlass-a"), "{wide}");
        let both = rows(&[one.clone(), other], false);
        assert!(both.contains(" windlass-a") && both.contains(" windlass-b"), "{both}");
    }

    #[test]
    fn a_plugin_that_does_not_run_says_why_in_one_line() {
        let lease = json!({"heldHere": false, "holder": "other"});
        let health = json!({"state": "waiting", "why": "controller web: no kind\nWebApp", "well": false});
        let plugin = json!({"name": "a", "lease": lease, "health": health, "controllers": [], "usage": {}});
        let shown = rows(&[plugin], false);
        let line = shown.lines().nth(1).expect("a line");
        assert!(line.starts_with("a     -") && line.contains("waiting  elsewhere"), "{shown}");
        assert!(line.ends_with("controller web: no kind…") && shown.lines().count() == 2, "{shown}");
    }
}
