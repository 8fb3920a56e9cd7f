//! The WebApp plugins behave the same in every language: for the same input, they make the same requests with the same
//! bodies and events, and end in the same way. The plugin in Rust is the reference.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::call::read_tracker::Spoiler;
use windlass_wasm::Plugin;

use crate::call::{Call, Seen};
use crate::composing::{Around, compose};
use crate::languages::{is_selected, plugin_of};
use crate::ports::Answers;
use crate::verdict::{Findings, same};
use crate::wire::REASONS;

/// The suffix of the plugins' names, and their language as `WINDLASS_CONFORMANCE` names it.
type Sister = (&'static str, &'static str);

/// The plugins that reconcile.
const RECONCILING: [Sister; 5] =
    [("go", "go"), ("python", "python"), ("ts", "js"), ("c", "c"), ("starlark", "starlark")];

/// The plugins that compose.
const COMPOSING: [Sister; 4] = [("go", "go"), ("python", "python"), ("ts", "js"), ("starlark", "starlark")];

fn directory() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/plugins");
    std::env::var_os("WINDLASS_PLUGIN_DIR").map_or_else(default, PathBuf::from)
}

fn load(file: &str) -> Result<Arc<Plugin>, String> {
    plugin_of(&directory().join(file), "`make plugins conformance` builds all of them")
}

/// The plugins that are compared with the plugin in Rust.
fn sisters(name: &str, sisters: &[Sister]) -> Vec<String> {
    let selected = sisters.iter().filter(|(_, language)| is_selected(language));
    selected.map(|(suffix, _)| format!("{name}-{suffix}")).collect()
}

/// The objects that a WebApp plugin finds, and the requests that fail.
#[derive(Clone, Debug, Default)]
struct Scenario {
    name: String,
    /// `None` means that the WebApp is gone.
    app: Option<Value>,
    deleting: bool,
    cached: Vec<Value>,
    /// Kind, verb and reason: `("Service", "apply", "conflict")`.
    failing: Vec<(&'static str, &'static str, &'static str)>,
    /// Whether the Deployment that an apply returns is ready.
    is_ready_at_once: bool,
}

fn new_app() -> Value {
    json!({
        "apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp",
        "metadata": {"name": "shop", "namespace": "prod", "uid": "u-1", "generation": 1, "resourceVersion": "5", "labels": {"team": "größer"}},
        "spec": {"image": "nginx:1.29", "replicas": 3, "port": 8081},
    })
}

/// A child as the server keeps it.
fn stored(wanted: &Value) -> Value {
    let mut stored = wanted.clone();
    let metadata = &mut stored["metadata"];
    metadata["resourceVersion"] = json!("7");
    metadata["uid"] = json!("u-child");
    metadata["generation"] = json!(4);
    metadata["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "u-9"},
        {"apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp", "name": "shop", "uid": "u-1", "controller": true, "blockOwnerDeletion": true},
    ]);
    metadata["labels"]["added"] = json!("by somebody");
    stored["spec"]["sessionAffinity"] = json!("None");
    stored
}

fn with_status(mut deployment: Value, ready: i64) -> Value {
    deployment["status"] =
        json!({"observedGeneration": 4, "replicas": 3, "updatedReplicas": 3, "readyReplicas": ready});
    deployment
}

impl Scenario {
    fn answers(&self) -> Answers {
        let scenario = self.clone();
        Box::new(move |asked| scenario.answer(asked))
    }

    fn answer(&self, asked: &Value) -> Value {
        let is_read = asked["cache.get"].is_object();
        let target = if is_read {
            &asked["cache.get"]
        } else if asked["op"] == "patch" {
            &asked["target"]
        } else {
            &asked["object"]
        };
        let kind = target["kind"].as_str().unwrap_or_default();
        let verb = if is_read { "get" } else { asked["op"].as_str().unwrap_or_default() };
        let name = target["name"].as_str().or_else(|| target["metadata"]["name"].as_str()).unwrap_or_default();
        if let Some((.., reason)) = self.failing.iter().find(|(of, with, _)| *of == kind && *with == verb) {
            return json!({"error": {
                "code": 418, "reason": reason, "statusReason": "Some", "message": format!("größer als {kind}"), "retryAfterMs": 30,
                "verb": if is_read { "get" } else { "patch" }, "resource": "things.example.com",
                "object": {"apiVersion": target["apiVersion"], "kind": kind, "namespace": "prod", "name": name},
            }});
        }
        let cached = self.cached.iter().find(|object| object["kind"] == kind).cloned().unwrap_or_default();
        match verb {
            "get" | "patch" => json!({"ok": cached}),
            _ if kind == "Deployment" && self.is_ready_at_once => json!({"ok": with_status(stored(target), 3)}),
            _ if kind == "WebApp" => json!({"ok": target}),
            _ => json!({"ok": stored(target)}),
        }
    }

