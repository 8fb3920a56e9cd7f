//! The adapter, which replaces the operating system for languages that require one. Its code is in `adapter.wat`.

use std::fmt::Write as _;

use memchr::memmem;
use wit_component::{StringEncoding, embed_component_metadata};

use crate::world::{self, InterfaceVersion};

#[cfg(test)]
mod tests;

const SOURCE: &str = include_str!("adapter.wat");

/// The placeholders in the source: for the texts, and for the version of the interface.
const TEXTS_HERE: &str = "(;TEXTS;)";
const VERSION_HERE: &str = "VERSION";

/// The part of the source that needs an interface which 0.2.0 does not have begins and ends with these.
const NEW_FROM: &str = ";; From 0.3.0 on:\n";
const NEW_TO: &str = ";; In all versions:\n";
/// The functions of that part which the rest of the source calls. A module of 0.2.0 has asked the host itself for the
/// time and the seed, so it has nothing to report.
const OLD: &str = "(func $saw_time) (func $saw_random)";
/// The placeholder for whether the plugin may get random data that the adapter does not see.
const DRAWS_HERE: &str = "DRAWS";
/// The names of the functions by which a plugin in Go takes numbers from the generator of the runtime, which is also
/// the generator for the order of maps: those of the standard library that link to `runtime.rand` and return what
/// follows from it, and `runtime.fastrand`, which modules link to. Go keeps the names of the functions that it links,
/// also of those that are inlined. Not here are `net`, which has no network, and the hash keys of `sync` and `unique`.
const GO_GENERATORS: [&str; 5] =
    ["math/rand.(*runtimeSource)", "math/rand/v2.runtimeSource", "hash/maphash.", "os.nextRandom", "runtime.fastrand"];

/// The adapter's texts, at most 448 bytes each. Each has the name of the function that writes it into memory.
const TEXTS: [(&str, &str); 6] = [
    ("plugin", "plugin"),
    ("path", "path"),
    (
        "sleep",
        "the plugin slept for more than a second within a call. No time passes in a call, so it went on at once: to look again later, \
         return an outcome that asks to be called again",
    ),
    (
        "file",
        "the plugin asked for a file. A plugin has none: embed what it needs when it is built, or take it from its configuration or \
         from an object of the cluster",
    ),
    (
        "socket",
        "the plugin used a socket. A plugin has none: read and write the cluster by the SDK, and fetch from granted hosts by the \
         SDK's HTTP client",
    ),
    (
        "exit",
        "the plugin ended its process, as an uncaught panic, a failed assertion or `exit` do. A plugin returns an error instead; what \
         it printed before is in the log",
    ),
];

/// The adapter for `plugin`, a core module of `version`. It is a core module with the section that describes its
/// imports.
pub(crate) fn module(plugin: &[u8], version: InterfaceVersion) -> anyhow::Result<Vec<u8>> {
    let mut module = core(version, draws(plugin))?;
    let (resolve, world) = world::resolve(world::ADAPTER, version)?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    Ok(module)
}

/// Whether `plugin` may get random data from a generator of its runtime, which the adapter does not see.
fn draws(plugin: &[u8]) -> bool {
    GO_GENERATORS.iter().any(|name| memmem::find(plugin, name.as_bytes()).is_some())
}

/// Whether the adapter has a function of this name.
pub(crate) fn has(name: &str) -> bool {
    SOURCE.contains(&format!("(export \"{name}\")"))
}

fn core(version: InterfaceVersion, draws: bool) -> anyhow::Result<Vec<u8>> {
    let mut source = SOURCE.to_owned();
    if version == InterfaceVersion::V0_2_0
        && let Some((before, rest)) = SOURCE.split_once(NEW_FROM)
        && let Some((_, after)) = rest.split_once(NEW_TO)
    {
        source = [before, OLD, after].join("\n");
    }
    let source = source.replace(VERSION_HERE, version.as_str()).replace(TEXTS_HERE, &texts());
    Ok(wat::parse_str(source.replace(DRAWS_HERE, if draws { "1" } else { "0" }))?)
}

/// Generates a function for each text. It writes the text, with no end mark, and returns its length.
fn texts() -> String {
    let mut source = String::new();
    for (name, text) in TEXTS {
        let _ = writeln!(source, "(func $text_{name} (param i32) (result i32)");
        let mut place = 0;
        for (size, store) in [(8, "i64.store"), (4, "i64.store32"), (2, "i64.store16"), (1, "i64.store8")] {
            while text.len() - place >= size {
                let mut number = [0; 8];
                number[..size].copy_from_slice(&text.as_bytes()[place..place + size]);
                let number = i64::from_le_bytes(number);
                let _ = writeln!(source, "({store} offset={place} align=1 (local.get 0) (i64.const {number}))");
                place += size;
            }
        }
        let _ = writeln!(source, "(i32.const {}))", text.len());
    }
    source
}
