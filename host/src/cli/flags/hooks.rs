//! The flags about the address at which the host receives deliveries to hooks.

use clap::{ArgAction, Args};
use windlass_runtime::HookSettings;

use crate::cli::flags::admin_serving::UsageError;
use crate::cli::flags::listening::listening_args;

listening_args! {
    /// The address of hooks.
    HookAddressArgs, "hooks", "HOOKS",
    /// Receive deliveries to hooks of plugins at this address, as POST /hooks/PLUGIN/NAME. An address beyond loopback
    /// needs a certificate or --hooks-plain-http. Default: not served.
    address,
    /// The certificate of the address of hooks, with its intermediate certificates, in PEM. The host follows the file.
    certificate,
}

/// The address of hooks, and whether others may reach it without TLS.
#[derive(Debug, Args)]
pub(crate) struct HookArgs {
    #[command(flatten)]
    listening: HookAddressArgs,
    /// Receive deliveries without TLS beyond loopback, because a proxy in front of the host ends TLS. Without TLS,
    /// anyone on the way can read deliveries, but not change them: they are signed.
    #[arg(long, env = "WINDLASS_HOOKS_PLAIN_HTTP", action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
        require_equals = true, default_value_t = false, default_missing_value = "true", hide_default_value = true,
        hide_possible_values = true)]
    hooks_plain_http: bool,
}

impl HookArgs {
    /// The settings from these flags. `None` without an address of hooks.
    pub(crate) fn settings(self) -> Result<Option<HookSettings>, UsageError> {
        let Some(served) = self.listening.served() else { return Ok(None) };
        if served.tls.is_none() && !self.hooks_plain_http && !served.is_loopback() {
            return Err(UsageError(format!(
                "--hooks-address {} can be reached by others without TLS: name a certificate with --hooks-tls-cert-file \
                 and --hooks-tls-private-key-file, or set --hooks-plain-http if a proxy in front of the host ends TLS",
                served.address
            )));
        }
        Ok(Some(HookSettings { address: served.address, tls: served.tls }))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use windlass_runtime::TlsFiles;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        hooks: HookArgs,
    }

    fn settings(words: &[&str]) -> Result<Option<HookSettings>, String> {
        let line = Line::try_parse_from([&["windlass"], words].concat()).map_err(|error| error.to_string())?;
        line.hooks.settings().map_err(|error| error.to_string())
    }

    #[test]
    fn a_reachable_address_of_hooks_needs_tls_or_a_proxy() {
        let pair = ["--hooks-tls-cert-file=tls.crt", "--hooks-tls-private-key-file=tls.key"];
        for address in ["0.0.0.0:8443", "[::]:8443", "10.0.0.1:8443", "[::ffff:10.0.0.1]:8443"] {
            let address = format!("--hooks-address={address}");
            let error = settings(&[&address]).expect_err("plain HTTP");
            assert!(error.contains("--hooks-tls-cert-file") && error.contains("--hooks-plain-http"), "{error}");
            let encrypted = settings(&[&address, pair[0], pair[1]]).expect("TLS").expect("an address");
            assert_eq!(encrypted.tls, Some(TlsFiles { certificate: "tls.crt".into(), key: "tls.key".into() }));
            assert!(settings(&[&address, "--hooks-plain-http"]).is_ok());
            assert!(settings(&[&address, pair[0]]).is_err(), "half a pair");
        }
        for address in ["127.0.0.1:8443", "[::1]:0"] {
            let own = settings(&["--hooks-address", address]).expect("only this machine").expect("an address");
            assert_eq!(own.tls, None);
        }
        assert_eq!(settings(&[]), Ok(None));
    }
}
