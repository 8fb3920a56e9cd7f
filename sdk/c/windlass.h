// The C SDK for Windlass plugins. docs/authoring.md says what a plugin is; README.md beside this file shows one in C.
//
// A plugin is a manifest and one function, named in a macro:
//
//     #include <windlass.h>
//
//     static const windlass_manifest manifest = {…};
//
//     static windlass_outcome reconcile(const windlass_request *request, windlass_failures *failures) {
//         if (request->object == NULL || request->deleting) {
//             return WINDLASS_DONE;
//         }
//         windlass_json *settings = windlass_object(…);
//         const windlass_error *error = windlass_writes_apply(settings, &(windlass_write_options){.owned = true, .force = true}, NULL);
//         return windlass_fail(failures, error);
//     }
//
//     WINDLASS_RECONCILER(manifest, reconcile)
//
// Everything that a function returns lives until the call ends (windlass_text.h). A function that can fail returns the
// error, or NULL. A composer that uses a function of reconcilers does not link.
#ifndef WINDLASS_H
#define WINDLASS_H

#include "windlass_json.h"
#include "windlass_manifest.h"
#include "windlass_text.h"

#ifdef __cplusplus
#error "the SDK is for C11: write the plugin in C, or call the SDK from a C file of yours"
#endif

// --- Objects ---

// A reference to one object. With a UID it matches only the object with that UID, not another object of the same name.
typedef struct windlass_ref {
    windlass_text api_version;
    windlass_text kind;
    // None for a cluster-scoped object.
    windlass_text namespace;
    windlass_text name;
    // If the UID is empty, the reference is to the object that has the name now.
    windlass_text uid;
} windlass_ref;

windlass_ref windlass_ref_of(const char *api_version, const char *kind, windlass_text namespace, windlass_text name);
// The reference to an object, including its UID.
windlass_ref windlass_ref_to(const windlass_json *object);
// The object of another kind that has the same namespace and name.
windlass_ref windlass_sibling(const windlass_json *object, const char *api_version, const char *kind);
// The reference as it appears in messages: `Deployment prod/shop`.
const char *windlass_ref_text(const windlass_ref *ref);
// The object that a reference matches among several objects, or NULL.
windlass_json *windlass_find(windlass_json *const *objects, size_t count, const windlass_ref *ref);

// The text of a LabelSelector for lists, such as `app=web,tier in (a,b)`. An empty selector selects everything. NULL
// selects nothing and has no text, so do not list.
windlass_text windlass_selector_text(const windlass_json *selector);

// The amount of a resource quantity, such as `500m` or `1.5Gi`, in thousandths, rounded away from zero. Returns false if the text is not a
// quantity, or the amount is too large.
bool windlass_quantity(windlass_text text, int64_t *milli);

// The reference that makes an object the controller of another, as an entry of `ownerReferences`.
windlass_json *windlass_owner_reference(const windlass_json *owner);
// The UID of the owner that controls an object.
windlass_text windlass_controller_uid(const windlass_json *object);
// Whether an owner controls an object.
bool windlass_is_controlled_by(const windlass_json *object, const windlass_json *owner);

// --- Errors ---

// The reason why a request to the API server, or to the host's cache, failed. wit/types.wit describes each reason.
typedef enum windlass_reason {
    WINDLASS_NOT_FOUND,
    WINDLASS_ALREADY_EXISTS,
    WINDLASS_CONFLICT,
    WINDLASS_INVALID,
    WINDLASS_FORBIDDEN,
    WINDLASS_NOT_GRANTED,
    WINDLASS_NOT_WATCHED,
    WINDLASS_NAMESPACE_TERMINATING,
    WINDLASS_TOO_MANY_REQUESTS,
    WINDLASS_EXPIRED,
    WINDLASS_TIMEOUT,
    WINDLASS_UNKNOWN_OUTCOME,
    WINDLASS_LEASE_LOST,
    WINDLASS_READ_ONLY,
    WINDLASS_SERVER_ERROR,
    WINDLASS_TOO_LARGE,
    WINDLASS_OTHER
} windlass_reason;

// The reason in the interface's spelling, such as `not-found`.
const char *windlass_reason_name(windlass_reason reason);

