//! `windlass new`: makes a folder for a new plugin.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use clap::builder::PossibleValuesParser;

use windlass_author::file::PluginKind;
use windlass_author::new::{self, ApiWish, NameError, Names, WriteError};

/// Exit code: nothing was made.
const FAILED: u8 = 2;

/// Make a folder for a new plugin, ready to build and run.
///
/// The folder has sources and tests, the SDK, a CRD and a sample object, a policy, and windlass.yaml, which says how to
/// build the plugin.
#[derive(Debug, Args)]
#[command(disable_version_flag = true)]
#[command(after_help = "Examples:\n  windlass new go my-shop\n  \
    windlass new go my-cron-job --kind CronJob --group batch.example.com --version v1alpha1\n  \
    windlass new python quotas --composite --dir work/quotas")]
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
    /// The version of that kind, such as v1 or v1alpha1.
    #[arg(long, value_name = "VERSION", default_value = ApiWish::VERSION)]
    version: String,
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
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl NewArgs {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.make() {
            Ok(text) => {
                crate::cli::print(&text).context("cannot write to standard output")?;
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => {
                eprintln!("windlass: {error}");
                Ok(ExitCode::from(FAILED))
            }
        }
    }

    fn make(self) -> Result<String, NewError> {
        let wish = ApiWish { kind: self.kind, group: self.group, version: self.version };
        let names = Names::of(&self.name, &wish)?;
        let kind = if self.composite { PluginKind::Composer } else { PluginKind::Reconciler };
        let files = new::files(&self.language, kind, &names);
        let files = files.ok_or_else(|| NewError::NoTemplate { language: self.language.clone(), kind })?;
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
        text.push_str("next:\n");
        for step in new::next_steps(&self.language, &folder, &names) {
            // Writing into a text cannot fail.
            let _ = writeln!(text, "  {step}");
        }
        Ok(text)
    }
}
