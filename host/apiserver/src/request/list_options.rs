//! Checks the options that lists and watches share.

use serde_json::json;

use crate::cause::Cause;
use crate::request::Query;
use crate::status_error::ApiError;

const EXACT: &str = "Exact";
const NOT_OLDER_THAN: &str = "NotOlderThan";

/// Whether the client wants a watch to begin with the current state. `None` if the query does not say.
pub(crate) fn initial_events(query: &Query) -> Option<bool> {
    query.given("sendInitialEvents").then(|| query.flag("sendInitialEvents"))
}

/// Refuses incompatible options. The errors are in a real server's order.
pub(crate) fn check(query: &Query, is_watch: bool) -> Result<(), ApiError> {
    query.number("timeoutSeconds")?;
    query.number("limit")?;
    let causes = if is_watch { watch_causes(query) } else { list_causes(query) };
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid_option_list("ListOptions", &causes)) }
}

fn list_causes(query: &Query) -> Vec<Cause> {
    let field = "resourceVersionMatch";
    let (matching, version) = (query.get(field), query.get("resourceVersion"));
    let mut causes = Vec::new();
    if !matching.is_empty() {
        if version.is_empty() {
            causes
                .push(Cause::forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided"));
        }
        if !query.get("continue").is_empty() {
            causes.push(Cause::forbidden(field, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if ![EXACT, NOT_OLDER_THAN].contains(&matching) {
            causes.push(Cause::not_supported(field, &json!(matching), &[EXACT, NOT_OLDER_THAN, ""]));
        }
        if matching == EXACT && version == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            causes.push(Cause::forbidden(field, why));
        }
    }
    if query.given("sendInitialEvents") {
        causes.push(Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    causes
}

fn watch_causes(query: &Query) -> Vec<Cause> {
    let field = "resourceVersionMatch";
    let (mut matching, mut says_initial) = (query.get(field), query.given("sendInitialEvents"));
    // A watch that begins at any current state is treated as if it asked for initial events explicitly.
    if !says_initial && matching.is_empty() && matches!(query.get("resourceVersion"), "" | "0") {
        (matching, says_initial) = (NOT_OLDER_THAN, true);
    }
    let mut causes = Vec::new();
    if says_initial && matching != NOT_OLDER_THAN {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        causes.push(Cause::forbidden(field, why));
    }
    if matching.is_empty() {
        return causes;
    }
    if !says_initial {
        let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        causes.push(Cause::forbidden(field, why));
    }
    if matching != NOT_OLDER_THAN {
        causes.push(Cause::not_supported(field, &json!(matching), &[NOT_OLDER_THAN]));
    }
    if !query.get("continue").is_empty() {
        causes.push(Cause::forbidden(field, "resourceVersionMatch is forbidden when continue is provided"));
    }
    causes
}
