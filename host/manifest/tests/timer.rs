//! Tests a timer as a primary: what a manifest may say, what is refused, and which rights follow.

use serde_json::{Value, json};
use windlass_manifest::{EntryPoint, Manifest, OptionalExports};

/// A plugin with this timer, whose controller also has these fields.
fn timed(timer: &Value, fields: &Value) -> Result<Manifest, String> {
    let mut controller = json!({"name": "nightly", "primary": {"timer": timer}});
    for (field, value) in fields.as_object().expect("fields") {
        controller[field] = value.clone();
    }
    let manifest = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
        "controllers": [controller],
    });
    Manifest::from_json(&manifest.to_string()).map_err(|error| error.to_string())
}

fn refusal(timer: &Value, fields: &Value) -> String {
    timed(timer, fields).expect_err("the manifest must be refused")
}

fn watches(mapping: &Value) -> Value {
    json!({"watches": [{"apiVersion": "v1", "kind": "ConfigMap", "mapping": mapping}]})
}

#[test]
fn a_timer_needs_no_rights_and_is_not_watched() {
    let timer = json!({"cron": "0 3 * * *", "timeZone": "Europe/Berlin", "jitterMs": 60_000, "missed": "skip"});
    let manifest = timed(&timer, &watches(&json!({"type": "none"}))).expect("valid");
    let controller = &manifest.controllers[0];
    let access: Vec<_> = controller.implied_access().iter().map(|access| access.kind.to_string()).collect();
    assert_eq!(access, ["v1 ConfigMap"]);
    assert_eq!(controller.all_watches().count(), 1);
    assert!(controller.primary.specs().is_empty());
    assert_eq!(controller.primary.object_kind().to_string(), "windlass.dev/v1 Timer");
    let timer = controller.primary.timer.as_ref().expect("a timer");
    assert_eq!(timer.in_words(), r#"cron "0 3 * * *" in Europe/Berlin"#);
    assert_eq!(Value::from(timer.spec()), json!({"cron": "0 3 * * *", "timeZone": "Europe/Berlin"}));
    let often = timed(&json!({"intervalMs": 300_000}), &json!({})).expect("valid");
    assert_eq!(
        often.controllers[0].primary.timer.as_ref().map(windlass_manifest::PrimaryTimer::in_words).as_deref(),
        Some("every 300s")
    );
}

#[test]
fn wrong_timers_are_refused_with_their_place_and_a_hint() {
    let nothing = json!({});
    for (timer, expected) in [
        (json!({"cron": "0 25 * * *"}), "timer.cron: `0 25 * * *` hour: `25` has a value that is not 0 to 23"),
        (json!({"cron": "@daily", "timeZone": "Europe/Berlni"}), "timer.timeZone: `Europe/Berlni` is not a time zone"),
        (json!({"cron": "@daily", "timeZone": "Europe/Berlni"}), "did you mean `Europe/Berlin`?"),
        (json!({"cron": "@daily", "intervalMs": 1000}), "timer: has both `cron` and `intervalMs`"),
        (json!({}), "timer: needs `cron` or `intervalMs`"),
        (json!({"intervalMs": 999}), "timer.intervalMs: 999 is not between 1000 and 2147483647"),
        (json!({"intervalMs": 5000, "jitterMs": 5000}), "timer.jitterMs: must be shorter than the interval"),
        (json!({"intervalMs": 5000, "timeZone": "UTC"}), "timer.timeZone: has no effect on an interval"),
        (json!({"intervalMs": 5000, "jitter": 1}), "did you mean `jitterMs`?"),
        (json!({"cron": "@daily", "missed": "skips"}), "did you mean `skip`?"),
    ] {
        let refusal = refusal(&timer, &nothing);
        assert!(refusal.contains("controllers[0].primary") && refusal.contains(expected), "{timer}: {refusal}");
    }
}

#[test]
fn fields_that_need_objects_are_refused_beside_a_timer() {
    let timer = json!({"cron": "@daily"});
    for (fields, expected) in [
        (json!({"owns": [{"apiVersion": "v1", "kind": "Pod"}]}), "owns: must be empty"),
        (json!({"options": {"finalizer": true}}), "options.finalizer: cannot be kept on a timer"),
        (json!({"primary": {"timer": timer, "namespaces": ["a"]}}), "primary.timer: takes the place of a watch"),
        (json!({"primary": {"timer": timer, "kind": "Pod"}}), "primary.timer: takes the place of a watch"),
        (watches(&json!({"type": "owner"})), "watches[0].mapping: must be `none`, or `all`"),
        (
            json!({"watches": [{"timer": timer, "mapping": {"type": "all"}}]}),
            "watches[0].timer: only a primary may be a timer",
        ),
    ] {
        let refusal = refusal(&timer, &fields);
        assert!(refusal.contains("controllers[0].") && refusal.contains(expected), "{fields}: {refusal}");
    }
}

#[test]
fn composers_have_neither_timers_nor_watches_that_they_only_read() {
    let exports = OptionalExports { version: "0.3.0", relations: false, matches: false };
    let manifest = timed(&json!({"cron": "@daily"}), &watches(&json!({"type": "none"}))).expect("valid");
    assert!(manifest.check_entry(EntryPoint::Reconciler, exports).is_ok());
    let refusal = manifest.check_entry(EntryPoint::Composer, exports).expect_err("refused").to_string();
    for part in ["primary.timer: only reconcilers", "watches[0].mapping: `none` is only for reconcilers"] {
        assert!(refusal.contains(part), "{refusal}");
    }
}
