//! Serves documents that are not resources, and the response for paths that do not exist.

use http::HeaderMap;

use crate::request::media::{self, Accepted, OpenApiForm};
use crate::resources::registry::Registry;
use crate::server::respond::{self, Reply};
use crate::server::route::Route;
use crate::server::{Context, discovery, openapi, root};
use crate::status_error::ApiError;
use crate::storage::state::State;

/// The document at a route.
pub(super) fn find(
    context: &Context,
    state: &State,
    route: &Route,
    headers: &HeaderMap,
    accepted: Accepted,
) -> Result<Option<Reply>, ApiError> {
    let registry = &state.registry;
    let openapi_form =
        |has_protobuf| media::openapi(headers, has_protobuf).ok_or_else(ApiError::not_acceptable_silently);
    Ok(match route {
        Route::Root => Some(Reply::Json(root::paths(registry))),
        Route::Metrics => {
            let metrics = root::metrics(&state.store, &context.shared.counts.all());
            Some(Reply::Bytes(root::METRICS_MEDIA, metrics.into_bytes()))
        }
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
        Route::OpenApiV2 => Some(match openapi_form(true)? {
            OpenApiForm::Json => Reply::Json(openapi::v2(registry)),
            OpenApiForm::Protobuf => Reply::Bytes(openapi::V2_PROTOBUF_MEDIA, openapi::v2_as_protobuf(registry)),
        }),
        // A real server's `http.ServeContent` guesses this content type.
        Route::OpenApiV3Index => {
            let index = openapi::index(registry, state.store.revision());
            Some(Reply::Bytes(respond::TEXT, index.to_string().into_bytes()))
        }
        Route::OpenApiV3(group, version) => match openapi::document(registry, group, version) {
            Some(document) => openapi_form(false).map(|_| Some(Reply::Json(document)))?,
            None => None,
        },
        Route::Resource(_) | Route::Unknown => None,
    })
}

/// The error for a path that does not exist: a Status within built-in groups, and plain text for all other paths.
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
