//! Writes a policy for review, for `windlass grant`: everything that a plugin asks for, with a reason for each
//! sensitive request.
//!
//! The author of the manifest is untrusted. So text from the manifest is quoted, and only DNS labels and versions
//! appear in comments.

use std::fmt::Write as _;

use windlass_core::life::instances::Instances;
use windlass_core::rights::grants::{HttpRule, Rule};
use windlass_manifest::{API_VERSION, Manifest};

use super::asks::Ask;
use super::document::POLICY;
use super::{http, sensitive};

/// The lines of a policy that let calls reuse the plugin's instances, with the reason.
pub const REUSE: &str = "\
    # An instance serves many calls: a fresh instance costs several times as much in this language. Nothing may depend on what a call\n\
    # leaves behind in variables.\n\
    instances: reuse\n";

/// A policy for review, in YAML.
pub struct PolicyDraft {
    /// Comments: what it is, and what to look at.
    pub about: String,
    /// The rights and settings: everything but what identifies the document.
    pub rights: String,
}

impl PolicyDraft {
    /// A policy that grants all of `asks` and everything else that the manifest asks for. Unless it is `in_force`, it
    /// pauses the plugin, because the host may read the policy before a person has reviewed it. `origin` tells the
    /// reader where the policy is from; `instances` is the setting that suits the plugin's language.
    #[must_use]
    pub fn new(manifest: &Manifest, origin: &str, asks: &[Ask], in_force: bool, instances: Instances) -> Self {
        let about = format!(
            "# What the plugin {name} asks for, {origin}.\n\
             # The plugin may do only what is listed here. If you remove a right, its requests are denied, and the log shows the missing rule.\n\
             # Check lines marked SENSITIVE with care. Narrow rules with `namespaces: [...]` and `names: [...]`.\n",
            name = manifest.name,
        );
        let mut rights = String::new();
        if !in_force {
            rights.push_str(
                "paused: true   # the plugin is not called: remove this line when you have reviewed the rest\n",
            );
        }
        if instances == Instances::Reuse {
            rights.push_str(REUSE);
        }
        rights.push_str(
            "# impersonate: NAMESPACE/SERVICEACCOUNT   # acts with that account's rights instead of the host's\n",
        );
        rights.push_str(if asks.is_empty() { "rules: []\n" } else { "rules:\n" });
        for ask in asks {
            push_ask(&mut rights, ask);
        }
        push_rest(&mut rights, manifest);
        push_hooks(&mut rights, manifest);
        Self { about, rights }
    }
}

/// The text of a policy file: a [`PolicyDraft`] with what identifies the document.
#[must_use]
pub fn draft(manifest: &Manifest, origin: &str, asks: &[Ask], in_force: bool, instances: Instances) -> String {
    let PolicyDraft { about, rights } = PolicyDraft::new(manifest, origin, asks, in_force, instances);
    format!("{about}apiVersion: {API_VERSION}\nkind: {POLICY}\nplugin: {name}\n{rights}", name = manifest.name)
}

/// Adds the plugin's hooks as a comment, because only the operator knows their secrets. The names are DNS labels.
fn push_hooks(text: &mut String, manifest: &Manifest) {
    let hooks: Vec<_> = manifest.controllers.iter().flat_map(|controller| &controller.hooks).collect();
    if hooks.is_empty() {
        return;
    }
    text.push_str(
        "# The plugin has hooks, which are closed. Whoever has the secret of an open hook can run the objects that its deliveries \
         name.\n# To open one, make a Secret with a random value of 32 bytes, and use its lines without the first `# `.\n# hooks:\n",
    );
    let plugin = &manifest.name;
    for name in hooks.iter().map(|hook| &hook.name) {
        let _ = write!(
            text,
            "# - name: {name}   # POST /hooks/{plugin}/{name}\n\
             #   secretKeyRefs: [{{namespace: NAMESPACE, name: {plugin}-hooks, key: {name}}}]\n"
        );
    }
}

fn push_ask(text: &mut String, ask: &Ask) {
    comment(text, &ask.why);
    for why in sensitive::of_rule(&ask.rule) {
        comment(text, &format!("SENSITIVE: {why}"));
    }
    if ask.guessed {
        comment(
            text,
            "guessed: only a cluster that serves the resource (--kubeconfig) knows its name and whether it is \
             cluster-scoped (`cluster: true`)",
        );
    }
    push_rule(text, &ask.rule);
}

fn push_rest(text: &mut String, manifest: &Manifest) {
    let (asked, own_finalizer) = (manifest.asked(vec![]), manifest.finalizer());
    let http = http::asked(manifest);
    if !http.is_empty() {
        text.push_str("http:\n");
    }
    for rule in &http {
        for why in sensitive::of_http(rule) {
            comment(text, &format!("SENSITIVE: {why}"));
        }
        push_http(text, rule);
    }
    if !asked.crds.is_empty() {
        comment(text, &format!("SENSITIVE: {}", sensitive::CRDS));
        text.push_str("crds:\n");
    }
    for name in &asked.crds {
        let _ = writeln!(text, "- {}", quoted(name));
    }
    if !asked.finalizers.is_empty() {
        text.push_str("finalizers:\n");
    }
    for name in &asked.finalizers {
        if let Some(why) = sensitive::of_finalizer(name, &own_finalizer) {
            comment(text, &format!("SENSITIVE: {why}"));
        }
        let _ = writeln!(text, "- {}", quoted(name));
    }
}

