//! Wrong scripts, and the messages that their authors see.

use starlark::environment::FrozenModule;
use starlark::values::Value;
use windlass_sdk::testing::Host;
use windlass_sdk::{ApiReason, has_fields};

use crate::arguments::wrong;
use crate::failures::problems;
use crate::{entry, kind, script, values};

const MANIFEST: &str = "manifest = {\"name\": \"shop\"}\n\n";
const RECONCILE: &str = "def reconcile(request):\n    return None\n";

/// The manifest of a script, or the error message.
fn described(text: &str) -> Result<String, String> {
    kind::check(text)?;
    let said = |error: &starlark::Error| problems(error).remove(0).failure.message;
    let read = script::parsed(text).map_err(|error| said(&error))?;
    entry::manifest(&read).map_err(|error| said(&error))
}

fn refused(text: &str) -> String {
    described(text).expect_err(text)
}

fn with(text: &str) -> String {
    format!("{MANIFEST}{text}")
}

#[test]
fn a_manifest_is_a_dict_or_the_result_of_a_function() {
    let expected = r#"{"apiVersion":"windlass.dev/v1alpha1","kind":"PluginManifest","name":"shop"}"#;
    assert_eq!(described(&with(RECONCILE)), Ok(expected.to_owned()));
    let made = format!("def manifest():\n    return dict(name = \"shop\")\n\n{RECONCILE}");
    assert_eq!(described(&made), Ok(expected.to_owned()));
}

#[test]
fn an_unreadable_script_is_reported_with_its_place() {
    for (text, says) in [
        ("def reconcile(request)\n    return None\n", "plugin.star:3:23: Parse error: unexpected new line"),
        ("def reconcile(request):\n    return nothing\n", "plugin.star:4:12: Variable `nothing` not found"),
        ("load(\"lib.star\", \"helper\")\n", "plugin.star:3:1: `load` is not allowed"),
        ("x = 1 + \"1\"\n", "plugin.star:3:5: Operation `+` not supported"),
        ("x = clock.now()\n", "plugin.star:3:5: clock.now works only within a call"),
        ("x = writes.apply({}, force = True)\n", "plugin.star:3:5: writes.apply works only within a call"),
        ("fail(\"on purpose\")\n", "plugin.star:3:1: on purpose"),
        (
            "def turn(n):\n    return turn(n + 1)\n\nturn(0)\n",
            "plugin.star:4:12 in turn: functions call each other without end",
        ),
    ] {
        let said = refused(&with(&format!("{text}{RECONCILE}")));
        assert!(said.starts_with(says), "{text}: {said}");
    }
    let said = refused(&with(&format!("x = {}\n", "[".repeat(5_000))));
    assert!(said.starts_with("plugin.star:3:105: brackets or blocks are nested too deeply"), "{said}");
}

#[test]
fn functions_and_options_that_do_not_exist_are_refused_with_their_place() {
    for (text, says) in [
        ("def reconcile(request):\n    writes.aply({})\n", "plugin.star:4:12: `writes` has no `aply`. It has `apply`"),
        ("x = [lambda: log.inform(\"a\")]\n", "plugin.star:3:18: `log` has no `inform`. It has"),
        ("def f():\n    return [cache.find(x) for x in []]\n", "plugin.star:4:19: `cache` has no `find`. It has"),
        ("def f():\n    if False:\n        http.get(\"\")\n", "plugin.star:5:14: `http` has no `get`. It has `fetch`"),
    ] {
        let said = refused(&with(&format!("{text}{RECONCILE}")));
        assert!(said.starts_with(says), "{text}: {said}");
    }
    for (text, says) in [
        (
            "def f():\n    writes.apply({}, force = True, forse = True)\n",
            "plugin.star:4:36: writes.apply has no option `forse`; there are: subresource, parent,",
        ),
        (
            "def f():\n    return [event(\"a\", reasn = \"b\")]\n",
            "plugin.star:4:24: event has no option `reasn`; there",
        ),
        (
            "def f():\n    errors.transient(\"a\", after = 1)\n",
            "plugin.star:4:27: errors.transient has no option `after`",
        ),
    ] {
        let said = refused(&with(&format!("{text}{RECONCILE}")));
        assert!(said.starts_with(says), "{text}: {said}");
    }
    for own in [
        "def f():\n    log.info(\"a\", whatever = 1)\n",
        "def event(reasn):\n    return reasn\n\nx = event(reasn = 1)\n",
        "def f():\n    return struct(b = sorted([1], reverse = True), c = dict(a = 1))\n",
        "def f(log):\n    return log.lines\n",
        "def f(request):\n    for cache in request.caches:\n        cache.drop()\n",
        "x = [live.name for live in []]\n",
        "config = struct(a = 1)\nx = config.a\n",
        "def f(a):\n    return a.writes.aply\n",
    ] {
        assert!(described(&with(&format!("{own}{RECONCILE}"))).is_ok(), "{own}");
    }
}

