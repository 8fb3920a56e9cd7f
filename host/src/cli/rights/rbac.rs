//! `windlass rbac`: the roles that a host needs in its cluster to run its plugins.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use serde_json::json;
use windlass_apiserver::{ApiServer, Config};
use windlass_core::error::explained;
use windlass_core::rights::principal::ServiceAccount;
use windlass_kube::{Connection, Discovery};
use windlass_manifest::{Manifest, is_dns_label};
use windlass_policy::asks::ClusterNames;
use windlass_policy::rights::role::{self, RoleObject};
use windlass_policy::rights::{HostRights, RightsOptions, RightsSource, asked, derive};
use windlass_runtime::{
    AdminAuth, GrantMode, LeaseMode, POLICY_SUFFIX, PolicySettings, Standing, is_plugin_file, named_secrets,
    read_policy, standings,
};
use windlass_wasm::Plugin;

use crate::cli::flags::limits::LimitArgs;
use crate::cli::flags::settings::DEFAULTS;
use crate::cli::rights::examine::{self, CacheArgs, ClusterArgs, ConfiguredManifest};
use crate::cli::rights::object_files::ObjectFiles;
use crate::cli::rights::own_review::OwnReviews;
use crate::cli::rights::rbac_check;

/// Exit code: something is missing.
const MISSING: u8 = 1;
/// Exit code: `rbac` could not find out.
const FAILED: u8 = 2;

const UNPRINTED: &str = "cannot write to standard output";

const KUBECONFIG: &str = "The kubeconfig of the cluster. It has the resources of kinds that neither Kubernetes nor the plugins nor a \
    crd.yaml beside them define, and --check asks it. Default: kubectl's";

/// Print the roles that a host needs in the cluster to run these plugins, for `kubectl apply -f -`.
///
/// The rights are the least with which the host can do all that the plugins ask for and their policies grant. Rights
/// that a policy narrows to namespaces become Roles there. A plugin without a policy waits, so it is left out, and
/// standard error says so. --check asks the cluster instead what the kubeconfig's user lacks of these rights, and has
/// beyond them.
///
/// Exit codes: 0, printed, or nothing is missing; 1, --check found something missing; 2, `rbac` could not find out.
#[derive(Debug, Args)]
#[command(mut_arg("kubeconfig", |it| it.help(KUBECONFIG)))]
#[command(after_help = "Examples:\n  windlass rbac --plugins plugins | kubectl apply -f -\n  \
    windlass rbac --plugins plugins --policy-dir policies --namespace team-1 -o json\n  \
    windlass rbac --plugins plugins --check --as system:serviceaccount:windlass-system:windlass")]
pub(crate) struct RbacArgs {
    /// The directory of plugins, one NAME.wasm each.
    #[arg(long, value_name = "DIR", env = "WINDLASS_PLUGINS")]
    plugins: PathBuf,
    /// The directory of policies, one NAME.policy.yaml for each plugin. Default: the plugin directory.
    #[arg(long, value_name = "DIR", env = "WINDLASS_POLICY_DIR")]
    policy_dir: Option<PathBuf>,
    /// The directory of configurations, which name the Secrets that they take values from, and may name kinds to watch.
    /// Default: the plugin directory.
    #[arg(long, value_name = "DIR", env = "WINDLASS_CONFIG_DIR")]
    config_dir: Option<PathBuf>,
    /// The host's ceiling, a file of kind `PluginCeiling`.
    #[arg(long, value_name = "FILE", env = "WINDLASS_CEILING")]
    ceiling: Option<PathBuf>,
    /// Where plugins get their rights from: as for `run`.
    #[arg(long, value_enum, value_name = "SOURCE", env = "WINDLASS_GRANTS", default_value_t = DEFAULTS.policies.mode)]
    grants: GrantMode,
    /// The only namespace that the host watches: as for `run`.
    #[arg(long, short, value_name = "NAMESPACE", value_parser = crate::cli::namespace)]
    namespace: Option<String>,
    /// The namespace that the host and its service account are in.
    #[arg(long, value_name = "NAMESPACE", value_parser = crate::cli::namespace, env = "POD_NAMESPACE",
        default_value = "windlass-system")]
    host_namespace: String,
    /// The service account of the host. Roles and bindings have its name, so give each host of a cluster an account of
    /// another name.
    #[arg(long, value_name = "NAME", value_parser = account, default_value = "windlass")]
    service_account: String,
    /// How replicas divide the plugins: as for `run`. With none, no leases are needed.
    #[arg(long, value_enum, value_name = "HOW", env = "WINDLASS_LEASES", default_value_t = DEFAULTS.leases.mode)]
    leases: LeaseMode,
    /// The namespace of the leases. Default: the host's own.
    #[arg(long, value_name = "NAMESPACE", value_parser = crate::cli::namespace, env = "WINDLASS_LEASE_NAMESPACE")]
    lease_namespace: Option<String>,
    /// Which clients may use the host's admin address: as for `run`. With token, the host asks the cluster which user a
    /// token belongs to, and what this user may get.
    #[arg(long, value_enum, value_name = "HOW", env = "WINDLASS_ADMIN_AUTH", default_value = "none")]
    admin_auth: AdminAuth,
    /// Add the rights of a host with --objects.
    #[arg(long, env = "WINDLASS_OBJECTS")]
    objects: bool,
    /// With --objects: a file with objects of the kinds `ClusterPlugin` and `ClusterPluginPolicy`, as `windlass grant
    /// --image` writes it. Takes the policies of these plugins from it, and adds the right to read the `ConfigMaps` and
    /// Secrets that they name.
    #[arg(long, value_name = "FILE", requires = "objects")]
    object_file: Vec<PathBuf>,
    /// With --object-file: the plugins of the host with this --objects-instance.
    #[arg(long, value_name = "NAME", env = "WINDLASS_OBJECTS_INSTANCE")]
    objects_instance: Option<String>,
    /// Print no roles. Instead print which of these rights the kubeconfig's user lacks, and which further rights it has
    /// in these namespaces.
    #[arg(long)]
    check: bool,
    /// With --check: ask about this user, such as `system:serviceaccount:windlass-system:windlass`, whom you must be
    /// allowed to impersonate. If plugins act as this account, --check asks about the rights of that account.
    #[arg(long = "as", value_name = "USER", requires = "check")]
    user: Option<String>,
    /// The output format.
    #[arg(long, short, value_enum, default_value = "yaml")]
    output: RoleFormat,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// The format of roles. What --check finds is a table instead of YAML.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum RoleFormat {
    Yaml,
    Json,
}

