//! Reports what was found in a project, and what the plugin cannot do: IMPORT.md in full, and a summary for a terminal.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use windlass_core::object::ObjectKind;

use super::controllers::ImportedController;
use super::folder::LeftOut;
use super::reads::ReadType;
use super::rights::Rights;
use super::setups::MainCalls;
use super::unserved::{Limitation, Severity};

/// The maximum number of places that the report lists for a limitation.
const SHOWN_PLACES_MAX: usize = 20;
/// The maximum number of left-out files that the report lists.
const SHOWN_LEFT_OUT_MAX: usize = 50;
/// The maximum number of characters of a text from the project.
const SHOWN_CHARACTERS_MAX: usize = 160;

/// Everything that the report is about.
#[derive(Debug)]
pub(super) struct Report {
    pub name: String,
    pub module: String,
    /// The plugin's folder, below the project's.
    pub folder: String,
    pub controllers: Vec<ImportedController>,
    pub main: MainCalls,
    /// The variables that main.go sets.
    pub environment: Vec<(String, String)>,
    pub rights: Rights,
    /// The limitations in the code that the plugin runs.
    pub limitations: Vec<Limitation>,
    /// The limitations in the old main package.
    pub left_behind: Vec<Limitation>,
    /// The kinds that are read live, because a cluster may lack them, with their Go types.
    pub live_reads: BTreeSet<(ObjectKind, ReadType)>,
    pub definitions: Vec<String>,
    pub samples: Vec<String>,
    /// Other things that an author should know, one each.
    pub notes: Vec<String>,
    pub left_out: Vec<LeftOut>,
}

impl Report {
    /// The calls that main.go lacks.
    fn open_calls(&self) -> usize {
        self.main.calls.iter().filter(|call| !call.open.is_empty()).count()
    }

    /// The report for a terminal.
    pub(super) fn summary(&self) -> String {
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        for controller in &self.controllers {
            let _ = writeln!(text, "  controller   {}", in_short(controller));
        }
        let dropped = match self.rights.dropped.len() {
            0 => String::new(),
            dropped => format!("; {dropped} of the project's are not needed or not possible"),
        };
        let _ = writeln!(text, "  rights       {} rules{dropped}", self.rights.rules.len());
        let files =
            |list: &[String], none: &str| if list.is_empty() { none.to_owned() } else { list.len().to_string() };
        let _ = writeln!(
            text,
            "  definitions  {}",
            files(&self.definitions, "none: run `make manifests`, and import again")
        );
        let _ = writeln!(text, "  samples      {}", files(&self.samples, "none"));
        for (kind, _) in &self.live_reads {
            let _ = writeln!(text, "  read live    {}, which a cluster may lack", shown(&kind.to_string()));
        }
        for limitation in &self.limitations {
            let (place, used) = &limitation.places[0];
            let more = limitation.places.len() - 1;
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let _ =
                writeln!(text, "  {} {}: {place} {}{more}", title(limitation.severity), limitation.what, shown(used));
        }
        for call in self.main.calls.iter().filter(|call| !call.open.is_empty()) {
            let _ = writeln!(text, "  to complete  main.go, for {}: {}", call.place, shown(&call.open));
        }
        for note in &self.notes {
            let _ = writeln!(text, "  note         {}", shown(note));
        }
        text
    }

