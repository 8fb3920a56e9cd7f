//! Reads `NAME.policy.yaml` and the ceiling, as `docs/schema/policy.schema.json` describes them.
//!
//! Strictly, as manifests are read: a misspelt `paused` or `names` that is quietly ignored would grant what the operator took
//! away. A document that is wrong anywhere is of no use as a whole.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_saphyr::Spanned;
use windlass_core::grants::{Allowance, Cidr, HttpRule, Rule, Scheme};
use windlass_core::principal::ServiceAccount;
use windlass_wasm::manifest::{API_VERSION, did_you_mean, is_dns_label, nearest};

use super::problem::Problem;
use super::{Policy, PolicyError};

/// The `kind` of a plugin's policy.
pub(crate) const POLICY: &str = "PluginPolicy";
/// The `kind` of what bounds all policies of a host.
pub(crate) const CEILING: &str = "PluginCeiling";
/// More than anybody writes by hand, less than takes long to read.
const MOST_BYTES: usize = 1 << 20;
/// Rules, and entries of each list.
const MOST_ENTRIES: usize = 1_000;
/// Problems that a message lists.
const MOST_PROBLEMS: usize = 10;
/// What a rule may allow.
pub(crate) const VERBS: [&str; 9] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*"];

/// A document, in whichever of its two kinds.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    kind: String,
    plugin: Option<Spanned<String>>,
    paused: Option<Spanned<bool>>,
    impersonate: Option<Spanned<String>>,
    #[serde(default)]
    rules: Vec<Spanned<RuleDocument>>,
    #[serde(default)]
    http: Vec<Spanned<HttpDocument>>,
    #[serde(default)]
    crds: Vec<Spanned<String>>,
    #[serde(default)]
    finalizers: Vec<Spanned<String>>,
}

/// As a rule of a Kubernetes role, and a little more.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RuleDocument {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    cluster: bool,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HttpDocument {
    scheme: SchemeDocument,
    host: String,
    port: Option<u16>,
    methods: Vec<String>,
    #[serde(default)]
    addresses: Vec<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum SchemeDocument {
    Https,
    Http,
}

/// What every document of ours begins with.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    api_version: Option<String>,
    kind: Option<String>,
}

/// Reads the policy of `plugin`; `path` is for messages.
pub(crate) fn policy(path: &Path, text: &[u8], plugin: &str) -> Result<Policy, PolicyError> {
    let mut problems = Problems::default();
    let read = document(text, POLICY, &mut problems).map(|document| {
        match &document.plugin {
            Some(named) if named.value == plugin => {}
            Some(named) => problems.at(
                named,
                format!("it is for the plugin {:?}, its file is named for {plugin:?}: change one of them", named.value),
            ),
            None => problems.whole(format!("`plugin: {plugin}` is missing")),
        }
        Policy {
            plugin: plugin.to_owned(),
            paused: document.paused.as_ref().is_some_and(|paused| paused.value),
            impersonate: document.impersonate.as_ref().and_then(|text| service_account(text, &mut problems)),
            allowance: Arc::new(allowance(document, &mut problems)),
        }
    });
    problems.or(path, read)
}

/// Reads the ceiling of the host.
pub(crate) fn ceiling(path: &Path, text: &[u8]) -> Result<Arc<Allowance>, PolicyError> {
    let mut problems = Problems::default();
    let read = document(text, CEILING, &mut problems).map(|document| {
        let of_policies = [
            ("plugin", document.plugin.as_ref().map(|it| it.referenced.line())),
            ("paused", document.paused.as_ref().map(|it| it.referenced.line())),
            ("impersonate", document.impersonate.as_ref().map(|it| it.referenced.line())),
        ];
        for (field, at) in of_policies.into_iter().filter(|(_, at)| at.is_some()) {
            problems.0.push(Problem { line: at, what: format!("`{field}` is for policies, not for a ceiling") });
        }
        Arc::new(allowance(document, &mut problems))
    });
    problems.or(path, read)
}

