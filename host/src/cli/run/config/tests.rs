//! Tests configuration files: which files are accepted, which are refused and with which place, what a file adds to a
//! command line, and the published schema.

use std::path::Path;

use clap::{FromArgMatches as _, Parser as _};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::keys::KeyKind;
use super::*;

const HEAD: &str = "apiVersion: windlass.dev/v1alpha1\nkind: HostConfiguration\n";

/// A directory with a file `windlass.yaml` that has the head and this text.
pub(super) fn written(text: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("windlass.yaml");
    write(&path, text);
    (directory, path)
}

/// Replaces the file at `path` by one that has the head and this text.
pub(super) fn write(path: &Path, text: &str) {
    std::fs::write(path, format!("{HEAD}{text}")).expect("it can be written");
}

/// Reads the file at `path` as `windlass run MORE --config PATH` does.
pub(super) fn read(path: &Path, more: &[&str]) -> HostConfig {
    let path = path.to_str().expect("UTF-8");
    let words = words(&[more, &["--config", path]].concat());
    HostConfig::of(&Cli::command(), &words).expect("it is right").expect("it is named")
}

fn words(more: &[&str]) -> Vec<OsString> {
    ["windlass", "run"].iter().chain(more).map(OsString::from).collect()
}

/// Reads a file with this text.
fn config(text: &str, more: &[&str]) -> HostConfig {
    let (_directory, path) = written(text);
    read(&path, more)
}

/// The flags that the file adds.
fn flags(config: &HostConfig) -> Vec<&str> {
    config.added.iter().filter_map(|flag| flag.word.as_deref()).collect()
}

/// The error for a file with this text, without its path.
fn wrong(text: &str) -> String {
    let (_directory, path) = written(text);
    refused(&path).replace(&format!("{}:", path.display()), "")
}

fn refused(path: &Path) -> String {
    let command = Cli::command();
    HostConfigFile::read(path, &command, &keys::all(&command)).expect_err("it is wrong").to_string()
}

#[test]
fn a_value_of_the_file_is_a_flag() {
    let text = "\
plugins: /etc/windlass/plugins
readOnly: true
warmStandby: false
concurrentCalls: 16
cacheLimit: 512Mi
pluginCacheLimit: 1048576
leaseDuration: 30s
recordSample: 0.5
record: /var/lib/windlass
recordRedact: [/spec/password, /spec/token]
limits: {memory: 256Mi, writes: 7}
featureGates:
  WatchList: true
logLevel: debug
";
    let config = config(text, &[]);
    let expected = [
        "--cache-limit=512Mi",
        "--concurrent-calls=16",
        "--feature-gates=WatchList=true",
        "--lease-duration=30s",
        "--limit=memory=256Mi",
        "--limit=writes=7",
        "--log-level=debug",
        "--plugin-cache-limit=1048576",
        "--plugins=/etc/windlass/plugins",
        "--read-only=true",
        "--record=/var/lib/windlass",
        "--record-redact=/spec/password",
        "--record-redact=/spec/token",
        "--record-sample=0.5",
        "--warm-standby=false",
    ];
    assert_eq!(flags(&config), expected);
    let line = config.completed();
    assert_eq!((line[0].to_str(), line.len()), (Some("windlass"), 4 + expected.len()), "what was there comes first");
    assert!(Cli::try_parse_from(&line).is_ok(), "{line:?}");
}

#[test]
fn arguments_after_two_dashes_stay_last() {
    let (_directory, path) = written("logLevel: debug\n");
    let line = words(&["--config", path.to_str().expect("UTF-8"), "--", "x"]);
    let config = HostConfig::of(&Cli::command(), &line).expect("it is right").expect("it is named");
    assert_eq!(config.completed()[4..], ["--log-level=debug", "--", "x"]);
}

#[test]
fn flags_and_the_environment_override_the_file() {
    let text =
        "namespace: team-1\ncontext: staging\nreadOnly: true\nrecord: /r\nrecordRedact: [/a, /b]\nlogLevel: debug\n";
    let more = ["-n", "team-2", "--read-only=false", "--record-redact", "/c", "--log-level=warn"];
    assert_eq!(flags(&config(text, &more)), ["--context=staging", "--record=/r"]);

    // A variable that is set wherever tests run.
    let command = Cli::command();
    let command = command.mut_subcommand("run", |run| run.mut_arg("context", |context| context.env("PATH")));
    let (_directory, path) = written(text);
    let line = words(&["--config", path.to_str().expect("UTF-8")]);
    let config = HostConfig::of(&command, &line).expect("it is right").expect("it is named");
    assert!(config.overriding.flags.contains("context") && !config.overriding.flags.contains("namespace"));
    assert!(flags(&config).iter().all(|flag| !flag.starts_with("--context")), "{:?}", flags(&config));
}

