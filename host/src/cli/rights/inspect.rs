//! `windlass inspect`: shows what a plugin is, asks for, has and lacks.

mod hooks;
mod made;
mod subject;
mod watches;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use windlass_core::error::explained;
use windlass_core::rights::grants::{Allowance, HttpRule, Rule, resource_name};
use windlass_manifest::{ConfiguredKinds, EntryPoint};
use windlass_wasm::{FileContents, Need};

use crate::cli::OutputFormat;
use crate::cli::flags::limits::LimitArgs;
use crate::cli::registry::access::RegistryArgs;
use crate::cli::rights::examine::{self, CacheArgs, ClusterArgs, ConfiguredManifest, PluginConfigArgs};
use crate::cli::rights::inspect::subject::{PulledFile, Subject, reference_in};
use windlass_author::documents;
use windlass_policy::Policy;
use windlass_policy::review::{PolicyReview, Reviewed, review};
use windlass_runtime::{POLICY_SUFFIX, read_ceiling, read_policy};

/// Exit code: the plugin lacks something.
const LACKS: u8 = 1;
/// Exit code: `inspect` could not find out.
const FAILED: u8 = 2;

const UNPRINTED: &str = "cannot write to standard output";

/// Show what a plugin is, what it asks for, and which of that its policy grants.
///
/// A plugin in a registry is pulled and shown as its publisher states it, without running or compiling it. The policy
/// is then the one that a flag names.
///
/// A right is narrowed if the policy grants it for fewer namespaces or names than the plugin asks for.
///
/// Exit codes: 0, the plugin lacks nothing; 1, it lacks something, or with --require-all something was narrowed; 2,
/// `inspect` could not find out.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass inspect plugins/webapp.wasm\n  \
    windlass inspect webapp.wasm --policy-dir policies -o json | jq .asks.rules\n  \
    windlass inspect oci://registry.example.com/team/webapp:1.2.0")]
pub(crate) struct InspectArgs {
    /// The plugin's file, or its name in a registry, such as `oci://HOST/REPOSITORY:TAG`.
    #[arg(value_name = "NAME.wasm|oci://…")]
    plugin: PathBuf,
    /// The plugin's policy. Default: NAME.policy.yaml beside the plugin, if there is one.
    #[arg(long, value_name = "FILE", conflicts_with = "policy_dir")]
    policy: Option<PathBuf>,
    /// The directory of the policy, instead of the plugin's.
    #[arg(long, value_name = "DIR")]
    policy_dir: Option<PathBuf>,
    /// The host's ceiling, a file of kind `PluginCeiling`.
    #[arg(long, value_name = "FILE")]
    ceiling: Option<PathBuf>,
    /// Also exit with 1 if a policy or the ceiling has narrowed what the plugin asks for to fewer namespaces or names.
    #[arg(long)]
    require_all: bool,
    /// The output format.
    #[arg(long, short, value_enum, default_value = "text")]
    output: OutputFormat,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    config: PluginConfigArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// The contents of the file, and how much of each limit it needs.
struct InspectedFile {
    contents: FileContents,
    needs: Vec<Need>,
    /// The kinds that its configuration names. `None` if they are not known.
    kinds: Option<ConfiguredKinds>,
    warnings: Vec<String>,
}

/// The policy and ceiling of the operator.
struct PolicyLayers {
    file: PathBuf,
    /// `None` if there is no policy file.
    policy: Option<Policy>,
    ceiling: Option<Arc<Allowance>>,
    /// True if narrowed rights count as missing.
    require_all: bool,
}

impl PolicyLayers {
    fn lacking(&self, review: &PolicyReview) -> String {
        if self.require_all { review.lacking() } else { review.missing() }
    }
}

impl InspectArgs {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.inspect().await {
            Ok(true) => Ok(ExitCode::SUCCESS),
            Ok(false) => Ok(ExitCode::from(LACKS)),
            Err(error) => {
                eprintln!("windlass: {}", explained(&*error));
                Ok(ExitCode::from(FAILED))
            }
        }
    }

