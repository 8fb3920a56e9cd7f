//! Attacks through `describe` that need code. host/wasm/tests/it/hostile.rs has the attacks that need only a malicious
//! manifest.

use windlass_sdk::bindings::windlass::plugin::live::View;
use windlass_sdk::bindings::windlass::plugin::{clock, http, live, log, random};

use crate::{manifest, spending, trespassing};

/// The answer of `mode` instead of its manifest. `None` if the mode is not about `describe`.
///
/// # Panics
/// In the mode that panics.
pub(crate) fn describe(mode: &str) -> Option<String> {
    let primary = r#"{"apiVersion":"v1","kind":"ConfigMap"}"#;
    Some(match mode {
        "describe-traps" => panic!("hostile: describe"),
        "describe-loops" => spending::spin(),
        "describe-devours" => spending::devour(),
        "describe-reads" => {
            let read = live::get(&trespassing::secret(None), None, &View::Whole);
            format!("{read:?}")
        }
        "describe-fetches" => format!("{:?}", http::fetch(&crate::outside::get("http://127.0.0.1/"))),
        "describe-logs" => {
            log::log(log::Level::Info, "one word,", &[]);
            log::log(log::Level::Error, &format!("and another{}", ", and more".repeat(400)), &[]);
            manifest::of(mode)
        }
        "describe-unstable" => {
            let now = clock::now();
            let rest = format!(r#","description":"{} {}""#, now.nanoseconds, random::get_u32());
            manifest::with(mode, primary, &rest)
        }
        "describe-other" => manifest::with("webapp", primary, ""),
        "describe-path" => manifest::with("../../etc/cron.d/hostile", primary, ""),
        _ => return None,
    })
}
