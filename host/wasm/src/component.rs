//! Checks a component before any of its code runs: that it is a component, which version of the interface it uses, and
//! that its imports can be provided.

use serde::{Deserialize, Serialize};
use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;
use windlass_manifest::EntryPoint;

use crate::abi::AbiVersion;
use crate::text::single_line;
use crate::wasi::met_at;

const PACKAGE: &str = "windlass:plugin/";
const RECONCILER: &str = "windlass:plugin/reconciler@";
const COMPOSER: &str = "windlass:plugin/composer@";

/// The interfaces that a composer may import; `types` has no functions.
const OF_COMPOSERS: [&str; 7] = ["types", "log", "clock", "random", "config", "runtime", "script"];

/// The maximum length of names in messages. The author of a component may choose long names.
const SHOWN_NAME_BYTES_MAX: usize = 120;
const SHOWN_NAMES_MAX: usize = 8;

/// The reason why a file is not a plugin that this host can run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ComponentError {
    /// The file is not WebAssembly.
    #[error("it is not WebAssembly: a plugin is a component in binary form, as the SDKs build it")]
    NotWasm,
    /// The file is a core module.
    #[error(
        "it is a core WebAssembly module, not a component: run `windlass build` in the plugin's folder. It converts any \
         core module for wasip1 or wasm32-unknown-unknown that is built against the interface, for example with a \
         Windlass SDK"
    )]
    CoreModule,
    /// The component has no export that could be called.
    #[error(
        "it exports no `windlass:plugin/reconciler@{}` or `windlass:plugin/composer@{0}`, so it is not a plugin{}; a \
         plugin targets the WIT world `windlass:plugin/reconciler-plugin` or `windlass:plugin/composer-plugin`",
        AbiVersion::NEWEST, exported(.exports)
    )]
    NoExport {
        /// The exports that it has.
        exports: Vec<String>,
    },
    /// The component was built for another version of the interface.
    #[error("it is built for `{found}`, but this host has the versions {} of the interface: {}", supported(), advice(.found))]
    OtherVersion { found: String },
    /// Parts of the component were built for different versions of the interface.
    #[error(
        "it mixes versions of the interface: it exports a plugin of version {exported}, and imports {}. Some of its parts \
         were built with another SDK: build all of it with one SDK, from an empty build folder", list(.imports)
    )]
    MixedVersions {
        /// The version of the component's export.
        exported: String,
        /// The imports whose version differs from that of the export.
        imports: Vec<String>,
    },
    /// The component has several entry points.
    #[error("it exports {}: a plugin exports exactly one of them", .exports.join(" and "))]
    Ambiguous { exports: Vec<String> },
    /// The component imports unsupported parts of WASI.
    #[error(
        "it imports {}, but this host gives plugins WASI 0.2 with the packages `cli`, `clocks`, `io`, `random`, `filesystem`, \
         `sockets` and `http`: build it for that (`wasm32-wasip2`, or a core module for wasip1 with the adapter of WASI 0.2), or \
         without WASI, which is smaller and faster: `windlass build` in the plugin's folder makes a component of any core module \
         for wasip1 or wasm32-unknown-unknown", list(.imports)
    )]
    Wasi { imports: Vec<String> },
    /// The component is a composer and has imports that only reconcilers may use.
    #[error(
        "it is a composer and imports {}: a composer only computes an answer, so it gets `log`, `clock`, `random` \
         and `config` only; return the objects that should exist, or write a reconciler", list(.imports)
    )]
    NotForComposers { imports: Vec<String> },
    /// The component has unknown imports.
    #[error("it imports {}, which cannot be given to a plugin: plugins get only the interfaces of `windlass:plugin` and WASI 0.2",
        list(.imports))]
    UnknownImports { imports: Vec<String> },
}

/// Recognises components by their first eight bytes.
pub(crate) fn check_preamble(bytes: &[u8]) -> Result<(), ComponentError> {
    match bytes {
        [b'\0', b'a', b's', b'm', _, _, 1, 0, ..] => Ok(()),
        [b'\0', b'a', b's', b'm', _, _, 0, 0, ..] => Err(ComponentError::CoreModule),
        _ => Err(ComponentError::NotWasm),
    }
}

/// The entry point of `component`, and the version of the interface that it was built for.
pub(crate) fn entry(engine: &Engine, component: &Component) -> Result<(EntryPoint, AbiVersion), ComponentError> {
    let ty = component.component_type();
    let exports: Vec<&str> = ty.exports(engine).map(|(name, _)| name).collect();
    choose_entry(&exports)
}

