//! The documents that are served beside resources, and the answer where nothing is.

use crate::request::media::Accepted;
use crate::resources::registry::Registry;
use crate::server::respond::Reply;
use crate::server::route::Route;
use crate::server::{Context, discovery, openapi, root};
use crate::status_error::ApiError;
use crate::storage::state::State;

/// The document that a route names.
pub(super) fn find(context: &Context, state: &State, route: &Route, accepted: Accepted) -> Option<Reply> {
    let registry = &state.registry;
    match route {
        Route::Root => Some(Reply::Json(root::paths(registry))),
        Route::Metrics => Some(Reply::Metrics(root::metrics(&state.store, &context.shared.counts.all()))),
        Route::Version => Some(Reply::Json(discovery::version())),
        Route::Health => Some(Reply::Text("ok")),
        Route::CoreVersions | Route::Groups => {
            let core = *route == Route::CoreVersions;
            Some(match accepted.aggregated {
                Some(version) => Reply::Discovery(discovery::aggregated(registry, core, version), version),
                None if core => Reply::Json(discovery::core_versions(context.address)),
                None => Reply::Json(discovery::groups(registry)),
            })
        }
        Route::Group(group) => discovery::group(registry, group).map(Reply::Json),
        Route::GroupVersion(group, version) => discovery::resources(registry, group, version).map(Reply::Json),
        Route::OpenApiV2 => Some(Reply::Json(openapi::v2(registry))),
        Route::OpenApiV3Index => Some(Reply::Json(openapi::index(registry, state.store.revision()))),
        Route::OpenApiV3(group, version) => openapi::document(registry, group, version).map(Reply::Json),
        Route::Resource(_) | Route::Unknown => None,
    }
}

/// The error of a path at which nothing is. The built-in groups answer with a Status, all else with a text.
pub(super) fn nothing_at(registry: &Registry, path: &str) -> ApiError {
    if path.starts_with("/openapi/v3/") {
        return ApiError::no_such_document();
    }
    let mut segments = path.trim_start_matches('/').split('/');
    let is_builtin = match (segments.next(), segments.next()) {
        (Some("api"), _) => true,
        (Some("apis"), Some(group)) => registry.has_builtin_group(group),
        _ => false,
    };
    if is_builtin { ApiError::no_such_resource() } else { ApiError::no_such_page() }
}
