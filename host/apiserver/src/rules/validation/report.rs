//! Collects the errors of a validation, in a real server's words, and has checks that most kinds share.

use serde_json::{Map, Value, json};

use crate::cause::Cause;
use crate::object::{self, names, text};

/// Collects the errors of an object.
#[derive(Default)]
pub(super) struct Report(pub(super) Vec<Cause>);

impl Report {
    pub(super) fn required(&mut self, field: impl Into<String>) {
        self.0.push(Cause::required(field, ""));
    }

    pub(super) fn required_because(&mut self, field: impl Into<String>, why: &str) {
        self.0.push(Cause::required(field, why));
    }

    pub(super) fn invalid(&mut self, field: impl Into<String>, value: &Value, why: &str) {
        self.0.push(Cause::invalid(field, value, why));
    }

    pub(super) fn forbidden(&mut self, field: impl Into<String>, why: &str) {
        self.0.push(Cause::forbidden(field, why));
    }

    pub(super) fn duplicate(&mut self, field: impl Into<String>, value: &Value) {
        self.0.push(Cause::duplicate(field, &value.to_string()));
    }

    /// Like [`Self::duplicate`], for a value that is not shown as JSON. `shown` is its text.
    pub(super) fn duplicate_shown(&mut self, field: &str, shown: &str) {
        self.0.push(Cause::duplicate(field, shown));
    }

    pub(super) fn too_long(&mut self, field: &str, most: usize) {
        self.0.push(Cause::too_long(field, most));
    }

    pub(super) fn too_many(&mut self, field: &str, found: usize, most: usize) {
        self.0.push(Cause::too_many(field, found, most));
    }

    pub(super) fn not_found(&mut self, field: impl Into<String>, value: &Value) {
        let message = format!("Not found: {value}");
        self.0.push(Cause { reason: "FieldValueNotFound", message, field: field.into() });
    }

    pub(super) fn not_found_because(&mut self, field: &str, value: &Value, why: &str) {
        let message = format!("Not found: {value}: {why}");
        self.0.push(Cause { reason: "FieldValueNotFound", message, field: field.to_owned() });
    }

    pub(super) fn not_supported(&mut self, field: impl Into<String>, value: &Value, allowed: &[&str]) {
        // A missing text counts as an empty one.
        let empty = json!("");
        let value = if value.is_null() { &empty } else { value };
        self.0.push(Cause::not_supported(field, value, allowed));
    }

    /// Like [`Self::not_supported`], for a value that is not shown as JSON. `shown` is its text.
    pub(super) fn not_supported_shown(&mut self, field: &str, shown: &str, allowed: &[&str]) {
        let allowed: Vec<String> = allowed.iter().map(|value| format!("{value:?}")).collect();
        let message = format!("Unsupported value: {shown}: supported values: {}", allowed.join(", "));
        self.0.push(Cause { reason: "FieldValueNotSupported", message, field: field.to_owned() });
    }

    /// Like [`Self::invalid`], for a value that is not shown as JSON. `shown` is its text.
    pub(super) fn invalid_shown(&mut self, field: &str, shown: &str, why: &str) {
        self.0.push(Cause::invalid_shown(field, shown, why));
    }

    /// An invalid value that the error does not show.
    pub(super) fn invalid_plainly(&mut self, field: &str, why: &str) {
        let message = format!("Invalid value: {why}");
        self.0.push(Cause { reason: "FieldValueInvalid", message, field: field.to_owned() });
    }

    /// Checks a required name by `rule`.
    pub(super) fn name(&mut self, field: &str, value: &Value, rule: fn(&str) -> Result<(), String>) {
        match value.as_str() {
            None | Some("") => self.required(field),
            Some(_) => self.optional_name(field, value, rule),
        }
    }

    /// Checks an optional name by `rule`.
    pub(super) fn optional_name(&mut self, field: &str, value: &Value, rule: fn(&str) -> Result<(), String>) {
        if let Some(Err(why)) = value.as_str().filter(|name| !name.is_empty()).map(rule) {
            self.invalid(field, value, &why);
        }
    }

    /// Checks that a text is missing or one of `allowed`.
    pub(super) fn one_of(&mut self, field: &str, value: &Value, allowed: &[&str]) {
        if value.as_str().is_some_and(|text| !allowed.contains(&text)) {
            self.not_supported(field, value, allowed);
        }
    }

