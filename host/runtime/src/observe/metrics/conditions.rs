//! The conditions of the primaries in the caches of working controllers.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::DescriptorEncoder;
use windlass_core::object::conditions::ConditionStatus;

use super::collect::{gauge, gauges, labels};
use crate::observe::status::ControllerStatus;

/// The most condition types that are shown for each controller, three lines each. The number must be bounded, because
/// any client that may write a status can invent types.
const CONDITION_TYPES_MAX: usize = 32;

/// Shows the number of primaries with each condition. A shown type has a line for each status, so that lines do not
/// come and go with objects.
pub(super) fn conditions(encoder: &mut DescriptorEncoder<'_>, controllers: &[Arc<ControllerStatus>]) -> fmt::Result {
    let of = |it: &Arc<ControllerStatus>| {
        let (kind, counts) = it.primary_conditions()?;
        Some((labels(it), (kind, counts.bounded(CONDITION_TYPES_MAX))))
    };
    let all: Vec<_> = controllers.iter().filter_map(of).collect();
    let mut shown = Vec::new();
    for (own, (kind, counts)) in &all {
        for (condition, objects) in &counts.types {
            for (status, objects) in ConditionStatus::ALL.into_iter().zip(objects) {
                let mut labels = own.clone();
                labels.push(("kind", kind.kind.to_string()));
                labels.push(("condition", condition.to_string()));
                labels.push(("status", status.as_str().to_owned()));
                shown.push((labels, gauge(*objects)));
            }
        }
    }
    let help = "Primaries in the cache of a controller at work, by condition and status";
    gauges(encoder, "windlass_primary_conditions", help, shown)?;
    let left_out = all.iter().map(|(own, (_, counts))| (own.clone(), gauge(counts.left_out)));
    let help = "Conditions of primaries that are not shown: their types are rare, or an object has too many";
    gauges(encoder, "windlass_primary_conditions_left_out", help, left_out)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Weak;

    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;
    use windlass_core::object::{ObjectKey, ObjectKind};
    use windlass_core::queue::key_state::CallBlock;
    use windlass_core::queue::trigger::Triggers;
    use windlass_core::queue::{ItemExponential, Queue};
    use windlass_kube::ConditionCounts;

    use super::*;
    use crate::clock::SystemClock;
    use crate::observe::metrics::HostMetrics;
    use crate::observe::status::{KeySource, ResumedController};

    /// Primaries with these conditions.
    struct Shops(ConditionCounts);

    impl KeySource for Shops {
        fn block(&self) -> Option<CallBlock> {
            None
        }

        fn unproven(&self) -> Vec<String> {
            Vec::new()
        }

        fn has(&self, _: &ObjectKey) -> bool {
            false
        }

        fn all(&self) -> Vec<ObjectKey> {
            vec![]
        }

        fn triggers(&self, _: &ObjectKey) -> Triggers {
            Triggers::default()
        }

        fn timer(&self) -> Option<serde_json::Value> {
            None
        }

        fn conditions(&self) -> (ObjectKind, ConditionCounts) {
            (ObjectKind::new("example.com/v1", "Shop"), self.0.clone())
        }

        fn resume(&self) -> ResumedController {
            ResumedController::default()
        }
    }

    struct Shown(Vec<Arc<ControllerStatus>>);

    impl fmt::Debug for Shown {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Shown")
        }
    }

    impl Collector for Shown {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            conditions(&mut encoder, &self.0)
        }
    }

    /// The metric lines of a controller whose primaries have these conditions.
    fn lines(counts: ConditionCounts) -> Vec<String> {
        let metrics = HostMetrics::new();
        let status = ControllerStatus::unlisted(&"shop".into(), "web", 1, metrics.controller("shop", "web"));
        status.begins(Queue::new(Arc::new(SystemClock::new()), ItemExponential::default()));
        let source: Arc<dyn KeySource> = Arc::new(Shops(counts));
        let weak: Weak<dyn KeySource> = Arc::downgrade(&source);
        status.dispatched_by(weak);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Shown(vec![status])));
        let mut text = String::new();
        encode(&mut text, &registry).expect("into a text");
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn each_type_has_a_line_for_each_status() {
        let types = BTreeMap::from([("Re\"ady".into(), [2, 1, 0])]);
        let of = r#"{controller="web",plugin="shop",kind="Shop",condition="Re\"ady",status="#;
        assert_eq!(
            lines(ConditionCounts { types, left_out: 3 }),
            [
                format!(r#"windlass_primary_conditions{of}"True"}} 2"#),
                format!(r#"windlass_primary_conditions{of}"False"}} 1"#),
                format!(r#"windlass_primary_conditions{of}"Unknown"}} 0"#),
                r#"windlass_primary_conditions_left_out{controller="web",plugin="shop"} 3"#.to_owned(),
            ]
        );
    }

    #[test]
    fn condition_types_fill_a_bounded_number_of_metric_lines() {
        let types = (0..1000).map(|at| (format!("T{at:04}").into(), [1, 0, 0])).collect();
        let lines = lines(ConditionCounts { types, left_out: 0 });
        assert_eq!(lines.len(), CONDITION_TYPES_MAX * 3 + 1);
        assert_eq!(lines.last().and_then(|line| line.rsplit(' ').next()), Some("968"));
    }
}