    /// True if the plugin lacks nothing, or only rights that were narrowed.
    async fn inspect(self) -> anyhow::Result<bool> {
        let limits = self.limits.limits()?;
        let pulled = match reference_in(&self.plugin)? {
            Some(reference) => Some(PulledFile::pull(&reference, &self.registry, &limits).await?),
            None => None,
        };
        let path = pulled.as_ref().map_or(&*self.plugin, |pulled| &*pulled.path);
        let contents = FileContents::read(path, &limits)?;
        let mut made = InspectedFile { needs: contents.needs(&limits), contents, kinds: None, warnings: vec![] };
        let subject = match &pulled {
            Some(pulled) => Subject::of_pulled(pulled, &made.contents),
            None => self.load().await,
        };
        let plugin = match subject {
            Ok(plugin) => plugin,
            Err(error) => {
                self.print_unloaded(&made, &error)?;
                return Err(error);
            }
        };
        let (file, policy) = self.policy_of(&plugin)?;
        let ceiling = self.ceiling.as_deref().map(read_ceiling).transpose().map_err(anyhow::Error::msg)?;
        let ConfiguredManifest { manifest, kinds, unknown } = self.config.manifest_of(path, &plugin.manifest);
        let asks = self.cluster.asks(path, &manifest).await?;
        // If the definitions cannot be read, `asks` has reported it already.
        let unserved = documents::definitions_of(path).unwrap_or_default();
        let unserved = examine::unserved(&plugin.manifest, plugin.writes, &unserved);
        made.warnings = unserved.iter().map(ToString::to_string).chain(unknown).collect();
        made.kinds = kinds;
        let nothing = Allowance::default();
        let granted: &Allowance = policy.as_ref().map_or(&nothing, |policy| &*policy.allowance);
        let layers: Vec<&Allowance> = std::iter::once(granted).chain(ceiling.as_deref()).collect();
        let review = review(&manifest, asks, &layers);
        let given = PolicyLayers { file, policy, ceiling, require_all: self.require_all };
        match self.output {
            OutputFormat::Text => crate::cli::print(&text(&plugin, &made, &given, &review)),
            OutputFormat::Json => crate::cli::print_json(&json(&plugin, &made, &given, &review)),
        }
        .context(UNPRINTED)?;
        Ok(given.lacking(&review).is_empty())
    }

    /// Loads the plugin's file.
    async fn load(&self) -> anyhow::Result<Subject> {
        let plugin = examine::load(&self.plugin, &self.limits, self.cache.clone()).await?;
        Ok(Subject::of_plugin(&plugin))
    }

    /// The path of the plugin's policy, and the policy if there is one.
    fn policy_of(&self, plugin: &Subject) -> anyhow::Result<(PathBuf, Option<Policy>)> {
        let name = &*plugin.manifest.name;
        let file = match (&self.policy, &self.policy_dir) {
            (Some(file), _) => file.clone(),
            (None, Some(directory)) => directory.join(format!("{name}{POLICY_SUFFIX}")),
            // Nothing beside a pulled file is the user's own.
            (None, None) if plugin.published.is_some() => PathBuf::from("--policy"),
            (None, None) => examine::policy_beside(&plugin.path, name),
        };
        // A policy named by a flag must exist.
        let policy = if self.policy.is_some() || file.exists() {
            Some(read_policy(&file, name).map_err(anyhow::Error::msg)?)
        } else {
            None
        };
        Ok((file, policy))
    }

    /// Describes a file that this host cannot load as a plugin, so that its author can see why.
    fn print_unloaded(&self, made: &InspectedFile, error: &anyhow::Error) -> anyhow::Result<()> {
        let InspectedFile { contents, needs, .. } = made;
        match self.output {
            OutputFormat::Text => crate::cli::print(&made::unloaded(&self.plugin, contents, needs)),
            OutputFormat::Json => {
                let problem = explained(&**error);
                crate::cli::print_json(&made::unloaded_json(&self.plugin, contents, needs, &problem))
            }
        }
        .context(UNPRINTED)
    }
}