    /// Checks that a number is missing or in the range from `least` to `most`.
    pub(super) fn range(&mut self, field: &str, value: &Value, least: i64, most: i64, why: &str) {
        if value.as_i64().is_some_and(|number| !(least..=most).contains(&number)) {
            self.invalid(field, value, why);
        }
    }

    /// Checks a name with an optional prefix, and reports all errors. The name may be empty.
    pub(super) fn qualified(&mut self, field: &str, name: &str) {
        for why in names::label_key_errors(name) {
            self.invalid(field, &json!(name), &why);
        }
    }

    /// Checks an IP address, with the message of `IsValidIPForLegacyField`.
    pub(super) fn ip(&mut self, field: &str, value: &Value) {
        let text = value.as_str().unwrap_or_default();
        if text.parse::<std::net::IpAddr>().is_err() {
            self.invalid(field, &json!(text), "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        }
    }

    /// Checks a path, like `validatePathNoBacksteps`.
    pub(super) fn no_backsteps(&mut self, field: &str, value: &Value) {
        if value.as_str().is_some_and(|path| path.split('/').any(|part| part == "..")) {
            self.invalid(field, value, "must not contain '..'");
        }
    }

    /// Checks a path, like `validateLocalDescendingPath`.
    pub(super) fn descending_path(&mut self, field: &str, value: &Value) {
        if value.as_str().is_some_and(|path| path.starts_with('/')) {
            self.invalid(field, value, "must be a relative path");
        }
        self.no_backsteps(field, value);
    }

    /// Checks a path, like `ValidateLocalNonReservedPath`.
    pub(super) fn path_below(&mut self, field: &str, value: &Value) {
        self.descending_path(field, value);
        if value.as_str().is_some_and(|path| path.starts_with("..") && !path.starts_with("../")) {
            self.invalid(field, value, "must not start with '..'");
        }
    }

    pub(super) fn not_negative(&mut self, field: &str, value: &Value) {
        if value.as_i64().is_some_and(|number| number < 0) {
            self.invalid(field, value, "must be greater than or equal to 0");
        }
    }

    /// Checks that several numbers in a map are not negative.
    pub(super) fn none_negative(&mut self, field: &str, map: &Value, names: &[&str]) {
        for name in names {
            self.not_negative(&format!("{field}.{name}"), &map[*name]);
        }
    }

    pub(super) fn port(&mut self, field: &str, value: &Value) {
        if value.as_i64().is_none_or(|port| !(1..=65_535).contains(&port)) {
            let shown = if value.is_null() { &json!(0) } else { value };
            self.invalid(field, shown, "must be between 1 and 65535, inclusive");
        }
    }

    /// Checks a port, which is a number or a name.
    pub(super) fn port_or_name(&mut self, field: &str, value: &Value) {
        match value.as_str() {
            Some(name) => names::port_name_errors(name).iter().for_each(|why| self.invalid(field, value, why)),
            None => self.port(field, value),
        }
    }

    pub(super) fn int_or_percent(&mut self, field: &str, value: &Value) {
        let Some(text) = value.as_str() else { return self.not_negative(field, value) };
        let percent =
            text.strip_suffix('%').filter(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()));
        if percent.is_none() {
            self.invalid(
                field,
                value,
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                 regex used for validation is '[0-9]+%')",
            );
        } else if percent.and_then(|digits| digits.parse::<u64>().ok()).is_none_or(|percent| percent > 100) {
            self.invalid(field, value, "must not be greater than 100%");
        }
    }

    pub(super) fn labels(&mut self, field: &str, labels: &Value) {
        for (key, value) in labels.as_object().into_iter().flatten() {
            self.qualified(field, key);
            if let Err(why) = names::check_label_value(value.as_str().unwrap_or_default()) {
                self.invalid(field, value, &why);
            }
        }
    }

    /// Checks that a field has not changed.
    pub(super) fn immutable(&mut self, path: &str, object: &Value, previous: Option<&Value>) {
        let Some(previous) = previous else { return };
        let value = object::at_path(object, path).unwrap_or(&Value::Null);
        if value != object::at_path(previous, path).unwrap_or(&Value::Null) {
            self.invalid(path, value, "field is immutable");
        }
    }