#[test]
fn an_incomplete_script_is_refused_with_the_missing_parts() {
    for (text, says) in [
        (MANIFEST.to_owned(), "plugin.star defines no `reconcile`: a reconciler has `def reconcile(request):`"),
        (with("reconcile = 1\n"), "`reconcile` of plugin.star is of type int"),
        (with("def compose(request):\n    return composition()\n"), "plugin.star:3:1: it defines `compose`"),
        (RECONCILE.to_owned(), "plugin.star has no `manifest`"),
        (
            format!(
                "manifest = {{\"controllers\": [{{\"watches\": [{{\"mapping\": {{\"type\": \"mapper\"}}}}]}}]}}\n{RECONCILE}"
            ),
            "plugin.star defines no `map`: a manifest with a watch that is mapped by `mapper` wants `def map(watch, change):`",
        ),
        (
            format!(
                "manifest = {{\"controllers\": [{{\"hooks\": [{{\"mapping\": {{\"type\": \"mapper\"}}}}]}}]}}\n{RECONCILE}"
            ),
            "plugin.star defines no `map`: a manifest with a watch that is mapped by `mapper` wants `def map(watch, change):`",
        ),
        (format!("manifest = []\n{RECONCILE}"), "the `manifest` of plugin.star is of type list, and a dict is wanted"),
        (format!("manifest = {{\"a\": [len]}}\n{RECONCILE}"), "the `manifest` of plugin.star: /a/0 is no JSON"),
        (format!("manifest = {{1: 2}}\n{RECONCILE}"), "the `manifest` of plugin.star: it is no JSON: it has the key 1"),
        (
            format!("def manifest():\n    return {{}}[\"version\"]\n\n{RECONCILE}"),
            "plugin.star:2:12 in manifest: Key `\"version\"` was not found",
        ),
    ] {
        let said = refused(&text);
        assert!(said.starts_with(says), "{text}: {said}");
    }
}