// A failed request.
typedef struct windlass_api_error {
    // The HTTP status, or the closest one if the request never reached the server.
    uint16_t code;
    windlass_reason reason;
    // The reason as in Kubernetes' `Status.reason`. If `reason` is WINDLASS_OTHER, this has the actual reason.
    windlass_text status_reason;
    windlass_text message;
    // The time to wait before a retry, if the server has set it.
    bool has_retry_after;
    uint32_t retry_after_ms;
    // The API verb, such as `get` or `patch`.
    windlass_text verb;
    // Resource, group and subresource, such as `deployments.apps/scale`.
    windlass_text resource;
    bool has_object;
    windlass_ref object;
} windlass_api_error;

// An error. Return it unchanged: the host decides by its class how to retry.
typedef struct windlass_error {
    enum { WINDLASS_ERROR_API, WINDLASS_ERROR_TRANSIENT, WINDLASS_ERROR_TERMINAL } kind;
    // The whole error as a text for people.
    windlass_text message;
    // Set if `kind` is WINDLASS_ERROR_API.
    windlass_api_error api;
    // The minimum delay of the retry of a transient error.
    bool has_retry_after;
    uint32_t retry_after_ms;
} windlass_error;

// A failure to retry after a backoff.
const windlass_error *windlass_transient(const char *format, ...) WINDLASS_PRINTF(1, 2);
// A failure to retry after this time, or after the backoff if that is longer. The time is limited to ten minutes.
const windlass_error *windlass_transient_after_ms(uint64_t milliseconds, const char *format, ...) WINDLASS_PRINTF(2, 3);
// A failure that is not retried until something changes.
const windlass_error *windlass_terminal(const char *format, ...) WINDLASS_PRINTF(1, 2);
const windlass_error *windlass_transient_text(windlass_text message);
const windlass_error *windlass_transient_text_after_ms(uint64_t milliseconds, windlass_text message);
const windlass_error *windlass_terminal_text(windlass_text message);
// An API error, for tests and for errors from other sources.
const windlass_error *windlass_api(const windlass_api_error *error);
// Returns the error with the context in front of its `message` and its `api.message`, and with the same class. Returns
// NULL for NULL.
const windlass_error *windlass_wrap(const windlass_error *error, const char *context);
// Whether the error is an API error with this reason.
bool windlass_is(const windlass_error *error, windlass_reason reason);

// All failures of a call: a call attempts all its operations, and reports all that failed.
typedef struct windlass_failures {
    const windlass_error **errors;
    size_t count;
    size_t capacity;
} windlass_failures;

// The result of a call without a failure.
typedef struct windlass_outcome {
    // Call again after this many milliseconds, even if nothing changes.
    bool requeue;
    uint32_t requeue_after_ms;
    // Call again after the key's backoff, even if nothing changes. The two fields above are then ignored.
    bool requeue_with_backoff;
} windlass_outcome;

// Nothing is left to do until something changes.
#define WINDLASS_DONE ((windlass_outcome){0})
// Asks for another call after this time, which is limited to 24 days. This does not count as a failure.
windlass_outcome windlass_requeue_after_ms(uint64_t milliseconds);
// Run again after the key's backoff, which grows with each such outcome in a row. This is not a failure: these attempts
// are not counted, so the host never gives the key up.
windlass_outcome windlass_requeue_with_backoff(void);
// Adds an error, if there is one, and returns WINDLASS_DONE. A call with failures has failed, whatever it returns.
windlass_outcome windlass_fail(windlass_failures *failures, const windlass_error *error);
// These functions create an error and add it to the failures.
windlass_outcome windlass_fail_api(windlass_failures *failures, const windlass_api_error *error);
windlass_outcome windlass_fail_transient(windlass_failures *failures, const char *format, ...) WINDLASS_PRINTF(2, 3);
windlass_outcome windlass_fail_transient_after_ms(windlass_failures *failures, uint64_t milliseconds, const char *format, ...) WINDLASS_PRINTF(3, 4);
windlass_outcome windlass_fail_terminal(windlass_failures *failures, const char *format, ...) WINDLASS_PRINTF(2, 3);

// --- A reconciler ---

// The object that a call is about.
typedef struct windlass_request {
    // The controller's name in the manifest.
    windlass_text controller;
    // None for a cluster-scoped primary.
    windlass_text namespace;
    // The primary's name.
    windlass_text name;
    // The last known UID, even if the primary is deleted. Empty if the host has never seen the primary.
    windlass_text uid;
    // The primary as cached when the call began, or only the `call_fields` of its watch. NULL if the primary is not in
    // the watch's scope, usually because it was deleted. In a composition request, use the parent instead.
    windlass_json *object;
    // Whether the primary is being deleted and waits for its finalizers.
    bool deleting;
    // The number of counted retries of this key since its last success, initially 0.
    uint32_t attempt;
    // The ID of the trace of this call's logs, spans and API requests.
    windlass_text trace_id;
} windlass_request;