    /// Validates a label selector.
    pub(super) fn selector(&mut self, field: &str, selector: &Value) {
        self.labels(&format!("{field}.matchLabels"), &selector["matchLabels"]);
        for (index, expression) in object::items(selector, "/matchExpressions").iter().enumerate() {
            let place = format!("{field}.matchExpressions[{index}]");
            let has_values = !object::items(expression, "/values").is_empty();
            match text(expression, "/operator") {
                "In" | "NotIn" if !has_values => {
                    let why = "must be specified when `operator` is 'In' or 'NotIn'";
                    self.required_because(format!("{place}.values"), why);
                }
                "Exists" | "DoesNotExist" if has_values => {
                    let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                    self.forbidden(format!("{place}.values"), why);
                }
                "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
                _ => {
                    self.invalid(format!("{place}.operator"), &expression["operator"], "not a valid selector operator");
                }
            }
            self.qualified(&format!("{place}.key"), text(expression, "/key"));
            for (index, value) in object::items(expression, "/values").iter().enumerate() {
                if let Err(why) = names::check_label_value(value.as_str().unwrap_or_default()) {
                    self.invalid(format!("{place}.values[{index}]"), value, &why);
                }
            }
        }
    }
}

/// A label selector as text, with its fields in the order of the Go types.
pub(super) fn shown_selector(selector: &Value) -> String {
    let shown = |value: &Value, members: &[&str], always: &[&str]| {
        let given = members.iter().filter_map(|name| {
            let is_shown = value.get(*name).is_some_and(|value| *value != json!([]) && *value != json!({}));
            if is_shown {
                return Some(format!("{name:?}:{}", value[*name]));
            }
            always.contains(name).then(|| format!("{name:?}:\"\""))
        });
        given.collect::<Vec<_>>().join(",")
    };
    if !selector.is_object() {
        return selector.to_string();
    }
    let expressions = object::items(selector, "/matchExpressions").iter();
    let expressions: Vec<String> = expressions
        .map(|expression| format!("{{{}}}", shown(expression, &["key", "operator", "values"], &["key", "operator"])))
        .collect();
    let labels = shown(selector, &["matchLabels"], &[]);
    let parts = [
        labels,
        if expressions.is_empty() {
            String::new()
        } else {
            format!("\"matchExpressions\":[{}]", expressions.join(","))
        },
    ];
    format!("{{{}}}", parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(","))
}

/// Whether a label selector is valid, so that Go's `LabelSelectorAsSelector` would not return an error.
pub(super) fn is_selector(selector: &Value) -> bool {
    let is_label = |(key, value): (&String, &Value)| {
        names::check_label_key(key).is_ok() && names::check_label_value(value.as_str().unwrap_or_default()).is_ok()
    };
    let labels = selector["matchLabels"].as_object().into_iter().flatten().all(is_label);
    labels
        && object::items(selector, "/matchExpressions").iter().all(|expression| {
            let values = object::items(expression, "/values");
            let fits = match text(expression, "/operator") {
                "In" | "NotIn" => !values.is_empty(),
                "Exists" | "DoesNotExist" => values.is_empty(),
                _ => false,
            };
            let is_value = |value: &Value| names::check_label_value(value.as_str().unwrap_or_default()).is_ok();
            fits && names::check_label_key(text(expression, "/key")).is_ok() && values.iter().all(is_value)
        })
}

/// Whether the selector is empty, so that it selects everything.
pub(super) fn is_empty_selector(selector: &Value) -> bool {
    let is_empty = |key: &str| match &selector[key] {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    };
    is_empty("matchLabels") && is_empty("matchExpressions")
}

/// Whether a label selector matches these labels.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let wanted = selector["matchLabels"].as_object();
    wanted.into_iter().flatten().all(|(key, value)| label(key) == value.as_str())
        && object::items(selector, "/matchExpressions").iter().all(|expression| {
            let found = label(text(expression, "/key"));
            let is_listed = found.is_some_and(|found| object::strings(expression, "/values").contains(&found));
            match text(expression, "/operator") {
                "In" => is_listed,
                "NotIn" => !is_listed,
                "Exists" => found.is_some(),
                _ => found.is_none(),
            }
        })
}

/// The keys of a union's map that are set: those whose values are objects. Keys in `besides` do not count.
pub(super) fn members<'a>(map: &'a Value, besides: &[&str]) -> Vec<&'a str> {
    let fields = map.as_object().into_iter().flat_map(Map::iter);
    fields
        .filter(|(name, value)| value.is_object() && !besides.contains(&name.as_str()))
        .map(|(name, _)| name.as_str())
        .collect()
}