#[test]
fn a_map_is_overridden_name_by_name() {
    let text = "limits: {memory: 256Mi, cpu: 2s}\nfeatureGates: {WatchList: true, FairDispatch: false}\n";
    // The flag ignores blanks.
    for gates in ["AllAlpha=true,FairDispatch=true", "AllAlpha=true, FairDispatch =true,", " FairDispatch= true"] {
        let more = ["--limit", "memory=128Mi", "--feature-gates", gates];
        assert_eq!(flags(&config(text, &more)), ["--feature-gates=WatchList=true", "--limit=cpu=2s"], "{gates}");
    }
}

/// The map of an environment variable is added as a flag too, because clap ignores the variable once the file has added
/// the flag.
#[test]
fn a_map_in_the_environment_is_overridden_name_by_name_too() {
    let command = Cli::command();
    let command = command.mut_subcommand("run", |run| {
        run.mut_arg("limits", |limits| limits.env("PATH").value_parser(clap::value_parser!(String)))
    });
    let (_directory, path) = written("limits: {memory: 256Mi}\n");
    let line = words(&["--config", path.to_str().expect("UTF-8")]);
    let config = HostConfig::of(&command, &line).expect("it is right").expect("it is named");
    let origins: Vec<_> = config.added.iter().map(|flag| flag.origin.clone()).collect();
    assert_eq!(origins, [SettingOrigin::File(3), SettingOrigin::Environment("PATH".to_owned())]);
    assert_eq!(config.added[1].value, std::env::var("PATH").expect("there is one"));
}

#[test]
fn relative_paths_begin_at_the_file() {
    let (directory, path) = written("plugins: plugins\nceiling: ../ceiling.yaml\nkubeconfig: /k\nauditLog: none\n");
    let config = read(&path, &[]);
    let in_directory = |name: &str| directory.path().join(name).display().to_string();
    let expected = [
        "--audit-log=none".to_owned(),
        format!("--ceiling={}", in_directory("../ceiling.yaml")),
        "--kubeconfig=/k".to_owned(),
        format!("--plugins={}", in_directory("plugins")),
    ];
    assert_eq!(flags(&config), expected);
}