typedef windlass_outcome windlass_reconcile(const windlass_request *request, windlass_failures *failures);

// Makes a plugin from a manifest and a function. Use it once in a plugin, at file scope.
#define WINDLASS_RECONCILER(manifest, function)                                                                          \
    const windlass_manifest *windlass_plugin_manifest(void);                                                             \
    const windlass_manifest *windlass_plugin_manifest(void) { return &(manifest); }                                      \
    windlass_outcome windlass_plugin_reconcile(const windlass_request *request, windlass_failures *failures);            \
    windlass_outcome windlass_plugin_reconcile(const windlass_request *request, windlass_failures *failures) {           \
        windlass_reconcile *checked = function;                                                                          \
        return checked(request, failures);                                                                               \
    }                                                                                                                    \
    typedef int windlass_there_is_one_plugin

// --- A composer ---

typedef struct windlass_composition_request {
    windlass_request request;
    // The object whose children are computed.
    windlass_json *parent;
    // Objects of the owned kinds whose controller is the parent.
    windlass_json **children;
    size_t child_count;
    // Objects of the other watches that map to the parent.
    windlass_json **related;
    size_t related_count;
    // The operator's configuration of the plugin.
    windlass_json *config;
} windlass_composition_request;

typedef struct windlass_event windlass_event;

// A composer's response. Start with the given one, which is empty.
typedef struct windlass_composition {
    // `windlass_compose_child` adds to it.
    windlass_json *children;
    // The parent's new status. NULL leaves it as it is.
    windlass_json *status;
    // `windlass_compose_event` adds to it.
    windlass_event *events;
    size_t event_count;
    // Compose again after this many milliseconds, even if nothing changes.
    bool requeue;
    uint32_t requeue_after_ms;
    // Compose again after the parent's backoff, which grows with each such composition in a row, even if nothing
    // changes. This is not a failure. The two fields above are then ignored.
    bool requeue_with_backoff;
    // Declares that having no children is intended, so that existing children may be pruned.
    bool allow_empty;
    // Releases a parent that is being deleted. Only with the option `finalizer`.
    bool finalized;
} windlass_composition;

typedef void windlass_compose(const windlass_composition_request *request, windlass_composition *composition, windlass_failures *failures);

// Adds a child that should exist, as the set of fields to apply. A child that is left out is pruned.
void windlass_compose_child(windlass_composition *composition, windlass_json *child);
// Adds an event. It is sent each time the function returns it, so only add events about something new.
void windlass_compose_event(windlass_composition *composition, const windlass_event *event);

// Like WINDLASS_RECONCILER.
#define WINDLASS_COMPOSER(manifest, function)                                                                              \
    const windlass_manifest *windlass_plugin_manifest(void);                                                               \
    const windlass_manifest *windlass_plugin_manifest(void) { return &(manifest); }                                        \
    void windlass_plugin_compose(                                                                                          \
        const windlass_composition_request *request, windlass_composition *composition, windlass_failures *failures);      \
    void windlass_plugin_compose(                                                                                          \
        const windlass_composition_request *request, windlass_composition *composition, windlass_failures *failures) {     \
        windlass_compose *checked = function;                                                                              \
        checked(request, composition, failures);                                                                           \
    }                                                                                                                      \
    typedef int windlass_there_is_one_plugin

// --- Reads from the caches of the declared watches: they send no request, and include the writes of this call ---

// Reads one object. Sets it to NULL if it is not in the cache. With `fields` (WINDLASS_TEXTS of JSON pointers), reads
// only the object's identity and these values.
const windlass_error *windlass_cache_get(const windlass_ref *target, const char *const *fields, windlass_json **object) WINDLASS_MUST_USE;

// The result of one read or write: an error, or an object, which may be NULL.
typedef struct windlass_result {
    windlass_json *object;
    const windlass_error *error;
} windlass_result;

// Reads several objects, in the order of the argument.
windlass_result *windlass_cache_get_many(const windlass_ref *targets, size_t count, const char *const *fields);

