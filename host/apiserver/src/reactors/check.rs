//! Parses a document of reactors, and checks its rules. A single mistake is enough to refuse the whole document.

use std::time::Duration;

use glob::Pattern;

use super::document::{CallSelector, Reaction, ReactorDocument, ReactorRule, RequestFilter, WatchHold};

const API_VERSION: &str = "windlass.dev/v1alpha1";
const KIND: &str = "Reactors";
/// The longest time for which a request or an event can be held. Larger values could overflow when added to a time.
const HOLD_TIME_MAX: Duration = Duration::from_hours(24 * 366);
const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// Why a document of reactors is refused.
#[derive(Debug, thiserror::Error)]
pub enum ReactorError {
    /// The text is not a document of reactors. The message has the line and column.
    #[error("{0}")]
    Syntax(String),
    /// A rule makes no sense.
    #[error("{place}: {message}")]
    Rule {
        /// The rule and its field, such as `rules[1] (slow).when.verbs`.
        place: String,
        /// The mistake.
        message: String,
    },
}

impl ReactorDocument {
    /// A document with these rules.
    #[must_use]
    pub fn new(seed: u64, rules: Vec<ReactorRule>) -> ReactorDocument {
        ReactorDocument { api_version: API_VERSION.to_owned(), kind: KIND.to_owned(), seed, rules, status: None }
    }

    /// Parses YAML or JSON.
    ///
    /// # Errors
    /// If the text cannot be parsed, or a rule makes no sense. The error names the place.
    pub fn parse(text: &str) -> Result<ReactorDocument, ReactorError> {
        let document: ReactorDocument =
            serde_saphyr::from_str(text).map_err(|error| ReactorError::Syntax(error.to_string()))?;
        if document.api_version != API_VERSION || document.kind != KIND {
            let message = format!("it must begin with `apiVersion: {API_VERSION}` and `kind: {KIND}`");
            return Err(ReactorError::Syntax(message));
        }
        document.check()?;
        Ok(document)
    }

    /// Checks the rules: the types allow some values that make no sense.
    pub(super) fn check(&self) -> Result<(), ReactorError> {
        for (index, rule) in self.rules.iter().enumerate() {
            let place = format!("rules[{index}] ({})", rule.name);
            let wrong =
                |field: String, message: String| ReactorError::Rule { place: format!("{place}{field}"), message };
            if rule.name.is_empty() {
                return Err(wrong(".name".to_owned(), "a rule needs a name".to_owned()));
            }
            if self.rules[..index].iter().any(|other| other.name == rule.name) {
                return Err(wrong(".name".to_owned(), "another rule has this name".to_owned()));
            }
            check_filter(&rule.when).map_err(|(field, message)| wrong(format!(".when.{field}"), message))?;
            if rule.then.is_empty() {
                return Err(wrong(".then".to_owned(), "a rule without reactions does nothing".to_owned()));
            }
            for (number, reaction) in rule.then.iter().enumerate() {
                check_reaction(reaction).map_err(|message| wrong(format!(".then[{number}]"), message))?;
            }
        }
        Ok(())
    }
}

fn check_filter(filter: &RequestFilter) -> Result<(), (&'static str, String)> {
    if let Some(verb) = filter.verbs.iter().find(|verb| !VERBS.contains(&verb.as_str())) {
        return Err(("verbs", format!("{verb:?} is none of {}", VERBS.join(", "))));
    }
    let lists = [
        ("resources", &filter.resources),
        ("namespaces", &filter.namespaces),
        ("names", &filter.names),
        ("userAgents", &filter.user_agents),
    ];
    for (field, patterns) in lists {
        for pattern in patterns {
            Pattern::new(pattern).map_err(|error| (field, format!("{pattern:?}: {error}")))?;
        }
    }
    if matches!(filter.calls, Some(CallSelector::Nth(0) | CallSelector::Every(0) | CallSelector::First(0))) {
        return Err(("calls", "calls are counted from 1".to_owned()));
    }
    match filter.probability {
        Some(probability) if !(0.0..=1.0).contains(&probability) => {
            Err(("probability", format!("{probability} is not between 0 and 1")))
        }
        _ => Ok(()),
    }
}

fn check_reaction(reaction: &Reaction) -> Result<(), String> {
    match reaction {
        Reaction::Error(answer) if !(400..600).contains(&answer.code) => {
            Err(format!("error.code: {} is not between 400 and 599", answer.code))
        }
        Reaction::Delay(pause) if pause.by > HOLD_TIME_MAX => Err("delay.by: at most 366 days".to_owned()),
        Reaction::Hold(WatchHold::For(by)) if *by > HOLD_TIME_MAX => Err("hold.for: at most 366 days".to_owned()),
        Reaction::Hold(WatchHold::Events(0)) => Err("hold.events: at least 1".to_owned()),
        Reaction::Reorder(count) if count.events < 2 => Err("reorder.events: at least 2".to_owned()),
        Reaction::Duplicate(count) if count.events == 0 => Err("duplicate.events: at least 1".to_owned()),
        Reaction::Hide(hide) if hide.events == 0 => Err("hide.events: at least 1".to_owned()),
        _ => Ok(()),
    }
}

/// Parses a list of patterns that was already checked.
pub(super) fn patterns(texts: &[String]) -> Vec<Pattern> {
    texts.iter().filter_map(|text| Pattern::new(text).ok()).collect()
}
