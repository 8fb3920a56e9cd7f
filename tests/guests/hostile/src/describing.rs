//! Attacks by `describe`: on the loader, and on whoever believes a manifest.

use std::hint::black_box;

use windlass_sdk::bindings::windlass::plugin::{clock, http, live, random};

use crate::{manifest, spending, trespassing};

/// What `mode` answers instead of its manifest. None: it is not about `describe`.
///
/// # Panics
/// In the mode that is about that.
pub(crate) fn describe(mode: &str) -> Option<String> {
    let primary = r#"{"apiVersion":"v1","kind":"ConfigMap"}"#;
    Some(match mode {
        "describe-traps" => panic!("hostile: describe"),
        "describe-loops" => spending::spin(),
        "describe-devours" => spending::devour(),
        "describe-reads" => {
            let read = live::get(&trespassing::secret(None));
            format!("{read:?}")
        }
        "describe-fetches" => format!("{:?}", http::fetch(&crate::outside::get("http://127.0.0.1/"))),
        "describe-empty" => String::new(),
        "describe-garbage" => "\u{1b}[2J\u{202e}]}{\0".repeat(100),
        // Within the limit of its size, and nested without end.
        "describe-deep" => "[".repeat(500_000),
        "describe-huge" => " ".repeat(2 << 20),
        // Ever larger inside, of one length outside.
        "describe-unstable" => {
            let now = clock::now();
            let rest = format!(r#","description":"{} {}""#, now.nanoseconds, random::get_u32());
            manifest::with(mode, primary, &rest)
        }
        "describe-other" => manifest::with("webapp", primary, ""),
        "describe-path" => manifest::with("../../etc/cron.d/hostile", primary, ""),
        "describe-many-watches" => {
            let namespaces: Vec<String> = (0..200).map(|at| format!(r#""n{at}""#)).collect();
            let watch = format!(
                r#"{{"apiVersion":"v1","kind":"Secret","namespaces":[{}],"mapping":{{"type":"all"}}}}"#,
                namespaces.join(",")
            );
            let primary = format!(r#"{primary},"watches":[{}]"#, vec![watch; 50].join(","));
            manifest::with(mode, &primary, "")
        }
        "describe-all-kinds" => manifest::with(mode, r#"{"apiVersion":"*/*","kind":"*"}"#, ""),
        "describe-bad-numbers" => manifest::with(mode, primary, r#","version":1e999"#),
        // The second one wins, or the first: whoever reads it otherwise sees another plugin.
        "describe-twice" => manifest::with(mode, primary, r#","name":"webapp""#),
        "describe-problems" => {
            let namespaces = black_box(vec![r#""NO""#; 50_000]).join(",");
            let primary = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","namespaces":[{namespaces}]}}"#);
            manifest::with(mode, &primary, "")
        }
        _ => return None,
    })
}
