//! The supported names of WASI, and what a component gets from each.

/// The packages of WASI 0.2, each with a description of what a component gets.
const PACKAGES: [(&str, &str); 7] = [
    ("cli", "no arguments, environment or terminal; what it prints is logged; `exit` fails the call"),
    ("clocks", "the host's clocks; in `describe` and `compose` they stand still"),
    ("io", "the streams and waits of the other packages; a wait counts against the call's deadline"),
    ("random", "the host's randomness; in `describe` and `compose` it follows from a seed"),
    ("filesystem", "no directory: nothing can be opened"),
    ("sockets", "refused: no address can be connected to or resolved"),
    ("http", "requests to granted hosts, as by `windlass:plugin/http`; none in `describe` and `compose`"),
];

/// A description of what a component gets from the import `name`. `None` if this host does not provide that part of
/// WASI.
#[must_use]
pub fn met_at(name: &str) -> Option<&'static str> {
    let (package, rest) = name.strip_prefix("wasi:")?.split_once('/')?;
    let version = semver::Version::parse(rest.split_once('@')?.1).ok()?;
    let is_given = version.major == 0 && version.minor == 2 && version.pre.is_empty();
    PACKAGES.iter().find(|(name, _)| is_given && *name == package).map(|(_, meets)| *meets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wasi_support_is_known_for_every_0_2_version_and_no_other() {
        for name in ["wasi:cli/stdout@0.2.0", "wasi:http/types@0.2.12", "wasi:io/poll@0.2.99"] {
            assert!(met_at(name).is_some(), "{name}");
        }
        for name in [
            "wasi:cli/stdout@0.3.0",
            "wasi:cli/stdout@0.2.0-rc-2023-11-10",
            "wasi:keyvalue/store@0.2.0",
            "wasi:cli/stdout",
            "wasi:cli@0.2.0",
            "windlass:plugin/log@0.3.0",
        ] {
            assert_eq!(met_at(name), None, "{name}");
        }
    }
}
