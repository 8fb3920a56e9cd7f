//! The encodings that each path offers.

use super::Context;
use super::route::Route;
use crate::request::media::Offer;
use crate::resources::resource::ResourceType;

/// The encodings that a path offers.
pub(super) fn offer(context: &Context, route: &Route) -> Offer {
    match route {
        Route::Resource(path) => {
            let state = context.shared.lock();
            let resource = state.registry.find(&path.group, &path.version, &path.plural);
            resource.map_or(Offer::BuiltIn, |resource| offer_of(resource, path.subresource.as_deref()))
        }
        Route::Version => Offer::JsonOnly,
        _ => Offer::BuiltIn,
    }
}

/// The encodings of a kind. A Scale is a built-in kind, even if it scales a custom resource.
pub(super) fn offer_of(resource: &ResourceType, subresource: Option<&str>) -> Offer {
    if resource.custom.is_some() && subresource != Some("scale") { Offer::Custom } else { Offer::BuiltIn }
}
