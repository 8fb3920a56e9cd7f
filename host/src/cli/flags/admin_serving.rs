//! The flags about a host's admin address, shared by all commands that run plugins.

use clap::Args;
use windlass_runtime::{AdminAuth, AdminSettings};

use crate::cli::flags::listening::listening_args;

/// A well-formed command line with unusable settings. The program exits with 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

listening_args! {
    /// The host's admin address.
    AdminAddressArgs, "admin", "ADMIN",
    /// Serve /healthz, /readyz, /metrics and /plugins at this address. An address beyond loopback needs --admin-auth.
    /// Default: not served.
    address,
    /// The certificate of the admin address, with its intermediate certificates, in PEM. The host follows the file.
    /// Default: with --admin-auth=token, a certificate that the host makes at each start; else no TLS.
    certificate,
}

/// The host's admin address, and who may use it.
#[derive(Debug, Args)]
pub(crate) struct AdminServingArgs {
    #[command(flatten)]
    listening: AdminAddressArgs,
    /// Which clients may use the admin address. none: all that can connect. token: clients with a token of the cluster
    /// whose user may get the path (nonResourceURLs), over TLS; only /healthz and /readyz need no token. Default on a
    /// loopback address: none.
    #[arg(long, value_enum, value_name = "HOW", env = "WINDLASS_ADMIN_AUTH", requires = "admin_address")]
    admin_auth: Option<AdminAuth>,
}

impl AdminServingArgs {
    /// The settings from these flags. `None` without an admin address.
    pub(crate) fn settings(self) -> Result<Option<AdminSettings>, UsageError> {
        let Some(served) = self.listening.served() else { return Ok(None) };
        let auth = match self.admin_auth {
            Some(auth) => auth,
            None if served.is_loopback() => AdminAuth::None,
            None => {
                return Err(UsageError(format!(
                    "--admin-address {} can be reached from other machines, so --admin-auth is required: \
                     `token` admits clients with a token of the cluster whose user has the verb `get` on the path; \
                     `none` admits everyone who can connect",
                    served.address
                )));
            }
        };
        Ok(Some(AdminSettings { address: served.address, auth, tls: served.tls }))
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
        admin: AdminServingArgs,
    }

    fn settings(words: &[&str]) -> Result<Option<AdminSettings>, String> {
        let line = Line::try_parse_from([&["windlass"], words].concat()).map_err(|error| error.to_string())?;
        line.admin.settings().map_err(|error| error.to_string())
    }

    #[test]
    fn a_reachable_admin_address_requires_a_choice_of_authentication() {
        for address in ["0.0.0.0:8080", "[::]:8080", "10.0.0.1:8080", "[::ffff:10.0.0.1]:8080"] {
            let error = settings(&["--admin-address", address]).expect_err(address);
            assert!(error.contains("--admin-auth is required: `token`") && error.contains("`none`"), "{error}");
            let told = settings(&["--admin-address", address, "--admin-auth=token"]).expect(address);
            assert_eq!(told.map(|it| it.auth), Some(AdminAuth::Token));
        }
        for address in ["127.0.0.1:8080", "127.9.9.9:0", "[::1]:8080", "[::ffff:127.0.0.1]:8080"] {
            let own = settings(&["--admin-address", address]).expect(address);
            assert_eq!(own.map(|it| it.auth), Some(AdminAuth::None));
        }
        assert_eq!(settings(&[]), Ok(None));
    }

    #[test]
    fn a_certificate_comes_with_its_key_and_both_with_an_address() {
        let pair = ["--admin-tls-cert-file=tls.crt", "--admin-tls-private-key-file=tls.key"];
        let address = "--admin-address=127.0.0.1:0";
        let both = settings(&[address, pair[0], pair[1]]).expect("they are whole").expect("an address");
        assert_eq!(both.tls, Some(TlsFiles { certificate: "tls.crt".into(), key: "tls.key".into() }));
        for half in [[address, pair[0]], [address, pair[1]], pair] {
            let error = settings(&half).expect_err("something is missing");
            assert!(error.contains("required"), "{error}");
        }
        assert!(settings(&["--admin-auth=none"]).is_err());
    }
}
