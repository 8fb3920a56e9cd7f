//! The attackers' manifests, which ask for every right. Only the operator's policy restricts them.

use crate::marker;

/// The deadline of a call that does not end. It is short, because a test waits for it.
const ENDLESS_CALL_DEADLINE_MS: u32 = 400;
/// The deadline of a call that tries many things.
const ATTACK_DEADLINE_MS: u32 = 20_000;

/// The manifest of `mode`.
pub(crate) fn of(mode: &str) -> String {
    let watches = match mode {
        "watches-secrets" => concat!(
            r#","watches":[{"apiVersion":"v1","kind":"Secret","mapping":{"type":"all"},"#,
            r#""indexes":[{"name":"by-password","source":{"type":"field","pointer":"/data/password"}}]}]"#
        ),
        _ => "",
    };
    let rest = match mode {
        "floods-metrics" => concat!(
            r#","metrics":[{"name":"flood","type":"gauge","help":"One line.\nhostile_forged 1\n# EOF","#,
            r#""labels":["drop"]}]"#
        )
        .to_owned(),
        "bombs-config" => config_bomb(),
        _ => marker::number(mode, "fetches").map(hosts).unwrap_or_default(),
    };
    with(mode, &format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","labelSelector":"hostile=true"}}{watches}"#), &rest)
}

/// A manifest. `primary` is the text of the primary and of what follows it in the controller, and `rest` is the end of
/// the manifest.
pub(crate) fn with(name: &str, primary: &str, rest: &str) -> String {
    let never_ends = matches!(name, "loops" | "fills" | "asks-the-time" | "draws-randomness" | "waits");
    let all = r#"{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}"#;
    format!(
        concat!(
            r#"{{"apiVersion":"windlass.dev/v1alpha1","kind":"PluginManifest","name":"{name}","version":"0.1.0","#,
            r#""controllers":[{{"name":"attack","primary":{primary},"options":{{"deadlineMs":{deadline}}}}}],"#,
            r#""permissions":[{all}],"finalizers":["*"]{rest}}}"#
        ),
        name = name,
        primary = primary,
        deadline = if never_ends { ENDLESS_CALL_DEADLINE_MS } else { ATTACK_DEADLINE_MS },
        all = all,
        rest = rest,
    )
}

/// The hosts that `outside` calls. Naming them in the manifest must not open their addresses.
fn hosts(port: u16) -> String {
    let of = |host: &str| format!(r#"{{"scheme":"http","host":"{host}","port":{port},"methods":["*"]}}"#);
    let hosts = crate::outside::HOSTS.map(of).join(",");
    format!(r#","http":[{hosts}]"#)
}

/// A schema for which the smallest document takes 2⁴⁰ checks.
fn config_bomb() -> String {
    let definition = |at: u32| {
        let next = at + 1;
        format!(r##""d{at}":{{"allOf":[{{"$ref":"#/$defs/d{next}"}},{{"$ref":"#/$defs/d{next}"}}]}}"##)
    };
    let definitions: Vec<String> = (0..40).map(definition).chain([r#""d40":{"type":"object"}"#.to_owned()]).collect();
    format!(r##","config":{{"schema":{{"$ref":"#/$defs/d0","$defs":{{{}}}}}}}"##, definitions.join(","))
}
