//! Builds a Python plugin after an edit in about a second, where a whole build takes 20 seconds: an edit only exchanges
//! the script of a [`Base`]. `windlass dev` builds in this way. The plugin imports its sources in each fresh instance,
//! which makes its calls slower.
//!
//! The SDK imports a script such that it behaves as a plugin of a whole build (`sdk/python/windlass/_script.py`). If
//! the SDK cannot do that, it reports this when the plugin is asked for its manifest.

use windlass_wasm::{LoadError, LoadProblem};

use crate::base::{self, Base, Imports, Unusable};
use crate::build::{BuildError, BuildSite};
use crate::bundle;
use crate::facts::Facts;
use crate::file::Language;
use crate::finish::{self, FinishError, Finished};
use crate::hints;
use crate::language::python;
use crate::plan::BuildOutput;

/// The number of bases that are tried for one edit. Another is made if the sources turn out to import other modules.
const BASES_MAX: usize = 3;

// The beginnings of a script's errors, and the mark for the end of a line in them, as in `_script.py`.
const LACKS: &str = "the base lacks modules: ";
const UNUSED: &str = "the base has unused modules: ";
const WHOLE: &str = "this needs a whole build: ";
const LINE_END: &str = " ⏎ ";

pub(crate) enum Edited {
    Finished(Finished),
    /// The plugin cannot be a script, for this reason.
    NeedsWholeBuild(String),
}

/// Whether the plugin can be built by [`build`]. An SDK that an earlier `windlass new` wrote may not support that.
pub(crate) fn can_build(facts: &Facts) -> bool {
    let file = &facts.file;
    let importer = facts.folder.join(&file.sdk).join("windlass/_script.py");
    file.language == Language::Python
        && file.own.is_none()
        && importer.exists()
        && facts.folder.join(python::APP).exists()
}

/// Joins the sources with the folder's base, which is made first if there is none.
pub(crate) async fn build(site: &BuildSite<'_>) -> Result<Edited, BuildError> {
    let script = match bundle::script(&site.facts.folder, &site.facts.file.sdk) {
        Ok(script) => script,
        Err(error) => return Ok(Edited::NeedsWholeBuild(error.to_string())),
    };
    // If there is no compiler, the build of the base or the whole build reports it.
    let tool = site.tool_paths().identity(&python::COMPONENTIZE_PY).unwrap_or_default();
    let key = base::key(site.facts, &tool).map_err(|error| site.at_work(error))?;
    let (mut imports, mut kept) = (Imports::default(), base::kept(site.work, &key));
    for _ in 0..BASES_MAX {
        let base = match kept {
            Ok(base) => base,
            Err(why) => made(site, &key, &script, imports, &why).await?,
        };
        match joined(site, &base, &script).await? {
            Outcome::Finished(finished) => return Ok(Edited::Finished(finished)),
            Outcome::Refused(text) => return Err(FinishError::Refused(text).into()),
            Outcome::NeedsWholeBuild(why) => return Ok(Edited::NeedsWholeBuild(why)),
            Outcome::OtherImports(why) => {
                imports = base.imports;
                imports.adjust(&why);
                kept = Err(why);
            }
        }
    }
    let why = kept.err().map(|why| why.to_string()).unwrap_or_default();
    Ok(Edited::NeedsWholeBuild(format!("no base has the modules that the sources import: with the last one, {why}")))
}

/// Makes and keeps a base that imports the modules that the sources import now, corrected by `imports`.
async fn made(
    site: &BuildSite<'_>,
    key: &str,
    script: &str,
    imports: Imports,
    why: &Unusable,
) -> Result<Base, BuildError> {
    match why {
        Unusable::Absent => tracing::info!(
            target: "windlass::build",
            "building a base of Python, the SDK and the packages, once: edits then only exchange the sources. Each fresh instance imports \
             app.py, so calls are slower than after `windlass build`"
        ),
        why => tracing::info!(target: "windlass::build", "building the base again: {why}"),
    }
    let folder = site.facts.folder.join(python::base_folder());
    let written = std::fs::create_dir_all(&folder).and_then(|()| {
        python::base_files(script, &imports.more, &imports.without)
            .iter()
            .try_for_each(|(name, text)| std::fs::write(folder.join(name), text))
    });
    written.map_err(|error| site.at_work(error))?;
    let plan = python::base_plan(site.facts);
    let base = Base { component: site.component(&plan).await?, imports };
    let kept = base::keep(site.work, key, &base).and_then(|()| match &plan.output {
        BuildOutput::File(output) => std::fs::remove_file(site.facts.folder.join(output)),
        BuildOutput::ReportedByCargo | BuildOutput::Joined(_) => Ok(()),
    });
    kept.map_err(|error| site.at_work(error))?;
    Ok(base)
}

