use windlass_core::cache::watch::WatchSpec;
use windlass_core::object::ObjectKind;

use super::*;
use crate::informer::parse::ObjectParser;

/// Objects of one watch.
fn objects(statuses: &[&str]) -> Vec<Object> {
    let mut parser = ObjectParser::new(&WatchSpec::all(ObjectKind::new("v1", "Pod"))).expect("no pointers");
    let text = |at: usize, status: &str| format!(r#"{{"metadata":{{"name":"{at}"}},"status":{status}}}"#);
    statuses.iter().enumerate().map(|(at, status)| parser.object(&text(at, status)).expect("an object")).collect()
}

/// Formats conditions as `A=True B=False`.
fn written(object: &Object) -> String {
    let all = object.header.conditions.iter().map(|(name, status)| format!("{name}={}", status.as_str()));
    all.collect::<Vec<_>>().join(" ")
}

const READY: &str =
    r#"{"phase":"x","conditions":[{"type":"Ready","status":"True","reason":"r"},{"type":"A","status":"False"}]}"#;

#[test]
fn conditions_are_read_by_type_whatever_else_a_status_has() {
    for (status, expected) in [
        (READY, "A=False Ready=True"),
        (r#"{"conditions":[{"type":"A","status":"True"},{"type":"A","status":"Unknown"}]}"#, "A=Unknown"),
        (r#"{"conditions":[{"status":"True"},{"type":"","status":"True"},{"type":"B","status":"yes"}]}"#, ""),
        (r#"{"conditions":[{"type":"B\n","status":"True"},{"type":"C\u0044","status":"True"}]}"#, "CD=True"),
    ] {
        assert_eq!(written(&objects(&[status])[0]), expected, "{status}");
    }
}

#[test]
fn a_status_of_another_shape_has_no_conditions_and_is_no_error() {
    for status in [
        "null",
        r#"{"conditions":[{"type":"Re\u202eady","status":"True"},{"type":"Re\nady","status":"True"}]}"#,
        r#""conditions""#,
        r#"["conditions"]"#,
        r#"[[{"type":"Ready","status":"True"}],"conditions"]"#,
        r#"{"conditions":null}"#,
        r#"{"conditions":{"Ready":"True"}}"#,
        r#"{"conditions":[1]}"#,
        r#"{"conditions":[{"type":1,"status":"True"}]}"#,
        r#"{"inner":{"conditions":[{"type":"Ready","status":"True"}]}}"#,
    ] {
        let object = &objects(&[status])[0];
        assert_eq!((written(object), object.header.conditions.left_out()), (String::new(), 0), "{status}");
    }
}

#[test]
fn equal_sets_of_a_watch_are_one() {
    let objects = objects(&[READY, READY]);
    assert!(objects[0].header.conditions.is_shared_with(&objects[1].header.conditions));
}

fn many(count: usize) -> String {
    let all: Vec<_> = (0..count).map(|at| format!(r#"{{"type":"T{at:03}","status":"True"}}"#)).collect();
    format!(r#"{{"conditions":[{}]}}"#, all.join(","))
}

#[test]
fn conditions_beyond_the_limit_of_an_object_are_only_counted() {
    let object = &objects(&[&many(32 + 5)])[0];
    assert_eq!((object.header.conditions.iter().len(), object.header.conditions.left_out()), (32, 5));
    let mut tally = ConditionTally::default();
    tally.update(None, Some(object));
    assert_eq!(tally.counts().left_out, 5);
    assert_eq!(tally.counts().bounded(2).left_out, 5 + 32 - 2);
    tally.update(Some(object), None);
    assert_eq!(tally.counts(), ConditionCounts::default());
}

#[test]
fn the_tally_follows_every_change() {
    let other = r#"{"conditions":[{"type":"Ready","status":"False"}]}"#;
    let objects = objects(&[READY, READY, other, "{}"]);
    let mut tally = ConditionTally::default();
    let shown = |tally: &ConditionTally| {
        let counts = tally.counts();
        counts.types.iter().map(|(name, counts)| format!("{name} {counts:?}")).collect::<Vec<_>>().join(", ")
    };
    for object in &objects {
        tally.update(None, Some(object));
    }
    assert_eq!(shown(&tally), "A [0, 2, 0], Ready [2, 1, 0]");
    tally.update(Some(&objects[0]), Some(&objects[2]));
    assert_eq!(shown(&tally), "A [0, 1, 0], Ready [1, 2, 0]");
    tally.update(Some(&objects[1]), Some(&objects[1]));
    tally.update(Some(&objects[1]), None);
    assert_eq!(shown(&tally), "Ready [0, 2, 0]");
}

#[test]
fn the_types_that_most_objects_have_are_shown() {
    let rare = r#"{"conditions":[{"type":"AAA","status":"True"},{"type":"Ready","status":"True"}]}"#;
    let mut tally = ConditionTally::default();
    for object in &objects(&[READY, rare, READY]) {
        tally.update(None, Some(object));
    }
    let mut counts = tally.counts();
    counts.add(tally.counts());
    let counts = counts.bounded(2);
    assert_eq!(counts.types.keys().map(|name| &**name).collect::<Vec<_>>(), ["A", "Ready"]);
    assert_eq!((counts.types["Ready"], counts.left_out), ([6, 0, 0], 2));
}