    fn call(&self) -> Call {
        let object = self.app.as_ref().map(Value::to_string);
        let call = Call::about(object.clone().unwrap_or_default());
        Call { name: "shop".to_owned(), object: object.map(Arc::from), deleting: self.deleting, ..call }
    }

    fn run(&self, plugin: &Arc<Plugin>) -> Seen {
        self.call().make(plugin, self.answers())
    }
}

/// The object of a kind that is applied.
fn applied(seen: &Seen, kind: &str) -> Value {
    let found = seen.asked.iter().find(|asked| asked["op"] == "apply" && asked["object"]["kind"] == kind);
    found.unwrap_or_else(|| panic!("the plugin in Rust applies no {kind}: {:?}", seen.asked))["object"].clone()
}

/// The objects of which the scenarios are made, computed from the applies of the plugin in Rust.
struct Stage {
    /// A WebApp whose status is up to date.
    running: Value,
    deployment: Value,
    service: Value,
}

impl Stage {
    fn new(rust: &Arc<Plugin>) -> Self {
        let scenario = Scenario { app: Some(new_app()), ..Scenario::default() };
        let seen = scenario.run(rust);
        let (deployment, service) = (stored(&applied(&seen, "Deployment")), stored(&applied(&seen, "Service")));
        let deployment = with_status(deployment, 3);
        let cached = vec![deployment.clone(), service.clone()];
        let seen = Scenario { cached, ..scenario }.run(rust);
        let mut running = new_app();
        running["status"] = applied(&seen, "WebApp")["status"].clone();
        Self { running, deployment, service }
    }

    fn scenario(&self, name: &str, change: impl FnOnce(&mut Scenario)) -> Scenario {
        let cached = vec![self.deployment.clone(), self.service.clone()];
        let mut scenario =
            Scenario { name: name.to_owned(), app: Some(self.running.clone()), cached, ..Scenario::default() };
        change(&mut scenario);
        scenario
    }

    fn with_app(&self, name: &str, change: impl FnOnce(&mut Value)) -> Scenario {
        self.scenario(name, |scenario| change(scenario.app.as_mut().expect("there is one")))
    }

    fn with_cached(&self, name: &str, kind: &str, change: impl FnOnce(&mut Value)) -> Scenario {
        self.scenario(name, |scenario| {
            let mut cached = scenario.cached.iter_mut();
            change(cached.find(|object| object["kind"] == kind).expect("it is cached"));
        })
    }

    fn scenarios(&self) -> Vec<Scenario> {
        let of_apps = self.of_apps();
        let of_children = self.of_children();
        of_apps.into_iter().chain(of_children).chain(self.of_failures()).collect()
    }

    fn of_apps(&self) -> Vec<Scenario> {
        let new = |name: &str, change: fn(&mut Value)| {
            let mut app = new_app();
            change(&mut app);
            Scenario { name: name.to_owned(), app: Some(app), ..Scenario::default() }
        };
        vec![
            new("a new app", |_| {}),
            new("a new app with the defaults", |app| app["spec"] = json!({"image": "nginx"})),
            new("a new app whose image has spaces around it", |app| app["spec"]["image"] = json!("  nginx\t\n")),
            new("a new app whose image has white space of other scripts and lookalikes around it", |app| {
                app["spec"]["image"] = json!("\u{85}\u{2003}\u{feff}nginx\u{1c}\u{3000}\u{a0}");
            }),
            new("a new app without an image", |app| app["spec"]["image"] = json!(" \t")),
            Scenario { is_ready_at_once: true, ..new("a new app that is ready at once", |_| {}) },
            new("a new app without replicas", |app| app["spec"]["replicas"] = json!(0)),
            Scenario { name: "an app that is gone".to_owned(), ..Scenario::default() },
            self.scenario("an app that is going", |scenario| scenario.deleting = true),
            self.scenario("an app that is as it should be", |_| {}),
            self.with_app("an app of another spec", |app| {
                app["metadata"]["generation"] = json!(2);
                app["spec"]["image"] = json!("nginx:2");
                app["spec"]["replicas"] = json!(5);
            }),
            self.with_app("an app with another port: the old one is cut", |app| {
                app["metadata"]["generation"] = json!(2);
                app["spec"]["port"] = json!(9090);
            }),
            self.with_app("an app that has lost its image", |app| {
                app["metadata"]["generation"] = json!(2);
                app["spec"]["image"] = json!("");
            }),
            self.with_app("an app without a status", |app| {
                app.as_object_mut().expect("an object").remove("status");
            }),
            self.with_app("an app with another controller's condition", |app| {
                let conditions = app["status"]["conditions"].as_array_mut().expect("a list");
                conditions.insert(0, json!({"type": "Mine", "status": "Unknown", "reason": "R", "message": "m", "lastTransitionTime": "2020-01-01T00:00:00Z"}));
            }),
        ]
    }

