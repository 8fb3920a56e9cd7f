//! The files of findings that `windlass check` writes. `--again` repeats their runs.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;

use anyhow::Context as _;
use windlass_check::scenario::Scenario;
use windlass_check::{Finding, Report};

/// The most bytes of a scenario's name in a file name. The rule and a number follow it, and file systems allow 255.
const SCENARIO_NAME_BYTES_MAX: usize = 150;

/// The files of the findings of all scenarios of a check.
pub(super) struct FindingFiles {
    folder: PathBuf,
    /// The file name prefixes that are taken, each by a scenario.
    taken: BTreeSet<String>,
}

impl FindingFiles {
    /// Writes to this folder, which is created when it is needed.
    pub(super) fn of(folder: PathBuf) -> Self {
        Self { folder, taken: BTreeSet::new() }
    }

    /// Writes a file for each finding of a scenario.
    pub(super) fn keep(&mut self, report: &Report, scenario: &Scenario) -> anyhow::Result<Vec<PathBuf>> {
        let stem = self.stem(&report.scenario);
        let write = |(index, finding): (usize, &Finding)| -> anyhow::Result<PathBuf> {
            let path = self.folder.join(format!("{stem}-{}-{}.json", index + 1, finding.rule.name()));
            let text = serde_json::to_string_pretty(&finding.reproduction(report, scenario))?;
            std::fs::create_dir_all(&self.folder)
                .and_then(|()| std::fs::write(&path, text + "\n"))
                .with_context(|| format!("cannot write {}", path.display()))?;
            Ok(path)
        };
        report.findings.iter().enumerate().map(write).collect()
    }

    /// The file name prefix of a scenario: its name, unless that is not a valid file name or is taken by another
    /// scenario. Then it is a part of the name, and a hash of all of it.
    fn stem(&mut self, scenario: &str) -> String {
        let is_plain = |it: char| it.is_alphanumeric() || "._-".contains(it);
        let plain: String = scenario.chars().map(|it| if is_plain(it) { it } else { '-' }).collect();
        let cut = &plain[..plain.floor_char_boundary(SCENARIO_NAME_BYTES_MAX)];
        let is_hidden = plain.is_empty() || plain.starts_with('.');
        let mut stem = if cut == scenario && !is_hidden { cut.to_owned() } else { hashed(cut, scenario, 0) };
        for again in 1.. {
            if self.taken.insert(stem.clone()) {
                break;
            }
            stem = hashed(cut, scenario, again);
        }
        stem
    }
}

fn hashed(cut: &str, scenario: &str, again: u32) -> String {
    let mut hash = DefaultHasher::new();
    (scenario, again).hash(&mut hash);
    let cut = cut.trim_start_matches('.');
    format!("{cut}-{:08x}", hash.finish() >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scenario_has_unique_and_valid_file_names() {
        let mut files = FindingFiles::of(PathBuf::from("findings"));
        assert_eq!(files.stem("hello"), "hello");
        let again = files.stem("hello");
        assert!(again.starts_with("hello-") && again.len() == "hello-".len() + 8, "{again}");
        let (long, other) = ("é".repeat(300), "é".repeat(301));
        let stems =
            [files.stem(&long), files.stem(&other), files.stem("../../etc"), files.stem(".hidden"), files.stem("")];
        let all: BTreeSet<&String> = stems.iter().collect();
        assert_eq!(all.len(), stems.len(), "{stems:?}");
        for stem in &stems {
            assert!(stem.len() < 200 && !stem.starts_with('.') && !stem.contains('/'), "{stem}");
        }
        assert_eq!(FindingFiles::of(PathBuf::new()).stem(&long), stems[0], "a repeated check finds it");
    }
}