fn text(plugin: &Subject, made: &InspectedFile, given: &PolicyLayers, review: &PolicyReview) -> String {
    let manifest = &plugin.manifest;
    let policy = match &given.policy {
        None if plugin.published.is_some() => "none: --policy or --policy-dir names one to compare with".to_owned(),
        None => format!("none ({} is not there)", given.file.display()),
        Some(policy) if policy.paused => format!("{}, paused", given.file.display()),
        Some(_) => given.file.display().to_string(),
    };
    let machine_code = plugin.compiled_bytes.map(|bytes| format!(", and {bytes} of machine code")).unwrap_or_default();
    let mut text = format!(
        "{} {}\n  file     {}\n{}  sha256   {}\n  bytes    {}{machine_code}\n  abi      {}, {}\n{}  imports  {}\n{}  policy   \
         {policy}\n{}",
        manifest.name,
        manifest.version,
        plugin.place.display(),
        plugin.published_text(),
        plugin.digest,
        plugin.bytes,
        plugin.abi,
        entry(plugin),
        made::origin(&made.contents),
        plugin.imports.join(", "),
        made::wasi(&plugin.imports),
        made::needs(&made.needs),
    );
    text.push_str(&watches::text(manifest, made.kinds.as_ref()));
    text.push_str(&hooks::text(manifest, given.policy.as_ref()));
    text.push_str("\nasks for:\n");
    for Reviewed { asked, lacks, sensitive } in &review.rules {
        let word = if lacks.is_narrowed() && !given.require_all { "narrowed" } else { has(lacks.all.is_empty()) };
        line(&mut text, word, &rule_line(&asked.rule), sensitive);
    }
    for Reviewed { asked, lacks, sensitive } in &review.http {
        line(&mut text, has(lacks.is_none()), &http_line(asked), sensitive);
    }
    if let Some(lacking) = made::without_http_hosts(&plugin.imports, !review.http.is_empty()) {
        line(&mut text, "asks", lacking, &[]);
    }
    for (what, list) in [("install", &review.crds), ("keep the finalizer", &review.finalizers)] {
        for Reviewed { asked, lacks, sensitive } in list {
            line(&mut text, has(!lacks), &format!("{what} {asked:?}"), sensitive);
        }
    }
    for warning in &made.warnings {
        let _ = writeln!(text, "\nwarning: {warning}");
    }
    text.push_str(&conclusion(given, review));
    text
}

/// The kind of calls that the plugin answers.
fn entry(plugin: &Subject) -> &'static str {
    match plugin.entry {
        EntryPoint::Reconciler => "reconciler",
        EntryPoint::Composer => "composer",
    }
}

/// Mentions the ceiling, if there is one.
fn above(given: &PolicyLayers) -> &'static str {
    if given.ceiling.is_some() { " or in the ceiling" } else { "" }
}

/// The rights that are missing, and how to add them.
fn conclusion(given: &PolicyLayers, review: &PolicyReview) -> String {
    let lacking = given.lacking(review);
    if !lacking.is_empty() {
        return format!("\nlacks these rights, written as in a policy{}:\n{lacking}", above(given));
    }
    if review.is_narrowed() {
        "\nlacks nothing; a right is narrowed if it holds for fewer namespaces or names than the plugin asks for (with \
         `--require-all`, the plugin then lacks it)\n"
            .to_owned()
    } else {
        "\nlacks nothing\n".to_owned()
    }
}

fn has(granted: bool) -> &'static str {
    if granted { "has" } else { "LACKS" }
}

fn line(text: &mut String, word: &str, what: &str, sensitive: &[&str]) {
    let _ = writeln!(text, "  {word:<8} {what}");
    for why in sensitive {
        let _ = writeln!(text, "             sensitive: {why}");
    }
}

