//! The conditions of a plugin object, with their reasons.

use windlass_core::life::plugin_state::PluginState;
use windlass_core::object::conditions::ConditionStatus;

use crate::grant::GrantRefusal;

/// The types of conditions, in the order in which a plugin passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionType {
    /// A policy covers the plugin and its source.
    Granted,
    /// The file of the source is on the replica that writes the status.
    Fetched,
    /// The file was compiled, and its manifest read.
    Compiled,
    /// A version of the plugin runs, not necessarily the newest.
    Running,
    /// The running version does its work.
    Healthy,
    /// Something is on its way that needs no person.
    Progressing,
}

impl ConditionType {
    /// All types.
    pub const ALL: [Self; 6] =
        [Self::Granted, Self::Fetched, Self::Compiled, Self::Running, Self::Healthy, Self::Progressing];

    /// The type as the API server has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "Granted",
            Self::Fetched => "Fetched",
            Self::Compiled => "Compiled",
            Self::Running => "Running",
            Self::Healthy => "Healthy",
            Self::Progressing => "Progressing",
        }
    }
}

/// Why a condition has its status. The words are an interface: tools match them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionReason {
    /// The condition holds as it should. The reason repeats the condition's type.
    Holds(ConditionType),
    /// The object's own spec cannot be read.
    InvalidSpec,
    /// No policy has the plugin's name.
    NoPolicy,
    /// The policy cannot be read.
    InvalidPolicy,
    /// The policy is for another source.
    SourceNotAllowed,
    /// The policy lists other digests.
    DigestNotAllowed,
    /// The plugin directory has a file of the name.
    NameTaken,
    /// Nothing is fetched for a plugin without a policy.
    NotGranted,
    /// The file is on its way.
    Fetching,
    /// The file could not be fetched. The word comes from the list of the fetching code.
    FetchFailed(&'static str),
    /// The host has no file yet.
    NotFetched,
    /// The host's disk does not take the plugin's files.
    CannotWrite,
    /// The file is being compiled.
    Compiling,
    /// The file cannot be run.
    NotLoaded,
    /// The version in the file does not run, because it was rolled back.
    RolledBack,
    /// The plugin is in this state.
    State(PluginState),
    /// The plugin runs with flaws.
    Flawed,
    /// A newer version takes over, or is on probation.
    Swapping,
    /// A newer version runs as a shadow.
    Shadowing,
    /// Nothing is on its way.
    UpToDate,
    /// Nothing goes on until the object, its policy or its source changes.
    Stalled,
}

impl ConditionReason {
    /// The word, in `CamelCase`.
    #[must_use]
    pub fn word(self) -> String {
        let word = match self {
            Self::Holds(condition) => condition.as_str(),
            Self::InvalidSpec => "InvalidSpec",
            Self::NoPolicy => "NoPolicy",
            Self::InvalidPolicy => "InvalidPolicy",
            Self::SourceNotAllowed => "SourceNotAllowed",
            Self::DigestNotAllowed => "DigestNotAllowed",
            Self::NameTaken => "NameTaken",
            Self::NotGranted => "NotGranted",
            Self::Fetching => "Fetching",
            Self::FetchFailed(word) => word,
            Self::NotFetched => "NotFetched",
            Self::CannotWrite => "CannotWrite",
            Self::Compiling => "Compiling",
            Self::NotLoaded => "NotLoaded",
            Self::RolledBack => "RolledBack",
            Self::State(state) => return camel_case(state.as_str()),
            Self::Flawed => "Flawed",
            Self::Swapping => "Swapping",
            Self::Shadowing => "Shadowing",
            Self::UpToDate => "UpToDate",
            Self::Stalled => "Stalled",
        };
        word.to_owned()
    }
}

/// `kebab-case` as `CamelCase`.
fn camel_case(text: &str) -> String {
    let words = text.split('-').map(|word| word[..1].to_uppercase() + &word[1..]);
    words.collect()
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectCondition {
    /// Its type.
    pub condition: ConditionType,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why.
    pub reason: ConditionReason,
    /// The same in a sentence, for people.
    pub message: String,
}

impl ObjectCondition {
    pub(crate) fn new(
        condition: ConditionType,
        status: ConditionStatus,
        reason: ConditionReason,
        message: impl Into<String>,
    ) -> Self {
        Self { condition, status, reason, message: message.into() }
    }

    pub(crate) fn holds(condition: ConditionType, message: impl Into<String>) -> Self {
        Self::new(condition, ConditionStatus::True, ConditionReason::Holds(condition), message)
    }
}

impl GrantRefusal {
    /// The reason of the condition `Granted`.
    #[must_use]
    pub fn reason(&self) -> ConditionReason {
        match self {
            Self::InvalidSpec(_) => ConditionReason::InvalidSpec,
            Self::NoPolicy => ConditionReason::NoPolicy,
            Self::InvalidPolicy { .. } => ConditionReason::InvalidPolicy,
            Self::SourceNotAllowed { .. } => ConditionReason::SourceNotAllowed,
            Self::DigestNotAllowed { .. } => ConditionReason::DigestNotAllowed,
        }
    }

    /// The message of the condition `Granted`.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::InvalidSpec(problem) => format!("the spec cannot be read: {problem}"),
            Self::NoPolicy => {
                "no ClusterPluginPolicy has this name, so the plugin is neither fetched nor run; an operator must write one"
                    .to_owned()
            }
            Self::InvalidPolicy { policy, problem } => format!("the policy {policy} cannot be used: {problem}"),
            Self::SourceNotAllowed { policy, allowed } => {
                format!("the policy {policy} is for {allowed}; name that source, or change the policy")
            }
            Self::DigestNotAllowed { policy, digest } => {
                format!("the policy {policy} does not list the digest {digest}; add it, or name another version")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_words_that_the_api_server_accepts() {
        for state in PluginState::ALL {
            let word = ConditionReason::State(state).word();
            assert!(word.chars().all(|it| it.is_ascii_alphabetic()) && word.starts_with(char::is_uppercase), "{word}");
        }
        assert_eq!(ConditionReason::State(PluginState::WaitingForPolicy).word(), "WaitingForPolicy");
    }
}