// Selects the objects to list. All conditions must hold; an empty field is no condition.
typedef struct windlass_cache_query {
    windlass_text api_version;
    windlass_text kind;
    // Without a namespace, all namespaces of the watch.
    windlass_text namespace;
    // In Kubernetes' syntax, such as `app=web,tier in (front,back)`.
    windlass_text label_selector;
    // Only objects whose index, declared in the manifest, contains a value.
    struct {
        windlass_text name;
        windlass_text value;
    } index;
    // Only objects whose controller is the primary.
    bool owned;
    // Only the values at these JSON pointers.
    const char *const *fields;
    // The most objects and bytes of a page. If `limit` is 0, it is 500. If `max_bytes` is 0, the host's limit applies.
    uint32_t limit;
    uint32_t max_bytes;
    // Start after the page that came with this token.
    windlass_text page_token;
} windlass_cache_query;

typedef struct windlass_list {
    windlass_json **items;
    size_t count;
    // For one page: the token of the next page. Empty on the last page.
    windlass_text next_token;
} windlass_list;

// Lists all objects, page by page.
const windlass_error *windlass_cache_list(const windlass_cache_query *query, windlass_list *list) WINDLASS_MUST_USE;
// Lists one page.
const windlass_error *windlass_cache_page(const windlass_cache_query *query, windlass_list *page) WINDLASS_MUST_USE;

// --- Reads from the API server itself: each sends a request, and needs a right in the manifest ---

// The part of an object to read. By default the whole object.
typedef struct windlass_view {
    // Only its `apiVersion`, `kind` and `metadata`. The server sends no more.
    bool metadata_only;
    // Only the object's identity and the values at these JSON pointers (WINDLASS_TEXTS).
    const char *const *fields;
} windlass_view;

typedef struct windlass_live_options {
    // A subresource, such as `scale` or `status`, which needs its own right.
    windlass_text subresource;
    windlass_view view;
} windlass_live_options;

// Reads one object. Sets it to NULL if it does not exist. The options may be NULL.
const windlass_error *windlass_live_get(
    const windlass_ref *target, const windlass_live_options *options, windlass_json **object) WINDLASS_MUST_USE;

typedef struct windlass_live_query {
    windlass_text api_version;
    windlass_text kind;
    // None: all namespaces.
    windlass_text namespace;
    windlass_text label_selector;
    // In Kubernetes' syntax, as far as the API supports it for the kind.
    windlass_text field_selector;
    windlass_view view;
    uint32_t limit;
    windlass_text page_token;
} windlass_live_query;

const windlass_error *windlass_live_list(const windlass_live_query *query, windlass_list *list) WINDLASS_MUST_USE;
const windlass_error *windlass_live_page(const windlass_live_query *query, windlass_list *page) WINDLASS_MUST_USE;

typedef struct windlass_log_query {
    // Empty: the only container.
    windlass_text container;
    // The log of the container's previous, terminated run.
    bool previous;
    // Only this many of the last lines, and only lines up to this age (rounded up to whole seconds). 0 for all lines.
    uint32_t tail_lines;
    uint32_t since_ms;
    // The number of bytes to read. 0 for as many as the host returns at once.
    uint32_t limit_bytes;
} windlass_log_query;

// Reads the log of a Pod's container. Bytes that are not UTF-8 become U+FFFD. The query may be NULL. It needs the right to get `pods/log`.
const windlass_error *windlass_live_log(const windlass_ref *pod, const windlass_log_query *query, windlass_text *log) WINDLASS_MUST_USE;

// How the API server serves a kind.
typedef struct windlass_served_kind {
    // The plural name of the kind in paths and rules, such as `deployments`. Empty if the kind is not served.
    windlass_text resource;
    // Whether its objects are namespaced.
    bool namespaced;
    // The verbs, such as `get` and `watch`.
    windlass_text *verbs;
    size_t verb_count;
    // The subresources, such as `status` and `scale`.
    windlass_text *subresources;
    size_t subresource_count;
} windlass_served_kind;

// Returns how the API server serves a kind, for plugins that adapt to the cluster. It needs no right, and counts as a
// read.
const windlass_error *windlass_live_served(
    windlass_text api_version, windlass_text kind, windlass_served_kind *served) WINDLASS_MUST_USE;

// A kind that the API server serves, at the version of its group that the server prefers.
typedef struct windlass_listed_kind {
    windlass_text api_version;
    windlass_text kind;
    windlass_served_kind served;
} windlass_listed_kind;

typedef struct windlass_listed_kinds {
    windlass_listed_kind *items;
    size_t count;
} windlass_listed_kinds;

// Returns all kinds that the API server serves, each once, ordered by group and kind. It needs no right, and counts as a
// read. A kind that was just installed may be missing for some seconds.
const windlass_error *windlass_live_kinds(windlass_listed_kinds *kinds) WINDLASS_MUST_USE;