/// Adds a rule as an item of a YAML list.
pub fn push_rule(text: &mut String, rule: &Rule) {
    let Rule { groups, resources, verbs, namespaces, names, cluster } = rule;
    // Writing to a `String` cannot fail.
    let _ = write!(text, "- apiGroups: {}\n  resources: {}\n  verbs: {}\n", flow(groups), flow(resources), flow(verbs));
    for (field, list) in [("namespaces", namespaces), ("names", names)] {
        if !list.is_empty() {
            let _ = writeln!(text, "  {field}: {}", flow(list));
        }
    }
    if *cluster {
        text.push_str("  cluster: true\n");
    }
}

/// Adds an HTTP rule as an item of a YAML list.
pub fn push_http(text: &mut String, rule: &HttpRule) {
    let HttpRule { scheme, host, port, methods, addresses } = rule;
    let _ = writeln!(text, "- scheme: {scheme}\n  host: {}", quoted(host));
    if let Some(port) = port {
        let _ = writeln!(text, "  port: {port}");
    }
    let _ = writeln!(text, "  methods: {}", flow(methods));
    if !addresses.is_empty() {
        let _ = writeln!(text, "  addresses: {}", flow(addresses));
    }
}

fn comment(text: &mut String, line: &str) {
    text.push_str("# ");
    // A line break would end the comment.
    text.extend(line.chars().map(|letter| if letter.is_control() { ' ' } else { letter }));
    text.push('\n');
}

fn flow(list: &[String]) -> String {
    format!("[{}]", list.iter().map(|item| quoted(item)).collect::<Vec<_>>().join(", "))
}

/// A string in double quotes that can hold any text, for YAML, and for Go.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            ' '..='~' => quoted.push(letter),
            _ => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(letter));
            }
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::asks::{ClusterNames, asks};
    use crate::document;

    fn drafted(instances: Instances) -> String {
        let manifest = serde_json::json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
            "controllers": [{"name": "a", "primary": {"apiVersion": "v1", "kind": "ConfigMap"}}],
            "http": [{"scheme": "http", "host": "10.1.2.3", "methods": ["GET"]}],
        });
        let manifest = Manifest::from_json(&manifest.to_string()).expect("valid");
        let asks = asks(&manifest, &ClusterNames::default());
        draft(&manifest, "for a test", &asks, false, instances)
    }

    #[test]
    fn a_draft_grants_the_address_that_is_asked_for() {
        let text = drafted(Instances::Fresh);
        let policy = document::policy(Path::new("a"), text.as_bytes(), "a").expect("a policy");
        assert_eq!(policy.allowance.http[0].addresses, ["10.1.2.3/32"], "{text}");
        assert!(text.contains("SENSITIVE: allows addresses"), "{text}");
    }

    #[test]
    fn a_draft_has_the_instances_that_suit_the_language() {
        for instances in [Instances::Fresh, Instances::Reuse] {
            let text = drafted(instances);
            let policy = document::policy(Path::new("a"), text.as_bytes(), "a").expect("a policy");
            assert_eq!(policy.instances, instances, "{text}");
        }
    }

    #[test]
    fn a_draft_has_the_status_unless_the_controller_writes_none() {
        let drafted = |options: &serde_json::Value| {
            let manifest = serde_json::json!({
                "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
                "controllers": [
                    {"name": "a", "primary": {"apiVersion": "apps/v1", "kind": "Deployment"}, "options": options},
                ],
            });
            let manifest = Manifest::from_json(&manifest.to_string()).expect("valid");
            draft(&manifest, "for a test", &asks(&manifest, &ClusterNames::default()), false, Instances::Fresh)
        };
        assert!(drafted(&serde_json::json!({})).contains("deployments/status"));
        let without = drafted(&serde_json::json!({"status": false}));
        assert!(without.contains("\"deployments\"") && !without.contains("/status"), "{without}");
    }

    #[test]
    fn a_draft_shows_how_to_open_a_hook() {
        let manifest = serde_json::json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
            "controllers": [{
                "name": "a", "primary": {"apiVersion": "v1", "kind": "ConfigMap"},
                "hooks": [{"name": "pushed", "mapping": {"type": "all"}}],
            }],
        });
        let manifest = Manifest::from_json(&manifest.to_string()).expect("valid");
        let text = draft(&manifest, "for a test", &[], false, Instances::Fresh);
        let policy = |text: &str| document::policy(Path::new("a"), text.as_bytes(), "a").expect("a policy");
        assert!(policy(&text).hooks.is_empty(), "it is closed: {text}");
        let uncommented = |line: &str| format!("{}\n", line.strip_prefix("# ").unwrap_or(line));
        let (rules, hooks) = text.split_once("# hooks:").expect("it shows the hooks");
        let opened = hooks.lines().map(uncommented).collect::<String>().replace("NAMESPACE", "ops");
        let opened = format!("{rules}hooks:{opened}");
        let opened = policy(&opened).hooks;
        assert_eq!(opened[0].secrets[0].name, "a-hooks", "{opened:?}");
    }

    #[test]
    fn text_of_an_author_stays_in_its_quotes() {
        assert_eq!(quoted("a\"]\n- b: \\"), r#""a\"]\U0000000a- b: \\""#);
        let mut text = String::new();
        comment(&mut text, "a\nb: c\u{85}d");
        assert_eq!(text.lines().count(), 1);
    }
}
