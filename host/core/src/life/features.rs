//! Feature gates: parts of the host that an operator may switch on before they are finished, or off because they do
//! harm.
//!
//! After `k8s.io/component-base/featuregate`: the names, the stages, the text of the flag, and the meaning of
//! `AllAlpha` and `AllBeta`. Not for permanent settings: a gate is removed when its feature has proven itself or has
//! failed. The command line parses its flag into [`Features`]. Code that implements a feature does not see its gate;
//! the manager passes plain parameters to the code.

mod table;

use std::fmt;
use std::str::FromStr;

use self::table::TABLE;

/// A feature with a gate. The table `features/table.rs` describes each, in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    AutomaticExpectations,
    ColdCompression,
    ComparableResourceVersions,
    FairDispatch,
    FreshnessProof,
    SavedCalls,
    WatchList,
}

impl Feature {
    /// Its entry in the table.
    #[must_use]
    pub fn gate(self) -> &'static FeatureGate {
        &TABLE[self as usize]
    }
}

/// The maturity of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureStage {
    /// The feature may have bugs and may be removed without notice.
    Alpha,
    /// The feature is well tested, and details may change.
    Beta,
    /// The feature is generally available: finished.
    Ga,
    Deprecated,
}

impl FeatureStage {
    /// The stage as shown to people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ga => "GA",
            _ => self.label(),
        }
    }

    /// The stage as Kubernetes' components write it into `kubernetes_feature_enabled`, where GA is empty.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Ga => "",
            Self::Deprecated => "DEPRECATED",
        }
    }
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGate {
    /// The gate's name on the command line.
    pub name: &'static str,
    /// The gate's history: an entry for each version that changed the gate, the oldest first.
    pub history: &'static [FeatureSpec],
    /// Names of the gates that must be on for this gate to work.
    pub needs: &'static [&'static str],
    /// The gate's effect, and what an operator who sets the gate should know.
    pub description: &'static str,
}

/// The state of a gate from one version on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureSpec {
    /// The version, without its patch.
    pub since: (u16, u16),
    /// The maturity of the feature.
    pub stage: FeatureStage,
    /// Whether the gate is enabled by default.
    pub default: bool,
    /// Why the gate is locked to its default. `None` if it can be set.
    pub locked: Option<&'static str>,
}

impl FeatureGate {
    /// The gate's present state: the last entry of its history.
    ///
    /// # Panics
    ///
    /// If the history is empty.
    #[must_use]
    pub fn spec(&self) -> &'static FeatureSpec {
        self.history.last().expect("a gate has a history")
    }
}

/// Gates that stand for all gates of a stage that are not set by name.
const SPECIAL: [(&str, FeatureStage); 2] = [("AllAlpha", FeatureStage::Alpha), ("AllBeta", FeatureStage::Beta)];

/// The parsed value of one `--feature-gates`, such as `A=true,B=false`. All gates that it names exist and may have
/// these values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes(Vec<(String, bool)>);

/// Why feature gates cannot be set as requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeatureError {
    /// A name without a value.
    #[error("{name:?} has no value: write {name}=true or {name}=false")]
    NoValue {
        /// The text as given.
        name: String,
    },
    /// A value that is neither true nor false.
    #[error("{name}={value} is neither true nor false")]
    NotBool {
        name: String,
        /// The text as given.
        value: String,
    },
    /// No gate has this name.
    #[error("there is no feature gate {name:?}; there are {known}")]
    Unknown {
        /// The text as given.
        name: String,
        known: String,
    },
    /// The gate is locked to its default.
    #[error("{name} cannot be {wish}, because it is locked to {}: {why}", !wish)]
    Locked {
        name: &'static str,
        /// The requested value.
        wish: bool,
        /// Why it is locked.
        why: &'static str,
    },
    /// The gate needs another gate, which is off.
    #[error("{name} cannot be true without {needed}: set {needed}=true as well")]
    Needs {
        name: &'static str,
        /// The name of the other gate.
        needed: &'static str,
    },
}

impl FromStr for Wishes {
    type Err = FeatureError;

    fn from_str(text: &str) -> Result<Self, FeatureError> {
        read(text, &TABLE).map(Self)
    }
}

