//! `/`: the status page, a single document that loads nothing else. Its script shows strangers' text as text and never
//! as HTML. Should that ever fail, its content security policy lets no other script run.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY};
use http_body_util::{BodyExt as _, Full};
use sha2::{Digest as _, Sha256};

use super::AdminAnswer;

const DOCUMENT: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
/// The parts of the script, each after those that it needs.
const SCRIPT: [&str; 8] = [
    include_str!("page/texts.js"),
    include_str!("page/live.js"),
    include_str!("page/tables.js"),
    include_str!("page/curves.js"),
    include_str!("page/plugins.js"),
    include_str!("page/plugin.js"),
    include_str!("page/key.js"),
    include_str!("page/page.js"),
];
/// Isolates the page from pages that open it or that it opens.
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// The page in its served form.
struct StatusPage {
    document: Bytes,
    /// Its content security policy.
    policy: HeaderValue,
}

static PAGE: LazyLock<StatusPage> = LazyLock::new(|| StatusPage::new(STYLE, &SCRIPT.concat()));

impl StatusPage {
    fn new(style: &str, script: &str) -> Self {
        let document = DOCUMENT.replacen("@style@", style, 1).replacen("@script@", script, 1);
        let [style, script] = [style, script].map(|text| STANDARD.encode(Sha256::digest(text)));
        let policy = format!(
            "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; connect-src 'self'; img-src data:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
        );
        let policy = HeaderValue::from_str(&policy).expect("base64 is ASCII");
        Self { document: document.into(), policy }
    }
}

/// The answer to a request for the page.
pub(super) fn answer() -> AdminAnswer {
    let mut response = AdminAnswer::new(Full::new(PAGE.document.clone()).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CONTENT_SECURITY_POLICY, PAGE.policy.clone());
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text between the only `<name>` and the only `</name>` of the page.
    fn inner(name: &str) -> String {
        let document = std::str::from_utf8(&PAGE.document).expect("it is text");
        let (open, close) = (format!("<{name}>"), format!("</{name}"));
        assert_eq!((document.matches(&open).count(), document.matches(&close).count()), (1, 1), "{name}");
        let (_, rest) = document.split_once(&open).expect("it begins");
        rest.split_once(&close).expect("it ends").0.to_owned()
    }

    #[test]
    fn only_the_pages_own_script_and_style_may_run() {
        let policy = PAGE.policy.to_str().expect("it is text");
        for name in ["script", "style"] {
            let hash = STANDARD.encode(Sha256::digest(inner(name)));
            assert!(policy.contains(&format!("{name}-src 'sha256-{hash}'; ")), "{policy}");
        }
        for part in ["default-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
    }

    #[test]
    fn nothing_of_the_page_comes_from_elsewhere() {
        let document = std::str::from_utf8(&PAGE.document).expect("it is text");
        // The names of XML namespaces are not addresses.
        let rest = document.replace("http://www.w3.org/2000/svg", "");
        for foreign in ["http://", "https://", "src=", "@import", "url(", "import("] {
            assert!(!rest.contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn the_script_has_nothing_that_makes_html_or_code_of_a_text() {
        let script = SCRIPT.concat();
        for dangerous in [
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "DOMParser",
            "createContextualFragment",
            "eval(",
            "new Function",
            "setHTML",
            "javascript:",
            "srcdoc",
        ] {
            assert!(!script.contains(dangerous), "{dangerous}");
        }
        // One file creates elements, and escapes their text.
        assert_eq!(SCRIPT.iter().filter(|part| part.contains("createElement")).count(), 1);
    }

    #[test]
    fn the_page_writes_out_the_characters_that_the_commands_do() {
        // The script's character class, read as ranges.
        let class =
            SCRIPT[0].split_once("const DECEPTIVE =").and_then(|(_, rest)| rest.split_once(']')).expect("a class").0;
        let class = class.split_once('[').expect("it begins").1.replace(r"\p{Cc}", r"\u0000-\u001f\u007f-\u009f");
        let code = |text: &str| u32::from_str_radix(&text[..4], 16).expect("four digits");
        let ranges: Vec<_> = class.split(r"\u").skip(1).collect();
        let mut deceptive = std::collections::BTreeSet::new();
        let mut parts = ranges.iter().peekable();
        while let Some(part) = parts.next() {
            let last = if part.ends_with('-') { code(parts.next().expect("a range ends")) } else { code(part) };
            deceptive.extend(code(part)..=last);
        }
        let expected =
            (0..=0xffff).filter(|it| char::from_u32(*it).is_some_and(windlass_core::deceptive::is_deceptive));
        assert_eq!(deceptive.into_iter().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}
