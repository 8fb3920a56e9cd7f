//! The table of hooks in `windlass status`.

use serde_json::Value;

use crate::cli::view::{self, cut, text};

/// The results of requests that were acknowledged.
const ACCEPTED: [&str; 3] = ["queued", "no_primary", "duplicate"];
const LIMITED: &str = "limited";

/// A table of all hooks of these plugins, whose last column has at most `why_characters`. `None` if there are no hooks.
pub(super) fn hook_rows(plugins: &[Value], is_wide: bool, why_characters: usize) -> Option<String> {
    let mut heading = vec!["HOOK", "LAST-DELIVERY", "ACCEPTED", "REFUSED", "LIMITED"];
    let with_replica = view::shows_replica(plugins, is_wide);
    if with_replica {
        heading.push("REPLICA");
    }
    heading.push("WHY");
    let mut rows = Vec::new();
    for plugin in plugins {
        for hook in plugin["hooks"].as_array().into_iter().flatten() {
            let requests = Requests::of(hook);
            let mut row = vec![
                format!("{}/{}", text(&plugin["name"]), text(&hook["name"])),
                text(&hook["lastDelivery"]).to_owned(),
                requests.accepted.to_string(),
                requests.refused,
                requests.limited.to_string(),
            ];
            if with_replica {
                row.push(text(&plugin["replica"]).to_owned());
            }
            let why = why(hook);
            row.push(if is_wide { why.replace('\n', " ") } else { cut(why, why_characters) });
            rows.push(row);
        }
    }
    (!rows.is_empty()).then(|| view::table(&heading, rows))
}

/// Why the hook takes no deliveries, or may not work with all its secrets; empty if it works.
fn why(hook: &Value) -> &str {
    let not_served = if hook["served"] == true { "" } else { "no controller of this replica takes its deliveries" };
    hook["problem"].as_str().unwrap_or(not_served)
}

/// The requests to one hook.
struct Requests {
    accepted: u64,
    /// Their number, and the number for each reason: `4 (wrong_signature 3, wrong_time 1)`.
    refused: String,
    limited: u64,
}

impl Requests {
    fn of(hook: &Value) -> Self {
        let (mut accepted, mut limited, mut refused, mut reasons) = (0, 0, 0, Vec::new());
        for (result, count) in hook["requests"].as_object().into_iter().flatten() {
            let count = count.as_u64().unwrap_or_default();
            match result.as_str() {
                LIMITED => limited += count,
                accepting if ACCEPTED.contains(&accepting) => accepted += count,
                reason => {
                    refused += count;
                    reasons.push(format!("{reason} {count}"));
                }
            }
        }
        let refused = if reasons.is_empty() { "0".to_owned() } else { format!("{refused} ({})", reasons.join(", ")) };
        Self { accepted, refused, limited }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_hook_is_a_line_with_its_requests_by_result() {
        let requests = json!({
            "queued": 10, "no_primary": 1, "duplicate": 2, "wrong_signature": 3, "wrong_time": 1, "limited": 5,
        });
        let pushed = json!({
            "name": "pushed", "served": true, "problem": null, "lastDelivery": "2026-11-28T23:30:00Z", "requests": requests,
        });
        let problem = "closed: the plugin's policy does not name its secret";
        let closed =
            json!({"name": "closed", "served": false, "problem": problem, "lastDelivery": null, "requests": {}});
        let plugins = [json!({"name": "quota"}), json!({"name": "webapp", "hooks": [closed, pushed]})];
        let expected = "\
            HOOK           LAST-DELIVERY         ACCEPTED  REFUSED                              LIMITED  WHY\n\
            webapp/closed  -                     0         0                                    0        closed: the…\n\
            webapp/pushed  2026-11-28T23:30:00Z  13        4 (wrong_signature 3, wrong_time 1)  5\n";
        assert_eq!(hook_rows(&plugins, false, 12).as_deref(), Some(expected));
        assert_eq!(hook_rows(&[json!({"name": "quota", "hooks": []})], false, 12), None);
    }

    #[test]
    fn a_hook_that_no_controller_serves_says_so() {
        let hook = json!({"name": "pushed", "served": false, "problem": null, "requests": {"not_serving": 2}});
        let plugin = json!({"name": "webapp", "replica": "windlass-a", "hooks": [hook]});
        let shown = hook_rows(&[plugin], true, 12).expect("a hook");
        assert!(shown.contains("2 (not_serving 2)") && shown.contains(" windlass-a "), "{shown}");
        assert!(shown.ends_with("no controller of this replica takes its deliveries\n"), "{shown}");
    }
}
