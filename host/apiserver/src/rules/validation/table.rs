//! Validation by tables of rules: each line has the path of a field and its check.

use serde_json::{Value, json};

use super::report::Report;

/// The path of a field below the checked object, and its check. `[]` after a name stands for each item of a list. A
/// rule applies only if the field's parent exists.
pub(super) type FieldRule = (&'static str, Check);

/// A rule that the text of a field must follow.
pub(super) type TextRule = fn(&str) -> Result<(), String>;

/// A check of a field.
#[derive(Clone, Copy)]
pub(super) enum Check {
    /// The value must not be empty.
    Required,
    /// The value must not be empty. The text is the detail of the error.
    RequiredBecause(&'static str),
    /// If there is a value, it must be one of these.
    OneOf(&'static [&'static str]),
    /// The value must be one of these. A missing value counts as an empty text.
    Either(&'static [&'static str]),
    /// If the text is not empty, it must follow a rule.
    Name(TextRule),
    /// The value must be present, but may be empty. The text is the detail of the error.
    Present(&'static str),
    /// The text must not be empty, and must follow a rule.
    Named(TextRule),
    /// If there is a text, it must follow a rule, even if it is empty.
    Text(TextRule),
    /// The text must follow a rule. A missing value counts as an empty text.
    Always(TextRule),
    /// If there is a number, it must be in this range.
    Range(i64, i64),
    /// If there is a number, it must be in this range. The text is the error's text.
    RangeOr(i64, i64, &'static str),
    /// If there is a number, it must not be negative.
    NotNegative,
    /// If there is a path, it must be relative, and must not lead upwards.
    PathBelow,
    /// If there is a path, it must not contain `..`.
    NoBacksteps,
    /// The keys and values must be valid labels.
    Labels,
    /// The value must be a valid label selector.
    Selector,
}

/// Checks an object at `field` against all rules.
pub(super) fn check(rules: &[FieldRule], object: &Value, field: &str, report: &mut Report) {
    for (path, check) in rules {
        each(object, path, field, &mut |value, field| check.judge(value, field, report));
    }
}

/// Visits each field that matches `path`, with its actual path.
pub(super) fn each(value: &Value, path: &str, at: &str, visit: &mut dyn FnMut(&Value, &str)) {
    let (step, rest) = path.split_once('.').map_or((path, None), |(step, rest)| (step, Some(rest)));
    let (name, is_list) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
    if !value.is_object() {
        return;
    }
    let field = if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    let mut go_on = |value: &Value, field: &str| match rest {
        Some(rest) => each(value, rest, field, visit),
        None => visit(value, field),
    };
    if is_list {
        for (index, item) in value[name].as_array().into_iter().flatten().enumerate() {
            go_on(item, &format!("{field}[{index}]"));
        }
    } else {
        go_on(&value[name], &field);
    }
}

impl Check {
    fn judge(self, value: &Value, field: &str, report: &mut Report) {
        let text = value.as_str();
        let fails = |rule: TextRule| text.and_then(|text| rule(text).err());
        match self {
            Check::Required if is_empty(value) => report.required(field),
            Check::RequiredBecause(why) if is_empty(value) => report.required_because(field, why),
            Check::Present(why) if value.is_null() => report.required_because(field, why),
            Check::OneOf(allowed) => report.one_of(field, value, allowed),
            Check::Either(allowed) if !allowed.contains(&text.unwrap_or_default()) => {
                report.not_supported(field, value, allowed);
            }
            Check::Name(rule) => report.optional_name(field, value, rule),
            Check::Named(rule) => report.name(field, value, rule),
            Check::Text(rule) => {
                if let Some(why) = fails(rule) {
                    report.invalid(field, value, &why);
                }
            }
            Check::Always(rule) => {
                if let Err(why) = rule(text.unwrap_or_default()) {
                    report.invalid(field, &json!(text.unwrap_or_default()), &why);
                }
            }
            Check::Range(least, most) => {
                let why = format!("must be between {least} and {most}, inclusive");
                report.range(field, value, least, most, &why);
            }
            Check::RangeOr(least, most, why) => report.range(field, value, least, most, why),
            Check::NotNegative => report.not_negative(field, value),
            Check::PathBelow => report.path_below(field, value),
            Check::NoBacksteps => report.no_backsteps(field, value),
            Check::Labels => report.labels(field, value),
            Check::Selector if value.is_object() => report.selector(field, value),
            Check::Required | Check::RequiredBecause(_) | Check::Present(_) | Check::Either(_) | Check::Selector => {}
        }
    }
}

/// Whether a value is missing, or is an empty text, list or map.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(rules: &[FieldRule], object: &Value) -> Vec<String> {
        let mut report = Report::default();
        check(rules, object, "spec", &mut report);
        report.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_rule_applies_to_each_item_if_the_parent_exists() {
        let rules: &[FieldRule] = &[("list[].name", Check::Required), ("absent.name", Check::Required)];
        assert_eq!(errors(rules, &json!({ "list": [{ "name": "a" }, {}] })), ["spec.list[1].name: Required value"]);
    }

    #[test]
    fn a_path_stays_below_its_root() {
        let path = |text: &str| errors(&[("path", Check::PathBelow)], &json!({ "path": text }));
        let invalid = |text: &str, why: &str| vec![format!("spec.path: Invalid value: {text:?}: {why}")];
        assert_eq!(path("a/b..c"), Vec::<String>::new());
        assert_eq!(path("/a"), invalid("/a", "must be a relative path"));
        assert_eq!(path("../a"), invalid("../a", "must not contain '..'"));
        assert_eq!(path("..a"), invalid("..a", "must not start with '..'"));
    }
}
