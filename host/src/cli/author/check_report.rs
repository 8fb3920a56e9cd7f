//! The reports of `windlass check`, as they are printed.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use windlass_check::{AcceptedFinding, Finding, Report, RunRule, Tried, told};

/// The most details of a finding that are shown. Further ones are counted.
const FINDING_DETAILS_SHOWN_MAX: usize = 8;

/// The report, for people.
pub(crate) fn text(report: &Report, took: Duration, files: &[PathBuf]) -> String {
    let Report { plugin, version, digest, scenario, runs, calls, writes, tried, .. } = report;
    let Tried { faults, pairs, unreached } = tried;
    let short = digest.get(..12).unwrap_or(digest);
    let mut text = format!("{plugin} {version} ({short}), scenario {scenario}\n");
    let _ = writeln!(text, "  without faults  {calls} calls, {writes} writes");
    let (done, of) = faults.values().fold((0, 0), |(done, of), class| (done + class.tried, of + class.of));
    let pace = f64::from(u32::try_from(*runs).unwrap_or(u32::MAX)) / took.as_secs_f64().max(f64::EPSILON);
    let seconds = took.as_secs_f64();
    let _ = writeln!(
        text,
        "  tried           {done} of {of} faults, {pairs} pairs; {runs} runs in {seconds:.1} s ({pace:.0} a second)"
    );
    let classes: Vec<_> = faults.iter().map(|(class, it)| format!("{class} {}/{}", it.tried, it.of)).collect();
    let _ = writeln!(text, "                  {}", classes.join(", "));
    if *unreached > 0 {
        let why = "the plugin went another way, or there was nothing left for it";
        let _ = writeln!(text, "                  in {unreached} runs a fault did not come about: {why}");
    }
    let never_called = report.imports.never_called_in_short();
    if !never_called.is_empty() {
        let _ = writeln!(text, "  never called    {}", never_called.join(", "));
    }
    if report.accepted > 0 {
        let _ = writeln!(text, "  accepted        {} by the baseline", report.accepted);
    }
    if report.findings.is_empty() {
        let _ = writeln!(text, "  found           nothing");
        return text;
    }
    let _ = writeln!(text, "  found           {}", report.findings.len());
    for (index, found) in report.findings.iter().enumerate() {
        text.push('\n');
        text.push_str(&finding(found, files.get(index), FINDING_DETAILS_SHOWN_MAX));
    }
    text
}

/// Accepted findings that did not occur.
pub(crate) fn not_met(accepted: &[&AcceptedFinding]) -> String {
    let line = |it: &&AcceptedFinding| {
        let AcceptedFinding { scenario, rule, about, .. } = it;
        format!("the baseline accepts {} of {about} in scenario {scenario}, and it was not found\n", rule.name())
    };
    accepted.iter().map(line).collect()
}

/// One finding, with its story.
pub(crate) fn finding(finding: &Finding, file: Option<&PathBuf>, most: usize) -> String {
    let Finding { rule, step, details, faults, again, steps, .. } = finding;
    let mut text = format!("{}: {}\n", rule.name(), rule.says());
    for fault in faults {
        let _ = writeln!(text, "  fault    {}", fault.name);
    }
    if faults.is_empty() {
        let _ = writeln!(text, "  fault    none: it is so without any");
    }
    if *again > 0 {
        let _ = writeln!(text, "           and {again} further runs with other faults");
    }
    if let Some(steps) = steps {
        let _ = writeln!(text, "  needs    {} steps of the scenario:", steps.len());
        for step in steps {
            let _ = writeln!(text, "           {step}");
        }
    }
    if let Some(step) = step {
        let _ = writeln!(text, "  when     after step {}", step + 1);
    }
    details.iter().take(most).for_each(|line| {
        let _ = writeln!(text, "  it says  {line}");
    });
    if details.len() > most {
        let _ = writeln!(text, "           and {} more", details.len() - most);
    }
    text.push_str(&told(finding));
    if let Some(file) = file {
        let _ = writeln!(
            text,
            "  again    windlass check PLUGIN --again {}",
            crate::cli::author::dev::shortened(file).display()
        );
    }
    text
}

/// The reports in `JUnit`'s XML format, with one case for each rule.
pub(crate) fn junit(reports: &[Report]) -> String {
    let failures: usize = reports.iter().map(|report| report.findings.len()).sum();
    let tests = reports.len() * RunRule::ALL.len();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"windlass check\" tests=\"{tests}\" failures=\"{failures}\">\n"
    );
    for report in reports {
        let name = escaped(&report.scenario);
        let count = report.findings.len();
        let _ = writeln!(text, "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{count}\">", RunRule::ALL.len());
        for rule in RunRule::ALL {
            let _ = write!(text, "    <testcase classname=\"{name}\" name=\"{}\"", rule.name());
            let of_rule: Vec<_> = report.findings.iter().filter(|finding| finding.rule == rule).collect();
            if of_rule.is_empty() {
                text.push_str("/>\n");
                continue;
            }
            text.push_str(">\n");
            for found in of_rule {
                let said = escaped(&finding(found, None, usize::MAX));
                let _ = writeln!(text, "      <failure message=\"{}\">{said}</failure>", escaped(rule.says()));
            }
            text.push_str("    </testcase>\n");
        }
        text.push_str("  </testsuite>\n");
    }
    text + "</testsuites>\n"
}

/// Escaped for XML. Control characters, which XML cannot represent, are dropped.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(character),
            control if control.is_control() => {}
            other => escaped.push(other),
        }
    }
    escaped
}