#[test]
fn a_mistake_is_reported_with_line_column_and_remedy() {
    for (text, says) in [
        ("pluginCacheLimitt: 1Gi\n", "3:1: unknown key `pluginCacheLimitt`; did you mean `pluginCacheLimit`?"),
        ("plugins: p\nplugin-cache-limit: 1Gi\n", "4:1: unknown key `plugin-cache-limit`; did you mean"),
        ("config: other.yaml\n", "3:1: unknown key `config`; "),
        ("bogus: 1\n", "`windlass config schema` describes all keys"),
        (
            "cacheLimit: 1GB\n",
            "3:13: `cacheLimit`: it cannot be \"1GB\": \"1GB\" is not a size in bytes, such as 512Mi",
        ),
        ("concurrentCalls: 5000\n", "3:18: `concurrentCalls`: it cannot be \"5000\": 5000 is not in 1..=4096"),
        ("concurrentCalls: \"16\"\n", "3:18: `concurrentCalls`: it must be a whole number"),
        ("readOnly: \"yes\"\n", "3:11: `readOnly`: it must be true or false"),
        ("leaseDuration: 15\n", "`leaseDuration`: it cannot be \"15\": a time is a whole number and its unit"),
        ("recordSample: much\n", "`recordSample`: it must be a number"),
        ("namespace: 12\n", "3:12: `namespace`: it must be text: put it in quotes"),
        ("namespace: Prod\n", "a namespace has up to 63 lower-case letters"),
        ("namespace:\n", "`namespace`: it has no value"),
        ("namespace: \"\"\n", "3:12: `namespace`: it cannot be \"\": "),
        ("plugins: \"\"\n", "3:10: `plugins`: it cannot be \"\": "),
        ("plugins: [a]\n", "3:10: `plugins`: it must be one value"),
        ("grants: polcy\n", "; did you mean `policy`?"),
        ("adminAddress: localhost\n", "`adminAddress`: it cannot be \"localhost\": "),
        ("logLevel: warning\n", "3:11: `logLevel`: it cannot be \"warning\": "),
        ("recordRedact: /spec/a\n", "`recordRedact`: it must be a list"),
        ("recordRedact: [/spec/a,\n  spec.b]\n", "4:3: `recordRedact[1]`: it cannot be \"spec.b\""),
        ("recordRedact: [[/a]]\n", "`recordRedact[0]`: it must be one value"),
        ("limits: [memory=1Gi]\n", "`limits`: it must be a map of names and values"),
        ("limits:\n  memory: 256Mi\n  cpu: 2\n", "5:8: `limits.cpu`: it cannot be \"cpu=2\": a time is"),
        (
            "limits:\n  memmory: 256Mi\n",
            "4:12: `limits.memmory`: it cannot be \"memmory=256Mi\": there is no limit \"memmory\"",
        ),
        ("limits: {memory: }\n", "`limits.memory`: it has no value"),
        (
            "featureGates: {WatchList: \"true,AllAlpha=true\"}\n",
            "`featureGates.WatchList`: it must be one value, without `,`",
        ),
        ("featureGates: {\"WatchList=true,AllAlpha\": true}\n", "it must be one name, without `=` and `,`"),
        ("limits:\n", "`limits`: it has no value"),
        ("logLevel: \"\"\n", "it is empty: name a level"),
        ("kubeconfig: ~/.kube/config\n", "3:13: `kubeconfig`: `~/.kube/config` is not expanded, as a shell would do"),
        ("record: \"a\\0b\"\n", "a path cannot contain NUL"),
        ("featureGates: {WatchList: maybe}\n", "WatchList=maybe is neither true nor false"),
        ("plugins: a\nplugins: b\n", "4:1: duplicate mapping key: plugins"),
        ("plugins: [a\n", ""),
        ("---\nplugins: a\n", "there are several documents in it"),
    ] {
        let said = wrong(text);
        assert!(said.contains(says) && !said.contains("Option"), "{text}: {said}");
    }
    let all = wrong("plugin: p\ncacheLimit: 1GB\nreadOnly: 1\n");
    assert!(["3:1: ", "4:13: ", "5:11: "].iter().all(|place| all.contains(place)), "{all}");
}

#[test]
fn a_file_that_is_no_configuration_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("windlass.yaml");
    assert!(refused(&path).contains("cannot be read: No such file"));
    assert!(refused(directory.path()).contains("not a regular file"));
    let mut bomb = HEAD.to_owned() + "a: &a [x, x, x, x, x, x, x, x, x]\n";
    for (before, name) in ('a'..='h').zip('b'..='i') {
        let line = format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(", "));
        bomb.push_str(&line);
    }
    let begin = "it must begin with `apiVersion: windlass.dev/v1alpha1` and `kind: HostConfiguration`";
    for (text, says) in [
        ("", begin),
        ("{}", begin),
        ("plugins: a\n", begin),
        ("apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\n", begin),
        ("name: shop\nlanguage: go\n", "which is for `windlass build`"),
        ("- plugins\n", "not a map of keys and values"),
        ("plugins", "not a map of keys and values"),
        ("\u{0}", ""),
        (&bomb, ""),
        (&"#".repeat((1 << 20) + 1), "more than 1048576 bytes"),
    ] {
        std::fs::write(&path, text).expect("it can be written");
        let said = refused(&path);
        assert!(said.contains(says) && said.contains("windlass.yaml"), "{}: {said}", &text[..text.len().min(80)]);
    }
    std::fs::write(&path, b"\xff\xfe\x00").expect("it can be written");
    assert!(refused(&path).contains("windlass.yaml"));
}

#[test]
fn a_command_line_without_a_file_for_a_host_reads_none() {
    for line in [
        &["windlass", "run", "--plugins", "p"][..],
        &["windlass", "run", "--config", "/nowhere", "--help"],
        &["windlass", "config", "schema"],
        &["windlass", "features"],
        &["windlass"],
    ] {
        let words: Vec<_> = line.iter().map(OsString::from).collect();
        assert!(HostConfig::of(&Cli::command(), &words).expect("nothing is read").is_none(), "{line:?}");
    }
}

