//! Replaces the values that differ between any two runs: UIDs, generated names, addresses, and times.

mod addresses;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use self::addresses::Addresses;
use crate::scenario::Scenario;

/// The length of a UID.
const UID_LEN: usize = 36;
/// The word for a time.
const TIME: &str = "(a time)";
/// A value this close to a time that the run's clock has shown counts as a time of the run. It is also the distance by
/// which a `clock` fault sets the clock, so the times of work that is due soon are replaced in all runs.
const TIME_MARGIN: Duration = Duration::from_hours(6);
/// The word for a resource version.
const VERSION: &str = "(a resource version)";
/// The minimum number of digits that a JSON number must have to count as a time.
const NUMBER_DIGITS_MIN: usize = 10;

/// Knows the UIDs, the generated names, the addresses and the time of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Normalizer {
    /// The first and the last time that the run has shown so far, since 1970, with a margin on both sides.
    span: (Duration, Duration),
    /// The times that the scenario contains. They are not replaced, because the plugin has them from the scenario.
    of_scenario: BTreeSet<String>,
    /// Each UID, with the place of its object.
    uids: BTreeMap<String, String>,
    /// The UIDs of the objects that exist now.
    present: BTreeSet<String>,
    /// Each generated name with its replacement, the longest name first.
    names: Vec<(String, String)>,
    addresses: Addresses,
    /// The highest resource version that an object of the run has had so far.
    latest_version: u64,
}

/// All texts and numbers in a scenario that have the form of a time.
pub(crate) fn times_of(scenario: &Scenario) -> BTreeSet<String> {
    let any = Normalizer { span: (Duration::ZERO, Duration::MAX), ..Normalizer::default() };
    let mut found = BTreeSet::new();
    scenario.load.iter().for_each(|object| any.times_within(object, &mut found));
    for part in [json!(scenario.steps), json!(scenario.expect)] {
        any.times_within(&part, &mut found);
    }
    found
}

impl Normalizer {
    /// Creates a normalizer for a run that begins at this time since 1970. `of_scenario` are the [times of its
    /// scenario](times_of).
    pub(crate) fn new(begun: Duration, of_scenario: BTreeSet<String>) -> Normalizer {
        let mut normalizer = Normalizer { span: (begun, begun), of_scenario, ..Normalizer::default() };
        normalizer.reach(begun);
        normalizer
    }

    /// Notes that the run's clock shows this time, since 1970.
    pub(crate) fn reach(&mut self, now: Duration) {
        let (from, to) = &mut self.span;
        *from = now.saturating_sub(TIME_MARGIN).min(*from);
        *to = now.saturating_add(TIME_MARGIN).max(*to);
    }

    /// Collects all texts and numbers in a value that have the form of a time.
    fn times_within(&self, value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    found.extend(self.times(key).into_iter().map(str::to_owned));
                    self.times_within(value, found);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.times_within(item, found)),
            Value::String(text) => found.extend(self.times(text).into_iter().map(str::to_owned)),
            Value::Number(number) => found.extend(self.times(&number.to_string()).into_iter().map(str::to_owned)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Learns the UIDs, versions, generated names and addresses of objects, each with its resource. They stay known
    /// after the objects have gone, because other objects may still refer to them.
    pub(crate) fn learn<'a>(&mut self, objects: impl Iterator<Item = (&'a str, &'a Value)>) {
        let text = |object: &'a Value, field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let objects: Vec<_> = objects.collect();
        self.present = objects.iter().map(|(_, object)| text(object, "uid").to_owned()).collect();
        let versions = objects.iter().filter_map(|(_, object)| text(object, "resourceVersion").parse().ok());
        self.latest_version = versions.fold(self.latest_version, u64::max);
        let new: Vec<_> =
            objects.iter().filter(|(_, object)| !self.uids.contains_key(text(object, "uid"))).copied().collect();
        for (_, object) in &new {
            if let Some(prefix) = generated(object) {
                self.names.push((text(object, "name").to_owned(), format!("{prefix}*")));
            }
        }
        // The name of a child may begin with the generated name of its parent, which is replaced next.
        self.names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        for (resource, object) in new {
            let place = self.place(resource, object);
            self.uids.insert(text(object, "uid").to_owned(), place);
        }
        let of = |(resource, object): &(&str, &Value)| {
            let found = addresses::of(resource, object).into_iter();
            found.map(|address| (address.to_owned(), self.place(resource, object))).collect::<Vec<_>>()
        };
        let now = objects.iter().flat_map(of).collect();
        self.addresses.learn(now);
    }

