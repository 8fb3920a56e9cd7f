use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use windlass_core::secret::confidential::Confidential;

use super::*;

fn metric(name: &str, metric_type: Declared, labels: &[&str]) -> Metric {
    Metric {
        name: name.to_owned(),
        metric_type,
        help: "counts \"things\"\nand\\more".to_owned(),
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        buckets: vec![],
    }
}

fn declared(plugin: &str, metrics: &[Metric]) -> PluginMetrics {
    let all = PluginMetrics::default();
    all.declare(&plugin.into(), metrics);
    all
}

fn record(
    all: &PluginMetrics,
    plugin: &str,
    change: MetricChange,
    name: &str,
    value: f64,
    labels: &[(&str, &str)],
) -> Result<(), Misfit> {
    let labels: Vec<_> = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    all.lock().get_mut(plugin).expect("declared").record(change, name, value, Some(&labels))
}

fn text(all: &PluginMetrics) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(all.clone()));
    let mut text = String::new();
    encode(&mut text, &registry).expect("a text");
    text
}

#[test]
fn values_are_shown_under_the_plugins_name_and_label() {
    let all = declared(
        "web-app",
        &[
            metric("synced_total", Declared::Counter, &["zone", "kind"]),
            metric("size", Declared::Gauge, &[]),
            Metric { buckets: vec![1.0, 2.0], ..metric("took_seconds", Declared::Histogram, &[]) },
        ],
    );
    let kind = [("kind", "a\"b"), ("zone", "x")];
    record(&all, "web-app", MetricChange::Add, "synced_total", 1.0, &kind).expect("it fits");
    record(&all, "web-app", MetricChange::Add, "synced_total", 2.5, &[("zone", "x"), ("kind", "a\"b")])
        .expect("it fits");
    record(&all, "web-app", MetricChange::Set, "size", -3.0, &[]).expect("it fits");
    for value in [0.5, 1.0, 7.0] {
        record(&all, "web-app", MetricChange::Observe, "took_seconds", value, &[]).expect("it fits");
    }
    let text = text(&all);
    for line in [
        r#"windlass_plugin_web_app_synced_total{plugin="web-app",kind="a\"b",zone="x"} 3.5"#,
        r#"windlass_plugin_web_app_size{plugin="web-app"} -3.0"#,
        r#"windlass_plugin_web_app_took_seconds_bucket{le="1.0",plugin="web-app"} 2"#,
        r#"windlass_plugin_web_app_took_seconds_bucket{le="+Inf",plugin="web-app"} 3"#,
        r#"windlass_plugin_web_app_took_seconds_count{plugin="web-app"} 3"#,
        r#"# HELP windlass_plugin_web_app_size counts \"things\"\nand\\more"#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn a_misfitting_metric_change_is_dropped_with_a_reason() {
    let all = declared("a", &[metric("n", Declared::Counter, &["kind"]), metric("g", Declared::Gauge, &[])]);
    let add = |name, value, labels: &[(&str, &str)]| record(&all, "a", MetricChange::Add, name, value, labels);
    assert_eq!(add("m", 1.0, &[]), Err(Misfit::Undeclared));
    assert_eq!(add("g", 1.0, &[]), Err(Misfit::OtherType));
    assert_eq!(add("n", -1.0, &[("kind", "x")]), Err(Misfit::Value));
    assert_eq!(add("n", f64::NAN, &[("kind", "x")]), Err(Misfit::Value));
    assert_eq!(add("n", f64::INFINITY, &[("kind", "x")]), Err(Misfit::Value));
    assert_eq!(add("n", 1.0, &[]), Err(Misfit::Labels));
    assert_eq!(add("n", 1.0, &[("other", "x")]), Err(Misfit::Labels));
    assert_eq!(add("n", 1.0, &[("kind", "x"), ("plugin", "b")]), Err(Misfit::Labels));
    assert_eq!(add("n", 1.0, &[("kind", "x\ny")]), Err(Misfit::Labels));
    assert_eq!(add("n", 1.0, &[("kind", "x\u{202e}y")]), Err(Misfit::Labels), "it would look like another value");
    assert_eq!(add("n", 1.0, &[("kind", &"x".repeat(129))]), Err(Misfit::Labels));
    assert_eq!(add("n", f64::MAX, &[("kind", "x")]), Ok(()));
    assert_eq!(add("n", f64::MAX, &[("kind", "x")]), Err(Misfit::Value), "the sum is no longer finite");
}

#[test]
fn a_metric_has_a_bounded_number_of_series() {
    let all = declared("a", &[metric("n", Declared::Counter, &["kind"])]);
    let add = |kind: &str| record(&all, "a", MetricChange::Add, "n", 1.0, &[("kind", kind)]);
    for index in 0..SERIES_PER_METRIC_MAX {
        add(&index.to_string()).expect("there is room");
    }
    assert_eq!(add("one more"), Err(Misfit::TooManySeries));
    assert_eq!(add("0"), Ok(()));
}

#[test]
fn a_plugins_histograms_fill_a_bounded_number_of_lines() {
    let bounds: Vec<f64> = (0..200).map(f64::from).collect();
    let metrics: Vec<_> = ["a", "b"]
        .map(|name| Metric { buckets: bounds.clone(), ..metric(name, Declared::Histogram, &["kind"]) })
        .into();
    let all = declared("p", &metrics);
    let kept = |name: &str| {
        let observe =
            |kind: u32| record(&all, "p", MetricChange::Observe, name, 1.0, &[("kind", &kind.to_string())]).is_ok();
        (0..200).filter(|kind| observe(*kind)).count()
    };
    assert_eq!(kept("a") + kept("b"), METRIC_LINES_MAX / 203);
}

#[test]
fn a_metric_cannot_take_the_name_of_another_one() {
    let all = declared("a-b", &[metric("c_total", Declared::Counter, &[])]);
    // The metric `b_c` of `a` has the same full name as `c_total` of `a-b`. The gauge `f_count` has a name that lines
    // of the histogram `f` have.
    all.declare(&"a".into(), &[metric("b_c", Declared::Counter, &[]), metric("d", Declared::Gauge, &[])]);
    all.declare(&"e".into(), &[metric("f", Declared::Histogram, &[]), metric("f_count", Declared::Gauge, &[])]);
    assert_eq!(record(&all, "a", MetricChange::Add, "b_c", 1.0, &[]), Err(Misfit::Undeclared));
    assert_eq!(record(&all, "a", MetricChange::Set, "d", 1.0, &[]), Ok(()));
    assert_eq!(record(&all, "e", MetricChange::Set, "f_count", 1.0, &[]), Err(Misfit::Undeclared));
    let families = text(&all);
    assert_eq!(families.matches("# TYPE windlass_plugin_a_b_c ").count(), 1, "{families}");
}

#[test]
fn a_new_generation_keeps_the_values_of_metrics_that_stayed_the_same() {
    let all = declared("a", &[metric("same", Declared::Counter, &[]), metric("other", Declared::Counter, &[])]);
    for name in ["same", "other"] {
        record(&all, "a", MetricChange::Add, name, 2.0, &[]).expect("it fits");
    }
    all.declare(&"a".into(), &[metric("same", Declared::Counter, &[]), metric("other", Declared::Gauge, &[])]);
    record(&all, "a", MetricChange::Add, "same", 1.0, &[]).expect("it fits");
    let text = text(&all);
    assert!(text.contains(r#"windlass_plugin_a_same_total{plugin="a"} 3.0"#), "{text}");
    assert!(!text.contains("windlass_plugin_a_other{"), "{text}");
}

#[test]
fn a_label_has_no_secret_of_the_configuration() {
    let all = declared("a", &[metric("logins_total", Declared::Counter, &["with"])]);
    let too_long = "hunter22".repeat(METRIC_LABEL_BYTES_MAX / 8 + 1);
    let config = Confidential::holding("{}", ["hunter22", &too_long].map(Confidential::from));
    let (_, context) = crate::tests::played::call(None);
    let call = CallContext { config, ..(*context).clone() };
    all.record(&call, MetricChange::Add, "logins_total", 1.0, &[("with".to_owned(), "hunter22!".to_owned())]);
    // The value is too long before redaction, although it is short after it. It is dropped without being searched.
    all.record(&call, MetricChange::Add, "logins_total", 1.0, &[("with".to_owned(), too_long)]);
    let text = text(&all);
    assert!(text.contains(r#"windlass_metric_values_dropped_total{plugin="a",reason="labels"} 1"#), "{text}");
    assert!(text.contains("with=\"<redacted>!\"") && !text.contains("hunter22"), "{text}");
}

#[test]
fn the_value_of_a_gauge_is_the_one_that_was_set_last() {
    let declared =
        declared("a", &[metric("size", Declared::Gauge, &["zone"]), metric("synced_total", Declared::Counter, &[])]);
    let (_, context) = crate::tests::played::call(None);
    let call =
        CallContext { config: Confidential::holding("{}", [Confidential::from("hunter22")]), ..(*context).clone() };
    let zone = |value: &str| vec![("zone".to_owned(), value.to_owned())];
    for (value, zone) in [(1.0, zone("x")), (2.0, zone("hunter22")), (3.0, zone("x")), (f64::NAN, zone("x"))] {
        declared.record(&call, MetricChange::Set, "size", value, &zone);
    }
    declared.record(&call, MetricChange::Add, "synced_total", 1.0, &[]);
    let gauge = |name, labels: &[(String, String)]| declared.gauge(&call, name, labels);
    assert_eq!((gauge("size", &zone("x")), gauge("size", &zone("hunter22"))), (Some(3.0), Some(2.0)));
    let others = [("size", zone("y")), ("size", vec![]), ("synced_total", vec![]), ("other", vec![])];
    assert_eq!(others.map(|(name, labels)| gauge(name, &labels)), [None; 4]);
}
