//! `windlass new`: makes a folder for a new plugin.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use clap::builder::PossibleValuesParser;

use serde_json::Value;
use windlass_apiserver::{ApiServer, Config};
use windlass_author::documents::{self, DocumentsError};
use windlass_author::file::PluginKind;
use windlass_author::new::{self, ApiWish, ExistingKind, NameError, Names, TemplateFile, WriteError};
use windlass_author::types::{self, KindName, TypesError};
use windlass_core::error::explained;
use windlass_kube::client::{self, ConnectError, ConnectOptions, Connection};

/// Exit code: nothing was made.
const FAILED: u8 = 2;

/// Make a folder for a new plugin, ready to build and run.
///
/// The folder has sources and tests, the SDK, a CRD and a sample object, a policy, and windlass.yaml, which says how to
/// build the plugin. With --from-crd, the plugin is for an existing kind, and the folder has its definition and its
/// types.
#[derive(Debug, Args)]
#[command(disable_version_flag = true)]
#[command(after_help = "Examples:\n  windlass new go my-shop\n  \
    windlass new go my-cron-job --kind CronJob --group batch.example.com --version v1alpha1\n  \
    windlass new python quotas --composite --dir work/quotas\n  \
    windlass new ts renewals --from-crd cert-manager.io/v1/Certificate")]