// --- Changes to the API ---
//
// A conflict means that the object has changed since it was read: return the error, and the host runs the key again on
// a newer cache. Options may be NULL, and so may the pointer that receives the server's object.

typedef enum windlass_field_validation {
    // The server refuses unknown and duplicate fields.
    WINDLASS_VALIDATE_STRICT,
    // The server drops unknown and duplicate fields, and returns a warning.
    WINDLASS_VALIDATE_WARN,
    WINDLASS_VALIDATE_IGNORE
} windlass_field_validation;

typedef struct windlass_write_options {
    // Write to a subresource, such as `status`.
    struct {
        windlass_text name;
        // The object whose subresource this is, if the body has another kind, as for `scale` and `eviction`.
        const windlass_ref *parent;
    } subresource;
    // The optimistic lock: fail with a conflict unless the object still has this version.
    windlass_text resource_version;
    // Make the primary the controller of the object.
    bool owned;
    // Apply only: take over fields that other managers own.
    bool force;
    // The server checks the change and responds as if it had made it, without making it.
    bool dry_run;
    windlass_field_validation field_validation;
    // Use another field manager. Its name is that of the plugin's field manager, followed by `/` and this suffix of at
    // most 32 lower-case letters, digits and dashes. This way two controllers can apply two parts of one object, and
    // neither drops the fields that the other has applied.
    windlass_text manager_suffix;
    // Return only the object's identity and the values at these JSON pointers (WINDLASS_TEXTS). WINDLASS_NO_TEXTS for
    // only the identity, and NULL for the whole object.
    const char *const *fields;
} windlass_write_options;

typedef enum windlass_patch_type {
    // JSON merge patch (RFC 7386).
    WINDLASS_PATCH_MERGE,
    // JSON patch (RFC 6902).
    WINDLASS_PATCH_JSON,
    // Strategic merge patch. Built-in kinds only.
    WINDLASS_PATCH_STRATEGIC
} windlass_patch_type;

typedef enum windlass_propagation {
    // These values say what happens to the object's dependents: they are deleted after it, deleted before it, or kept.
    WINDLASS_PROPAGATE_BACKGROUND,
    WINDLASS_PROPAGATE_FOREGROUND,
    WINDLASS_PROPAGATE_ORPHAN
} windlass_propagation;

typedef struct windlass_delete_options {
    windlass_text resource_version;
    windlass_propagation propagation;
    // The grace period, rounded up to whole seconds. If unset, the kind's default applies.
    bool has_grace_period;
    uint32_t grace_period_ms;
    bool dry_run;
} windlass_delete_options;

// Creates an object. If the kind is not stored, such as a `SubjectAccessReview`, the object needs no name, and
// `created` is the server's response.
const windlass_error *windlass_writes_create(const windlass_json *object, const windlass_write_options *options, windlass_json **created) WINDLASS_MUST_USE;
const windlass_error *windlass_writes_update(const windlass_json *object, const windlass_write_options *options, windlass_json **updated) WINDLASS_MUST_USE;
// Applies an object, server-side, as the plugin's field manager.
const windlass_error *windlass_writes_apply(const windlass_json *object, const windlass_write_options *options, windlass_json **applied) WINDLASS_MUST_USE;
// The effect of `windlass_writes_ensure`, with the object as it is now.
typedef struct windlass_ensured {
    enum {
        // The cache shows the object with all desired fields, and nothing was sent.
        WINDLASS_UNCHANGED,
        // It did not exist.
        WINDLASS_CREATED,
        // The object lacked some of the desired fields, so a patch was sent.
        WINDLASS_PATCHED
    } effect;
    windlass_json *object;
} windlass_ensured;