fn account(text: &str) -> Result<String, String> {
    let wrong = "the name of a service account has up to 63 lower-case letters, digits and dashes here";
    if is_dns_label(text) { Ok(text.to_owned()) } else { Err(wrong.to_owned()) }
}

impl RbacArgs {
    pub(crate) async fn run(self) -> ExitCode {
        let done = if self.check { self.compared().await } else { self.printed().await };
        match done {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(MISSING),
            Err(error) => {
                eprintln!("windlass: {}", explained(&*error));
                ExitCode::from(FAILED)
            }
        }
    }

    fn account(&self) -> ServiceAccount {
        ServiceAccount { namespace: self.host_namespace.as_str().into(), name: self.service_account.as_str().into() }
    }

    async fn printed(&self) -> anyhow::Result<bool> {
        let (plugins, rights) = self.rights().await?;
        let objects = role::objects(&rights, &self.account());
        match self.output {
            RoleFormat::Yaml => {
                let documents: String = objects.iter().map(RoleObject::yaml).collect();
                crate::cli::print(&format!("{}{documents}", heading(&plugins)))
            }
            RoleFormat::Json => {
                let items: Vec<_> = objects.iter().map(RoleObject::json).collect();
                crate::cli::print_json(&json!({"apiVersion": "v1", "kind": "List", "items": items}))
            }
        }
        .context(UNPRINTED)?;
        Ok(true)
    }

    /// True if nothing is missing.
    async fn compared(&self) -> anyhow::Result<bool> {
        let (_, rights) = self.rights().await?;
        let connection = windlass_kube::client::connect(&self.cluster.options()).await?;
        let whose = rights.accounts.iter().find(|(account, _)| Some(account.user()) == self.user);
        let expected = whose.map_or(&rights.host, |(_, rights)| rights);
        if whose.is_none() {
            for account in rights.accounts.keys() {
                eprintln!(
                    "windlass: plugins also act as {account}, which is another user: check it with --as {}",
                    account.user()
                );
            }
        }
        let reviews = OwnReviews::new(connection, self.user.clone());
        let checked = rbac_check::check(&reviews, expected, &self.host_namespace).await?;
        match self.output {
            RoleFormat::Yaml => crate::cli::print(&checked.text()),
            RoleFormat::Json => crate::cli::print_json(&checked.json()),
        }
        .context(UNPRINTED)?;
        Ok(checked.missing.is_empty())
    }

