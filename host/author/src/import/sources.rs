//! Writes the plugin's Go sources: main.go, and the file with its name and rights.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use windlass_core::rights::grants::Rule;
use windlass_policy::draft::quoted;

use super::reads::ReadType;
use super::scan::Import;
use super::setups::{MainCall, MainCalls};

/// The file with the manifest's head.
pub(super) const PLUGIN_FILE: &str = "windlass_plugin.go";
/// The version of a new plugin.
const FIRST_VERSION: &str = "0.1.0";
/// The imports of every main.go.
const IMPORTS: [(&str, &str); 5] = [
    ("fmt", "fmt"),
    ("os", "os"),
    ("runtime", "k8s.io/apimachinery/pkg/runtime"),
    ("utilruntime", "k8s.io/apimachinery/pkg/util/runtime"),
    ("ctrl", "sigs.k8s.io/controller-runtime"),
];

/// The text of main.go.
pub(super) fn main_go(plugin: &str, main: &MainCalls, environment: &[(String, String)]) -> String {
    let shown = |folder: &String| if folder == "." { "main.go".to_owned() } else { comment(folder) };
    let old = main.old.iter().map(shown).collect::<Vec<_>>().join(", ");
    let origin = if old.is_empty() {
        "It sets up the controllers that were found in the project.".to_owned()
    } else {
        format!("It sets up the same controllers as the main package ({old}). IMPORT.md says what else that one does.")
    };
    let mut text = format!(
        "// The main package of the plugin {plugin}, which `windlass import` wrote.\n// {origin}\npackage main\n\n"
    );
    push_imports(&mut text, &main.imports, !main.schemes.is_empty() || !environment.is_empty());
    text.push_str("var scheme = runtime.NewScheme()\n\n");
    if !environment.is_empty() {
        text.push_str("// The environment of config/manager. A plugin has no other.\nfunc init() {\n");
        for (name, value) in environment {
            let _ = writeln!(text, "\tutilruntime.Must(os.Setenv({}, {}))", quoted(name), quoted(value));
        }
        text.push_str("}\n\n");
    }
    if !main.schemes.is_empty() {
        text.push_str("func init() {\n");
        for call in &main.schemes {
            let _ = writeln!(text, "\tutilruntime.Must({call}(scheme))");
        }
        text.push_str("}\n\n");
    }
    text.push_str(
        "func main() {\n\
         \tmgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: scheme})\n\
         \tif err != nil {\n\t\tfail(err)\n\t}\n",
    );
    for call in &main.calls {
        push_call(&mut text, call);
    }
    text.push_str(
        "\tif err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {\n\t\tfail(err)\n\t}\n}\n\n\
         func fail(err error) {\n\tfmt.Fprintln(os.Stderr, err)\n\tos.Exit(1)\n}\n",
    );
    text
}

fn push_imports(text: &mut String, needed: &BTreeSet<Import>, needs_must: bool) {
    let own = IMPORTS.into_iter().filter(|(name, _)| needs_must || *name != "utilruntime");
    let mut imports: BTreeSet<(String, String)> = own.map(|(name, path)| (path.to_owned(), name.to_owned())).collect();
    for Import { name, path } in needed {
        // The scanner gives each path one name, and knows the names in this file.
        imports.insert((path.clone(), name.clone()));
    }
    let (standard, others): (Vec<_>, Vec<_>) = imports.into_iter().partition(|(path, _)| !path.contains('.'));
    text.push_str("import (\n");
    for (index, group) in [standard, others].into_iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        for (path, name) in group {
            let is_plain = path.rsplit('/').next() == Some(&name);
            let name = if is_plain { String::new() } else { format!("{name} ") };
            let _ = writeln!(text, "\t{name}{}", quoted(&path));
        }
    }
    text.push_str(")\n\n");
}

fn push_call(text: &mut String, call: &MainCall) {
    if !call.open.is_empty() {
        let _ =
            writeln!(text, "\t// Complete this call of {}: {}.", comment(&call.place.to_string()), comment(&call.open));
        for line in call.source.lines() {
            let _ = writeln!(text, "\t//\t{}", line.replace('\t', "    ").replace(char::is_control, " ").trim_end());
        }
        return;
    }
    for (field, value, place) in &call.dropped {
        let (field, value) = (comment(field), comment(value));
        let _ = writeln!(text, "\t// Not set: {field}, which is {value} in {}.", comment(&place.to_string()));
    }
    let source = call.source.replace('\n', "\n\t");
    if call.returns_error {
        let _ = write!(text, "\tif err := {source}; err != nil {{\n\t\tfail(err)\n\t}}\n");
    } else {
        let _ = writeln!(text, "\t{source}");
    }
}