    fn of_children(&self) -> Vec<Scenario> {
        let missing = |kind: &'static str| {
            self.scenario(&format!("the {kind} was deleted"), |scenario| {
                scenario.cached.retain(|object| object["kind"] != kind);
            })
        };
        let foreign = json!([{"uid": "u-2", "controller": true, "apiVersion": "v1", "kind": "Shop", "name": "x"}]);
        let of_others = |kind| {
            let foreign = foreign.clone();
            self.with_cached(&format!("the {kind} belongs to another controller"), kind, |object| {
                object["metadata"]["ownerReferences"] = foreign;
            })
        };
        let orphan = |kind| {
            self.with_cached(&format!("the {kind} is an orphan of ours"), kind, |object| {
                object["metadata"]["ownerReferences"] = json!([]);
            })
        };
        let going = |kind| {
            self.with_cached(&format!("the {kind} is going"), kind, |object| {
                object["metadata"]["deletionTimestamp"] = json!("2026-11-21T10:48:45Z");
                object["spec"]["selector"] = json!({});
            })
        };
        let mut all: Vec<_> = ["Deployment", "Service"]
            .into_iter()
            .flat_map(|kind| [missing(kind), of_others(kind), orphan(kind), going(kind)])
            .collect();
        all.push(self.scenario("both children were deleted", |scenario| scenario.cached.clear()));
        all.push(self.with_cached("an object made by hand has the name", "Service", |service| {
            service["metadata"] = json!({"name": "shop", "namespace": "prod"});
        }));
        all.push(self.scenario("both children belong to another controller", |scenario| {
            scenario.cached.iter_mut().for_each(|object| object["metadata"]["ownerReferences"] = foreign.clone());
        }));
        all.push(
            self.with_cached("the Deployment was scaled by hand", "Deployment", |it| it["spec"]["replicas"] = json!(7)),
        );
        all.push(self.with_cached("the Service's port was renumbered", "Service", |it| {
            it["spec"]["ports"][0]["port"] = json!(81);
        }));
        all.push(self.with_cached("the Service got another port", "Service", |it| {
            it["spec"]["ports"].as_array_mut().expect("a list").push(json!({"name": "admin", "port": 82}));
        }));
        all.push(self.with_cached("the Service's selector has more in it", "Service", |it| {
            it["spec"]["selector"]["tier"] = json!("x");
        }));
        all.push(self.with_cached("the container's port was renumbered beside a sidecar", "Deployment", |it| {
            let containers = it["spec"]["template"]["spec"]["containers"].as_array_mut().expect("a list");
            containers[0]["ports"][0]["containerPort"] = json!(1);
            containers.insert(0, json!({"name": "sidecar", "ports": [{"containerPort": 2}]}));
        }));
        all.push(self.with_cached("a label of ours was taken off", "Deployment", |it| {
            it["metadata"]["labels"].as_object_mut().expect("an object").remove("app.kubernetes.io/managed-by");
        }));
        for ready in [0, 2, 4] {
            all.push(self.with_cached(&format!("{ready} replicas are ready"), "Deployment", |it| {
                *it = with_status(it.clone(), ready);
            }));
        }
        all.push(self.with_cached("the Deployment's report is about an older spec", "Deployment", |it| {
            it["status"]["observedGeneration"] = json!(3);
        }));
        all.push(self.with_cached("the Deployment has no status", "Deployment", |it| it["status"] = Value::Null));
        all
    }

    fn of_failures(&self) -> Vec<Scenario> {
        const DEPLOYMENT: &[(&str, &str)] = &[("Deployment", "apply")];
        let fails = |what: &'static [(&str, &str)], reason: &'static str| {
            let name = format!("{what:?} fails with {reason}");
            self.scenario(&name, |scenario| {
                scenario.cached.clear();
                scenario.failing = what.iter().map(|(kind, verb)| (*kind, *verb, reason)).collect();
            })
        };
        let of_every_class = REASONS.iter().map(|(_, reason)| fails(DEPLOYMENT, reason));
        let others: [&'static [(&str, &str)]; 6] = [
            &[("Service", "apply")],
            &[("Deployment", "apply"), ("Service", "apply")],
            &[("WebApp", "apply")],
            &[("Deployment", "get")],
            &[("Service", "get")],
            &[("Deployment", "get"), ("Service", "apply"), ("WebApp", "apply")],
        ];
        let of_others = others
            .into_iter()
            .flat_map(|what| ["conflict", "forbidden", "invalid", "server-error"].map(|reason| fails(what, reason)));
        let of_patches = ["conflict", "forbidden"].map(|reason| {
            let mut scenario = self.with_cached(&format!("a cut fails with {reason}"), "Service", |it| {
                it["spec"]["ports"][0]["port"] = json!(81);
            });
            scenario.failing.push(("Service", "patch", reason));
            scenario
        });
        of_every_class.chain(of_others).chain(of_patches).collect()
    }
}

