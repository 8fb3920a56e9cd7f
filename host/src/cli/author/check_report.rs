//! The reports of `windlass check`, as they are printed.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use windlass_check::{AcceptedFinding, Finding, Report, RunRule, Tried, story_of};

/// The maximum number of details of a finding that are shown. Further details are counted.
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
        let why = "the plugin behaved differently, or the object of the fault was gone";
        let _ = writeln!(text, "                  in {unreached} runs a fault did not occur: {why}");
    }
    for (what, reason) in switched_off(report) {
        let _ = writeln!(text, "  switched off    {what}: {reason}");
    }
    let never_called = report.imports.never_called_in_short();
    if !never_called.is_empty() {
        let _ = writeln!(text, "  never called    {}", never_called.join(", "));
    }
    if report.accepted > 0 {
        let _ = writeln!(text, "  accepted        {} by the baseline", report.accepted);
    }
    if let Some(why) = &report.incomplete {
        let _ = writeln!(text, "  INCOMPLETE      {why}");
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

/// The rules and classes of faults that the scenario switches off, each with the reason.
fn switched_off(report: &Report) -> Vec<(String, &str)> {
    let rules = report.rules_off.iter().map(|(rule, reason)| (format!("rule {rule}"), reason.as_str()));
    let faults = report.faults_off.iter().map(|(class, reason)| (format!("faults {class}"), reason.as_str()));
    rules.chain(faults).collect()
}

/// Accepted findings that did not occur.
pub(crate) fn not_met(accepted: &[&AcceptedFinding]) -> String {
    let line = |it: &&AcceptedFinding| {
        let AcceptedFinding { scenario, rule, about, .. } = it;
        format!(
            "the baseline accepts {} of {about} in scenario {scenario}, but this finding did not occur\n",
            rule.name()
        )
    };
    accepted.iter().map(line).collect()
}

/// One finding, with its story.
pub(crate) fn finding(finding: &Finding, file: Option<&PathBuf>, most: usize) -> String {
    let Finding { rule, step, details, faults, again, steps, .. } = finding;
    let mut text = format!("{}: {}\n", rule.name(), rule.violation());
    for fault in faults {
        let _ = writeln!(text, "  fault    {}", fault.name);
    }
    if faults.is_empty() {
        let _ = writeln!(text, "  fault    none: this happens without a fault");
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
    text.push_str(&story_of(finding));
    if let Some(file) = file {
        let _ = writeln!(
            text,
            "  again    windlass check PLUGIN --again {}",
            crate::cli::author::dev::shortened(file).display()
        );
    }
    text
}

/// The reports in `JUnit`'s XML format, with one case for each rule, and one for each class of faults that is off.
pub(crate) fn junit(reports: &[Report]) -> String {
    let sum = |count: &dyn Fn(&Report) -> usize| reports.iter().map(count).sum::<usize>();
    let totals = counts(sum(&cases), sum(&|it| it.findings.len()), sum(&errors), sum(&skipped));
    let mut text =
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"windlass check\" {totals}>\n");
    for report in reports {
        let name = escaped(&report.scenario);
        let own = counts(cases(report), report.findings.len(), errors(report), skipped(report));
        let _ = writeln!(text, "  <testsuite name=\"{name}\" {own}>");
        for rule in RunRule::ALL {
            let _ = write!(text, "    <testcase classname=\"{name}\" name=\"{}\"", rule.name());
            if let Some(reason) = report.rules_off.get(rule.name()) {
                let _ = writeln!(text, "><skipped message=\"{}\"/></testcase>", escaped(reason));
                continue;
            }
            let of_rule: Vec<_> = report.findings.iter().filter(|finding| finding.rule == rule).collect();
            if of_rule.is_empty() {
                text.push_str("/>\n");
                continue;
            }
            text.push_str(">\n");
            for found in of_rule {
                let story = escaped(&finding(found, None, usize::MAX));
                let _ = writeln!(text, "      <failure message=\"{}\">{story}</failure>", escaped(rule.violation()));
            }
            text.push_str("    </testcase>\n");
        }
        for (class, reason) in &report.faults_off {
            let case = format!("classname=\"{name}\" name=\"faults {class}\"");
            let _ = writeln!(text, "    <testcase {case}><skipped message=\"{}\"/></testcase>", escaped(reason));
        }
        if let Some(why) = &report.incomplete {
            let case = format!("classname=\"{name}\" name=\"complete\"");
            let _ = writeln!(text, "    <testcase {case}><error message=\"{}\"/></testcase>", escaped(why));
        }
        text.push_str("  </testsuite>\n");
    }
    text + "</testsuites>\n"
}

fn cases(report: &Report) -> usize {
    RunRule::ALL.len() + report.faults_off.len() + errors(report)
}

fn errors(report: &Report) -> usize {
    usize::from(report.incomplete.is_some())
}

fn skipped(report: &Report) -> usize {
    report.rules_off.len() + report.faults_off.len()
}

/// The attributes of a suite.
fn counts(tests: usize, failures: usize, errors: usize, skipped: usize) -> String {
    format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\"")
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use windlass_check::ImportUse;

    use super::*;

    #[test]
    fn what_is_switched_off_is_reported_with_its_reason() {
        let off = |name: &str, reason: &str| BTreeMap::from([(name.to_owned(), reason.to_owned())]);
        let report = Report {
            plugin: "cron".into(),
            version: "1".into(),
            digest: "0".into(),
            scenario: "nightly".into(),
            seed: 1,
            runs: 1,
            calls: 1,
            writes: 1,
            tried: Tried::default(),
            rules_off: off("history", "Jobs of \"before\" stay"),
            faults_off: off("clock", "Jobs run at their time"),
            imports: ImportUse::default(),
            incomplete: Some("step 1 failed".into()),
            accepted: 0,
            findings: vec![],
        };
        let text = text(&report, Duration::from_secs(1), &[]);
        assert!(text.contains("\n  switched off    rule history: Jobs of \"before\" stay\n"), "{text}");
        assert!(text.contains("\n  switched off    faults clock: Jobs run at their time\n"), "{text}");
        assert!(text.contains("\n  INCOMPLETE      step 1 failed\n"), "{text}");
        let junit = junit(&[report]);
        let skipped = "name=\"history\"><skipped message=\"Jobs of &quot;before&quot; stay\"/></testcase>\n";
        assert!(junit.contains(skipped), "{junit}");
        assert!(junit.contains("name=\"faults clock\"><skipped message=\"Jobs run at their time\"/>"), "{junit}");
        assert!(junit.contains("name=\"complete\"><error message=\"step 1 failed\"/>"), "{junit}");
        let counts = format!("tests=\"{}\" failures=\"0\" errors=\"1\" skipped=\"2\">", RunRule::ALL.len() + 2);
        assert_eq!((junit.matches("<testcase").count(), junit.matches(&counts).count()), (RunRule::ALL.len() + 2, 2));
    }
}