    /// IMPORT.md.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!(
            "# {}, imported from {}\n\n\
             `windlass import` wrote this page and the folder. It changed no file of the project, which builds as before.\n\
             Read docs/coming-from-controller-runtime.md of Windlass for all differences.\n\n",
            self.name, self.module
        );
        self.push_controllers(&mut text);
        push_limitations(
            &mut text,
            "What the plugin cannot do",
            "The build fails, or a call fails when it reaches such a place. Change these before you run the plugin.",
            self.limitations.iter().filter(|it| it.severity == Severity::Unserved),
        );
        push_limitations(
            &mut text,
            "What works differently",
            "The code builds and runs. Read it once with the difference in mind.",
            self.limitations.iter().filter(|it| it.severity == Severity::Different),
        );
        self.push_live_reads(&mut text);
        self.push_main(&mut text);
        self.push_rights(&mut text);
        if !self.notes.is_empty() {
            text.push_str("## Also\n\n");
            for note in &self.notes {
                let _ = writeln!(text, "- {}", escaped(note));
            }
            text.push('\n');
        }
        self.push_files(&mut text);
        text
    }

    fn push_controllers(&self, text: &mut String) {
        text.push_str("## Controllers\n\n| name | for | owns | watches | where |\n|---|---|---|---|---|\n");
        for it in &self.controllers {
            let kinds =
                |list: &[ObjectKind]| list.iter().map(|kind| code(&kind.to_string())).collect::<Vec<_>>().join(", ");
            let (primary, place) = (code(&it.primary.to_string()), code(&it.place.to_string()));
            let _ = writeln!(
                text,
                "| {} | {primary} | {} | {} | {place} |",
                code(&it.name),
                kinds(&it.owns),
                kinds(&it.watches)
            );
        }
        text.push('\n');
    }

    fn push_live_reads(&self, text: &mut String) {
        if self.live_reads.is_empty() {
            return;
        }
        text.push_str(
            "## Kinds that are read live\n\n\
             A cluster may lack these kinds. They are not in the host's cache: each read asks the API server, and map\n\
             functions and predicates cannot read them. If each cluster of yours serves a kind, add its line to an `init`\n\
             function in a file of your own. A controller waits until all kinds of `windlass.Reads` are served.\n\n",
        );
        for (kind, (import, name)) in &self.live_reads {
            let (line, import) = (format!("windlass.Reads(&kinds.{name}{{}})"), format!("import kinds \"{import}\""));
            let _ = writeln!(text, "- {}: {}, with {}", code(&kind.to_string()), code(&line), code(&import));
        }
        text.push('\n');
    }

    fn push_main(&self, text: &mut String) {
        if self.open_calls() > 0 {
            text.push_str("## What main.go lacks\n\n");
            for call in self.main.calls.iter().filter(|call| !call.open.is_empty()) {
                let _ = writeln!(text, "- The call of {}: {}.", code(&call.place.to_string()), escaped(&call.open));
            }
            text.push('\n');
        }
        if !self.environment.is_empty() {
            let names: Vec<_> = self.environment.iter().map(|(name, _)| code(name)).collect();
            let _ = write!(
                text,
                "## Environment\n\nmain.go sets these variables as config/manager does: {}.\n\n",
                names.join(", ")
            );
        }
        let dropped: Vec<_> = self.main.calls.iter().flat_map(|call| &call.dropped).collect();
        if !dropped.is_empty() {
            text.push_str("## Fields that main.go does not set\n\n");
            for (field, value, place) in dropped {
                let _ = writeln!(text, "- {}: {} in {}", code(field), code(value), code(&place.to_string()));
            }
            text.push('\n');
        }
        push_limitations(
            text,
            "What the old main does beside this",
            "The plugin's main.go does not do it. The host does what an operator needs of it: leader election, health checks,\nmetrics, logs.",
            self.left_behind.iter(),
        );
    }

    fn push_rights(&self, text: &mut String) {
        let _ = write!(
            text,
            "## Rights\n\n{} rules are in windlass_plugin.go, from the markers `+kubebuilder:rbac`{}. {}.policy.yaml grants\n\
             them and what the controllers imply. `windlass build` says if either has too much or too little.\n\n",
            self.rights.rules.len(),
            if self.rights.only_in_role > 0 { " and from config/rbac/role.yaml" } else { "" },
            self.name
        );
        if !self.rights.dropped.is_empty() {
            text.push_str("These are left out:\n\n");
            for it in &self.rights.dropped {
                let _ = writeln!(text, "- {}: {} ({})", code(&it.source.0), code(&it.rule), it.why);
            }
            text.push('\n');
        }
    }

    fn push_files(&self, text: &mut String) {
        text.push_str("## Files that were read\n\n");
        for (title, files) in [("Definitions", &self.definitions), ("Samples", &self.samples)] {
            let list = files.iter().map(|it| code(it)).collect::<Vec<_>>().join(", ");
            let _ = writeln!(text, "- {title}: {}", if list.is_empty() { "none" } else { &list });
        }
        for LeftOut { path, why } in self.left_out.iter().take(SHOWN_LEFT_OUT_MAX) {
            let _ = writeln!(text, "- Not read: {}, because {why}", code(path));
        }
        let more = self.left_out.len().saturating_sub(SHOWN_LEFT_OUT_MAX);
        if more > 0 {
            let _ = writeln!(text, "- Not read: {more} more");
        }
    }
}

fn title(severity: Severity) -> &'static str {
    match severity {
        Severity::Unserved => "cannot      ",
        Severity::Different => "differently ",
    }
}

fn push_limitations<'a>(
    text: &mut String,
    heading: &str,
    lead: &str,
    limitations: impl Iterator<Item = &'a Limitation>,
) {
    let mut limitations = limitations.peekable();
    if limitations.peek().is_none() {
        return;
    }
    let _ = write!(text, "## {heading}\n\n{lead}\n\n");
    for Limitation { what, way, places, .. } in limitations {
        let _ = writeln!(text, "- **{what}.** {way}");
        for (place, used) in places.iter().take(SHOWN_PLACES_MAX) {
            let _ = writeln!(text, "  - {}: {}", code(&place.to_string()), code(used));
        }
        let more = places.len().saturating_sub(SHOWN_PLACES_MAX);
        if more > 0 {
            let _ = writeln!(text, "  - and {more} more places");
        }
    }
    text.push('\n');
}

fn in_short(it: &ImportedController) -> String {
    let mut line = format!("{}: {}", it.name, it.primary);
    for (what, kinds) in [("owns", &it.owns), ("watches", &it.watches)] {
        if !kinds.is_empty() {
            let kinds: Vec<_> = kinds.iter().map(ToString::to_string).collect();
            let _ = write!(line, "; {what} {}", kinds.join(", "));
        }
    }
    line
}

/// Text of the project on one line.
fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().map(|it| if it.is_control() { ' ' } else { it }).take(SHOWN_CHARACTERS_MAX).collect()
}

/// Text of the project as code in Markdown, also in a table.
fn code(text: &str) -> String {
    format!("`{}`", shown(text).replace(['`', '|'], "'"))
}

/// Text of the project as text in Markdown.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    let mut in_code = false;
    for letter in shown(text).chars() {
        in_code ^= letter == '`';
        if !in_code && matches!(letter, '<' | '>' | '[' | ']' | '*' | '_' | '!' | '\\') {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}