fn outcome(seen: &Seen) -> Value {
    json!({"asked": seen.asked, "ended": seen.ended})
}

#[test]
fn every_webapp_plugin_behaves_like_the_rust_one() {
    let mut findings = Findings::default();
    let rust = load("webapp.wasm").unwrap_or_else(|error| panic!("{error}"));
    let scenarios = Stage::new(&rust).scenarios();
    let expected: Vec<_> = scenarios.iter().map(|scenario| scenario.run(&rust)).collect();
    for sister in sisters("webapp", &RECONCILING) {
        let plugin = match load(&format!("{sister}/{sister}.wasm")) {
            Ok(plugin) => plugin,
            Err(error) => {
                findings.add_of(&sister, "every scenario", Err(error));
                continue;
            }
        };
        for (scenario, expected) in scenarios.iter().zip(&expected) {
            findings.add_of(&sister, &scenario.name, same(&outcome(expected), &outcome(&scenario.run(&plugin))));
        }
    }
    findings.end();
}

/// Neither the language's runtime nor the SDK reads the time or draws random data in each call (ADR 46).
#[test]
fn a_webapp_that_is_as_it_should_be_can_have_its_call_saved() {
    let mut findings = Findings::default();
    let rust = load("webapp.wasm").unwrap_or_else(|error| panic!("{error}"));
    let stage = Stage::new(&rust);
    let unchanged = stage.scenario("unchanged", |_| {});
    // The conditions of a new app get the time.
    let new = stage.scenario("without a status", |scenario| {
        scenario.app = Some(new_app());
    });
    for sister in sisters("webapp", &RECONCILING) {
        let found = load(&format!("{sister}/{sister}.wasm")).and_then(|plugin| {
            let spoiler = |scenario: &Scenario| scenario.call().spoiler(&plugin, scenario.answers());
            match [&unchanged, &new].map(spoiler) {
                [None, Some(Spoiler::Clock)] => Ok(()),
                found => Err(format!("the calls are spoiled by {found:?}")),
            }
        });
        findings.add_of(&sister, "whether the call can be saved", found);
    }
    findings.end();
}

#[test]
fn every_webapp_plugin_is_within_the_size_limit_of_its_language() {
    let mut findings = Findings::default();
    let composing = sisters("webapp-composite", &COMPOSING);
    for sister in sisters("webapp", &RECONCILING).into_iter().chain(composing) {
        let bar = match sister.as_str() {
            "webapp-c" => 60 << 10,
            // The goal is 2 MiB. The plugin has exceeded it since the interface 0.2.0 (docs/benchmarks.md), because
            // an image of memory grows by whole pages.
            "webapp-ts" => (2 << 20) + (12 << 10),
            // The goal is 4 MiB. The plugin has exceeded it since manifests have timers and hooks, and
            // by more since its calls can be saved (docs/benchmarks.md).
            "webapp-go" => (4 << 20) + (12 << 10),
            "webapp-composite-go" => 4 << 20,
            "webapp-composite-ts" => 2 << 20,
            "webapp-starlark" | "webapp-composite-starlark" => 3 << 20,
            _ => 20 << 20,
        };
        let file = directory().join(format!("{sister}/{sister}.wasm"));
        let size = file.metadata().map(|file| file.len());
        let found = match size {
            Ok(size) if size <= bar => Ok(()),
            Ok(size) => Err(format!("it has {size} bytes, and may have {bar}")),
            Err(error) => Err(format!("{}: {error}", file.display())),
        };
        findings.add_of(&sister, "the size of the component", found);
    }
    findings.end();
}

