//! The formats in which commands show the state of a running host.

use std::fmt::Write as _;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::Value;
use windlass_core::deceptive;

/// The output format for the state of a running host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ViewFormat {
    /// For people.
    Table,
    /// For people with wide terminals.
    Wide,
    /// For programs: everything that the host reports.
    Json,
    /// For programs: the JSON as YAML.
    Yaml,
}

/// Prints everything that the host reports, if `format` asks for that. `false` for a table.
pub(super) fn print_document(format: ViewFormat, document: &Value) -> std::io::Result<bool> {
    match format {
        ViewFormat::Table | ViewFormat::Wide => return Ok(false),
        ViewFormat::Json => super::print_json(document)?,
        ViewFormat::Yaml => {
            let mut text = String::new();
            yaml(document, 0, &mut text);
            // Escape the texts as in JSON.
            super::print(&deceptive::escape_json(text.trim_start_matches('\n')))?;
        }
    }
    Ok(true)
}

/// `value` as YAML in block style, after the text that is on the line already.
fn yaml(value: &Value, depth: usize, into: &mut String) {
    let indent = "  ".repeat(depth);
    // Writing to a text cannot fail.
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, field) in fields {
                let _ = write!(into, "\n{indent}{}:", name_of(name));
                yaml(field, depth + 1, into);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let _ = write!(into, "\n{indent}-");
                yaml(item, depth + 1, into);
            }
        }
        scalar => {
            let _ = write!(into, " {scalar}");
        }
    }
    if depth == 0 {
        into.push('\n');
    }
}

/// A field's name, quoted unless it is unambiguous in YAML.
fn name_of(name: &str) -> String {
    const OTHER: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic());
    let means_other = OTHER.contains(&name.to_ascii_lowercase().as_str());
    if is_plain && !means_other { name.to_owned() } else { Value::from(name).to_string() }
}

/// The text, or a dash.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// The number, or a dash.
pub(super) fn count(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), |count| count.to_string())
}

/// An amount of memory as Kubernetes writes it, such as `1.5Mi`; a dash if the value is not a number.
pub(super) fn size(value: &Value) -> String {
    let Some(bytes) = value.as_f64() else { return "-".to_owned() };
    let units = [("Gi", 30), ("Mi", 20), ("Ki", 10)];
    let unit = units.into_iter().find(|(_, shift)| bytes >= f64::from(1_u32 << shift));
    unit.map_or_else(
        || format!("{bytes:.0}"),
        |(name, shift)| format!("{:.1}{name}", bytes / f64::from(1_u32 << shift)),
    )
}

/// A duration as kubectl writes ages, with fractions if it is short: `12ms`, `1.5s`, `3m20s`, `2h5m`; or a dash.
pub(super) fn time(value: &Value) -> String {
    let Some(seconds) = value.as_f64().filter(|seconds| *seconds >= 0.0) else { return "-".to_owned() };
    if seconds < 1.0 {
        return format!("{:.0}ms", seconds * 1e3);
    }
    if seconds < 60.0 {
        return format!("{seconds:.1}s");
    }
    let whole = Duration::from_secs_f64(seconds.min(1e12)).as_secs();
    let (days, hours, minutes, seconds) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60, whole % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}m{seconds}s"),
        (0, _) => format!("{hours}h{minutes}m"),
        _ => format!("{days}d{hours}h"),
    }
}

/// The first line of `text`, with at most `most` characters.
pub(super) fn cut(text: &str, most: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let is_whole = line.len() == text.len() && line.chars().count() <= most;
    let kept: String = line.chars().take(if is_whole { most } else { most.saturating_sub(1) }).collect();
    if is_whole { kept } else { kept + "…" }
}

/// Whether a table names the replica of each plugin: a wide one does if there are several replicas, and any table if
/// two replicas report on one plugin.
pub(super) fn shows_replica(plugins: &[Value], is_wide: bool) -> bool {
    let is_of_replicas = plugins.iter().any(|plugin| !plugin["replica"].is_null());
    is_of_replicas && (is_wide || plugins.windows(2).any(|two| two[0]["name"] == two[1]["name"]))
}

/// A table for people. A row is one line, whatever its cells contain.
pub(super) fn table<R: AsRef<[String]>>(heading: &[&str], rows: impl IntoIterator<Item = R>) -> String {
    // Cells are escaped before they are measured, because escaping makes text wider.
    let plain = |cell: &String| deceptive::escape_line(cell).into_owned();
    let cells = |row: &[String]| row.iter().map(plain).collect::<Vec<_>>();
    let first = heading.iter().map(|&it| it.to_owned()).collect();
    let all: Vec<_> = std::iter::once(first).chain(rows.into_iter().map(|row| cells(row.as_ref()))).collect();
    let width = |column: usize| all.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<_> = (0..all[0].len()).map(|column| width(column).unwrap_or(0)).collect();
    // Not `{cell:<width$}`, which panics if a column is wider than 65,535 characters.
    let padded = |cell: &String, width: usize| cell.clone() + &" ".repeat(width.saturating_sub(cell.chars().count()));
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| padded(cell, *width));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    all.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_column_may_be_of_any_width() {
        let shown = table(&["KEY", "STATE"], [["a".repeat(70_000), "done".to_owned()]]);
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines[0].find("STATE"), lines[1].find("done"));
    }

    #[test]
    fn sizes_and_times_are_short_and_have_their_unit() {
        let sizes = [json!(0), json!(1023), json!(1024), json!(1_572_864), json!(3_u64 << 30), json!(null)];
        assert_eq!(sizes.map(|it| size(&it)), ["0", "1023", "1.0Ki", "1.5Mi", "3.0Gi", "-"]);
        let times = [json!(0), json!(0.0123), json!(1.5), json!(200), json!(7500), json!(200_000), json!(null)];
        assert_eq!(times.map(|it| time(&it)), ["0ms", "12ms", "1.5s", "3m20s", "2h5m", "2d7h", "-"]);
    }

    #[test]
    fn a_name_with_line_breaks_stays_in_its_row() {
        let table = table(&["NAME", "STATE"], [["evil\nwebapp".to_owned(), "not-loaded".to_owned()]]);
        assert_eq!(table, "NAME          STATE\nevil\\nwebapp  not-loaded\n");
    }

    #[test]
    fn a_deceptive_name_does_not_move_columns() {
        let table = table(&["NAME", "STATE"], [["a\u{202e}b".to_owned(), "done".to_owned()]]);
        assert_eq!(table, "NAME        STATE\na\\u{202e}b  done\n");
    }

    #[test]
    fn a_long_text_is_cut_and_a_second_line_is_left_out() {
        assert_eq!([cut("abc", 3), cut("abcd", 3), cut("a\nb", 9)], ["abc", "ab…", "a…"]);
    }

    #[test]
    fn columns_are_aligned_whatever_they_contain() {
        let rows = [vec!["ü".to_owned(), "1".to_owned()], vec!["long".to_owned(), String::new()]];
        assert_eq!(table(&["A", "B"], &rows), "A     B\nü     1\nlong\n");
    }

    #[test]
    fn yaml_is_in_blocks_and_its_texts_are_quoted() {
        let document = json!({"keys": [{"name": "no", "failures": 2}, {}], "none": [], "null": null, "y": true});
        let mut text = String::new();
        yaml(&document, 0, &mut text);
        let expected = "\n\
            keys:\n  \
              -\n    \
                failures: 2\n    \
                name: \"no\"\n  \
              - {}\n\
            none: []\n\
            \"null\": null\n\
            \"y\": true\n";
        assert_eq!(text, expected);
    }
}
