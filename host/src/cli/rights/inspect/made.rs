//! Shows a file's origin and contents for `inspect`, even if this host cannot load it as a plugin.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use windlass_wasm::{FileContents, FileKind, MadeWith, Need, Unit, wasi_met_at};

use crate::cli::flags::limits::shown;

/// The prefix of the plugin interfaces' names.
const INTERFACES: &str = "windlass:plugin/";

/// The lines for language and tools.
pub(super) fn origin(contents: &FileContents) -> String {
    let language = contents.language().unwrap_or_else(|| "unknown: the file does not say".to_owned());
    format!("  language {language}\n  tools    {}\n", listed(&tools(contents)))
}

/// One line for each WASI package that the file imports, with the host's support for it. Empty if the file imports no
/// WASI.
pub(super) fn wasi(imports: &[String]) -> String {
    let mut text = String::new();
    let mut packages = Vec::new();
    for import in imports {
        let Some(meets) = wasi_met_at(import) else { continue };
        let package = import.split_once('/').map_or(&**import, |(package, _)| package);
        if packages.contains(&package) {
            continue;
        }
        let _ = writeln!(text, "  {:<8} {package}: {meets}", if packages.is_empty() { "wasi" } else { "" });
        packages.push(package);
    }
    text
}

/// A note about a component that can send requests by `wasi:http` but does not ask for any host (`asks` is false).
pub(super) fn without_http_hosts(imports: &[String], asks: bool) -> Option<&'static str> {
    let speaks = imports.iter().any(|import| import.starts_with("wasi:http/outgoing-handler@"));
    (speaks && !asks).then_some("no HTTP host, so a request that it sends by `wasi:http` is denied")
}

/// The content of [`wasi`] as JSON, by import.
pub(super) fn wasi_json(imports: &[String]) -> Value {
    let met = imports.iter().filter_map(|name| Some(json!({"import": name, "meets": wasi_met_at(name)?})));
    met.collect::<Vec<_>>().into()
}

/// The lines for what the file needs of each limit.
pub(super) fn needs(needs: &[Need]) -> String {
    let mut text = "\nneeds of each `--limit`:\n".to_owned();
    for need in needs {
        let unit = if need.is_bytes { Unit::Bytes } else { Unit::Count };
        let (needed, most) = (shown(unit, need.needs), shown(unit, need.most));
        let too_much = if need.needs > need.most { "TOO MUCH: " } else { "" };
        let about = if need.what == need.limit { String::new() } else { format!(", {}", need.what) };
        let _ = writeln!(text, "  {:<11} {too_much}{needed} of {most}{about}", need.limit);
    }
    text
}

/// Describes a file that this host cannot load. The caller says why it cannot.
pub(super) fn unloaded(file: &Path, contents: &FileContents, of_limits: &[Need]) -> String {
    format!(
        "{}: not a plugin for this host\n  kind     {}\n  sha256   {}\n  bytes    {}\n  abi      {}\n{}  imports  {}\n{}  exports  {}\n{}",
        file.display(),
        kind(contents.kind),
        contents.digest,
        contents.bytes,
        listed(&versions(contents)),
        origin(contents),
        listed(&contents.imports),
        wasi(&contents.imports),
        listed(&contents.exports),
        needs(of_limits),
    )
}

/// `unloaded` as JSON, with the `problem`.
pub(super) fn unloaded_json(file: &Path, contents: &FileContents, of_limits: &[Need], problem: &str) -> Value {
    let mut json = json!({
        "file": file,
        "problem": problem,
        "kind": kind(contents.kind),
        "sha256": contents.digest,
        "bytes": contents.bytes,
        "abi": versions(contents),
        "imports": contents.imports,
        "wasi": wasi_json(&contents.imports),
        "exports": contents.exports,
    });
    add(&mut json, contents, of_limits);
    json
}

/// Adds the fields that every file has.
pub(super) fn add(json: &mut Value, contents: &FileContents, of_limits: &[Need]) {
    let named = |all: &[MadeWith]| -> Value {
        all.iter().map(|it| json!({"name": it.name, "version": it.version})).collect::<Vec<_>>().into()
    };
    json["language"] = json!(contents.language());
    json["languages"] = named(&contents.languages);
    json["tools"] = named(&contents.tools);
    let needs = of_limits
        .iter()
        .map(|need| json!({"limit": need.limit, "what": need.what, "needs": need.needs, "most": need.most}));
    json["needs"] = needs.collect::<Vec<_>>().into();
}

fn tools(contents: &FileContents) -> Vec<String> {
    contents.tools.iter().map(|tool| format!("{} {}", tool.name, tool.version).trim_end().to_owned()).collect()
}

/// The versions of the plugin interfaces that the file imports or exports.
fn versions(contents: &FileContents) -> Vec<&str> {
    let names = contents.imports.iter().chain(&contents.exports).filter(|name| name.starts_with(INTERFACES));
    // In the names of a core module, the function follows the version.
    let mut versions: Vec<&str> = names.filter_map(|name| name.rsplit_once('@')?.1.split('#').next()).collect();
    versions.sort_unstable();
    versions.dedup();
    versions
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Component => "component",
        FileKind::CoreModule => "core module",
        FileKind::Unknown => "not readable as WebAssembly",
    }
}

fn listed<T: AsRef<str>>(all: &[T]) -> String {
    if all.is_empty() {
        return "none".to_owned();
    }
    all.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wasi_package_is_listed_once_with_its_support() {
        let imports =
            ["windlass:plugin/log@0.3.0", "wasi:cli/exit@0.2.0", "wasi:cli/stdout@0.2.0", "wasi:http/types@0.2.3"];
        let imports = imports.map(str::to_owned);
        let text = wasi(&imports);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("  wasi     wasi:cli: no arguments"), "{text}");
        assert!(lines[1].starts_with("           wasi:http: requests to granted hosts"), "{text}");
        assert_eq!((lines.len(), wasi_json(&imports)[1]["import"].as_str()), (2, Some("wasi:cli/stdout@0.2.0")));
        assert_eq!(wasi(&imports[..1]), "");
    }

    #[test]
    fn a_component_with_http_imports_and_no_hosts_lacks_one() {
        let imports = |name: &str| [name.to_owned()];
        let handler = imports("wasi:http/outgoing-handler@0.2.3");
        assert!(without_http_hosts(&handler, false).is_some_and(|text| text.contains("denied")));
        assert_eq!(without_http_hosts(&handler, true), None);
        // Importing only `wasi:http/types`, as toolchains do, sends no requests.
        assert_eq!(without_http_hosts(&imports("wasi:http/types@0.2.3"), false), None);
    }

    #[test]
    fn a_need_over_its_limit_stands_out_and_each_limit_is_named() {
        let need = |what, limit, is_bytes, needs, most| Need { what, limit, is_bytes, needs, most };
        let text = needs(&[
            need("memories", "memories", false, 1, 6),
            need("initial memory", "memory", true, 256 << 20, 128 << 20),
        ]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[2], "  memories    1 of 6");
        assert_eq!(lines[3], "  memory      TOO MUCH: 256Mi of 128Mi, initial memory");
    }
}