fn document(text: &[u8], kind: &str, problems: &mut Problems) -> Option<Document> {
    if text.len() > MOST_BYTES {
        problems.whole(format!("it has {} bytes, at most {MOST_BYTES} are read", text.len()));
        return None;
    }
    let head: Head = problems.yaml(text)?;
    let (version, its) = (head.api_version.unwrap_or_default(), head.kind.unwrap_or_default());
    if version != API_VERSION || its != kind {
        problems.whole(format!("it must begin with `apiVersion: {API_VERSION}` and `kind: {kind}`"));
        return None;
    }
    let document: Document = problems.yaml(text)?;
    debug_assert_eq!(document.kind, kind);
    Some(document)
}

/// What is read of a file: no more than a policy can need, however its aliases multiply.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: 1,
            max_depth: 16,
            max_nodes: 50_000,
            max_events: 100_000,
            max_aliases: 100,
            max_anchors: 100,
        },
    }
}

fn service_account(text: &Spanned<String>, problems: &mut Problems) -> Option<ServiceAccount> {
    let named = text.value.split_once('/').filter(|(namespace, name)| is_dns_label(namespace) && is_subdomain(name));
    let Some((namespace, name)) = named else {
        problems.at(text, format!("{:?} is no service account, which is like `prod/deployer`", text.value));
        return None;
    };
    Some(ServiceAccount { namespace: namespace.into(), name: name.into() })
}

fn allowance(document: Document, problems: &mut Problems) -> Allowance {
    for (field, count) in [
        ("rules", document.rules.len()),
        ("http", document.http.len()),
        ("crds", document.crds.len()),
        ("finalizers", document.finalizers.len()),
    ] {
        if count > MOST_ENTRIES {
            problems.whole(format!("`{field}` has {count} entries, at most {MOST_ENTRIES} are allowed"));
        }
    }
    for rule in &document.rules {
        check_rule(&rule.value, &mut |what| problems.at(rule, what));
    }
    for rule in &document.http {
        check_http(&rule.value, &mut |what| problems.at(rule, what));
    }
    for name in document.crds.iter().filter(|name| name.value != "*" && !is_definition(&name.value)) {
        problems.at(name, format!("{:?} is not the name of a CustomResourceDefinition: PLURAL.GROUP", name.value));
    }
    for name in document.finalizers.iter().filter(|name| name.value != "*" && !is_finalizer(&name.value)) {
        problems.at(name, format!("{:?} is not a finalizer, which is like `example.com/clean-up`", name.value));
    }
    let texts = |list: Vec<Spanned<String>>| list.into_iter().map(|text| text.value).collect();
    Allowance {
        rules: document.rules.into_iter().map(|rule| rule.value.into()).collect(),
        http: document.http.into_iter().map(|rule| rule.value.into()).collect(),
        crds: texts(document.crds),
        finalizers: texts(document.finalizers),
    }
}

fn check_rule(rule: &RuleDocument, problem: &mut impl FnMut(String)) {
    let lists = [
        ("apiGroups", &rule.api_groups, true),
        ("resources", &rule.resources, true),
        ("verbs", &rule.verbs, true),
        ("namespaces", &rule.namespaces, false),
        ("names", &rule.names, false),
    ];
    for (field, list, needed) in lists {
        if needed && list.is_empty() {
            problem(format!("`{field}` is empty, so the rule allows nothing"));
        }
        if list.len() > MOST_ENTRIES {
            problem(format!("`{field}` has {} entries, at most {MOST_ENTRIES} are allowed", list.len()));
        }
        if !needed && list.iter().any(|item| item == "*") {
            problem(format!("`{field}` knows no `*`: leave `{field}` out for all of them"));
        }
    }
    for verb in rule.verbs.iter().filter(|verb| !VERBS.contains(&&***verb)) {
        let hint = nearest(verb, VERBS.into_iter()).unwrap_or_else(|| VERBS[..8].join(", "));
        problem(format!("{verb:?} is not a verb that plugins have: {hint}"));
    }
    for group in rule.api_groups.iter().filter(|group| group.contains('/')) {
        problem(format!("{group:?} is not a group: without the version it is one"));
    }
    for resource in &rule.resources {
        if let Some(what) = resource_problem(resource) {
            problem(format!("{resource:?} is not a resource: {what}"));
        }
    }
    for namespace in rule.namespaces.iter().filter(|namespace| *namespace != "*" && !is_dns_label(namespace)) {
        problem(format!("{namespace:?} cannot be the name of a namespace"));
    }
    if rule.cluster && !rule.namespaces.is_empty() {
        problem("`cluster: true` is about objects without a namespace: make two rules".to_owned());
    }
}

