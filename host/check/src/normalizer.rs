//! Replaces values that differ between any two runs: UIDs, generated names, and times.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

/// The length of a UID.
const UID_LEN: usize = 36;
/// The word for a time.
const TIME: &str = "(a time)";
/// Numbers are taken for times within this distance of the beginning of a run: farther than a seed or a fault sets the
/// clock, and than most scenarios last.
const TIME_RANGE: Duration = Duration::from_hours(24 * 366);
/// A number, not a text, must have this many digits to be taken for a time.
const NUMBER_DIGITS_MIN: usize = 10;

/// Knows the UIDs and generated names of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Normalizer {
    /// The beginning of the run, since 1970.
    begun: Duration,
    /// Each UID, with what stands for it.
    uids: BTreeMap<String, String>,
    /// Each generated name, with what stands for it. The longest comes first.
    names: Vec<(String, String)>,
}

impl Normalizer {
    /// For a run that begins at this time since 1970.
    pub(crate) fn new(begun: Duration) -> Normalizer {
        Normalizer { begun, ..Normalizer::default() }
    }

    /// Learns the UIDs and generated names of objects, each with its resource. What it has learnt holds also after the
    /// objects have gone, as others may still name them.
    pub(crate) fn learn<'a>(&mut self, objects: impl Iterator<Item = (&'a str, &'a Value)>) {
        let text = |object: &'a Value, field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let new: Vec<_> = objects.filter(|(_, object)| !self.uids.contains_key(text(object, "uid"))).collect();
        for (_, object) in &new {
            if let Some(prefix) = generated(object) {
                self.names.push((text(object, "name").to_owned(), format!("{prefix}*")));
            }
        }
        // The name of a child may begin with the generated name of its parent, which is replaced next.
        self.names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        for (resource, object) in new {
            let place = self.place(resource, object);
            self.uids.insert(text(object, "uid").to_owned(), format!("(the UID of {place})"));
        }
    }

    /// The resource, namespace and name of an object, for people.
    pub(crate) fn place(&self, resource: &str, object: &Value) -> String {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let name = self.text(text("name")).unwrap_or_else(|| text("name").to_owned());
        format!("{resource} {}/{name}", text("namespace"))
    }

    /// Whether other runs may have an object like this under another name.
    pub(crate) fn is_named_anew(&self, object: &Value) -> bool {
        self.text(object["metadata"]["name"].as_str().unwrap_or_default()).is_some()
    }

    /// Replaces all UIDs, generated names and times. Observed generations, which count the changes of a run, are
    /// removed.
    pub(crate) fn normalize(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.remove("observedGeneration");
                map.values_mut().for_each(|value| self.normalize(value));
                if map.keys().any(|key| self.text(key).is_some()) {
                    let renamed = |(key, value): (String, Value)| (self.text(&key).unwrap_or(key), value);
                    *map = std::mem::take(map).into_iter().map(renamed).collect::<Map<_, _>>();
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.normalize(item)),
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

    /// The text with everything replaced. `None` if nothing is.
    fn text(&self, text: &str) -> Option<String> {
        let mut replaced: Option<String> = None;
        let mut replace = |part: &str, by: &str| {
            let now = replaced.as_deref().unwrap_or(text);
            if now.contains(part) {
                replaced = Some(now.replace(part, by));
            }
        };
        // By the shape of UIDs, as looking for each of them would take long.
        for uid in uids(text).into_iter().filter_map(|uid| self.uids.get_key_value(uid)) {
            replace(uid.0, uid.1);
        }
        self.names.iter().for_each(|(name, by)| replace(name, by));
        for time in self.times(text) {
            replace(time, TIME);
        }
        replaced
    }

    /// The times in a text.
    fn times<'a>(&self, text: &'a str) -> BTreeSet<&'a str> {
        let mut found = BTreeSet::new();
        for part in text.split(|it: char| !it.is_ascii_alphanumeric() && !":.+-".contains(it)) {
            let part = part.trim_end_matches([':', '.', '+', '-']);
            if !part.contains(|it: char| it.is_ascii_digit()) {
                continue;
            }
            if part.parse::<Timestamp>().is_ok() {
                found.insert(part);
            } else {
                let words = part.split(|it: char| !it.is_ascii_alphanumeric());
                found.extend(words.filter(|word| self.is_time(word)));
            }
        }
        found
    }

    /// Whether these digits are a time near the beginning: in one of the units since 1970, or as a date.
    fn is_time(&self, digits: &str) -> bool {
        let Some(number) = digits.parse::<u64>().ok().filter(|_| digits.bytes().all(|it| it.is_ascii_digit())) else {
            return false;
        };
        let since_1970 = match digits.len() {
            8 => Some(Duration::from_secs(number.saturating_mul(60))),
            10 => Some(Duration::from_secs(number)),
            13 => Some(Duration::from_millis(number)),
            16 => Some(Duration::from_micros(number)),
            19 => Some(Duration::from_nanos(number)),
            _ => None,
        };
        let date = Some(digits).filter(|it| matches!(it.len(), 8 | 12 | 14)).and_then(|it| date(&it[..8]));
        [since_1970, date].into_iter().flatten().any(|time| self.begun.abs_diff(time) <= TIME_RANGE)
    }
}