/// Text of the project for a comment of one line.
fn comment(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().filter(|it| !it.is_control()).take(120).collect()
}

/// The version in the text of an earlier [`PLUGIN_FILE`], which the author may have raised. Otherwise the first one.
pub(super) fn version(earlier: &str) -> &str {
    let quoted = earlier.split_once("Version:").and_then(|(_, rest)| rest.trim_start().strip_prefix('"'));
    let version = quoted.and_then(|rest| rest.split_once('"')).map(|(version, _)| version);
    version.filter(|version| semver::Version::parse(version).is_ok()).unwrap_or(FIRST_VERSION)
}

/// The contents of [`PLUGIN_FILE`].
pub(super) struct PluginFile<'a> {
    pub name: &'a str,
    pub version: &'a str,
    pub rules: &'a [Rule],
    pub finalizers: &'a [String],
    /// The types of kinds that the plugin reads and no controller watches.
    pub reads: &'a BTreeSet<ReadType>,
    /// The environment variables that the configuration may set.
    pub environment: &'a [String],
}

impl PluginFile<'_> {
    /// The text of the file.
    pub(super) fn text(&self) -> String {
        let Self { name, version, rules, finalizers, reads, environment } = self;
        let mut text =
            "// The name and the rights of the plugin, for its manifest. The controllers are those that main.go sets up.\n\
             package main\n\nimport (\n"
                .to_owned();
        let packages: BTreeSet<&str> = reads.iter().map(|(import, _)| &**import).collect();
        let packages: Vec<&str> = packages.into_iter().collect();
        let mut imports: Vec<(&str, String)> =
            packages.iter().enumerate().map(|(index, path)| (*path, format!("kinds{} ", index + 1))).collect();
        imports.push(("sigs.k8s.io/controller-runtime/pkg/windlass", String::new()));
        imports.push(("windlass.dev/sdk/manifest", String::new()));
        imports.sort();
        for (path, alias) in imports {
            let _ = writeln!(text, "\t{alias}{}", quoted(path));
        }
        let _ = write!(
            text,
            ")\n\nfunc init() {{\n\twindlass.Describe(manifest.Manifest{{\n\t\tName:    {},\n\t\tVersion: {},\n\n\
             \t\t// The rights of the markers `+kubebuilder:rbac`. For, Owns and Watches imply some of them.\n",
            quoted(name),
            quoted(version)
        );
        push_permissions(&mut text, rules);
        let _ = write!(
            text,
            "\n\t\t// The finalizers that the code adds and removes.\n\t\tFinalizers: {},\n\t}})\n",
            strings(finalizers)
        );
        let types = reads.iter().map(|(import, name)| {
            let index = packages.iter().position(|path| path == import).unwrap_or_default();
            format!("&kinds{}.{name}{{}}", index + 1)
        });
        let types: Vec<_> = types.collect();
        let _ = write!(
            text,
            "\t// The kinds that the code reads and no controller watches: the host caches them, too. A controller\n\
             \t// waits until the API server serves them.\n\twindlass.Reads({})\n",
            types.join(", ")
        );
        if !environment.is_empty() {
            let names: Vec<_> = environment.iter().map(|it| quoted(it)).collect();
            let _ = write!(
                text,
                "\t// The variables that the configuration may set, in its field env.\n\twindlass.Environment({})\n",
                names.join(", ")
            );
        }
        text.push_str("}\n");
        text
    }
}

fn push_permissions(text: &mut String, rules: &[Rule]) {
    if rules.is_empty() {
        return text.push_str("\t\tPermissions: []manifest.Permission{},\n");
    }
    text.push_str("\t\tPermissions: []manifest.Permission{\n");
    for rule in rules {
        let fields = [
            ("APIGroups", &rule.groups),
            ("Resources", &rule.resources),
            ("Verbs", &rule.verbs),
            ("Namespaces", &rule.namespaces),
            ("Names", &rule.names),
        ];
        let fields = fields.into_iter().filter(|(_, list)| !list.is_empty());
        let fields: Vec<_> = fields.map(|(name, list)| format!("{name}: {}", strings(list))).collect();
        let _ = writeln!(text, "\t\t\t{{{}}},", fields.join(", "));
    }
    text.push_str("\t\t},\n");
}

fn strings(list: &[String]) -> String {
    format!("[]string{{{}}}", list.iter().map(|it| quoted(it)).collect::<Vec<_>>().join(", "))
}