// Creates the object if it is not in the cache. Otherwise sends the smallest merge patch that gives the object the
// desired fields, or nothing if it has them already. The kind must be watched. `ensured` may be NULL.
//
// Prefer `windlass_writes_apply`: it also removes fields that the plugin applied before and no longer wants, and it
// detects another writer of the same field. This function does neither. Its advantage is that a create costs the server
// less than an apply. Its rules:
//
// - A field that the object leaves out stays as it is. Null removes a field.
// - A list belongs to the plugin as a whole. It is as desired if it has as many elements, and each has the desired
//   fields. When a list is written, an element keeps its other fields if the element at the same position has the same
//   `name`.
// - A patch that writes a list or removes a field fails with reason WINDLASS_CONFLICT if the object has changed since
//   the cache showed it. Return the error, and the host runs the key again on a newer cache.
// - The desired owners and finalizers are added to the existing ones; null instead of a list removes all of them. To
//   own the object, give it a `windlass_owner_reference` to the controller: if the object has another controller, the
//   call then fails with reason WINDLASS_ALREADY_EXISTS. Without such a reference the object is patched, whichever
//   owner it has.
// - `status` is not compared: write it with `windlass_writes_apply_status`. The fields of `metadata` that the server
//   sets are not compared either. So a `resourceVersion` is no lock, and an object with a `resourceVersion` cannot be
//   created.
// - Write values as the server stores them; any other value is sent again at each call. For example, the server stores
//   a quantity of `0.5` as `500m`, and drops empty and zero values of built-in kinds such as `nodeSelector: {}`,
//   `tolerations: []` and `paused: false`. Webhooks may add elements to lists.
const windlass_error *windlass_writes_ensure(const windlass_json *object, windlass_ensured *ensured) WINDLASS_MUST_USE;
// Applies the status of an object, with force, because no other client writes it.
const windlass_error *windlass_writes_apply_status(const windlass_ref *target, windlass_json *status) WINDLASS_MUST_USE;
const windlass_error *windlass_writes_patch(const windlass_ref *target, windlass_patch_type type, const windlass_json *patch,
    const windlass_write_options *options, windlass_json **patched) WINDLASS_MUST_USE;
// `left` is the object if it still exists because it waits for finalizers or its grace period.
const windlass_error *windlass_writes_delete(const windlass_ref *target, const windlass_delete_options *options, windlass_json **left) WINDLASS_MUST_USE;

// Evicts a Pod: deletes it unless a disruption budget forbids it now, which is an error with reason WINDLASS_TOO_MANY_REQUESTS. Evicting a
// deleted Pod succeeds.
const windlass_error *windlass_writes_evict(const windlass_ref *pod) WINDLASS_MUST_USE;

// Selects objects of a kind. All conditions must hold.
typedef struct windlass_collection {
    windlass_text api_version;
    windlass_text kind;
    // Without a namespace, the primary's namespace if the kind is namespaced.
    windlass_text namespace;
    // In Kubernetes' syntax, such as `app=web,tier in (front,back)`.
    windlass_text label_selector;
    windlass_text field_selector;
    // Selects all objects of the kind and namespace. Without it, a selector is required.
    bool all;
} windlass_collection;

// The deleted objects: each is gone, or waits for finalizers or its grace period.
typedef struct windlass_deleted {
    // Whether the server reports them.
    bool is_known;
    windlass_ref *objects;
    size_t count;
} windlass_deleted;

// Deletes the objects of a collection with one request. After an error, some may be deleted. `deleted` may be NULL.
const windlass_error *windlass_writes_delete_collection(const windlass_collection *collection, const windlass_delete_options *options,
    windlass_deleted *deleted) WINDLASS_MUST_USE;

// One operation of a batch.
typedef struct windlass_operation {
    enum { WINDLASS_CREATE, WINDLASS_UPDATE, WINDLASS_PATCH, WINDLASS_APPLY, WINDLASS_DELETE } type;
    // The object; for a patch, the patch. Unused for a deletion.
    const windlass_json *object;
    // The object to patch or to delete.
    windlass_ref target;
    windlass_patch_type patch_type;
    // Unused for a deletion.
    windlass_write_options options;
    windlass_delete_options delete_options;
} windlass_operation;

// Runs operations concurrently, in no order, and returns their results in the order of the argument.
windlass_result *windlass_writes_batch(const windlass_operation *operations, size_t count);

// --- Claims of existing objects by their labels ---

typedef struct windlass_claimed {
    windlass_ref *adopted;
    size_t adopted_count;
    windlass_ref *released;
    size_t released_count;
} windlass_claimed;

// Makes the primary the controller of all matching objects of its namespace that have no controller, and releases objects that it controls
// and that no longer match. It attempts all changes, and adds every error; returns false if there was one. `claimed` may be NULL.
bool windlass_owners_claim(windlass_text api_version, windlass_text kind, windlass_text label_selector, windlass_claimed *claimed,
    windlass_failures *failures);

// --- Events ---

struct windlass_event {
    enum { WINDLASS_EVENT_NORMAL, WINDLASS_EVENT_WARNING } type;
    // The reason and the action, in CamelCase, for machines.
    windlass_text reason;
    windlass_text action;
    // The text for people.
    windlass_text note;
    // NULL: the primary.
    const windlass_ref *regarding;
    // A second, related object.
    const windlass_ref *related;
};