/// The scenarios must have different outcomes with the plugin in Rust. Otherwise the comparison would prove little.
#[test]
fn the_scenarios_differ() {
    let rust = load("webapp.wasm").unwrap_or_else(|error| panic!("{error}"));
    let mut seen: Vec<_> =
        Stage::new(&rust).scenarios().iter().map(|one| outcome(&one.run(&rust)).to_string()).collect();
    let all = seen.len();
    seen.sort();
    seen.dedup();
    assert!(all > 60 && seen.len() > all * 2 / 3, "of {all} scenarios {} differ", seen.len());
}

#[test]
fn every_composing_webapp_plugin_answers_like_the_rust_one() {
    let mut findings = Findings::default();
    let rust = load("composite/webapp-composite.wasm").unwrap_or_else(|error| panic!("{error}"));
    let scenarios = compositions(&rust);
    let ask = |plugin: &Arc<Plugin>, (_, around): &(String, Around)| {
        let call = Call { name: "shop".to_owned(), object: None, ..Call::about("") };
        let (Ok(answer) | Err(answer)) = compose(plugin, &call, around).answer;
        answer
    };
    for sister in sisters("webapp-composite", &COMPOSING) {
        match load(&format!("{sister}/{sister}.wasm")) {
            Ok(plugin) => scenarios.iter().for_each(|scenario| {
                findings.add_of(&sister, &scenario.0, same(&ask(&rust, scenario), &ask(&plugin, scenario)));
            }),
            Err(error) => findings.add_of(&sister, "every scenario", Err(error)),
        }
    }
    findings.end();
}

/// A change of the parent and its children.
type Change<'a> = &'a dyn Fn(&mut Value, &mut Vec<Value>);

/// A name, and the objects that exist. No parent is being deleted, because the host does not call a composer then.
fn compositions(rust: &Arc<Plugin>) -> Vec<(String, Around)> {
    let call = Call { name: "shop".to_owned(), object: None, ..Call::about("") };
    let answer = |around: &Around| compose(rust, &call, around).answer.expect("the composer in Rust answers");
    let new = Around { parent: new_app(), ..Around::default() };
    let wanted = answer(&new)["children"].clone();
    let children = vec![with_status(stored(&wanted[0]), 3), stored(&wanted[1])];
    let mut running = new_app();
    running["status"] =
        answer(&Around { parent: new_app(), children: children.clone(), ..Around::default() })["status"].clone();
    let around = |change: Change<'_>| {
        let (mut parent, mut children) = (running.clone(), children.clone());
        change(&mut parent, &mut children);
        Around { parent, children, ..Around::default() }
    };
    let changes: [(&str, Change<'_>); 11] = [
        ("as it should be", &|_, _| {}),
        ("both children were deleted", &|_, children| children.clear()),
        ("the Service was deleted", &|_, children| children.truncate(1)),
        ("the Deployment was scaled by hand", &|_, children| children[0]["spec"]["replicas"] = json!(7)),
        ("a replica is lost", &|_, children| children[0]["status"]["readyReplicas"] = json!(2)),
        ("the Deployment has no status", &|_, children| children[0]["status"] = Value::Null),
        ("a child is going", &|_, children| {
            children[1]["metadata"]["deletionTimestamp"] = json!("2026-11-21T10:48:45Z");
            children[1]["spec"]["ports"] = json!([]);
        }),
        ("another spec", &|parent, _| {
            parent["metadata"]["generation"] = json!(2);
            parent["spec"] = json!({"image": "\u{85} \u{feff}nginx:2\u{1c}\u{3000}", "replicas": 5, "port": 9090});
        }),
        ("no image", &|parent, _| {
            parent["metadata"]["generation"] = json!(2);
            parent["spec"]["image"] = json!(" ");
        }),
        ("no image, as the status already says", &|parent, _| {
            parent["spec"]["image"] = json!(" ");
            let problem = |of: &str| json!({"type": of, "status": "False", "reason": "Invalid", "message": "spec.image is empty", "observedGeneration": 1, "lastTransitionTime": "2020-01-01T00:00:00Z"});
            parent["status"]["conditions"] = json!([problem("Ready"), problem("Progressing")]);
        }),
        ("no status", &|parent, _| {
            parent.as_object_mut().expect("an object").remove("status");
        }),
    ];
    let mut all: Vec<_> = changes.into_iter().map(|(name, change)| (name.to_owned(), around(change))).collect();
    all.push(("new".to_owned(), new));
    all
}