/// The result of joining a base with a script.
#[derive(Debug)]
enum Outcome {
    Finished(Finished),
    Refused(String),
    /// The script imports modules that the base has not tried to import, or fewer modules than the base.
    OtherImports(Unusable),
    NeedsWholeBuild(String),
}

async fn joined(site: &BuildSite<'_>, base: &Base, script: &str) -> Result<Outcome, BuildError> {
    let component = windlass_wasm::joined(&base.component, script);
    let mut refused = None;
    let explain = |error: &LoadError| {
        refused = Some(outcome(error, &site.facts.file.name));
        error.to_string()
    };
    let finished = site.finish(&component, explain).await;
    match (refused, finished) {
        (Some(outcome), _) => Ok(outcome),
        (None, Ok(finished)) => Ok(Outcome::Finished(finished)),
        (None, Err(error)) => Err(error.into()),
    }
}

fn outcome(error: &LoadError, name: &str) -> Outcome {
    let told = match &error.problem {
        LoadProblem::Describe { message, .. } => finish::logged(message),
        _ => None,
    };
    let Some(told) = told else { return Outcome::Refused(finish::refusal(error, name)) };
    if let Some(names) = told.strip_prefix(LACKS) {
        return Outcome::OtherImports(Unusable::Lacks(names.to_owned()));
    }
    if let Some(names) = told.strip_prefix(UNUSED) {
        return Outcome::OtherImports(Unusable::Unused(names.to_owned()));
    }
    if let Some(why) = told.strip_prefix(WHOLE) {
        return Outcome::NeedsWholeBuild(why.to_owned());
    }
    let hint = hints::hint(Language::Python, told).map(|hint| format!("\n  {hint}")).unwrap_or_default();
    Outcome::Refused(format!("app.py cannot be imported:\n{}{hint}", told.replace(LINE_END, "\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome_of(logged: &str) -> Outcome {
        let message = format!(
            "the plugin trapped: wasm trap: wasm `unreachable` instruction executed; it had logged: {logged}; in function abort"
        );
        let problem = LoadProblem::Describe { reason: "trap", message };
        outcome(&LoadError { path: "build/.windlass/shop.wasm".into(), problem }, "shop")
    }

    fn refused(logged: &str) -> String {
        match outcome_of(logged) {
            Outcome::Refused(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_error_of_the_sources_is_shown_on_lines_with_advice() {
        let told = "Traceback (most recent call last): ⏎   File \"app.py\", line 3, in <module> ⏎     import yaml ⏎ \
                    ModuleNotFoundError: No module named 'yaml'";
        let text = refused(told);
        assert!(
            text.contains(":\nTraceback (most recent call last):\n  File \"app.py\", line 3, in <module>\n"),
            "{text}"
        );
        assert!(text.contains("No module named 'yaml'\n  Python does not find a module"), "{text}");
        assert!(!text.contains("in function abort"), "{text}");
    }

    #[test]
    fn what_a_script_cannot_be_is_no_error_of_the_sources() {
        let other = |logged| match outcome_of(logged) {
            Outcome::OtherImports(why) => why,
            outcome => panic!("{outcome:?}"),
        };
        assert_eq!(other("the base lacks modules: yaml csv"), Unusable::Lacks("yaml csv".into()));
        assert_eq!(other("the base has unused modules: pdb"), Unusable::Unused("pdb".into()));
        let why = "this needs a whole build: app.py calls open('/0/a.txt') when it is imported";
        let is_whole = |why: &str| why == "app.py calls open('/0/a.txt') when it is imported";
        assert!(matches!(outcome_of(why), Outcome::NeedsWholeBuild(why) if is_whole(&why)));
    }

    #[test]
    fn the_sdk_reports_as_it_is_read_here() {
        let sdk = include_str!("../../../sdk/python/windlass/_script.py");
        for (name, text) in [("_LACKS", LACKS), ("_UNUSED", UNUSED), ("_WHOLE", WHOLE), ("_LINE_END", LINE_END)] {
            assert!(sdk.contains(&format!("\n{name} = \"{text}\"\n")), "{name}");
        }
    }

    #[test]
    fn other_refusals_are_those_of_a_whole_build() {
        let problem = LoadProblem::OtherName { manifest: "store".into(), file: "shop".into() };
        let refused = outcome(&LoadError { path: "build/.windlass/shop.wasm".into(), problem }, "shop");
        assert!(matches!(refused, Outcome::Refused(text) if text.contains("windlass.yaml says \"shop\"")));
    }
}