    /// The resource, namespace and name of an object, for people.
    pub(crate) fn place(&self, resource: &str, object: &Value) -> String {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let name = self.text(text("name")).unwrap_or_else(|| text("name").to_owned());
        format!("{resource} {}/{name}", text("namespace"))
    }

    /// Whether the object may have another name in other runs.
    pub(crate) fn is_named_anew(&self, object: &Value) -> bool {
        self.text(object["metadata"]["name"].as_str().unwrap_or_default()).is_some()
    }

    /// Replaces the resource versions in annotations. Plugins note there which state of another object they have
    /// copied. Only annotations whose keys end in `version` count, because a resource version is a number like any
    /// other.
    pub(crate) fn replace_versions(&self, annotations: &mut Map<String, Value>) {
        let is_version = |value: &Value| {
            let number = value.as_str().and_then(|text| text.parse::<u64>().ok());
            number.is_some_and(|number| (1..=self.latest_version).contains(&number))
        };
        for (key, value) in annotations {
            if key.to_ascii_lowercase().ends_with("version") && is_version(value) {
                *value = VERSION.into();
            }
        }
    }

    /// Replaces all UIDs, generated names, addresses and times. Removes observed generations, because they count the
    /// changes of a run. Sorts lists of addresses, which may have been in the order of the addresses.
    pub(crate) fn normalize(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.remove("observedGeneration");
                map.values_mut().for_each(|value| self.normalize(value));
                if map.keys().any(|key| self.text(key).is_some()) {
                    *map = self.renamed(std::mem::take(map));
                }
            }
            Value::Array(items) => {
                let has_address =
                    |item: &Value| item.as_str().is_some_and(|text| self.addresses.replaced(text).is_some());
                let are_addresses = items.iter().any(has_address) && items.iter().all(Value::is_string);
                for item in &mut *items {
                    self.normalize(item);
                }
                if are_addresses {
                    items.sort_by_cached_key(ToString::to_string);
                }
            }
            Value::String(text) => {
                if let Some(replaced) = self.text(text) {
                    *text = replaced;
                }
            }
            Value::Number(number) => {
                let whole = number.to_string();
                let whole = whole.split('.').next().unwrap_or_default();
                if whole.len() >= NUMBER_DIGITS_MIN && self.is_time(whole) {
                    *value = TIME.into();
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// The map with its keys replaced. If several keys become equal, the key gets all their values, as a set.
    fn renamed(&self, map: Map<String, Value>) -> Map<String, Value> {
        let mut by_key: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for (key, value) in map {
            by_key.entry(self.text(&key).unwrap_or(key)).or_default().push(value);
        }
        let joined = |(key, mut values): (String, Vec<Value>)| {
            values.sort_by_cached_key(ToString::to_string);
            match <[Value; 1]>::try_from(values) {
                Ok([value]) => (key, value),
                Err(values) => (key, json!({"count": values.len(), "values": values})),
            }
        };
        by_key.into_iter().map(joined).collect()
    }

    /// The text with all replacements. `None` if nothing is replaced.
    fn text(&self, text: &str) -> Option<String> {
        let mut replaced: Option<String> = None;
        let mut replace = |part: &str, by: &str| {
            let now = replaced.as_deref().unwrap_or(text);
            if now.contains(part) {
                replaced = Some(now.replace(part, by));
            }
        };
        // Find UIDs by their form, because searching for each known UID would take long.
        for uid in uids(text).into_iter().filter_map(|uid| self.uids.get_key_value(uid)) {
            // An earlier object at the same place is a different object.
            let which = if self.present.contains(uid.0) { "" } else { "a former " };
            replace(uid.0, &format!("(the UID of {which}{})", uid.1));
        }
        self.names.iter().for_each(|(name, by)| replace(name, by));
        for time in self.times(text) {
            replace(time, TIME);
        }
        self.addresses.replaced(replaced.as_deref().unwrap_or(text)).or(replaced)
    }

    /// The times in a text.
    fn times<'a>(&self, text: &'a str) -> BTreeSet<&'a str> {
        let mut found = BTreeSet::new();
        for part in text.split(|it: char| !it.is_ascii_alphanumeric() && !":.+-".contains(it)) {
            let part = part.trim_end_matches([':', '.', '+', '-']);
            if !part.contains(|it: char| it.is_ascii_digit()) {
                continue;
            }
            if let Ok(time) = part.parse::<Timestamp>() {
                let is_own = since_1970(time).is_some_and(|time| self.is_own_time(part, time, Duration::ZERO));
                found.extend(is_own.then_some(part));
            } else {
                let words = part.split(|it: char| !it.is_ascii_alphanumeric());
                found.extend(words.filter(|word| self.is_time(word)));
            }
        }
        found
    }