fn resource_problem(resource: &str) -> Option<String> {
    let (plural, subresource) = resource.split_once('/').unwrap_or((resource, "scale"));
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || b"-0123456789".contains(&byte))
    };
    if let Some((_, group)) = plural.split_once('.') {
        return Some(format!("its group goes to `apiGroups`, as {group:?}"));
    }
    if subresource == "*" {
        return Some(format!("as in RBAC, subresources are named one by one, such as `{plural}/status`"));
    }
    if plural.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Some("resources are plurals in lower case, such as `deployments`, not kinds".to_owned());
    }
    ((plural != "*" && !is_word(plural)) || !is_word(subresource)).then(|| "it is like `deployments/scale`".to_owned())
}

fn check_http(rule: &HttpDocument, problem: &mut impl FnMut(String)) {
    let host = &rule.host;
    let labels_fit = host.split('.').all(|label| label == "*" || is_dns_label(&label.to_lowercase()));
    let is_address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>().is_ok();
    if !(labels_fit || is_address) || host.len() > 253 {
        problem(format!("{host:?} is not the name of a host: like `api.example.com`, `*` for one label"));
    }
    if rule.port == Some(0) {
        problem("0 is not a port".to_owned());
    }
    if rule.methods.is_empty() {
        problem("`methods` is empty, so nothing can be asked; `[\"*\"]` is all".to_owned());
    }
    let is_method = |method: &&String| *method == "*" || method.bytes().all(|byte| byte.is_ascii_alphabetic());
    for method in rule.methods.iter().filter(|method| method.is_empty() || !is_method(method)) {
        problem(format!("{method:?} is not a method, which is like `GET`"));
    }
    for range in &rule.addresses {
        if let Err(error) = range.parse::<Cidr>() {
            problem(format!("addresses: {error}"));
        }
    }
}

fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_dns_label)
}

fn is_definition(name: &str) -> bool {
    name.contains('.') && is_subdomain(name)
}

fn is_finalizer(name: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    name.split_once('/').is_some_and(|(domain, word)| is_subdomain(domain) && is_word(word))
}

impl From<RuleDocument> for Rule {
    fn from(rule: RuleDocument) -> Self {
        let RuleDocument { api_groups, resources, verbs, namespaces, names, cluster } = rule;
        Self { groups: api_groups, resources, verbs, namespaces, names, cluster }
    }
}

impl From<HttpDocument> for HttpRule {
    fn from(rule: HttpDocument) -> Self {
        Self {
            scheme: match rule.scheme {
                SchemeDocument::Https => Scheme::Https,
                SchemeDocument::Http => Scheme::Http,
            },
            host: rule.host.to_lowercase(),
            port: rule.port,
            methods: rule.methods.iter().map(|method| method.to_uppercase()).collect(),
            addresses: rule.addresses,
        }
    }
}

#[derive(Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn whole(&mut self, what: String) {
        self.0.push(Problem { line: None, what });
    }

    fn at<T>(&mut self, value: &Spanned<T>, what: String) {
        self.0.push(Problem { line: Some(value.referenced.line()), what });
    }

    fn yaml<'a, T: Deserialize<'a>>(&mut self, text: &'a [u8]) -> Option<T> {
        match serde_saphyr::from_slice_with_options(text, options()) {
            Ok(value) => Some(value),
            Err(error) => {
                let line = error.location().map(|location| location.line());
                self.0.push(Problem { line, what: explained(&error) });
                None
            }
        }
    }

    fn or<T>(mut self, path: &Path, read: Option<T>) -> Result<T, PolicyError> {
        let more = self.0.len().saturating_sub(MOST_PROBLEMS);
        if more > 0 {
            self.0.truncate(MOST_PROBLEMS);
            self.whole(format!("and {more} more problems"));
        }
        match read {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => Err(PolicyError { path: path.to_owned(), problems: self.0 }),
        }
    }
}

