//! The options of the host's functions: the arguments that Starlark itself does not know by name.

const WRITE: [&str; 9] = [
    "subresource",
    "parent",
    "resource_version",
    "owned",
    "force",
    "dry_run",
    "field_validation",
    "manager_suffix",
    "fields",
];
const PATCH: [&str; 10] = [
    "patch_type",
    "subresource",
    "parent",
    "resource_version",
    "owned",
    "force",
    "dry_run",
    "field_validation",
    "manager_suffix",
    "fields",
];
const DELETE: [&str; 4] = ["resource_version", "propagation", "grace_period_ms", "dry_run"];

/// The options of `function`, in the order in which it reads them. `None` if the function is not in this table:
/// Starlark knows the function's arguments, or the function takes any.
pub(crate) fn of(function: &str) -> Option<&'static [&'static str]> {
    Some(match function {
        "cache.get" | "cache.get_many" => &["fields"],
        "cache.list" => {
            &["index", "namespace", "label_selector", "owned", "fields", "limit", "max_bytes", "page_token"]
        }
        "live.get" => &["subresource", "fields", "metadata_only"],
        "live.list" => {
            &["namespace", "label_selector", "field_selector", "fields", "metadata_only", "limit", "page_token"]
        }
        "live.log" => &["container", "previous", "tail_lines", "since_ms", "limit_bytes"],
        "writes.create" | "writes.update" | "writes.apply" | "writes.op_create" | "writes.op_update"
        | "writes.op_apply" => &WRITE,
        "writes.patch" | "writes.op_patch" => &PATCH,
        "writes.delete" | "writes.op_delete" => &DELETE,
        "writes.delete_collection" => {
            &["namespace", "label_selector", "field_selector", "all", "propagation", "grace_period_ms", "dry_run"]
        }
        "writes.evict" => &["dry_run"],
        "http.fetch" => &["method", "headers", "body", "timeout_ms"],
        "errors.api" => &["code", "reason", "status_reason", "message", "retry_after_ms", "verb", "resource", "object"],
        "composition" => {
            &["children", "status", "events", "requeue_after_ms", "requeue_backoff", "allow_empty", "finalized"]
        }
        _ => return None,
    })
}