fn rule_line(rule: &Rule) -> String {
    let names = match (rule.groups.as_slice(), rule.resources.as_slice()) {
        // Do not list the pairs: many groups with many resources would fill the terminal and the memory.
        (groups @ [_, _, ..], resources @ [_, _, ..]) => format!("{resources:?} of {groups:?}"),
        (groups, resources) => {
            let pairs = groups.iter().flat_map(|group| resources.iter().map(move |resource| (group, resource)));
            let names = pairs.map(|(group, resource)| {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                format!("{:?}", resource_name(group, resource, subresource))
            });
            names.collect::<Vec<_>>().join(" ")
        }
    };
    let place = match (rule.cluster, rule.namespaces.as_slice()) {
        (true, _) => " in the cluster".to_owned(),
        (false, []) => " in all namespaces".to_owned(),
        (false, namespaces) => format!(" in {}", namespaces.join(", ")),
    };
    let which = if rule.names.is_empty() { String::new() } else { format!(" named {:?}", rule.names) };
    format!("{} {names}{place}{which}", rule.verbs.join(" "))
}

fn http_line(rule: &HttpRule) -> String {
    format!("HTTP {} {}://{:?} port {}", rule.methods.join(" "), rule.scheme, rule.host, rule.port())
}

fn json(plugin: &Subject, made: &InspectedFile, given: &PolicyLayers, review: &PolicyReview) -> Value {
    let manifest = &plugin.manifest;
    let names = |list: &[Reviewed<String, bool>]| -> Vec<Value> {
        list.iter().map(|it| json!({"name": it.asked, "granted": !it.lacks, "sensitive": it.sensitive})).collect()
    };
    let rules = review.rules.iter().map(|it| {
        let mut rule = rule_json(&it.asked.rule);
        rule["why"] = json!(it.asked.why);
        rule["guessed"] = json!(it.asked.guessed);
        rule["sensitive"] = json!(it.sensitive);
        rule["granted"] = json!(it.lacks.all.is_empty());
        rule["narrowed"] = json!(it.lacks.is_narrowed());
        rule["lacks"] = it.lacks.all.iter().map(rule_json).collect();
        rule["missing"] = it.lacks.missing.iter().map(rule_json).collect();
        rule
    });
    let http = review.http.iter().map(|it| {
        json!({
            "scheme": it.asked.scheme.as_str(), "host": it.asked.host, "port": it.asked.port(),
            "methods": it.asked.methods, "granted": it.lacks.is_none(), "sensitive": it.sensitive,
        })
    });
    let mut json = json!({
        "name": manifest.name,
        "version": manifest.version,
        "file": plugin.place,
        "published": plugin.published_json(),
        "sha256": plugin.digest,
        "bytes": plugin.bytes,
        "compiledBytes": plugin.compiled_bytes,
        "abi": plugin.abi.to_string(),
        "entry": entry(plugin),
        "imports": plugin.imports,
        "controllers": watches::json(manifest, made.kinds.as_ref()),
        "hooks": hooks::json(manifest, given.policy.as_ref()),
        "wasi": made::wasi_json(&plugin.imports),
        "policy": given.policy.as_ref().map(|policy| json!({"file": given.file, "paused": policy.paused})),
        "granted": review.is_complete(),
        "narrowed": review.is_narrowed(),
        "warnings": made.warnings,
        "asks": {
            "rules": rules.collect::<Vec<_>>(),
            "http": http.collect::<Vec<_>>(),
            "crds": names(&review.crds),
            "finalizers": names(&review.finalizers),
        },
    });
    made::add(&mut json, &made.contents, &made.needs);
    json
}

fn rule_json(rule: &Rule) -> Value {
    json!({
        "apiGroups": rule.groups, "resources": rule.resources, "verbs": rule.verbs,
        "namespaces": rule.namespaces, "names": rule.names, "cluster": rule.cluster,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_of_many_resources_is_shown_briefly() {
        let many = |letter: char, count: usize| (0..count).map(|at| format!("{letter}{at}")).collect::<Vec<_>>();
        let rule = |groups, resources| Rule {
            groups: many('g', groups),
            resources: many('r', resources),
            verbs: many('v', 1),
            ..Rule::default()
        };
        assert_eq!(rule_line(&rule(1, 2)), r#"v0 "r0.g0" "r1.g0" in the cluster"#);
        assert_eq!(rule_line(&rule(2, 2)), r#"v0 ["r0", "r1"] of ["g0", "g1"] in the cluster"#);
        assert!(rule_line(&rule(5_000, 5_000)).split(' ').count() < 10_010);
    }
}