fn schema_of_all() -> Value {
    schema::schema(&keys::all(&Cli::command()))
}

#[test]
fn the_published_schema_is_the_one_that_the_program_prints() {
    let published: Value =
        serde_json::from_str(include_str!("../../../../../docs/schema/host-configuration.schema.json")).expect("JSON");
    let advice = "run `windlass config schema > docs/schema/host-configuration.schema.json`";
    assert_eq!(published, schema_of_all(), "{advice}");
}

#[test]
fn every_flag_of_a_host_has_a_key_with_a_description() {
    let mut command = Cli::command();
    command.build();
    let run = command.find_subcommand("run").expect("it is a command");
    let flags = run.get_arguments().filter_map(|flag| Some((flag.get_long()?, flag.get_id().as_str())));
    let flags: Vec<_> = flags.filter(|(long, _)| !["config", "help", "version"].contains(long)).collect();
    let schema = schema_of_all();
    let properties = schema["properties"].as_object().expect("it has properties");
    assert_eq!(properties.len(), flags.len() + 2, "and the version and the kind");
    for (long, id) in flags {
        let keys = keys::all(&Cli::command());
        let key = keys.iter().find(|key| key.id() == id).expect(long);
        let description = properties[&key.name]["description"].as_str().expect("a text");
        assert!(description.contains(&format!("Flag `--{long}`")) && description.len() > 30, "{description}");
        // A key must have the name of its flag, because users know the flags.
        let dashed: String = key
            .name
            .chars()
            .map(|it| if it.is_uppercase() { format!("-{}", it.to_lowercase()) } else { it.into() })
            .collect();
        assert!(dashed == long || key.name == "limits", "{long}: {}", key.name);
    }
}

/// A value for the schema, for keys whose type alone does not give a valid one.
fn example(key: &ConfigKey) -> Value {
    let value = match key.id() {
        "admin_address" | "hooks_address" => return json!("127.0.0.1:8080"),
        "limits" => return json!({"memory": "256Mi", "writes": 7}),
        "feature_gates" => return json!({"WatchList": true}),
        "record_redact" => return json!(["/spec/password"]),
        "log_level" => json!("info"),
        _ => match key.kind {
            KeyKind::Bool => json!(true),
            KeyKind::Integer => json!(9),
            KeyKind::Number => json!(0.25),
            KeyKind::Size => json!("64Mi"),
            KeyKind::Time => json!("90s"),
            KeyKind::Path => json!("some/where"),
            KeyKind::Text => key.choices().first().map_or(json!("some"), |choice| json!(choice)),
        },
    };
    if key.form == KeyForm::List { json!([value]) } else { value }
}

#[test]
fn the_schema_and_the_reader_accept_the_same_keys() {
    let schema = schema_of_all();
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let (keys, mut all) = (keys::all(&Cli::command()), Map::new());
    for key in &keys {
        let document =
            json!({"apiVersion": "windlass.dev/v1alpha1", "kind": "HostConfiguration", &key.name: example(key)});
        assert!(validator.is_valid(&document), "{document}");
        all.insert(key.name.clone(), example(key));
        for wrong in [json!(null), json!({"some": {"other": 1}}), json!([[1]])] {
            let document =
                json!({"apiVersion": "windlass.dev/v1alpha1", "kind": "HostConfiguration", &key.name: wrong});
            assert!(!validator.is_valid(&document), "{document}");
        }
    }
    // JSON is also YAML.
    let lines: Vec<_> = all.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let config = config(&lines.join("\n"), &[]);
    for key in &keys {
        assert!(!config.file.values(key).is_empty(), "{}", key.name);
    }
    let matches = Cli::command().try_get_matches_from(config.completed()).expect("a host takes all of it");
    Cli::from_arg_matches(&matches).expect("a host takes all of it");
}

#[test]
fn a_computed_default_is_described_as_in_the_help() {
    let keys = keys::all(&Cli::command());
    let words = |id: &str| keys.iter().find(|key| key.id() == id).and_then(ConfigKey::default_in_words);
    assert_eq!(words("concurrent_calls").as_deref(), Some("twice the processors"));
    assert_eq!(words("grants").as_deref(), Some("policy"));
    assert_eq!(words("ceiling"), None);
}
