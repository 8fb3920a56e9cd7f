//! The findings of a validation so far, and the checks that most kinds share, in a real server's words.

use serde_json::{Map, Value, json};

use crate::cause::Cause;
use crate::object::{self, names, text};

/// Collects what is wrong with an object.
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

    /// The same of a value that is printed otherwise than as its JSON.
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

    pub(super) fn not_supported(&mut self, field: impl Into<String>, value: &Value, allowed: &[&str]) {
        // An absent text is an empty one.
        let empty = json!("");
        let value = if value.is_null() { &empty } else { value };
        self.0.push(Cause::not_supported(field, value, allowed));
    }

    /// The same of a value that is printed otherwise than as its JSON.
    pub(super) fn not_supported_shown(&mut self, field: &str, shown: &str, allowed: &[&str]) {
        let allowed: Vec<String> = allowed.iter().map(|value| format!("{value:?}")).collect();
        let message = format!("Unsupported value: {shown}: supported values: {}", allowed.join(", "));
        self.0.push(Cause { reason: "FieldValueNotSupported", message, field: field.to_owned() });
    }

    /// The same of a value that is printed otherwise than as its JSON.
    pub(super) fn invalid_shown(&mut self, field: &str, shown: &str, why: &str) {
        self.0.push(Cause::invalid_shown(field, shown, why));
    }

    /// A name that must be there and follow `rule`.
    pub(super) fn name(&mut self, field: &str, value: &Value, rule: fn(&str) -> Result<(), String>) {
        match value.as_str() {
            None | Some("") => self.required(field),
            Some(_) => self.optional_name(field, value, rule),
        }
    }

    /// A name that follows `rule` if it is there.
    pub(super) fn optional_name(&mut self, field: &str, value: &Value, rule: fn(&str) -> Result<(), String>) {
        if let Some(Err(why)) = value.as_str().filter(|name| !name.is_empty()).map(rule) {
            self.invalid(field, value, &why);
        }
    }

    /// A text that must be one of `allowed`, if it is there.
    pub(super) fn one_of(&mut self, field: &str, value: &Value, allowed: &[&str]) {
        if value.as_str().is_some_and(|text| !allowed.contains(&text)) {
            self.not_supported(field, value, allowed);
        }
    }

    pub(super) fn not_negative(&mut self, field: &str, value: &Value) {
        if value.as_i64().is_some_and(|number| number < 0) {
            self.invalid(field, value, "must be greater than or equal to 0");
        }
    }

    /// Several numbers of one map.
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

    /// A port by number or by name.
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
            if let Err(why) = names::check_label_key(key) {
                self.invalid(field, &json!(key), &why);
            }
            if let Err(why) = names::check_label_value(value.as_str().unwrap_or_default()) {
                self.invalid(field, value, &why);
            }
        }
    }

    /// A field that stays as it was first.
    pub(super) fn immutable(&mut self, path: &str, object: &Value, previous: Option<&Value>) {
        let Some(previous) = previous else { return };
        let value = object::at_path(object, path).unwrap_or(&Value::Null);
        if value != object::at_path(previous, path).unwrap_or(&Value::Null) {
            self.invalid(path, value, "field is immutable");
        }
    }

    /// A label selector's own form.
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
            if let Err(why) = names::check_label_key(text(expression, "/key")) {
                self.invalid(format!("{place}.key"), &expression["key"], &why);
            }
            for (index, value) in object::items(expression, "/values").iter().enumerate() {
                if let Err(why) = names::check_label_value(value.as_str().unwrap_or_default()) {
                    self.invalid(format!("{place}.values[{index}]"), value, &why);
                }
            }
        }
    }
}

/// Whether the selector says nothing, so that it selects everything.
pub(super) fn is_empty_selector(selector: &Value) -> bool {
    let is_empty = |key: &str| match &selector[key] {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    };
    is_empty("matchLabels") && is_empty("matchExpressions")
}

/// Whether a label selector selects these labels.
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

/// The first key of the map whose value is an object, as unions of structs are written, and how many there are.
pub(super) fn members<'a>(map: &'a Value, besides: &[&str]) -> Vec<&'a str> {
    let fields = map.as_object().into_iter().flat_map(Map::iter);
    fields
        .filter(|(name, value)| value.is_object() && !besides.contains(&name.as_str()))
        .map(|(name, _)| name.as_str())
        .collect()
}