/// The prefix of a name that the API server has generated.
pub(crate) fn generated(object: &Value) -> Option<&str> {
    let text = |field: &str| object["metadata"][field].as_str();
    text("generateName").filter(|prefix| text("name").is_some_and(|name| name.starts_with(prefix)))
}

/// All that has the form of a UID.
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

/// A date of eight digits, since 1970.
fn date(digits: &str) -> Option<Duration> {
    let part = |range: std::ops::Range<usize>| digits.get(range)?.parse::<i16>().ok();
    let [year, month, day] = [part(0..4)?, part(4..6)?, part(6..8)?];
    let date = Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    let since_1970 = date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second();
    u64::try_from(since_1970).ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The beginning of 2020.
    const BEGUN: Duration = Duration::from_hours(438_288);

    fn normalized(normalizer: &Normalizer, mut value: Value) -> Value {
        normalizer.normalize(&mut value);
        value
    }

    #[test]
    fn uids_are_replaced_by_the_objects_that_they_belong_to() {
        let uid = "01234567-89ab-cdef-0123-456789abcdef";
        let job = json!({"metadata": {"namespace": "default", "name": "hello", "uid": uid}});
        let mut normalizer = Normalizer::new(BEGUN);
        normalizer.learn([("jobs.batch", &job)].into_iter());
        let of = "(the UID of jobs.batch default/hello)";
        let labels = json!({"controller-uid": uid, "other": "x", "é": format!("volume-{uid}")});
        let expected = json!({"controller-uid": of, "other": "x", "é": format!("volume-{of}")});
        assert_eq!(normalized(&normalizer, labels), expected);
        assert_eq!(normalized(&normalizer, json!({ uid: 1 })), json!({ of: 1 }));
        // A plugin that draws one gives other results each time.
        let drawn = json!("11234567-89ab-cdef-0123-456789abcdef");
        assert_eq!(normalized(&normalizer, drawn.clone()), drawn);
    }

    #[test]
    fn generated_names_are_replaced_wherever_they_are() {
        let object = |name: &str, prefix: &str| json!({"metadata": {"namespace": "a", "name": name, "generateName": prefix, "uid": name}});
        let mut normalizer = Normalizer::new(BEGUN);
        let (job, pod) = (object("hello-x7k2p", "hello-"), object("hello-x7k2p-abcde", "hello-x7k2p-"));
        normalizer.learn([("jobs.batch", &job), ("pods", &pod)].into_iter());
        assert_eq!(normalizer.place("pods", &pod), "pods a/hello-*-*");
        assert_eq!(normalized(&normalizer, json!({"job-name": "hello-x7k2p"})), json!({"job-name": "hello-*"}));
        assert!(normalizer.is_named_anew(&job) && !normalizer.is_named_anew(&json!({"metadata": {"name": "hello"}})));
    }

    #[test]
    fn times_near_the_beginning_are_replaced_in_every_usual_form() {
        let normalizer = Normalizer::new(BEGUN);
        for time in [
            json!("2026-01-01T00:00:00Z"),
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
    fn observed_generations_are_removed() {
        let status = json!({"observedGeneration": 3, "conditions": [{"observedGeneration": 3, "type": "Ready"}]});
        assert_eq!(normalized(&Normalizer::default(), status), json!({"conditions": [{"type": "Ready"}]}));
    }
}