// Sends an event later; it may be merged with others or dropped, and never makes the call fail.
void windlass_events_emit(const windlass_event *event);
void windlass_events_normal(const char *reason, const char *action, const char *note);
void windlass_events_warning(const char *reason, const char *action, const char *note);

// --- The log ---
//
// Whole lines printed to stdout and stderr go to the log too.

typedef enum windlass_level { WINDLASS_TRACE, WINDLASS_DEBUG, WINDLASS_INFO, WINDLASS_WARN, WINDLASS_ERROR } windlass_level;

// A name and a value: a field of a log line, a label, or a header.
typedef struct windlass_field {
    windlass_text name;
    windlass_text value;
} windlass_field;

// Writes a line: the message, and then the names and values of its fields in turn. All arguments are C strings.
// `windlass_log(WINDLASS_INFO, "scaled", "name", name, "replicas", windlass_decimal(replicas))`
#define windlass_log(level, ...)                                                                                             \
    windlass_log_texts(level, (const char *const[]){__VA_ARGS__},                                                            \
        sizeof(struct {                                                                                                      \
            _Static_assert(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *) % 2 == 1,                              \
                "a line of the log is a message, and pairs of a name and a value");                                          \
            char one;                                                                                                        \
        }) * (sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))
void windlass_log_texts(windlass_level level, const char *const *texts, size_t count);
// Like `windlass_log`, with texts that may contain null bytes.
void windlass_log_fields(windlass_level level, windlass_text message, const windlass_field *fields, size_t count);

// --- Metrics ---

// Each value needs exactly the metric's labels, in their order: `windlass_metric_add(&backups, 1, "success")`.
#define windlass_metric_add(...) WINDLASS_METRIC_CALL(windlass_metrics_add_to, __VA_ARGS__, NULL)
#define windlass_metric_set(...) WINDLASS_METRIC_CALL(windlass_metrics_set_of, __VA_ARGS__, NULL)
#define windlass_metric_observe(...) WINDLASS_METRIC_CALL(windlass_metrics_observe_in, __VA_ARGS__, NULL)
#define WINDLASS_METRIC_CALL(function, metric, value, ...) function(metric, value, (const char *const[]){__VA_ARGS__})
void windlass_metrics_add_to(const windlass_metric *counter, double value, const char *const *labels);
void windlass_metrics_set_of(const windlass_metric *gauge, double value, const char *const *labels);
void windlass_metrics_observe_in(const windlass_metric *histogram, double value, const char *const *labels);
// Like the macros above, but these functions take the metric's name. A value that does not fit the manifest is counted
// and dropped.
void windlass_metrics_add(windlass_text name, double value, const windlass_field *labels, size_t count);
void windlass_metrics_set(windlass_text name, double value, const windlass_field *labels, size_t count);
void windlass_metrics_observe(windlass_text name, double value, const windlass_field *labels, size_t count);

// --- Configuration, time, randomness ---

// The operator's configuration, which is valid by the manifest's schema; an empty object if there is none.
windlass_json *windlass_config_get(void);

// A point in time, counted from 1970-01-01T00:00:00Z.
typedef struct windlass_instant {
    uint32_t seconds;
    uint32_t nanoseconds;
} windlass_instant;

// The host's time, which a replay of the call repeats. In each call, `time` and `clock_gettime` start at this time.
windlass_instant windlass_clock_now(void);
// In Kubernetes' form: `2026-11-21T10:48:45Z`.
const char *windlass_instant_text(windlass_instant instant);

// The host's randomness. `rand`, `random` and `getentropy` are seeded from it in each call, and are not secret.
uint32_t windlass_random_u32(void);
void windlass_random_bytes(void *bytes, uint32_t length);

// --- Why the host makes this call now, for the log and for people ---
//
// A key is queued only once, even if many events occur. So the list may be incomplete, and a plugin's actions must not
// depend on it. Only reconcilers can use this.

// One event that has queued the key.
typedef struct windlass_trigger {
    // The kind of event, in CamelCase; later hosts may have other ones.
    // `Changed`: the object is new or has changed. `Deleted`: it was deleted.
    // `Start`: the controller has started, or the first list of a watch has arrived.
    // `Resync`: the resync interval has passed. `RequeueAfter`: the previous call has asked for it.
    // `Retry`: the previous call has failed.
    // `Swap`: a new build has replaced the plugin. `Configuration`: its configuration or its grants have changed.
    windlass_text reason;
    // The name of the watch, if the manifest gives it one.
    windlass_text watch;
    // The object, if the event was about one.
    bool has_object;
    windlass_ref object;
} windlass_trigger;

