//! The flags that each address of the host has: the address, and the files of its TLS.

use std::net::SocketAddr;

use windlass_runtime::TlsFiles;

/// An address that the host is to serve.
pub(crate) struct ServedAddress {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<TlsFiles>,
}

impl ServedAddress {
    /// Whether only clients on this machine can connect.
    pub(crate) fn is_loopback(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }
}

/// Declares the flags `--NAME-address`, `--NAME-tls-cert-file` and `--NAME-tls-private-key-file`. A macro, because clap
/// needs the names when it derives. The comments on `address` and `certificate` are the flags' help.
macro_rules! listening_args {
    (
        $(#[$group:meta])* $type:ident, $flags:literal, $variables:literal,
        $(#[$address:meta])* address,
        $(#[$certificate:meta])* certificate $(,)?
    ) => {
        $(#[$group])*
        #[derive(Debug, clap::Args)]
        pub(crate) struct $type {
            $(#[$address])*
            #[arg(
                id = concat!($flags, "_address"),
                long = concat!($flags, "-address"),
                value_name = "ADDRESS",
                env = concat!("WINDLASS_", $variables, "_ADDRESS")
            )]
            address: Option<std::net::SocketAddr>,
            $(#[$certificate])*
            #[arg(
                id = concat!($flags, "_tls_cert_file"),
                long = concat!($flags, "-tls-cert-file"),
                value_name = "FILE",
                env = concat!("WINDLASS_", $variables, "_TLS_CERT_FILE"),
                requires = concat!($flags, "_address"),
                requires = concat!($flags, "_tls_private_key_file")
            )]
            certificate: Option<std::path::PathBuf>,
            /// The private key of that certificate, in PEM.
            #[arg(
                id = concat!($flags, "_tls_private_key_file"),
                long = concat!($flags, "-tls-private-key-file"),
                value_name = "FILE",
                env = concat!("WINDLASS_", $variables, "_TLS_PRIVATE_KEY_FILE"),
                requires = concat!($flags, "_tls_cert_file")
            )]
            key: Option<std::path::PathBuf>,
        }

        impl $type {
            /// The address with its files. `None` without an address.
            fn served(self) -> Option<$crate::cli::flags::listening::ServedAddress> {
                let tls = self.certificate.zip(self.key);
                let tls = tls.map(|(certificate, key)| windlass_runtime::TlsFiles { certificate, key });
                self.address.map(|address| $crate::cli::flags::listening::ServedAddress { address, tls })
            }
        }
    };
}
pub(crate) use listening_args;