/// The value of `x` at the top of a script, as JSON.
fn top(text: &str) -> Result<serde_json::Value, String> {
    let told = |error: &starlark::Error| problems(error).remove(0).failure.message;
    let read: FrozenModule = script::parsed(text).map_err(|error| told(&error))?;
    let x = read.get("x").map_err(|error| error.to_string())?;
    let text = values::to_json(x.value()).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

#[test]
fn values_are_written_as_json_and_read_again() {
    for text in ["null", "[true,18446744073709551615,-9007199254740993,-0.0,1e308]", r#"{"\u0000":"𝄞\"","":{}}"#] {
        let quoted = serde_json::to_string(text).expect("a text");
        assert_eq!(top(&format!("x = json.decode({quoted})")), Ok(serde_json::from_str(text).expect("JSON")), "{text}");
    }
    assert_eq!(top("x = struct(a = (1, 2.0))"), Ok(serde_json::json!({"a": [1, 2.0]})));
    for (text, place) in [("{'a/b': [0, float('nan')]}", "/a~1b/1"), ("[lambda: 1]", "/0"), ("{(1, 2): 3}", "it")] {
        let said = top(&format!("x = {text}")).expect_err(text);
        assert!(said.starts_with(&format!("{place} is no JSON: ")), "{said}");
    }
}

#[test]
fn caught_errors_keep_their_class() {
    let text = r#"
def fails():
    fail("first", errors.api(code = 409, reason = "conflict", message = "changed"), [errors.terminal("never"), None])

def wrong():
    return {}["a"]

def told(result):
    return [(error.message, error.reason, error.terminal) for error in result.errors]

x = [told(attempt(fails)), told(attempt(wrong)), told(attempt(fail_terminal, "no")), attempt(len, "ab").value]
"#;
    let key = "plugin.star:6:12 in wrong: Key `\"a\"` was not found";
    let expected = serde_json::json!([
        [["first: changed", "conflict", false], ["first: never", null, true]],
        [[key, null, false]],
        [["no", null, true]],
        2,
    ]);
    assert_eq!(top(text), Ok(expected));
}

#[test]
fn objects_are_looked_into() {
    let text = r#"
pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "uid": "u"}, "spec": {"ports": [{"n": 1, "m": 2}]}}
x = [
    at(pod, "/spec/ports/0/n"),
    at(pod, "/spec/none", 7),
    at(None, "/a", 8),
    has_fields(pod, {"spec": {"ports": [{"n": 1}]}}),
    has_fields(pod, {"spec": {"ports": [{"n": 2}]}}),
    find([pod], "v1", "Pod", "a") == pod,
    find([pod], "v1", "Pod", "b"),
    sibling(pod, "v1", "Secret"),
    owner_reference(pod)["uid"],
    ref("v1", "Pod", "b", namespace = "c"),
    selector_text({"matchLabels": {"b": "1", "a": "2"}}),
    quantity("1.5Gi").value,
    quantity("250m").milli_value + quantity("0.5").milli_value,
    quantity(1536 << 20, binary = True).text,
]
"#;
    let expected = serde_json::json!([
        1, 7, 8, true, false, true, null,
        {"apiVersion": "v1", "kind": "Secret", "name": "a"}, "u",
        {"apiVersion": "v1", "kind": "Pod", "namespace": "c", "name": "b"}, "a=2,b=1",
        1_610_612_736, 750, "1536Mi",
    ]);
    assert_eq!(top(text), Ok(expected));
}

#[test]
fn an_invalid_quantity_or_error_is_reported() {
    for (text, says) in [
        ("quantity(\"1.5G i\")", "the argument of quantity: \"1.5G i\" is not a quantity"),
        ("quantity([])", "the argument of quantity is of type list"),
        ("errors.api(message = \"no\")", "errors.api needs `code`"),
        ("errors.api(code = 409, reasn = \"conflict\")", "errors.api has no option `reasn`; there are: code, reason,"),
        (
            "errors.api(code = 409, reason = \"conflct\")",
            "`reason` of errors.api is \"conflct\"; there are: other, not-found,",
        ),
        ("errors.api(code = 70000)", "`code` of errors.api is 70000, which is not an HTTP status"),
    ] {
        let said = top(&format!("x = {text}")).expect_err(text);
        assert!(said.contains(says), "{text}: {said}");
    }
}

/// The code blocks of a page that are scripts.
fn scripts(page: &str) -> impl Iterator<Item = &str> {
    let blocks = page.split("```python\n").skip(1);
    blocks.filter_map(|rest| rest.split("```").next())
}

#[test]
fn the_scripts_on_pages_parse() {
    let readme = include_str!("../../README.md");
    let first = scripts(readme).next().expect("the README shows a plugin");
    assert!(described(first).is_ok_and(|manifest| manifest.contains("\"Shop\"")));
    for script in scripts(readme).chain(scripts(include_str!("../../../../docs/authoring.md"))) {
        assert!(script::is_syntax(script), "{script}");
    }
}

#[test]
fn a_value_that_contains_itself_is_refused_with_a_message() {
    let ends = |body: &str| {
        let read = script::parsed(&format!("def run():\n{body}")).expect("it parses");
        let function = read.get("run").expect("it is there");
        let ended = script::call(&function, |_| Ok(vec![]), |_| Ok(()));
        problems(&ended.expect_err(body)).remove(0).failure.message
    };
    let list = "    e = []\n    e.append(e)\n    fail_all(e)\n";
    assert!(ends(list).contains("lists are nested too deeply"), "{}", ends(list));
    let dict = "    d = {}\n    d[\"a\"] = d\n    has_fields(d, d)\n";
    assert!(ends(dict).contains("nested too deeply"), "{}", ends(dict));
}