/// The entry point among these `exports`, and the version of its interface.
pub(crate) fn choose_entry(exports: &[&str]) -> Result<(EntryPoint, AbiVersion), ComponentError> {
    let entries: Vec<&str> =
        exports.iter().copied().filter(|name| name.starts_with(RECONCILER) || name.starts_with(COMPOSER)).collect();
    match entries[..] {
        [] => Err(ComponentError::NoExport { exports: names(exports.iter().copied()) }),
        [name] => {
            let known = |(entry, prefix): (EntryPoint, &str)| {
                let version = name.strip_prefix(prefix)?;
                Some((entry, AbiVersion::ALL.into_iter().find(|known| known.as_str() == version)?))
            };
            let entries = [(EntryPoint::Reconciler, RECONCILER), (EntryPoint::Composer, COMPOSER)];
            entries.into_iter().find_map(known).ok_or_else(|| ComponentError::OtherVersion { found: shown(name) })
        }
        _ => Err(ComponentError::Ambiguous { exports: names(entries.into_iter()) }),
    }
}

/// The names of the component's imports.
pub(crate) fn imports(engine: &Engine, component: &Component) -> Vec<String> {
    component.component_type().imports(engine).map(|(name, _)| name.to_owned()).collect()
}

/// The functions of the interface that the component imports, such as `cache.get`.
pub(crate) fn functions(engine: &Engine, component: &Component) -> Vec<String> {
    let ty = component.component_type();
    let mut functions = Vec::new();
    for (import, item) in ty.imports(engine) {
        let interface = import.strip_prefix(PACKAGE).and_then(|rest| rest.split('@').next());
        let (Some(interface), ComponentItem::ComponentInstance(instance)) = (interface, item.ty) else { continue };
        let its = instance.exports(engine).filter(|(_, item)| matches!(item.ty, ComponentItem::ComponentFunc(_)));
        functions.extend(its.map(|(function, _)| format!("{interface}.{function}")));
    }
    functions
}

/// Fails for imports that this version of the interface does not have, or that this `entry` may not use. Linking checks
/// their types.
pub(crate) fn check_imports(
    engine: &Engine,
    component: &Component,
    entry: EntryPoint,
    abi: AbiVersion,
) -> Result<(), ComponentError> {
    let ty = component.component_type();
    let imports: Vec<&str> = ty.imports(engine).map(|(name, _)| name).collect();
    check_names(imports, entry, abi)
}

fn check_names(imports: Vec<&str>, entry: EntryPoint, abi: AbiVersion) -> Result<(), ComponentError> {
    let (ours, foreign): (Vec<&str>, Vec<&str>) = imports.into_iter().partition(|name| name.starts_with(PACKAGE));
    let others: Vec<&str> = ours.iter().copied().filter(|name| !is_of_version(name, abi)).collect();
    if !others.is_empty() {
        let exported = abi.to_string();
        return Err(ComponentError::MixedVersions { exported, imports: names(others.into_iter()) });
    }
    let foreign: Vec<&str> = foreign.into_iter().filter(|name| met_at(name).is_none()).collect();
    if foreign.is_empty() {
        let acts = |name: &&str| !OF_COMPOSERS.iter().any(|interface| is_interface(name, interface));
        let acting: Vec<&str> = ours.into_iter().filter(|name| entry == EntryPoint::Composer && acts(name)).collect();
        if acting.is_empty() {
            return Ok(());
        }
        return Err(ComponentError::NotForComposers { imports: names(acting.into_iter()) });
    }
    let (wasi, unknown): (Vec<&str>, Vec<&str>) = foreign.into_iter().partition(|name| name.starts_with("wasi:"));
    // An import outside of WASI is the more serious mistake.
    if unknown.is_empty() {
        Err(ComponentError::Wasi { imports: names(wasi.into_iter()) })
    } else {
        Err(ComponentError::UnknownImports { imports: names(unknown.into_iter()) })
    }
}

/// Whether the import `name` belongs to the interface `interface`, in any version.
fn is_interface(name: &str, interface: &str) -> bool {
    let rest = name.strip_prefix(PACKAGE).and_then(|rest| rest.strip_prefix(interface));
    rest.is_some_and(|rest| rest.starts_with('@'))
}

/// Whether the import `name` has this version.
fn is_of_version(name: &str, abi: AbiVersion) -> bool {
    name.rsplit_once('@').is_some_and(|(_, found)| found == abi.as_str())
}

fn shown(name: &str) -> String {
    single_line(name, SHOWN_NAME_BYTES_MAX)
}