/// The parser's message in one line, with what was probably meant.
fn explained(error: &serde_saphyr::Error) -> String {
    let message = error.without_snippet().to_string();
    let message = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    // The line is said already.
    let message = message.rsplit_once(" at line ").map_or(&*message, |(message, _)| message);
    match did_you_mean(message) {
        Some(hint) => format!("{message}; {hint}"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = "\
apiVersion: windlass.dev/v1alpha1
kind: PluginPolicy
plugin: webapp
paused: true
impersonate: prod/deployer
rules:
- apiGroups: [apps]
  resources: [deployments, deployments/scale]
  verbs: [get, patch]
  namespaces: [prod]
  names: [shop]
- {apiGroups: [\"\"], resources: [nodes], verbs: [get], cluster: true}
http:
- {scheme: https, host: \"*.Example.com\", port: 8443, methods: [get], addresses: [10.0.0.0/8]}
crds: [webapps.apps.kubedojo.io]
finalizers: [windlass.dev/webapp]
";

    fn read(text: &str) -> Result<Policy, String> {
        policy(Path::new("webapp.policy.yaml"), text.as_bytes(), "webapp").map_err(|error| error.to_string())
    }

    fn wrong(from: &str, to: &str) -> String {
        assert!(FULL.contains(from), "{from}");
        read(&FULL.replacen(from, to, 1)).expect_err(to)
    }

    #[test]
    fn a_policy_reads_as_it_is_written() {
        let policy = read(FULL).expect("valid");
        assert!(policy.paused);
        assert_eq!(policy.impersonate, Some(ServiceAccount { namespace: "prod".into(), name: "deployer".into() }));
        let Allowance { rules, http, crds, finalizers } = &*policy.allowance;
        assert_eq!(
            (rules[0].names.as_slice(), rules[0].cluster, rules[1].cluster),
            (&["shop".to_owned()][..], false, true)
        );
        assert_eq!((http[0].host.as_str(), http[0].methods.as_slice()), ("*.example.com", &["GET".to_owned()][..]));
        assert_eq!((crds.len(), finalizers.len()), (1, 1));
        let least = "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: webapp\n";
        assert_eq!(read(least).expect("valid").allowance, Arc::default());
    }

    #[test]
    fn what_is_misspelt_is_named_with_its_line_and_what_was_meant() {
        for (from, to, line, words) in [
            ("paused:", "pausd:", ":4:", "did you mean `paused`?"),
            ("  names:", "  name:", ":11:", "did you mean `names`?"),
            ("verbs: [get, patch]", "verbs: [get, pach]", ":7:", "did you mean `patch`?"),
            ("scheme: https", "scheme: htps", ":14:", "did you mean `https`?"),
        ] {
            let said = wrong(from, to);
            assert!(said.contains(&format!("webapp.policy.yaml{line}")) && said.contains(words), "{to}: {said}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_to_write() {
        for (from, to, words) in [
            ("plugin: webapp", "plugin: shop", "is for the plugin"),
            ("plugin: webapp\n", "", "`plugin: webapp` is missing"),
            ("kind: PluginPolicy", "kind: Role", "kind: PluginPolicy"),
            ("prod/deployer", "deployer", "no service account"),
            ("deployments/scale", "deployments/*", "one by one"),
            ("deployments/scale", "deployments.apps", "apiGroups"),
            ("deployments/scale", "Deployment", "plurals in lower case"),
            ("[apps]", "[apps/v1]", "without the version"),
            ("verbs: [get, patch]", "verbs: []", "allows nothing"),
            ("namespaces: [prod]", "namespaces: [\"*\"]", "leave `namespaces` out"),
            ("cluster: true", "cluster: true, namespaces: [prod]", "make two rules"),
            ("10.0.0.0/8", "10.0.0.1/8", "not a range of addresses"),
            ("\"*.Example.com\"", "https://example.com", "not the name of a host"),
            ("webapps.apps.kubedojo.io", "webapps", "PLURAL.GROUP"),
            ("windlass.dev/webapp]", "webapp]", "not a finalizer"),
            ("paused: true", "paused: true\npaused: false", "duplicate"),
        ] {
            let said = wrong(from, to);
            assert!(said.contains(words), "{to}: {said}");
        }
    }

    #[test]
    fn a_file_that_is_no_yaml_says_where() {
        let said =
            read("apiVersion: windlass.dev/v1alpha1\nkind: [PluginPolicy\nplugin: webapp\n").expect_err("broken");
        assert!(said.contains("webapp.policy.yaml:"), "{said}");
        assert!(read("").is_err() && read("[]").is_err() && read("- a").is_err());
        assert!(policy(Path::new("a"), b"\xff\xfe\x00", "webapp").is_err());
    }

    #[test]
    fn aliases_that_multiply_are_refused_soon() {
        let mut text = "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: webapp\n".to_owned();
        text.push_str("a: &a [x, x, x, x, x, x, x, x, x]\n");
        for (name, before) in [('b', 'a'), ('c', 'b'), ('d', 'c'), ('e', 'd'), ('f', 'e'), ('g', 'f')] {
            let line = format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(", "));
            text.push_str(&line);
        }
        let began = std::time::Instant::now();
        assert!(read(&text).is_err());
        assert!(began.elapsed() < std::time::Duration::from_secs(5));
        assert!(read(&"#".repeat(MOST_BYTES + 1)).is_err_and(|said| said.contains("at most")));
    }

    #[test]
    fn a_ceiling_is_a_policy_for_nobody_in_particular() {
        let text = FULL.replace("PluginPolicy", "PluginCeiling");
        let is_ours = |line: &&str| ["plugin:", "paused:", "impersonate:"].iter().any(|it| line.starts_with(it));
        let bare = text.lines().filter(|line| !is_ours(line)).collect::<Vec<_>>().join("\n");
        assert_eq!(ceiling(Path::new("c"), bare.as_bytes()).expect("valid").rules.len(), 2);
        let said = ceiling(Path::new("c"), text.as_bytes()).expect_err("of policies").to_string();
        assert!(said.contains("c:4: `paused`") && said.contains("`plugin`"), "{said}");
    }

    fn schema() -> serde_json::Value {
        let text = include_str!("../../../docs/schema/policy.schema.json");
        serde_json::from_str(text).expect("the schema is JSON")
    }

    /// The fields that the reader knows where `to` with an unknown field stands for `from`.
    fn known_fields(from: &str, to: &str) -> Vec<String> {
        let said = wrong(from, to);
        let (_, list) = said.split_once("expected one of ").expect("it lists what it knows");
        let list = list.split(';').next().unwrap_or_default();
        list.split(", ").map(|name| name.trim_matches('`').to_owned()).collect()
    }

    #[test]
    fn the_published_schema_knows_the_same_fields() {
        let schema = schema();
        for (definition, from, to) in [
            (&schema["$defs"]["document"], "paused: true", "unknown: true"),
            (&schema["$defs"]["rule"], "  names: [shop]", "  unknown: [shop]"),
            (&schema["$defs"]["http"], "port: 8443", "unknown: 8443"),
        ] {
            let mut known = known_fields(from, to);
            let properties = definition["properties"].as_object().expect("it has properties");
            known.sort();
            let mut published: Vec<_> = properties.keys().cloned().collect();
            published.sort();
            assert_eq!(published, known);
            assert_eq!(definition["additionalProperties"], false);
            assert!(properties.values().all(|property| property["description"].is_string()), "{definition}");
        }
    }

    #[test]
    fn the_published_schema_requires_the_same_fields_and_allows_the_same_words() {
        let schema = schema();
        for (definition, field, from, to) in [
            ("rule", "apiGroups", "- apiGroups: [apps]\n  resources", "- resources"),
            ("rule", "resources", "  resources: [deployments, deployments/scale]\n", ""),
            ("rule", "verbs", "  verbs: [get, patch]\n", ""),
            ("http", "scheme", "scheme: https, ", ""),
            ("http", "host", "host: \"*.Example.com\", ", ""),
            ("http", "methods", "methods: [get], ", ""),
        ] {
            let said = wrong(from, to);
            assert!(said.contains(&format!("missing field `{field}`")), "{said}");
            let required = schema["$defs"][definition]["required"].as_array().expect("a list");
            assert!(required.iter().any(|it| it == field), "{definition} {field}");
        }
        let count = |definition: &str| schema["$defs"][definition]["required"].as_array().map(Vec::len);
        assert_eq!((count("rule"), count("http"), count("document")), (Some(3), Some(3), Some(2)));
        let verbs = &schema["$defs"]["rule"]["properties"]["verbs"]["items"]["enum"];
        assert_eq!(*verbs, serde_json::json!(VERBS));
        let document = &schema["$defs"]["document"]["properties"];
        assert_eq!(document["kind"]["enum"], serde_json::json!([POLICY, CEILING]));
        assert_eq!(document["apiVersion"]["const"], API_VERSION);
    }
}