/// Calls a script's `run`, and returns its result as JSON, the reason of an API error, or the message of another error.
fn run(text: &str) -> Result<serde_json::Value, String> {
    let read = script::parsed(text).expect("it parses");
    let function = read.get("run").expect("it is there");
    let json = |value: Value<'_>| values::to_json(value).map_err(wrong);
    let ended = script::in_call(|| script::call(&function, |_| Ok(vec![]), json));
    let json = ended.map_err(|error| {
        let failure = problems(&error).remove(0).failure;
        failure.api.map_or(failure.message, |error| error.reason.as_str().to_owned())
    })?;
    Ok(serde_json::from_str(&json).expect("it is JSON"))
}

#[test]
fn ensure_creates_or_patches_only_if_needed() {
    let mut host = Host::new();
    let script = |value: &str| {
        format!(
            r#"
def run():
    settings = {{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "m", "namespace": "prod"}}}}
    ensured = writes.ensure(dict(settings, data = {{"k": "{value}"}}))
    return (ensured.effect, ensured.object["data"])
"#
        )
    };
    assert_eq!(run(&script("v")), Ok(serde_json::json!(["created", {"k": "v"}])));
    assert_eq!(run(&script("v")), Ok(serde_json::json!(["unchanged", {"k": "v"}])));
    assert_eq!(run(&script("w")), Ok(serde_json::json!(["patched", {"k": "w"}])));
    host.fail("patch", "ConfigMap", ApiReason::Conflict);
    assert_eq!(run(&script("x")), Err("conflict".to_owned()));
    let nameless = run("def run():\n    writes.ensure({\"apiVersion\": \"v1\", \"kind\": \"Pod\"})\n");
    let said = nameless.expect_err("it has no name");
    assert!(said.contains("an object to write: metadata.name is missing"), "{said}");
    let verbs: Vec<_> = host.writes().iter().map(|write| write.verb).collect();
    assert_eq!(verbs, ["create", "patch", "patch"]);
}

/// The tests of all SDKs share these cases, which leave out the kind and the name of the object.
#[test]
fn ensure_sends_the_smallest_patch() {
    let cases: Vec<serde_json::Value> = serde_json::from_str(include_str!("../../../cases/ensure.json")).expect("JSON");
    let named = |object: &serde_json::Value| {
        let mut object = object.clone();
        (object["apiVersion"], object["kind"], object["metadata"]["name"]) = ("v1".into(), "A".into(), "a".into());
        object
    };
    for case in &cases {
        let mut host = Host::new();
        host.put(&named(&case["cached"]));
        let desired = serde_json::to_string(&named(&case["desired"]).to_string()).expect("a text");
        let ended = run(&format!("def run():\n    return writes.ensure(json.decode({desired})).effect\n"));
        let (effect, patch) = match (&case["controlledBy"], &case["patch"]) {
            (serde_json::Value::String(_), _) => (Err("already-exists".to_owned()), None),
            (_, serde_json::Value::Null) => (Ok("unchanged".into()), None),
            (_, patch) => (Ok("patched".into()), Some(patch.clone())),
        };
        assert_eq!(ended, effect, "{}", case["name"]);
        let sent = host.writes().into_iter().next().map(|write| write.body);
        // The patches are compared by value, because the interpreter writes numbers in its own form.
        let are_same = match (&sent, &patch) {
            (Some(sent), Some(patch)) => has_fields(sent, patch) && has_fields(patch, sent),
            (sent, patch) => sent == patch,
        };
        assert!(are_same, "{}: {sent:?}", case["name"]);
    }
}

#[test]
fn fail_shows_all_its_arguments() {
    let read = script::parsed("def run():\n    fail(\"unknown keys:\", [\"a\", \"b\"])\n").expect("it parses");
    let ended = script::call(&read.get("run").expect("it is there"), |_| Ok(vec![]), |_| Ok(()));
    let said = problems(&ended.expect_err("it fails")).remove(0).failure.message;
    assert!(said.contains(r#"unknown keys: ["a","b"]"#), "{said}");
}

#[test]
fn a_selector_without_labels_is_empty() {
    let read = script::parsed("def run():\n    return selector_text({\"matchLabels\": None})\n").expect("it parses");
    let text = script::call(&read.get("run").expect("it is there"), |_| Ok(vec![]), |text| Ok(text.to_str()));
    assert_eq!(text.expect("it has a text"), "");
}
