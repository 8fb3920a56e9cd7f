//! How a command reaches a registry: credentials, authorities, and whether it may do without TLS.

use std::io::Read as _;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::Args;
use windlass_egress::tls::Trust;
use windlass_oci::{Credentials, Login, Network, OciReference, PlainHttp, Registry, RegistryLimits, RegistryOptions};
use windlass_wasm::Limits;

/// The beginning of a plugin's name in a registry.
pub(crate) const OCI_PREFIX: &str = "oci://";
/// The flag for authorities.
const CA_FILE: &str = "--ca-file";
/// The longest password that is read.
const PASSWORD_BYTES_MAX: u64 = 64 << 10;

/// How to reach the registry.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RegistryArgs {
    /// The user for the registry. Default: the one in the config.json of docker (`DOCKER_CONFIG`, else ~/.docker),
    /// without its credential helpers. A password goes only to the host and port that it is for.
    #[arg(long, value_name = "USER", requires = "password_stdin")]
    username: Option<String>,
    /// Read the user's password from standard input.
    #[arg(long, requires = "username")]
    password_stdin: bool,
    /// Use no TLS. The registry must be on this machine, or be named: --plain-http=HOST:PORT.
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1, require_equals = true)]
    #[allow(clippy::option_option, reason = "the flag may have no value")]
    plain_http: Option<Option<String>>,
    /// A PEM file with certificate authorities to trust in addition to the system's.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

impl RegistryArgs {
    /// A client for the registry of `reference`, which pulls plugins up to the limit.
    pub(crate) fn client(&self, reference: &OciReference, limits: &Limits) -> anyhow::Result<Registry> {
        let trust = match &self.ca_file {
            Some(path) => Trust::named(path, CA_FILE)?,
            None => Trust::of_platform(CA_FILE),
        };
        let plain_http = match &self.plain_http {
            None => PlainHttp::Never,
            Some(None) => PlainHttp::OnThisMachine,
            Some(Some(host)) => PlainHttp::Named(host.clone()),
        };
        let limits = RegistryLimits { component_bytes: limits.file_bytes, ..RegistryLimits::default() };
        let credentials = self.credentials(reference)?;
        let options = RegistryOptions { credentials, plain_http, limits, ..RegistryOptions::default() };
        Ok(Registry::new(Network::of_system(trust), options))
    }

    fn credentials(&self, reference: &OciReference) -> anyhow::Result<Credentials> {
        let Some(user) = &self.username else {
            return Ok(docker_config().map_or_else(|| Ok(Credentials::default()), |path| Credentials::read(&path))?);
        };
        let mut text = String::new();
        let read = std::io::stdin().take(PASSWORD_BYTES_MAX).read_to_string(&mut text);
        read.context("cannot read the password from standard input")?;
        let password = text.strip_suffix('\n').unwrap_or(&text);
        let password = password.strip_suffix('\r').unwrap_or(password);
        ensure!(
            !password.is_empty(),
            "standard input has no password: pipe it to this command, without a new line inside"
        );
        let login = Login::new(user, password).context(
            "the user or the password cannot be sent: a user has no colon, and neither has control characters",
        )?;
        Ok(Credentials::default().with(reference.host(), login))
    }
}

/// The path of docker's file.
fn docker_config() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = named("DOCKER_CONFIG").or_else(|| Some(named("HOME")?.join(".docker")));
    Some(folder?.join("config.json"))
}

/// Reads a reference of the command line.
pub(crate) fn oci_reference(text: &str) -> Result<OciReference, String> {
    text.parse().map_err(|error: windlass_oci::ReferenceError| error.to_string())
}