fn names<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Vec<String> {
    let more = names.len().saturating_sub(SHOWN_NAMES_MAX);
    let mut shown_names: Vec<String> = names.take(SHOWN_NAMES_MAX).map(|name| format!("`{}`", shown(name))).collect();
    if more > 0 {
        shown_names.push(format!("{more} more"));
    }
    shown_names
}

fn list(names: &[String]) -> String {
    names.join(", ")
}

fn exported(exports: &[String]) -> String {
    if exports.is_empty() { " (it exports nothing)".to_owned() } else { format!(" (it exports {})", list(exports)) }
}

fn supported() -> String {
    AbiVersion::ALL.map(AbiVersion::as_str).join(", ")
}

fn advice(found: &str) -> &'static str {
    let version = |text: &str| semver::Version::parse(text).ok();
    let found = found.rsplit_once('@').and_then(|(_, found)| version(found));
    let newest = AbiVersion::ALL.iter().rev().find_map(|known| version(known.as_str()));
    if found > newest {
        "its SDK is newer than this host. Run it with a newer windlass; or build it with the SDK that comes with this one, which \
         `windlass new` writes into a plugin's folder"
    } else {
        "its SDK is older than this host. Build it again with a current SDK, as `windlass new` writes it into a plugin's folder"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preamble_distinguishes_components_and_modules_from_the_rest() {
        assert_eq!(check_preamble(b"\0asm\x0d\0\x01\0..."), Ok(()));
        assert_eq!(check_preamble(b"\0asm\x01\0\0\0..."), Err(ComponentError::CoreModule));
        assert_eq!(check_preamble(b"#!/bin/sh"), Err(ComponentError::NotWasm));
        assert_eq!(check_preamble(b""), Err(ComponentError::NotWasm));
    }

    #[test]
    fn the_version_is_chosen_by_the_exact_name_of_an_export() {
        let chosen = |entry: &str| choose_entry(&["init", entry]);
        assert_eq!(chosen("windlass:plugin/reconciler@0.2.0"), Ok((EntryPoint::Reconciler, AbiVersion::V0_2_0)));
        assert_eq!(chosen("windlass:plugin/composer@0.3.0"), Ok((EntryPoint::Composer, AbiVersion::V0_3_0)));
    }

    #[test]
    fn another_version_names_both() {
        let newer = choose_entry(&["windlass:plugin/reconciler@0.4.0"]).expect_err("unknown").to_string();
        for part in ["reconciler@0.4.0", "0.2.0, 0.3.0", "newer windlass"] {
            assert!(newer.contains(part), "{part} is missing in {newer}");
        }
        let older = choose_entry(&["windlass:plugin/composer@0.0.9"]).expect_err("unknown").to_string();
        assert!(older.contains("current SDK"), "{older}");
    }

    #[test]
    fn imports_of_another_version_than_the_export_are_reported_first() {
        let of = |names: &[&str]| {
            check_names(names.to_vec(), EntryPoint::Composer, AbiVersion::V0_3_0).map_err(|error| error.to_string())
        };
        let mixed = of(&["windlass:plugin/log@0.1.0", "windlass:plugin/clock@0.3.0", "windlass:plugin/live@0.2.0"]);
        let mixed = mixed.expect_err("its parts do not fit each other");
        for part in ["version 0.3.0", "`windlass:plugin/log@0.1.0`, `windlass:plugin/live@0.2.0`", "with one"] {
            assert!(mixed.contains(part), "{part} is missing in {mixed}");
        }
        assert!(!mixed.contains("clock"), "{mixed}");
        assert_eq!(of(&["windlass:plugin/types@0.3.0", "windlass:plugin/log@0.3.0"]), Ok(()));
    }

    #[test]
    fn two_entry_points_and_no_entry_point_are_different_errors() {
        let both = choose_entry(&["windlass:plugin/composer@0.2.0", "windlass:plugin/reconciler@0.2.0"]);
        assert!(matches!(both, Err(ComponentError::Ambiguous { .. })));
        let none = choose_entry(&["wasi:cli/run@0.2.0"]).expect_err("no entry").to_string();
        for part in ["wasi:cli/run@0.2.0", "reconciler@0.3.0", "composer@0.3.0"] {
            assert!(none.contains(part), "{part} is missing in {none}");
        }
    }

    #[test]
    fn interfaces_are_compared_by_their_whole_names() {
        assert!(is_interface("windlass:plugin/log@0.2.0", "log"));
        assert!(!is_interface("windlass:plugin/logs@0.2.0", "log"));
        assert!(!is_interface("other:plugin/log@0.2.0", "log"));
    }
}