    /// Whether these digits are a time of the run: a number of units since 1970, or a date.
    fn is_time(&self, digits: &str) -> bool {
        let Some(number) = digits.parse::<u64>().ok().filter(|_| digits.bytes().all(|it| it.is_ascii_digit())) else {
            return false;
        };
        let number = match digits.len() {
            8 => Some((Duration::from_secs(number.saturating_mul(60)), Duration::from_mins(1))),
            10 => Some((Duration::from_secs(number), Duration::ZERO)),
            13 => Some((Duration::from_millis(number), Duration::ZERO)),
            16 => Some((Duration::from_micros(number), Duration::ZERO)),
            19 => Some((Duration::from_nanos(number), Duration::ZERO)),
            _ => None,
        };
        [number, date(digits)].into_iter().flatten().any(|(time, lasts)| self.is_own_time(digits, time, lasts))
    }

    /// Whether `text` stands for a time that the run has shown. `text` names a period that begins at `time` since 1970
    /// and has the length `lasts`.
    fn is_own_time(&self, text: &str, time: Duration, lasts: Duration) -> bool {
        let (from, to) = self.span;
        time <= to && time.saturating_add(lasts) >= from && !self.of_scenario.contains(text)
    }
}

/// The prefix of a name that the API server has generated.
pub(crate) fn generated(object: &Value) -> Option<&str> {
    let text = |field: &str| object["metadata"][field].as_str();
    text("generateName").filter(|prefix| text("name").is_some_and(|name| name.starts_with(prefix)))
}

/// All parts of the text that have the form of a UID.
fn uids(text: &str) -> Vec<&str> {
    let is_uid = |at: &usize| {
        let bytes = text.as_bytes().get(*at..at + UID_LEN).unwrap_or_default();
        let fits = |(index, byte): (usize, &u8)| match index {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        };
        !bytes.is_empty() && bytes.iter().enumerate().all(fits)
    };
    let starts = (0..(text.len() + 1).saturating_sub(UID_LEN)).filter(is_uid);
    starts.map(|at| &text[at..at + UID_LEN]).collect()
}

/// The beginning of a date in digits, since 1970, and the length of the period that the digits name: a day, a minute if
/// they have hours and minutes, or a second.
fn date(digits: &str) -> Option<(Duration, Duration)> {
    let part = |range: std::ops::Range<usize>| digits.get(range)?.parse::<i8>().ok();
    let date = Date::new(digits.get(0..4)?.parse().ok()?, part(4..6)?, part(6..8)?).ok()?;
    let time =
        |second| DateTime::new(date.year(), date.month(), date.day(), part(8..10)?, part(10..12)?, second, 0).ok();
    let (begins, lasts) = match digits.len() {
        8 => (date.at(0, 0, 0, 0), Duration::from_hours(24)),
        12 => (time(0)?, Duration::from_mins(1)),
        14 => (time(part(12..14)?)?, Duration::ZERO),
        _ => return None,
    };
    Some((since_1970(begins.to_zoned(TimeZone::UTC).ok()?.timestamp())?, lasts))
}

