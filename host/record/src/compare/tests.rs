use serde_json::json;

use super::*;
use crate::read::tests::call;

fn recorded(imports: Value, result: Value) -> RecordedCall {
    let mut recorded = call("shop");
    recorded["imports"] = imports;
    recorded["result"] = result;
    serde_json::from_value(recorded).expect("a call")
}

fn replayed(imports: Value, result: Value) -> ReplayedCall {
    let RecordedCall { imports, result, .. } = recorded(imports, result);
    ReplayedCall { imports, result: Some(result), stuck: None, cpu_us: 0 }
}

fn apply(name: &str, size: u32) -> Value {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"size": size}});
    json!({"import": "writes.apply", "args": {"object": object.to_string(), "options": {}}, "answer": {"ok": "{}"}})
}

fn read(name: &str) -> Value {
    json!({"import": "cache.get", "args": {"target": {"name": name}}, "answer": {"ok": null}})
}

fn done() -> Value {
    json!({"done": true})
}

#[test]
fn the_first_differing_import_is_reported_with_both_sides() {
    let then = recorded(json!([read("a"), apply("x", 1), read("b")]), done());
    let same = replayed(json!([read("a"), apply("x", 1), read("b")]), done());
    assert_eq!(compare(&then, &same, Comparison::EachImport), CallVerdict::Same);
    let other = replayed(json!([read("a"), apply("x", 2), read("c")]), done());
    let CallVerdict::Diverged { import, recorded, replayed } = compare(&then, &other, Comparison::EachImport) else {
        panic!("it has diverged")
    };
    assert_eq!((import, recorded, replayed), (Some(2), Some(with_cpu(apply("x", 1))), Some(with_cpu(apply("x", 2)))));
}

fn with_cpu(mut import: Value) -> Value {
    import["cpuUs"] = 0.into();
    import
}

#[test]
fn missing_imports_extra_imports_and_other_results_are_divergences() {
    let then = recorded(json!([read("a"), read("b")]), done());
    let place = |verdict| match verdict {
        CallVerdict::Diverged { import, .. } => import,
        other => panic!("{other:?}"),
    };
    let fewer = replayed(json!([read("a")]), done());
    assert_eq!(place(compare(&then, &fewer, Comparison::EachImport)), Some(2));
    let more = replayed(json!([read("a"), read("b"), read("c")]), done());
    assert_eq!(place(compare(&then, &more, Comparison::EachImport)), Some(3));
    let failed = replayed(json!([read("a"), read("b")]), json!({"failed": [{"transient": "no"}]}));
    assert_eq!(place(compare(&then, &failed, Comparison::EachImport)), None);
}

#[test]
fn timeouts_are_compared_up_to_the_stop_and_traps_by_class() {
    let trapped = |reason: &str, message: &str| json!({"trapped": {"reason": reason, "message": message}});
    let stopped = recorded(json!([read("a")]), trapped("deadline", "30 s"));
    let went_on = replayed(json!([read("a"), read("b")]), done());
    assert_eq!(compare(&stopped, &went_on, Comparison::EachImport), CallVerdict::Same);
    let trap = recorded(json!([]), trapped("trap", "at 0x1234"));
    let again = replayed(json!([]), trapped("trap", "at 0x5678"));
    assert_eq!(compare(&trap, &again, Comparison::EachImport), CallVerdict::Same);
}

#[test]
fn another_version_is_compared_by_its_writes_to_each_object() {
    let then = recorded(json!([read("a"), apply("x", 1), apply("gone", 1), apply("same", 1)]), done());
    let now = replayed(
        json!([apply("same", 1), apply("new", 5), apply("x", 2), read("other")]),
        json!({"requeueAfterMs": 5}),
    );
    let CallVerdict::Differs { writes, result } = compare(&then, &now, Comparison::Writes) else {
        panic!("it differs")
    };
    let described: Vec<_> =
        writes.iter().map(|it| format!("{:?} {} {} {}", it.change, it.verb, it.object, it.fields.join("; "))).collect();
    assert_eq!(
        described,
        [
            "Removed apply ConfigMap gone ",
            "Added apply ConfigMap new data.size: 5",
            "Changed apply ConfigMap x data.size: 1 → 2"
        ]
    );
    assert_eq!(result, Some((done(), json!({"requeueAfterMs": 5}))));
}

#[test]
fn an_unrecorded_import_is_reported_with_the_writes_before_it() {
    let then = recorded(json!([apply("x", 1), apply("later", 1)]), done());
    let asks = RecordedImport { import: "cache.get".to_owned(), args: json!({}), answer: None, cpu_us: 0 };
    let stuck = Some(Stuck::NotRecorded(asks.clone()));
    let now = ReplayedCall { stuck, result: None, ..replayed(json!([apply("x", 2)]), done()) };
    let CallVerdict::NotRecorded { asks: reported, writes } = compare(&then, &now, Comparison::Writes) else {
        panic!("it is stuck")
    };
    assert_eq!((*reported, writes.len(), writes[0].change), (asks, 1, WriteChange::Changed));
}

#[test]
fn composers_are_compared_by_their_children_and_status() {
    let child = |size: u32| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"size": size}}).to_string()
    };
    let composed = |size: u32, ready: bool| json!({"composed": {"children": [child(size)], "status": json!({"ready": ready}).to_string()}});
    let then = recorded(json!([]), composed(1, true));
    assert_eq!(compare(&then, &replayed(json!([]), composed(1, true)), Comparison::Writes), CallVerdict::Same);
    let CallVerdict::Differs { writes, result } =
        compare(&then, &replayed(json!([]), composed(2, false)), Comparison::Writes)
    else {
        panic!("it differs")
    };
    let described: Vec<_> = writes.iter().map(|it| format!("{}: {}", it.object, it.fields.join("; "))).collect();
    assert_eq!(described, ["ConfigMap c: data.size: 1 → 2", "ConfigMap shop (status): status.ready: true → false"]);
    assert_eq!(result, None);
}