/// Parses `text` for the gates of `table`.
fn read(text: &str, table: &[FeatureGate]) -> Result<Vec<(String, bool)>, FeatureError> {
    let mut wishes = Vec::new();
    for part in text.split(',').filter(|part| !part.trim().is_empty()) {
        let (name, value) =
            part.split_once('=').ok_or_else(|| FeatureError::NoValue { name: part.trim().to_owned() })?;
        let (name, value) = (name.trim().to_owned(), value.trim());
        let Some(wish) = boolean(value) else {
            return Err(FeatureError::NotBool { name, value: value.to_owned() });
        };
        match table.iter().find(|gate| gate.name == name) {
            Some(gate) if gate.spec().default != wish && gate.spec().locked.is_some() => {
                let why = gate.spec().locked.unwrap_or_default();
                return Err(FeatureError::Locked { name: gate.name, wish, why });
            }
            None if !SPECIAL.iter().any(|(special, _)| *special == name) => {
                let names = SPECIAL.iter().map(|(name, _)| *name).chain(table.iter().map(|gate| gate.name));
                return Err(FeatureError::Unknown { name, known: names.collect::<Vec<_>>().join(", ") });
            }
            _ => wishes.push((name, wish)),
        }
    }
    Ok(wishes)
}

/// Parses a boolean as Go does, since Kubernetes' components do.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// A gate and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureState {
    /// Its entry in the table.
    pub gate: &'static FeatureGate,
    /// Whether its feature is enabled.
    pub enabled: bool,
    /// Whether the flag sets the gate by name.
    pub set: bool,
}

impl FeatureState {
    /// The warning for an operator who set a gate that will be removed.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let why = match self.gate.spec().stage {
            FeatureStage::Ga => "is generally available",
            FeatureStage::Deprecated => "is deprecated",
            FeatureStage::Alpha | FeatureStage::Beta => return None,
        };
        self.set.then(|| format!("{self} was set, which {why}: a later version will not have the gate"))
    }
}

impl fmt::Display for FeatureState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.gate.name, self.enabled)
    }
}

/// Which features are enabled in this process.
#[derive(Clone, Debug)]
pub struct Features {
    states: Vec<FeatureState>,
    special: [bool; SPECIAL.len()],
}

impl Features {
    /// Applies all of `wishes`. If two name the same gate, the later one wins.
    pub fn new(wishes: impl IntoIterator<Item = Wishes>) -> Result<Self, FeatureError> {
        let wishes: Vec<_> = wishes.into_iter().flat_map(|Wishes(wishes)| wishes).collect();
        decide(&wishes, &TABLE)
    }

    /// Whether `feature` is enabled.
    #[must_use]
    pub fn enabled(&self, feature: Feature) -> bool {
        self.states[feature as usize].enabled
    }

    /// All gates in name order.
    #[must_use]
    pub fn states(&self) -> &[FeatureState] {
        &self.states
    }

    /// Name, stage and value of every gate, including `AllAlpha` and `AllBeta`, for `kubernetes_feature_enabled`.
    pub fn figures(&self) -> impl Iterator<Item = (&'static str, FeatureStage, bool)> {
        let special = SPECIAL.iter().zip(self.special).map(|((name, stage), wish)| (*name, *stage, wish));
        special.chain(self.states.iter().map(|state| (state.gate.name, state.gate.spec().stage, state.enabled)))
    }
}

impl Default for Features {
    fn default() -> Self {
        Self::new([]).expect("no gate is named")
    }
}

/// Applies `wishes` to the gates of `table`. A wish that names a gate wins over a wish that names the gate's stage,
/// whichever comes first. A gate is off if a gate that it needs is off; enabling it by name is then an error.
fn decide(wishes: &[(String, bool)], table: &'static [FeatureGate]) -> Result<Features, FeatureError> {
    let wish = |name: &str| wishes.iter().rev().find(|(wished, _)| wished == name).map(|(_, wish)| *wish);
    let states = table.iter().map(|gate| {
        let (spec, named) = (gate.spec(), wish(gate.name));
        // A wish about a whole stage does not change a locked gate.
        let mut special = SPECIAL.iter().filter(|(_, stage)| *stage == spec.stage && spec.locked.is_none());
        let of_its_stage = special.find_map(|(name, _)| wish(name));
        FeatureState { gate, enabled: named.or(of_its_stage).unwrap_or(spec.default), set: named.is_some() }
    });
    let mut states: Vec<_> = states.collect();
    // Each round switches off one gate, until every gate that is on has what it needs.
    while let Some((at, needed)) = lacking(&states) {
        let FeatureState { gate, set, .. } = states[at];
        if set {
            return Err(FeatureError::Needs { name: gate.name, needed });
        }
        states[at].enabled = false;
    }
    Ok(Features { states, special: SPECIAL.map(|(name, _)| wish(name).unwrap_or_default()) })
}

/// The index of a gate that is on although it needs a gate that is off, and the name of the needed gate.
fn lacking(states: &[FeatureState]) -> Option<(usize, &'static str)> {
    let is_off = |name: &str| states.iter().any(|state| state.gate.name == name && !state.enabled);
    let on = states.iter().enumerate().filter(|(_, state)| state.enabled);
    on.into_iter().find_map(|(at, state)| Some((at, *state.gate.needs.iter().find(|needed| is_off(needed))?)))
}

#[cfg(test)]
mod tests;
