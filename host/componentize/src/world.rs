//! The versions of Windlass's interface that plugins can be built against.

use std::fmt;

use wit_parser::{Resolve, SourceMap, WorldId};

use crate::ComponentizeError;

/// WIT files with their names.
type Files = &'static [(&'static str, &'static str)];

/// The files of each version: those of both, and then those of the newest alone. A test compares them with the folders.
macro_rules! files {
    ($($name:literal),*; $($new:literal),*) => {
        const V0_2_0: Files = &[$(($name, include_str!(concat!("../../wasm/wit/v0_2_0/", $name)))),*];
        const V0_3_0: Files = &[
            $(($name, include_str!(concat!("../../../wit/", $name))),)*
            $(($new, include_str!(concat!("../../../wit/", $new)))),*
        ];
    };
}

files![
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
    "writes.wit";
    "runtime.wit"
];

/// A version of the interface that plugins can be built against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceVersion {
    /// `windlass:plugin@0.2.0`
    V0_2_0,
    /// `windlass:plugin@0.3.0`
    V0_3_0,
}

impl InterfaceVersion {
    /// All versions, the newest last.
    pub const ALL: [Self; 2] = [Self::V0_2_0, Self::V0_3_0];

    /// The newest version. Tools of languages that read WIT files get its text.
    pub const NEWEST: Self = Self::V0_3_0;

    /// The version in WIT's notation.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V0_2_0 => "0.2.0",
            Self::V0_3_0 => "0.3.0",
        }
    }

    /// Its WIT files by name.
    #[must_use]
    pub fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::V0_2_0 => V0_2_0,
            Self::V0_3_0 => V0_3_0,
        }
    }
}

impl fmt::Display for InterfaceVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// The kind of a plugin, and the name of the interface that such a plugin exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PluginKind {
    Reconciler,
    Composer,
}

impl PluginKind {
    const ALL: [Self; 2] = [Self::Reconciler, Self::Composer];

    /// The name of the interface with the package, without the version.
    fn stem(self) -> &'static str {
        match self {
            Self::Reconciler => "windlass:plugin/reconciler@",
            Self::Composer => "windlass:plugin/composer@",
        }
    }
}

/// The interface that a plugin exports, which determines its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    kind: PluginKind,
    pub(crate) version: InterfaceVersion,
}

impl Interface {
    /// The world of a module with these exports.
    pub(crate) fn world(self, exports: &[String]) -> String {
        let version = self.version;
        let has = |optional: &str| exports.iter().any(|name| name.starts_with(&exported_prefix(optional, version)));
        let world = match self.kind {
            PluginKind::Reconciler if has("mapper") => "mapping-reconciler-plugin",
            PluginKind::Reconciler => "reconciler-plugin",
            PluginKind::Composer if has("customize") => "customizing-composer-plugin",
            PluginKind::Composer => "composer-plugin",
        };
        format!("windlass:plugin/{world}@{version}")
    }
}

/// The prefix of the functions of an interface that a plugin exports.
fn exported_prefix(interface: &str, version: InterfaceVersion) -> String {
    format!("windlass:plugin/{interface}@{version}#")
}

/// The names of all interfaces that make a module a plugin, for messages.
pub(crate) fn known() -> String {
    let names =
        |version: InterfaceVersion| PluginKind::ALL.map(|kind| format!("`{}{version}`", kind.stem())).join(" or ");
    InterfaceVersion::ALL.map(names).join(", ")
}

/// The interface that a module exports, judged by the names of its functions (`INTERFACE#FUNCTION`).
pub(crate) fn exported(names: &[String]) -> Result<Interface, ComponentizeError> {
    let mut found = None;
    for kind in PluginKind::ALL {
        let mut all = names.iter().filter_map(|name| name.split_once('#')).map(|(of, _)| of);
        let Some((exported, version)) = all.find_map(|of| Some((of, of.strip_prefix(kind.stem())?))) else {
            continue;
        };
        let Some(version) = InterfaceVersion::ALL.into_iter().find(|known| known.as_str() == version) else {
            return Err(ComponentizeError::OtherAbi { found: exported.to_owned() });
        };
        if found.replace(Interface { kind, version }).is_some() {
            return Err(ComponentizeError::Both);
        }
    }
    found.ok_or(ComponentizeError::NoPlugin)
}

/// The world of the adapter, which imports the log from the host, and `runtime` if the version has it.
pub(crate) const ADAPTER: &str = "windlass:adapter/adapter";

/// Resolves the package of `version`, and a world in it or the adapter's.
pub(crate) fn resolve(world: &str, version: InterfaceVersion) -> anyhow::Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    let mut files = SourceMap::default();
    for (name, text) in version.files() {
        files.push_str(name, *text);
    }
    let package = files.parse().map_err(|(_, error)| anyhow::anyhow!("{error}"))?;
    let package = resolve.push_group(package)?;
    let imports = match version {
        InterfaceVersion::V0_2_0 => "",
        InterfaceVersion::V0_3_0 => "import windlass:plugin/runtime@0.3.0;",
    };
    let adapter =
        format!("package windlass:adapter;\nworld adapter {{ import windlass:plugin/log@{version}; {imports} }}\n");
    let adapter = resolve.push_str("adapter.wit", &adapter)?;
    let world = resolve.select_world(&[package, adapter], Some(world))?;
    Ok((resolve, world))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_packages_is_in_the_lists() {
        for (version, folder) in
            [(InterfaceVersion::V0_2_0, "../wasm/wit/v0_2_0"), (InterfaceVersion::V0_3_0, "../../wit")]
        {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
            let mut there: Vec<_> = std::fs::read_dir(folder)
                .expect("the repository is whole")
                .map(|entry| entry.expect("it can be read").path())
                .filter(|path| path.extension().is_some_and(|extension| extension == "wit"))
                .map(|path| path.file_name().expect("a file").to_string_lossy().into_owned())
                .collect();
            there.sort();
            let mut listed: Vec<_> = version.files().iter().map(|(name, _)| *name).collect();
            listed.sort_unstable();
            assert_eq!(there, listed);
        }
    }

    #[test]
    fn all_worlds_and_the_adapters_resolve_in_each_version() {
        for version in InterfaceVersion::ALL {
            let optional = ["mapper", "customize"].map(|interface| exported_prefix(interface, version) + "function");
            let worlds = PluginKind::ALL.map(|kind| Interface { kind, version });
            let worlds = worlds.map(|it| [it.world(&[]), it.world(&optional)]).concat();
            assert!(worlds.iter().all(|world| worlds.iter().filter(|other| *other == world).count() == 1));
            for world in worlds.iter().map(String::as_str).chain([ADAPTER]) {
                resolve(world, version).unwrap_or_else(|error| panic!("{world}: {error:#}"));
            }
        }
    }

    #[test]
    fn the_version_is_that_of_the_export() {
        let of = |name: &str| exported(&[format!("{name}#describe")]);
        let interface = of("windlass:plugin/composer@0.2.0").expect("a plugin");
        assert_eq!(interface, Interface { kind: PluginKind::Composer, version: InterfaceVersion::V0_2_0 });
        assert_eq!(of("windlass:plugin/reconciler@0.3.0").expect("a plugin").version, InterfaceVersion::V0_3_0);
        let error = of("windlass:plugin/reconciler@0.9.0").expect_err("unknown").to_string();
        for part in ["reconciler@0.9.0", "reconciler@0.2.0", "composer@0.3.0"] {
            assert!(error.contains(part), "{part} is missing in {error}");
        }
    }
}
