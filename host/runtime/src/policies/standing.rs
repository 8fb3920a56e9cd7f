//! A plugin's current rights, as decided by the operator.

use std::sync::Arc;

use windlass_core::rights::grants::{Allowance, Forbidden, Grants, Layer};
use windlass_core::rights::principal::ServiceAccount;
use windlass_manifest::Manifest;

use super::{Policies, PoliciesError, PolicySettings};

/// A plugin's current rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No rights, because no policy is in force. The text says why, if there is a policy file.
    Waiting(Option<String>),
    /// The rights that its manifest asks for, within these bounds.
    Granted(Box<Bounds>),
}

/// The operator's part of a plugin's grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The account that the plugin acts as. `None` for the host's.
    pub impersonate: Option<ServiceAccount>,
    pub(super) policy: Option<Arc<Allowance>>,
    pub(super) ceiling: Option<Arc<Allowance>>,
    pub(super) forbidden: Forbidden,
}

/// The current rights of plugins with these `manifests`, in the same order, as decided by a host with these `settings`
/// that is confined to the namespace `only`. Later changes are not followed.
pub async fn standings(
    settings: PolicySettings,
    only: Option<&str>,
    manifests: &[&Manifest],
) -> Result<Vec<Standing>, PoliciesError> {
    settings.check(only)?;
    let (policies, _) = Policies::read(settings).await?;
    for manifest in manifests {
        // A plugin may exist in several versions.
        let definitions = manifest.crd_names().map(str::to_owned);
        policies.plugins().entry(manifest.name.clone()).or_default().definitions.extend(definitions);
    }
    Ok(manifests.iter().map(|manifest| policies.standing(&manifest.name)).collect())
}

impl Bounds {
    /// The grants of a plugin that asks for `asked`, on a host confined to the namespace `only`.
    #[must_use]
    pub fn grants(&self, asked: Allowance, only: Option<&str>) -> Grants {
        let mut grants = Grants::asked(asked).within(only).without(self.forbidden.clone());
        for (layer, bound) in [(Layer::Policy, &self.policy), (Layer::Ceiling, &self.ceiling)] {
            if let Some(bound) = bound {
                grants = grants.bounded(layer, bound.clone());
            }
        }
        grants
    }
}
