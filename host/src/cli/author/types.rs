//! `windlass types`: generates types from a definition or from the schema of a kind.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use clap::builder::PossibleValuesParser;
use windlass_apiserver::{ApiServer, Config};
use windlass_author::documents;
use windlass_author::types::{self, KindName};
use windlass_core::deceptive;
use windlass_core::error::explained;
use windlass_kube::client::{self, ConnectOptions, Connection};
use windlass_types::{Language, Model, generate};

/// Exit code: the file does not have the types of the schema.
const OUTDATED: u8 = 1;
/// Exit code: there are no types to generate.
const FAILED: u8 = 2;

/// Generate the types of a kind in Rust, Go, TypeScript or Python.
///
/// Reads the definitions in crd.yaml, or the schema of a kind from a cluster or from Kubernetes itself. The generated
/// types keep each field of a valid object, and need no library of Windlass. Do not edit the file: generate it again
/// after each change of the definition. With --check, nothing is written, and a file that is out of date is an error.
///
/// Exit codes: 0, the types are written or up to date; 1, --check found a difference; 2, there is no such schema.
#[derive(Debug, Args)]
#[command(disable_version_flag = true)]
#[command(
    after_help = "Examples:\n  windlass types rust --out src/types.rs                # in the folder of a plugin\n  \
    windlass types rust --out src/types.rs --check        # in a pipeline\n  \
    windlass types ts --kind cert-manager.io/v1/Certificate --out certificate.ts\n  \
    windlass types go --built-in apps/v1/Deployment --built-in v1/Service"
)]
pub(crate) struct TypesArgs {
    /// The language of the types.
    #[arg(value_name = "LANGUAGE", value_parser = PossibleValuesParser::new(Language::KNOWN.map(|(name, _)| name)))]
    language: String,
    /// Read the definitions in this file. Default: crd.yaml, unless you give --kind or --built-in.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kinds", "built_in"])]
    crd: Option<PathBuf>,
    /// Read a kind that a cluster serves, as GROUP/VERSION/KIND. Repeatable.
    #[arg(long = "kind", value_name = "KIND", conflicts_with = "built_in")]
    kinds: Vec<KindName>,
    /// Read a kind of Kubernetes, as GROUP/VERSION/KIND or VERSION/KIND, without a cluster. Repeatable.
    #[arg(long, value_name = "KIND")]
    built_in: Vec<KindName>,
    /// Generate only the types of this version of the definitions. Default: of all versions that are served. The types
    /// of versions that are not stored then have the version in their names.
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["kinds", "built_in"])]
    version: Option<String>,
    /// Write the types to this file. Default: standard output.
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write nothing, and fail if the file of --out does not have these types.
    #[arg(long, requires = "out")]
    check: bool,
    /// The package of Go types.
    #[arg(long, value_name = "NAME", default_value = "main", value_parser = package)]
    package: String,
    /// The kubeconfig of the cluster for --kind. Default: kubectl's.
    #[arg(long, value_name = "FILE", requires = "kinds")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME", requires = "kinds")]
    context: Option<String>,
}

fn package(name: &str) -> Result<String, String> {
    let is_name = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_');
    if is_name {
        Ok(name.to_owned())
    } else {
        Err("a package has lower-case letters, digits and underscores".to_owned())
    }
}

impl TypesArgs {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.write().await {
            Ok(code) => Ok(code),
            Err(error) => {
                eprintln!("windlass: {}", explained(error.as_ref()));
                Ok(ExitCode::from(FAILED))
            }
        }
    }

    async fn write(&self) -> anyhow::Result<ExitCode> {
        // The command line accepts only known languages.
        let language = Language::called(&self.language).context("the language is not known")?;
        let text = generate(language, &self.model().await?, &self.package);
        let Some(out) = &self.out else {
            crate::cli::print(&text).context("cannot write to standard output")?;
            return Ok(ExitCode::SUCCESS);
        };
        if !self.check {
            types::write(out, &text).with_context(|| format!("cannot write {}", out.display()))?;
            return Ok(ExitCode::SUCCESS);
        }
        let found = std::fs::read_to_string(out).with_context(|| format!("cannot read {}", out.display()))?;
        if let Some(difference) = difference(&found, &text) {
            let message = format!("{} is out of date: {difference}", out.display());
            eprintln!("windlass: {}", deceptive::escape(&message));
            return Ok(ExitCode::from(OUTDATED));
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn model(&self) -> anyhow::Result<Model> {
        if !self.kinds.is_empty() {
            let options =
                ConnectOptions { kubeconfig: self.kubeconfig.clone(), context: self.context.clone(), namespace: None };
            let cluster = client::connect(&options).await?;
            return Ok(types::of_kinds(&cluster, "the cluster", &self.kinds).await?);
        }
        let server = ApiServer::in_process(&Config::default());
        let embedded = Connection::in_process(server.service(), &"http://localhost".parse().context("a URL")?);
        if !self.built_in.is_empty() {
            return Ok(types::of_kinds(&embedded, "Kubernetes", &self.built_in).await?);
        }
        let file = self.crd.as_deref().unwrap_or(Path::new(documents::CRD));
        let definitions = documents::definitions_in(file)?;
        // The folder of the file must not matter, or --check would depend on it.
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
        Ok(types::of_definitions(&embedded, &name, &definitions, self.version.as_deref()).await?)
    }
}

/// The first line in which the texts differ. `None` if they are equal.
fn difference(found: &str, expected: &str) -> Option<String> {
    // A checkout may have other ends of lines.
    let (mut found, mut expected) = (found.lines(), expected.lines());
    for number in 1.. {
        match (found.next(), expected.next()) {
            (None, None) => return None,
            (found, expected) if found == expected => {}
            (found, expected) => {
                let shown = |line: Option<&str>| line.map_or("the end".to_owned(), |line| format!("{:?}", line.trim()));
                return Some(format!("line {number} is {} and should be {}", shown(found), shown(expected)));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_the_first_line() {
        assert_eq!(difference("a\r\nb\r\n", "a\nb\n"), None);
        assert_eq!(difference("a\nb", "a\n  c").as_deref(), Some("line 2 is \"b\" and should be \"c\""));
        assert_eq!(difference("a", "a\nb").as_deref(), Some("line 2 is the end and should be \"b\""));
    }

    #[test]
    fn a_package_is_an_identifier() {
        assert!(package("api_v1").is_ok());
        assert!(["", "Main", "a-b", "1a"].into_iter().all(|name| package(name).is_err()));
    }
}