fn since_1970(time: Timestamp) -> Option<Duration> {
    Duration::try_from(time.as_duration()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Step;

    /// The beginning of 2020.
    const BEGUN: Duration = Duration::from_hours(438_288);

    fn normalizer(steps: Vec<Step>) -> Normalizer {
        Normalizer::new(BEGUN, times_of(&Scenario::new("a".to_owned(), vec![], steps)))
    }

    fn normalized(normalizer: &Normalizer, mut value: Value) -> Value {
        normalizer.normalize(&mut value);
        value
    }

    #[test]
    fn uids_are_replaced_by_the_objects_that_they_belong_to() {
        let uid = "01234567-89ab-cdef-0123-456789abcdef";
        let job = json!({"metadata": {"namespace": "default", "name": "hello", "uid": uid}});
        let mut normalizer = normalizer(vec![]);
        normalizer.learn([("jobs.batch", &job)].into_iter());
        let of = "(the UID of jobs.batch default/hello)";
        let labels = json!({"controller-uid": uid, "other": "x", "é": format!("volume-{uid}")});
        let expected = json!({"controller-uid": of, "other": "x", "é": format!("volume-{of}")});
        assert_eq!(normalized(&normalizer, labels), expected);
        assert_eq!(normalized(&normalizer, json!({ uid: 1 })), json!({ of: 1 }));
        // A UID that the plugin itself draws is not replaced, because it makes the results of runs differ.
        let drawn = json!("11234567-89ab-cdef-0123-456789abcdef");
        assert_eq!(normalized(&normalizer, drawn.clone()), drawn);
    }

    #[test]
    fn only_annotations_named_after_versions_may_hold_versions_of_the_run() {
        let mut normalizer = normalizer(vec![]);
        normalizer.learn([("secrets", &json!({"metadata": {"resourceVersion": "42"}}))].into_iter());
        let replaced = |key: &str, value: &str| {
            let mut annotations = Map::from_iter([(key.to_owned(), value.into())]);
            normalizer.replace_versions(&mut annotations);
            annotations[key] == VERSION
        };
        assert!(replaced("example.com/copied-from-version", "42") && replaced("example.com/resourceVersion", "7"));
        assert!(!replaced("example.com/copied-from-version", "43") && !replaced("example.com/version", "v2"));
        assert!(!replaced("example.com/replicas", "42"));
    }

    #[test]
    fn generated_names_are_replaced_wherever_they_are() {
        let object = |name: &str, prefix: &str| json!({"metadata": {"namespace": "a", "name": name, "generateName": prefix, "uid": name}});
        let mut normalizer = normalizer(vec![]);
        let (job, pod) = (object("hello-x7k2p", "hello-"), object("hello-x7k2p-abcde", "hello-x7k2p-"));
        normalizer.learn([("jobs.batch", &job), ("pods", &pod)].into_iter());
        assert_eq!(normalizer.place("pods", &pod), "pods a/hello-*-*");
        assert_eq!(normalized(&normalizer, json!({"job-name": "hello-x7k2p"})), json!({"job-name": "hello-*"}));
        assert!(normalizer.is_named_anew(&job) && !normalizer.is_named_anew(&json!({"metadata": {"name": "hello"}})));
    }

    #[test]
    fn addresses_of_pods_are_replaced_wherever_they_are() {
        let pod = |name: &str, address: &str| {
            let metadata = json!({"namespace": "a", "name": name, "uid": name});
            json!({"metadata": metadata, "status": {"podIP": address}})
        };
        let status = |one: &str, other: &str| {
            let (one, other) = (pod("one", one), pod("other", other));
            let mut normalizer = normalizer(vec![]);
            // A Pod gets its address after it was created.
            let created = json!({"metadata": one["metadata"]});
            normalizer.learn([("pods", &created)].into_iter());
            normalizer.learn([("pods", &one), ("pods", &other)].into_iter());
            let [first, last] = [&one, &other].map(|pod| pod["status"]["podIP"].as_str().expect("a text"));
            let mut sorted = [first, last];
            sorted.sort_unstable();
            normalized(&normalizer, json!({"leader": format!("{first}:80"), "members": sorted, last: "seen"}))
        };
        let expected = json!({
            "leader": "(the address of pods a/one):80",
            "members": ["(the address of pods a/one)", "(the address of pods a/other)"],
            "(the address of pods a/other)": "seen",
        });
        assert_eq!(status("198.18.0.7", "198.18.0.9"), expected);
        assert_eq!(status("198.18.0.9", "198.18.0.7"), expected);
    }

    #[test]
    fn the_uid_of_a_former_object_is_another_one() {
        let [former, now] = ["0", "1"].map(|it| format!("{it}1234567-89ab-cdef-0123-456789abcdef"));
        let job = |uid: &str| json!({"metadata": {"namespace": "default", "name": "hello", "uid": uid}});
        let mut normalizer = normalizer(vec![]);
        normalizer.learn([("jobs.batch", &job(&former))].into_iter());
        assert_eq!(normalized(&normalizer, json!(former)), json!("(the UID of jobs.batch default/hello)"));
        normalizer.learn([("jobs.batch", &job(&now))].into_iter());
        assert_eq!(normalized(&normalizer, json!(now)), json!("(the UID of jobs.batch default/hello)"));
        assert_eq!(normalized(&normalizer, json!(former)), json!("(the UID of a former jobs.batch default/hello)"));
    }

    #[test]
    fn keys_that_become_one_keep_all_their_values() {
        let pod = |name: &str| json!({"metadata": {"name": name, "generateName": "web-", "uid": name}});
        let mut normalizer = normalizer(vec![]);
        normalizer.learn([("pods", &pod("web-abc12")), ("pods", &pod("web-def34"))].into_iter());
        let both = normalized(&normalizer, json!({"web-def34": "a", "web-abc12": "b", "other": "c"}));
        assert_eq!(both, json!({"web-*": {"count": 2, "values": ["a", "b"]}, "other": "c"}));
        assert_eq!(normalized(&normalizer, json!({"web-def34": "a"})), json!({"web-*": "a"}));
    }

    #[test]
    fn times_of_the_run_are_replaced_in_every_usual_form() {
        let mut normalizer = normalizer(vec![]);
        normalizer.reach(BEGUN + Duration::from_hours(30));
        for time in [
            json!("2020-01-02T06:00:00Z"),
            json!("2020-01-02T11:00:00+02:00"),
            json!("1577840400"),
            json!(1_577_840_400),
            json!(1_577_840_400_123_u64),
            json!(1_577_840_400.5),
        ] {
            assert_eq!(normalized(&normalizer, time.clone()), json!(TIME), "{time}");
        }
        let within = [
            ("hello-26297340", "hello-(a time)"),
            ("backup-20200102", "backup-(a time)"),
            ("backup-202001020304.gz", "backup-(a time).gz"),
            ("backup-20200102030405", "backup-(a time)"),
            ("since 2020-01-02T03:04:05Z, or so", "since (a time), or so"),
        ];
        for (text, expected) in within {
            assert_eq!(normalized(&normalizer, json!(text)), json!(expected));
        }
        for other in
            [json!("12345678"), json!(26_297_340), json!("a26297340"), json!("20191332"), json!("1.2.3"), json!(7)]
        {
            assert_eq!(normalized(&normalizer, other.clone()), other);
        }
    }

    #[test]
    fn times_that_the_run_has_not_shown_are_values() {
        let mut normalizer = normalizer(vec![]);
        normalizer.reach(BEGUN + Duration::from_hours(30));
        for value in [
            json!("app:20191201"),
            json!("app:20200105"),
            json!("1600000000"),
            json!(1_600_000_000),
            json!("backup-202001021500"),
            json!("2021-01-01T00:00:00Z"),
            json!("hello-26299999"),
        ] {
            assert_eq!(normalized(&normalizer, value.clone()), value);
        }
    }

    #[test]
    fn times_of_the_scenario_are_values() {
        let spec = json!({"image": "app:20200101", "bytes": 1_577_840_400, "until": "2020-01-01T01:00:00Z"});
        let normalizer = normalizer(vec![Step::Apply(json!({"spec": spec}))]);
        assert_eq!(normalized(&normalizer, spec.clone()), spec);
        assert_eq!(normalized(&normalizer, json!("copy-20200101")), json!("copy-20200101"));
        assert_eq!(normalized(&normalizer, json!("2020-01-01T01:00:01Z")), json!(TIME));
    }

    #[test]
    fn observed_generations_are_removed() {
        let status = json!({"observedGeneration": 3, "conditions": [{"observedGeneration": 3, "type": "Ready"}]});
        assert_eq!(normalized(&normalizer(vec![]), status), json!({"conditions": [{"type": "Ready"}]}));
    }
}