    /// The plugins that may run, and the rights that they and the host need.
    async fn rights(&self) -> anyhow::Result<(Vec<Arc<Plugin>>, HostRights)> {
        let plugins = self.loaded().await?;
        let objects = ObjectFiles::read(&self.object_file, self.objects_instance.as_deref())?;
        let [policies, configs] = [&self.policy_dir, &self.config_dir].map(|it| it.as_deref().unwrap_or(&self.plugins));
        let merged = objects.as_files(policies, configs)?;
        let [policies, configs] = merged.as_ref().map_or([policies, configs], |merged| [merged.path(); 2]);
        let with_kinds = |plugin: &Arc<Plugin>| {
            let ConfiguredManifest { manifest, unknown, .. } = examine::configured_manifest(plugin.manifest(), configs);
            if let Some(unknown) = unknown {
                eprintln!("windlass: the plugin {unknown}");
            }
            manifest
        };
        let manifests: Vec<Manifest> = plugins.iter().map(with_kinds).collect();
        let settings = PolicySettings {
            mode: self.grants,
            directory: policies.to_owned(),
            ceiling: self.ceiling.clone(),
            host_namespace: Some(self.host_namespace.clone()),
        };
        let only = self.namespace.as_deref();
        let standings = standings(settings, only, &manifests.iter().collect::<Vec<_>>()).await?;
        let names = self.names(&plugins, &manifests).await?;
        let (mut sources, mut may_run) = (Vec::new(), Vec::new());
        for (((plugin, manifest), names), standing) in plugins.iter().zip(&manifests).zip(&names).zip(standings) {
            let bounds = match standing {
                Standing::Granted(bounds) => bounds,
                Standing::Waiting(None) => {
                    let name = plugin.name();
                    eprintln!("windlass: the plugin {name} waits for a policy, and is left out: see `windlass grant`");
                    continue;
                }
                // The operator's policy cannot be used, so the right roles are unknown.
                Standing::Waiting(Some(why)) => bail!(why),
            };
            let mut secrets = named_secrets(configs, plugin.name()).await.map_err(anyhow::Error::msg)?;
            secrets.extend(self.hook_secrets(policies, plugin.name())?);
            sources.push(RightsSource {
                manifest,
                names,
                grants: bounds.grants(asked(manifest, names)?, only),
                impersonate: bounds.impersonate.clone(),
                secrets,
            });
            may_run.push(plugin.clone());
        }
        let leases = self.lease_namespace.clone().unwrap_or_else(|| self.host_namespace.clone());
        let leases = (self.leases != LeaseMode::None).then_some(leases);
        let reviews_tokens = self.admin_auth == AdminAuth::Token;
        let objects = self.objects.then(|| objects.named(&self.host_namespace));
        let options = RightsOptions { only: self.namespace.clone(), leases, reviews_tokens, objects };
        let rights = derive(&options, &sources)?;
        for remark in &rights.remarks {
            eprintln!("windlass: {remark}");
        }
        Ok((may_run, rights))
    }

    /// The namespaces and names of the Secrets of the plugin's hooks.
    fn hook_secrets(&self, policies: &Path, plugin: &str) -> anyhow::Result<BTreeSet<(String, String)>> {
        let file = policies.join(format!("{plugin}{POLICY_SUFFIX}"));
        if self.grants == GrantMode::Manifest || !file.exists() {
            return Ok(BTreeSet::new());
        }
        Ok(read_policy(&file, plugin).map_err(anyhow::Error::msg)?.hook_secrets())
    }

    /// The plugins of the directory, ordered by their files. A plugin's other versions are included, as they may need
    /// other rights.
    async fn loaded(&self) -> anyhow::Result<Vec<Arc<Plugin>>> {
        let unreadable =
            || format!("cannot read the plugin directory {}; name one with --plugins", self.plugins.display());
        let entries = std::fs::read_dir(&self.plugins).with_context(unreadable)?;
        let paths: Vec<PathBuf> =
            entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>().with_context(unreadable)?;
        let mut files: Vec<_> = paths.into_iter().filter(|path| is_plugin_file(path)).collect();
        files.sort_unstable();
        if files.is_empty() {
            eprintln!("windlass: no plugin is in {}: these are the rights of the host alone", self.plugins.display());
            return Ok(vec![]);
        }
        let sandbox = examine::sandbox(&self.limits, self.cache.clone())?;
        let mut plugins = Vec::new();
        for file in &files {
            let plugin = examine::load_into(&sandbox, file).await?;
            let is_named = windlass_runtime::plugin_of(file).is_some()
                || file.file_stem().is_some_and(|stem| *stem == **plugin.name());
            ensure!(is_named, "{} says that it is {}: no host runs it under that name", file.display(), plugin.name());
            plugins.push(plugin);
        }
        Ok(plugins)
    }

    /// The names of each plugin's kinds. Without a cluster, the embedded API server provides them: Kubernetes' own
    /// names are the same everywhere.
    async fn names(&self, plugins: &[Arc<Plugin>], manifests: &[Manifest]) -> anyhow::Result<Vec<ClusterNames>> {
        if plugins.is_empty() {
            return Ok(vec![]);
        }
        let embedded = ApiServer::in_process(&Config::default());
        let cluster = if let Some(cluster) = self.cluster.discovery().await? {
            cluster
        } else {
            let url = "http://localhost".parse().context("the URL of the embedded API server")?;
            Discovery::new(Connection::in_process(embedded.service(), &url).client)
        };
        let mut names = Vec::new();
        for (plugin, manifest) in plugins.iter().zip(manifests) {
            names.push(examine::names_of(plugin.path(), manifest, Some(&cluster)).await?);
        }
        Ok(names)
    }
}

/// Describes the plugins from which the roles were derived.
fn heading(plugins: &[Arc<Plugin>]) -> String {
    let named = plugins.iter().map(|plugin| {
        format!("#   {} {} (sha256 {})\n", plugin.name(), plugin.manifest().version, plugin.short_digest())
    });
    let named: String = named.collect();
    let whose = if named.is_empty() { ", which runs no plugin.\n" } else { " with these plugins:\n" };
    format!(
        "# The least rights of a Windlass host{whose}{named}# Derived by `windlass rbac`: derive them again when plugins or \
         policies change.\n"
    )
}