typedef struct windlass_triggers {
    windlass_trigger *items;
    size_t count;
} windlass_triggers;

// The events that have queued the key since its previous call, oldest first, and at most eight.
windlass_triggers windlass_triggers_list(void);

// --- Conditions: lists in a status, in Kubernetes' form ---

typedef enum windlass_condition_status { WINDLASS_CONDITION_FALSE, WINDLASS_CONDITION_TRUE, WINDLASS_CONDITION_UNKNOWN } windlass_condition_status;

typedef struct windlass_condition {
    // The aspect, such as `Ready`. The list contains each type once.
    windlass_text type;
    windlass_condition_status status;
    // The reason in CamelCase, for machines.
    windlass_text reason;
    windlass_text message;
    // The generation of the object that the condition is about; 0 if there is none.
    int64_t observed_generation;
} windlass_condition;

windlass_json *windlass_conditions_find(const windlass_json *conditions, const char *type);
bool windlass_conditions_is_true(const windlass_json *conditions, const char *type);
// Sets a condition in a list, replacing the condition of its type. `lastTransitionTime` becomes `now()`, usually
// `windlass_clock_now`, if the status changed, and otherwise stays, so setting the same condition again changes nothing.
// `now` is called only if the status changed: a call that reads the time cannot be saved. If `conditions` is not a list,
// the function ends the call, like `windlass_panic`.
void windlass_conditions_set(windlass_json *conditions, const windlass_condition *condition, windlass_instant (*now)(void));
void windlass_conditions_remove(windlass_json *conditions, const char *type);

// --- HTTP requests to granted hosts ---

typedef enum windlass_http_reason {
    WINDLASS_HTTP_NOT_GRANTED,
    WINDLASS_HTTP_INVALID_REQUEST,
    WINDLASS_HTTP_DNS,
    WINDLASS_HTTP_CONNECT,
    WINDLASS_HTTP_TLS,
    WINDLASS_HTTP_TIMEOUT,
    WINDLASS_HTTP_TOO_LARGE,
    WINDLASS_HTTP_PROTOCOL,
    WINDLASS_HTTP_OTHER
} windlass_http_reason;

// The reason, such as `not-granted`.
const char *windlass_http_reason_name(windlass_http_reason reason);

typedef struct windlass_http_request {
    windlass_text method;
    windlass_text url;
    const windlass_field *headers;
    size_t header_count;
    // Empty: no body.
    windlass_text body;
    // Whether the body is bytes instead of UTF-8 text.
    bool is_bytes;
    // The limit of the whole exchange. 0 for the host's limit.
    uint32_t timeout_ms;
} windlass_http_request;

typedef struct windlass_http_response {
    uint16_t status;
    // Names in lower case.
    windlass_field *headers;
    size_t header_count;
    windlass_text body;
    // Whether the body is bytes instead of UTF-8 text.
    bool is_bytes;
} windlass_http_response;

// A request that got no response.
typedef struct windlass_http_error {
    windlass_http_reason reason;
    windlass_text message;
} windlass_http_error;

// Sends a request and reads the whole response. Any status is a response. Returns false if there is no response; then
// `error` has the reason.
bool windlass_http_fetch(const windlass_http_request *request, windlass_http_response *response, windlass_http_error *error) WINDLASS_MUST_USE;
// Converts the error of a request. It becomes a terminal error if the request is malformed, an API error with
// WINDLASS_NOT_GRANTED if it is not granted (so that the key runs again when the policy changes), and otherwise a
// transient error.
const windlass_error *windlass_http_failure(const windlass_http_request *request, const windlass_http_error *error);

// --- Mappings as code: WINDLASS_MAPPER for a reconciler, WINDLASS_CUSTOMIZER for a composer ---

#include "windlass_mapping.h"

// --- The end ---

// Logs an error with the message and its causes, and ends the call. The call fails, and its instance is dropped. Use it
// for bugs in the plugin. `assert` and `abort` do the same.
#define windlass_panic(...) windlass_panic_at(__FILE__, __LINE__, __func__, windlass_format(__VA_ARGS__))
_Noreturn void windlass_panic_at(const char *file, int line, const char *function, const char *message);

#ifdef __wasm__
// The C library's `abort` and assertions would trap without a message. Its headers call these functions by name, so the
// macros also redirect the calls in headers.
#define abort windlass_abort
#define __assert_fail windlass_assert_fail
_Noreturn void windlass_abort(void);
_Noreturn void windlass_assert_fail(const char *expression, const char *file, int line, const char *function);
#endif

#endif
