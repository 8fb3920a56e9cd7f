//! The version of Windlass's interface that this build has.

use std::fmt;

use wit_parser::{Resolve, SourceMap, WorldId};

use crate::ComponentizeError;

/// The files of the package. A test compares the list with the folder.
macro_rules! files {
    ($($name:literal),* $(,)?) => { &[$(($name, include_str!(concat!("../../../wit/", $name)))),*] };
}

pub(crate) const FILES: &[(&str, &str)] = files![
    "cache.wit",
    "clock.wit",
    "composer.wit",
    "config.wit",
    "customize.wit",
    "events.wit",
    "http.wit",
    "live.wit",
    "log.wit",
    "mapper.wit",
    "metrics.wit",
    "owners.wit",
    "random.wit",
    "reconciler.wit",
    "script.wit",
    "triggers.wit",
    "types.wit",
    "world.wit",
    "writes.wit",
];

/// The world of the adapter, with its import from the host.
const ADAPTER: &str = "package windlass:adapter;
world adapter { import windlass:plugin/log@0.2.0; }
";

/// The prefixes of optional functions that a plugin may export.
const MAPPER: &str = "windlass:plugin/mapper@0.2.0#";
const CUSTOMIZE: &str = "windlass:plugin/customize@0.2.0#";

/// The interface that a plugin exports, which determines its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// It reconciles.
    Reconciler,
    /// It composes.
    Composer,
}

impl Interface {
    const ALL: [Self; 2] = [Self::Reconciler, Self::Composer];

    /// The name with the package, without the version.
    fn stem(self) -> &'static str {
        match self {
            Self::Reconciler => "windlass:plugin/reconciler@",
            Self::Composer => "windlass:plugin/composer@",
        }
    }

    /// The world of a module with these exports.
    pub(crate) fn world(self, exports: &[String]) -> &'static str {
        let has = |optional: &str| exports.iter().any(|name| name.starts_with(optional));
        match self {
            Self::Reconciler if has(MAPPER) => "windlass:plugin/mapping-reconciler-plugin@0.2.0",
            Self::Reconciler => "windlass:plugin/reconciler-plugin@0.2.0",
            Self::Composer if has(CUSTOMIZE) => "windlass:plugin/customizing-composer-plugin@0.2.0",
            Self::Composer => "windlass:plugin/composer-plugin@0.2.0",
        }
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}0.2.0", self.stem())
    }
}

/// The interface that a module exports, judged by the names of its functions (`INTERFACE#FUNCTION`).
pub(crate) fn exported(names: &[String]) -> Result<Interface, ComponentizeError> {
    let mut found = None;
    for interface in Interface::ALL {
        let mut all = names.iter().filter_map(|name| name.split_once('#')).map(|(of, _)| of);
        let Some(exported) = all.find(|of| of.starts_with(interface.stem())) else {
            continue;
        };
        if exported != interface.to_string() {
            return Err(ComponentizeError::OtherAbi { found: exported.to_owned(), known: interface });
        }
        if found.replace(interface).is_some() {
            return Err(ComponentizeError::Both);
        }
    }
    found.ok_or(ComponentizeError::NoPlugin)
}

/// Resolves the package, and a world: one of the package, or the adapter's.
pub(crate) fn resolve(world: &str) -> anyhow::Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    let mut files = SourceMap::default();
    for (name, text) in FILES {
        files.push_str(name, *text);
    }
    let package = files.parse().map_err(|(_, error)| anyhow::anyhow!("{error}"))?;
    let package = resolve.push_group(package)?;
    let adapter = resolve.push_str("adapter.wit", ADAPTER)?;
    let world = resolve.select_world(&[package, adapter], Some(world))?;
    Ok((resolve, world))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_package_is_in_the_list() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit");
        let mut there: Vec<_> = std::fs::read_dir(folder)
            .expect("the repository is whole")
            .map(|entry| entry.expect("it can be read").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "wit"))
            .map(|path| path.file_name().expect("a file").to_string_lossy().into_owned())
            .collect();
        there.sort();
        assert_eq!(there, FILES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }

    #[test]
    fn all_worlds_and_the_adapters_resolve() {
        let optional = [format!("{MAPPER}map"), format!("{CUSTOMIZE}customize")];
        let worlds = [Interface::Reconciler, Interface::Composer].map(|it| [it.world(&[]), it.world(&optional)]);
        let [[reconciler, mapping], [composer, customizing]] = worlds;
        assert!(reconciler != mapping && composer != customizing);
        for world in [reconciler, mapping, composer, customizing, crate::adapter::WORLD] {
            resolve(world).unwrap_or_else(|error| panic!("{world}: {error:#}"));
        }
    }
}