pub(crate) struct NewArgs {
    /// The plugin's language.
    #[arg(value_name = "LANGUAGE", value_parser = PossibleValuesParser::new(new::languages()))]
    language: String,
    /// The plugin's name, such as my-shop.
    #[arg(value_name = "NAME")]
    name: String,
    /// The kind of the plugin's objects, such as `CronJob`. Default: the plugin's name in camel case, such as `MyShop`
    /// for my-shop.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// The API group of that kind, such as shops.example.com.
    #[arg(long, value_name = "GROUP", default_value = ApiWish::GROUP)]
    group: String,
    /// The version of that kind, such as v1 or v1alpha1. Default: v1, or the stored version of --from-crd.
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// Make a plugin for an existing kind, which this file defines, or which a cluster serves as GROUP/VERSION/KIND.
    /// For reconcilers in Rust, Go, TypeScript and Python.
    #[arg(long, value_name = "FILE|KIND", conflicts_with_all = ["kind", "group"])]
    from_crd: Option<String>,
    /// The kubeconfig of the cluster for --from-crd. Default: kubectl's.
    #[arg(long, value_name = "FILE", requires = "from_crd")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME", requires = "from_crd")]
    context: Option<String>,
    /// Make a composer, which only computes children and status from an object, instead of a reconciler.
    #[arg(long)]
    composite: bool,
    /// The new folder. It must not exist, or be empty. Default: NAME.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// The reason why no folder was made.
#[derive(Debug, thiserror::Error)]
enum NewError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("this windlass has no template of a {} in {language}", kind.as_str())]
    NoTemplate { language: String, kind: PluginKind },
    #[error(
        "--from-crd makes plugins in {}, the languages of `windlass types`: for {language}, leave it out, name the kind with --kind, \
         --group and --version, and put the definition into crd.yaml",
        new::languages_with_types().join(", ")
    )]
    NoTypes { language: String },
    #[error(
        "--from-crd makes only reconcilers: for a composer, leave it out, name the kind with --kind, --group and --version, and put \
         the definition into crd.yaml"
    )]
    NoComposer,
    #[error("--from-crd {text}: there is no such file, and {source}")]
    NotFound { text: String, source: types::KindNameError },
    #[error("{file} has {number} definitions: write one of them into a file of its own")]
    SeveralDefinitions { file: String, number: usize },
    #[error("--version {version} is not the version of --from-crd {kind}")]
    OtherVersion { version: String, kind: KindName },
    #[error("the definition has no stored version")]
    NoVersion,
    #[error("{file}: {source}")]
    Unreadable { file: String, source: std::io::Error },
    #[error("the definition cannot be written as YAML: {0}")]
    NotYaml(String),
    #[error(transparent)]
    Documents(#[from] DocumentsError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Types(#[from] TypesError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl NewArgs {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.make().await {
            Ok(text) => {
                crate::cli::print(&text).context("cannot write to standard output")?;
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => {
                eprintln!("windlass: {}", explained(&error));
                Ok(ExitCode::from(FAILED))
            }
        }
    }

    async fn make(self) -> Result<String, NewError> {
        let NewFolder { names, kind, files, note } = match &self.from_crd {
            Some(source) => self.existing(source).await?,
            None => self.invented()?,
        };
        let folder = self.dir.unwrap_or_else(|| names.name.clone().into());
        new::write(&folder, &files)?;
        let mut text = format!(
            "made {}: a {} for {} objects of {}/{}\n",
            folder.display(),
            kind.as_str(),
            names.kind,
            names.group,
            names.version
        );
        text.extend(note);
        text.push_str("next:\n");
        for step in new::next_steps(&self.language, &folder, &names) {
            // Writing into a text cannot fail.
            let _ = writeln!(text, "  {step}");
        }
        Ok(text)
    }

    /// The folder of a plugin for a new kind.
    fn invented(&self) -> Result<NewFolder, NewError> {
        let version = self.version.clone().unwrap_or_else(|| ApiWish::VERSION.to_owned());
        let wish = ApiWish { kind: self.kind.clone(), group: self.group.clone(), version };
        let names = Names::of(&self.name, &wish)?;
        let kind = if self.composite { PluginKind::Composer } else { PluginKind::Reconciler };
        let files = new::files(&self.language, kind, &names);
        let files = files.ok_or_else(|| NewError::NoTemplate { language: self.language.clone(), kind })?;
        Ok(NewFolder { names, kind, files, note: None })
    }

    /// The folder of a plugin for an existing kind.
    async fn existing(&self, source: &str) -> Result<NewFolder, NewError> {
        if self.composite {
            return Err(NewError::NoComposer);
        }
        if !new::languages_with_types().contains(&&*self.language) {
            return Err(NewError::NoTypes { language: self.language.clone() });
        }
        let (definition, text, version) = self.definition(source).await?;
        let names = ExistingKind::names(&self.name, &definition, &version)?;
        let server = ApiServer::in_process(&Config::default());
        let embedded = Connection::in_process(server.service(), &http::Uri::from_static("http://localhost"));
        let model =
            types::of_definitions(&embedded, documents::CRD, std::slice::from_ref(&definition), Some(&version)).await?;
        let is_namespaced = definition["spec"]["scope"] == "Namespaced";
        let existing = ExistingKind { names: names.clone(), definition: text, is_namespaced, model };
        let refusal = types::refusal(&embedded, &names.plural, &existing.sample()).await;
        let note =
            refusal.map(|message| format!("sample.yaml needs your values, because a server refuses it: {message}\n"));
        let files = new::files_for(&self.language, &existing);
        let files = files.ok_or_else(|| NewError::NoTypes { language: self.language.clone() })?;
        Ok(NewFolder { names, kind: PluginKind::Reconciler, files, note })
    }

    /// The definition that `source` names, its text, and the version for the plugin.
    async fn definition(&self, source: &str) -> Result<(Value, String, String), NewError> {
        if Path::new(source).is_file() {
            let mut definitions = documents::definitions_in(Path::new(source))?;
            let number = definitions.len();
            let definition = definitions.pop().filter(|_| number == 1);
            let file = || source.to_owned();
            let definition = definition.ok_or_else(|| NewError::SeveralDefinitions { file: file(), number })?;
            let text = std::fs::read_to_string(source);
            let text = text.map_err(|source| NewError::Unreadable { file: file(), source })?;
            let version = match &self.version {
                Some(version) => version.clone(),
                None => stored_version(&definition).ok_or(NewError::NoVersion)?,
            };
            return Ok((definition, text, version));
        }
        let kind: KindName =
            source.parse().map_err(|error| NewError::NotFound { text: source.to_owned(), source: error })?;
        if let Some(version) = self.version.clone().filter(|version| version != kind.version()) {
            return Err(NewError::OtherVersion { version, kind });
        }
        let options =
            ConnectOptions { kubeconfig: self.kubeconfig.clone(), context: self.context.clone(), namespace: None };
        let cluster = client::connect(&options).await?;
        let definition = types::definition_of(&cluster, "the cluster", &kind).await?;
        let text = serde_saphyr::to_string(&definition).map_err(|error| NewError::NotYaml(error.to_string()))?;
        Ok((definition, text, kind.version().to_owned()))
    }
}

/// The contents of a new folder.
struct NewFolder {
    names: Names,
    kind: PluginKind,
    files: Vec<TemplateFile>,
    /// A line for the author.
    note: Option<String>,
}

fn stored_version(definition: &Value) -> Option<String> {
    let versions = definition["spec"]["versions"].as_array()?;
    versions.iter().find(|version| version["storage"] == true)?["name"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        new: NewArgs,
    }

    /// Nothing is read before this: there is no such file.
    #[tokio::test]
    async fn from_crd_says_what_else_makes_a_plugin_for_the_kind() {
        for (words, expected) in [
            (&["new", "c", "shop", "--from-crd", "absent.yaml"][..], "for c, leave it out, name the kind with --kind"),
            (&["new", "js", "shop", "--from-crd", "absent.yaml"], "plugins in rust, go, ts, python"),
            (&["new", "go", "shop", "--from-crd", "absent.yaml", "--composite"], "for a composer, leave it out"),
        ] {
            let line = Line::try_parse_from(words).expect("it is a command line");
            let error = line.new.make().await.expect_err("no template").to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
