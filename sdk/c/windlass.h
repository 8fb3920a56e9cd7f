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
// Everything that a function returns lives until the call ends (windlass_text.h). A function that can fail returns the error, or
// NULL. Functions that a composer does not have are missing when it is linked.
#ifndef WINDLASS_H
#define WINDLASS_H

#include "windlass_json.h"
#include "windlass_manifest.h"
#include "windlass_text.h"

#ifdef __cplusplus
#error "the SDK is for C11: write the plugin in C, or call the SDK from a C file of yours"
#endif

// --- Objects ---

// One object. With a UID it is that incarnation of the name only.
typedef struct windlass_ref {
    windlass_text api_version;
    windlass_text kind;
    // None for a cluster-scoped object.
    windlass_text namespace;
    windlass_text name;
    // None: whichever incarnation has the name now.
    windlass_text uid;
} windlass_ref;

windlass_ref windlass_ref_of(const char *api_version, const char *kind, windlass_text namespace, windlass_text name);
// What names an object itself, its UID included.
windlass_ref windlass_ref_to(const windlass_json *object);
// The object of another kind that has the same namespace and name.
windlass_ref windlass_sibling(const windlass_json *object, const char *api_version, const char *kind);
// As messages name it: `Deployment prod/shop`.
const char *windlass_ref_text(const windlass_ref *ref);
// The one that a reference means among several objects, or NULL.
windlass_json *windlass_find(windlass_json *const *objects, size_t count, const windlass_ref *ref);

// The text of a LabelSelector, such as `app=web,tier in (a,b)`, as lists take it. An empty one selects everything. NULL selects
// nothing and has no text: make no list for it.
windlass_text windlass_selector_text(const windlass_json *selector);

// The amount that a quantity of a resource says, such as `500m` or `1.5Gi`, in thousandths; what is finer is rounded away from
// nothing. False: the text is no quantity, or one that is too large.
bool windlass_quantity(windlass_text text, int64_t *milli);

// What owns an object and controls it, as an entry of `ownerReferences`.
windlass_json *windlass_owner_reference(const windlass_json *owner);
// The UID of the owner that controls an object.
windlass_text windlass_controller_uid(const windlass_json *object);
// Whether an owner controls an object.
bool windlass_is_controlled_by(const windlass_json *object, const windlass_json *owner);

// --- Errors ---

// Why a request to the API, or to the host's cache of it, failed. wit/types.wit says what each means.
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

// As the interface spells it, such as `not-found`.
const char *windlass_reason_name(windlass_reason reason);

// A failed request.
typedef struct windlass_api_error {
    // The HTTP status, or the one that fits best if the request never reached the server.
    uint16_t code;
    windlass_reason reason;
    // The reason in the form of Kubernetes' `Status.reason`. Where `reason` is WINDLASS_OTHER, this tells which.
    windlass_text status_reason;
    windlass_text message;
    // How long to wait before trying again, if the server said so.
    bool has_retry_after;
    uint32_t retry_after_ms;
    // Such as `get` or `patch`.
    windlass_text verb;
    // Resource, group and subresource, such as `deployments.apps/scale`.
    windlass_text resource;
    bool has_object;
    windlass_ref object;
} windlass_api_error;

// Something that went wrong. Return it as it came: by its class the host knows how to retry.
typedef struct windlass_error {
    enum { WINDLASS_ERROR_API, WINDLASS_ERROR_TRANSIENT, WINDLASS_ERROR_TERMINAL } kind;
    // The whole text for people.
    windlass_text message;
    // If it is of the API.
    windlass_api_error api;
    // If it is transient: not worth another attempt before so long has passed.
    bool has_retry_after;
    uint32_t retry_after_ms;
} windlass_error;

// Worth another attempt, after a backoff.
const windlass_error *windlass_transient(const char *format, ...) WINDLASS_PRINTF(1, 2);
// Worth another attempt, but not before so long has passed; the backoff may be longer. At most ten minutes count.
const windlass_error *windlass_transient_after_ms(uint64_t milliseconds, const char *format, ...) WINDLASS_PRINTF(2, 3);
// Not worth another attempt until something changes.
const windlass_error *windlass_terminal(const char *format, ...) WINDLASS_PRINTF(1, 2);
const windlass_error *windlass_transient_text(windlass_text message);
const windlass_error *windlass_transient_text_after_ms(uint64_t milliseconds, windlass_text message);
const windlass_error *windlass_terminal_text(windlass_text message);
// An error of the API, for tests and for those who come by one on other ways.
const windlass_error *windlass_api(const windlass_api_error *error);
// The same error with a text before its own, in `message` and `api.message`. It keeps its class. Of no error it makes none.
const windlass_error *windlass_wrap(const windlass_error *error, const char *context);
// Whether it is an error of the API with this reason.
bool windlass_is(const windlass_error *error, windlass_reason reason);

// All that went wrong in a call: a call attempts all its operations, and reports all that failed.
typedef struct windlass_failures {
    const windlass_error **errors;
    size_t count;
    size_t capacity;
} windlass_failures;

// How a call ended that has not failed.
typedef struct windlass_outcome {
    // Call again after so many milliseconds, also if nothing changes.
    bool requeue;
    uint32_t requeue_after_ms;
} windlass_outcome;

// Nothing is left to do until something changes.
#define WINDLASS_DONE ((windlass_outcome){false, 0})
// Run again after this time, which is not a failure; longer times than 24 days are cut.
windlass_outcome windlass_requeue_after_ms(uint64_t milliseconds);
// Adds an error, if there is one, and returns WINDLASS_DONE. A call with failures has failed, whatever it returns.
windlass_outcome windlass_fail(windlass_failures *failures, const windlass_error *error);
// These do the same with an error that they make.
windlass_outcome windlass_fail_api(windlass_failures *failures, const windlass_api_error *error);
windlass_outcome windlass_fail_transient(windlass_failures *failures, const char *format, ...) WINDLASS_PRINTF(2, 3);
windlass_outcome windlass_fail_transient_after_ms(windlass_failures *failures, uint64_t milliseconds, const char *format, ...) WINDLASS_PRINTF(3, 4);
windlass_outcome windlass_fail_terminal(windlass_failures *failures, const char *format, ...) WINDLASS_PRINTF(2, 3);

// --- A reconciler ---

// Which object a call is about.
typedef struct windlass_request {
    // The controller's name in the manifest.
    windlass_text controller;
    // None for a cluster-scoped primary.
    windlass_text namespace;
    // The primary's.
    windlass_text name;
    // The last known one, also of a primary that has gone. None: the host has never seen it.
    windlass_text uid;
    // The primary as cached when the call began. NULL: it is not in the watch's scope, usually because it is gone. A composer finds
    // it as the parent.
    windlass_json *object;
    // The primary is being deleted and waits for its finalizers.
    bool deleting;
    // How many retries of this key were counted since its last success, 0 at first.
    uint32_t attempt;
    // The trace that logs, spans and API requests of this call belong to.
    windlass_text trace_id;
} windlass_request;

typedef windlass_outcome windlass_reconcile(const windlass_request *request, windlass_failures *failures);

// Makes a plugin of a manifest and a function. Once in a plugin, at file scope.
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
    // The object whose children are asked for.
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

// What should be. Begin with what you are given, which is empty.
typedef struct windlass_composition {
    // By `windlass_compose_child`.
    windlass_json *children;
    // The parent's new status. NULL: as it is.
    windlass_json *status;
    // By `windlass_compose_event`.
    windlass_event *events;
    size_t event_count;
    // Compose again after so many milliseconds, also if nothing changes.
    bool requeue;
    uint32_t requeue_after_ms;
    // Says that no children at all is meant, so that existing ones may be pruned.
    bool allow_empty;
    // Says of a parent that is being deleted that it may go. Only with the option `finalizer`.
    bool finalized;
} windlass_composition;

typedef void windlass_compose(const windlass_composition_request *request, windlass_composition *composition, windlass_failures *failures);

// Adds a child that should exist, as the set of fields to apply. A child that is left out is pruned.
void windlass_compose_child(windlass_composition *composition, windlass_json *child);
// Adds an event. It is sent each time that the function answers it, so answer only what is new.
void windlass_compose_event(windlass_composition *composition, const windlass_event *event);

// As WINDLASS_RECONCILER.
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

// --- Reads from the caches of the declared watches: they cost no request, and show what this call has already written ---

// Reads one object; NULL: it is not in the cache. With `fields` (WINDLASS_TEXTS of JSON pointers) only these values, in their places,
// beside what identifies the object.
const windlass_error *windlass_cache_get(const windlass_ref *target, const char *const *fields, windlass_json **object) WINDLASS_MUST_USE;

// An object, which may be NULL, or an error.
typedef struct windlass_result {
    windlass_json *object;
    const windlass_error *error;
} windlass_result;

// Reads several objects, in the order of the argument.
windlass_result *windlass_cache_get_many(const windlass_ref *targets, size_t count, const char *const *fields);

// Which objects to list. All conditions must hold; what is left out is none.
typedef struct windlass_cache_query {
    windlass_text api_version;
    windlass_text kind;
    // None: all namespaces of the watch.
    windlass_text namespace;
    // In Kubernetes' syntax, such as `app=web,tier in (front,back)`.
    windlass_text label_selector;
    // Only objects whose index, declared in the manifest, holds a value.
    struct {
        windlass_text name;
        windlass_text value;
    } index;
    // Only objects whose controller is the primary.
    bool owned;
    // Only the values at these JSON pointers.
    const char *const *fields;
    // How many objects and bytes a page may hold. 0: 500, and as many as the host gives.
    uint32_t limit;
    uint32_t max_bytes;
    // Begin behind the page that came with this token.
    windlass_text page_token;
} windlass_cache_query;

typedef struct windlass_list {
    windlass_json **items;
    size_t count;
    // Of one page: the token of the next. None: it is the last one.
    windlass_text next_token;
} windlass_list;

// Lists all objects, page by page.
const windlass_error *windlass_cache_list(const windlass_cache_query *query, windlass_list *list) WINDLASS_MUST_USE;
// Lists one page.
const windlass_error *windlass_cache_page(const windlass_cache_query *query, windlass_list *page) WINDLASS_MUST_USE;

// --- Reads from the API server itself: each costs a request, and needs a permission in the manifest ---

// What is read of an object. Nothing said: all of it.
typedef struct windlass_view {
    // Only its `apiVersion`, `kind` and `metadata`. The server sends no more.
    bool metadata_only;
    // Only the values at these JSON pointers (WINDLASS_TEXTS), in their places, beside what identifies it.
    const char *const *fields;
} windlass_view;

typedef struct windlass_live_options {
    // A part of the object with a path of its own, such as `scale` or `status`, which needs a permission of its own.
    windlass_text subresource;
    windlass_view view;
} windlass_live_options;

// Reads one object; NULL: it does not exist. The options may be NULL.
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
    // None: the only container.
    windlass_text container;
    // The log of the container before this one, which has ended.
    bool previous;
    // Only so many of the last lines, and only what is no older (rounded up to whole seconds). 0: all.
    uint32_t tail_lines;
    uint32_t since_ms;
    // How many bytes are read. 0: as many as the host returns at once.
    uint32_t limit_bytes;
} windlass_log_query;

// Reads the log of a Pod's container, from the first line that is meant. What is not UTF-8 is U+FFFD. The query may be NULL. It needs a
// permission to get `pods/log`.
const windlass_error *windlass_live_log(const windlass_ref *pod, const windlass_log_query *query, windlass_text *log) WINDLASS_MUST_USE;

// How the API server serves a kind.
typedef struct windlass_served_kind {
    // The plural by which paths and permissions name it, such as `deployments`. None: the kind is not served.
    windlass_text resource;
    // Its objects are in namespaces.
    bool namespaced;
    // Such as `get` and `watch`.
    windlass_text *verbs;
    size_t verb_count;
    // Such as `status` and `scale`.
    windlass_text *subresources;
    size_t subresource_count;
} windlass_served_kind;

// For plugins that adapt to the cluster. It needs no permission, and counts as a read.
const windlass_error *windlass_live_served(
    windlass_text api_version, windlass_text kind, windlass_served_kind *served) WINDLASS_MUST_USE;

// --- Changes to the API ---
//
// A conflict means that the object has changed since it was read: return the error, and the host runs the key again on a newer
// cache. Options may be NULL, and so may the place for the object as the server returned it.

typedef enum windlass_field_validation {
    // The server refuses unknown and duplicate fields.
    WINDLASS_VALIDATE_STRICT,
    // It drops them and answers with a warning.
    WINDLASS_VALIDATE_WARN,
    WINDLASS_VALIDATE_IGNORE
} windlass_field_validation;

typedef struct windlass_write_options {
    // Write to a subresource, such as `status`.
    struct {
        windlass_text name;
        // Whose it is, where the body is of another kind, as for `scale` and `eviction`.
        const windlass_ref *parent;
    } subresource;
    // The optimistic lock: fail with a conflict unless the object still has this version.
    windlass_text resource_version;
    // Make the primary the controller of the object.
    bool owned;
    // Apply only: take over fields that other managers own.
    bool force;
    // The server checks the change and answers as if it were made.
    bool dry_run;
    windlass_field_validation field_validation;
    // Write as a field manager of its own, the plugin's with `/` and this behind it: at most 32 lower-case letters, digits and dashes.
    // So two controllers can apply two parts of one object, and neither drops what the other has applied.
    windlass_text manager_suffix;
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
    // The objects that it owns are deleted after it, before it, or stay.
    WINDLASS_PROPAGATE_BACKGROUND,
    WINDLASS_PROPAGATE_FOREGROUND,
    WINDLASS_PROPAGATE_ORPHAN
} windlass_propagation;

typedef struct windlass_delete_options {
    windlass_text resource_version;
    windlass_propagation propagation;
    // Rounded up to whole seconds. Without it, the default of the object's kind.
    bool has_grace_period;
    uint32_t grace_period_ms;
    bool dry_run;
} windlass_delete_options;

// Where nothing is stored, as of a `SubjectAccessReview`, the object needs no name, and what is created is the answer.
const windlass_error *windlass_writes_create(const windlass_json *object, const windlass_write_options *options, windlass_json **created) WINDLASS_MUST_USE;
const windlass_error *windlass_writes_update(const windlass_json *object, const windlass_write_options *options, windlass_json **updated) WINDLASS_MUST_USE;
// Server-side, as the plugin's field manager.
const windlass_error *windlass_writes_apply(const windlass_json *object, const windlass_write_options *options, windlass_json **applied) WINDLASS_MUST_USE;
// The effect of `windlass_writes_ensure`, with the object as it is now.
typedef struct windlass_ensured {
    enum {
        // The cache shows the object with all desired fields, and nothing was sent.
        WINDLASS_UNCHANGED,
        // It did not exist.
        WINDLASS_CREATED,
        // It lacked some of the desired fields.
        WINDLASS_PATCHED
    } effect;
    windlass_json *object;
} windlass_ensured;

// Creates the object if the cache has none, or else sends the smallest merge patch that brings its fields about, or nothing if they are
// there. The kind must be watched. `ensured` may be NULL.
//
// Prefer `windlass_writes_apply`: it also removes the fields that the plugin applied before and no longer wants, and two writers of one
// field find out about each other. This costs the server less, as a create is cheaper than an apply, and does neither:
//
// - A field that is left out of the object stays as it is. Null removes a field.
// - A list is the plugin's as a whole. It is as desired if it has as many elements, and each has the desired fields. An element that is
//   written keeps its other fields if it has the same `name` as the one in its place.
// - A patch that writes a list or removes a field fails with reason WINDLASS_CONFLICT if the object has changed since the cache showed
//   it. Return the error, and the host runs the key again on a newer cache.
// - Owners and finalizers are added to those of others; null in their place removes all. To own the object, put a
//   `windlass_owner_reference` to the controller into it: then an object of another controller is an error with reason
//   WINDLASS_ALREADY_EXISTS. Without one, the object is patched whoever owns it.
// - `status` is not compared: write it with `windlass_writes_apply_status`. Neither is what the server sets in `metadata`: a
//   `resourceVersion` is no lock, and the server creates no object that has one.
// - Write values as the server stores them; others are sent at each call. It stores a quantity of `0.5` as `500m`, drops empty and zero
//   values of built-in kinds such as `nodeSelector: {}`, `tolerations: []` and `paused: false`, and may have webhooks that add elements to
//   lists.
const windlass_error *windlass_writes_ensure(const windlass_json *object, windlass_ensured *ensured) WINDLASS_MUST_USE;
// Applies the status of an object, by force: it has no other writer.
const windlass_error *windlass_writes_apply_status(const windlass_ref *target, windlass_json *status) WINDLASS_MUST_USE;
const windlass_error *windlass_writes_patch(const windlass_ref *target, windlass_patch_type type, const windlass_json *patch,
    const windlass_write_options *options, windlass_json **patched) WINDLASS_MUST_USE;
// `left` is the object if it still exists, waiting for finalizers or its grace period.
const windlass_error *windlass_writes_delete(const windlass_ref *target, const windlass_delete_options *options, windlass_json **left) WINDLASS_MUST_USE;

// Evicts a Pod: deletes it unless a disruption budget forbids it now, which is an error with reason WINDLASS_TOO_MANY_REQUESTS. A Pod
// that has gone is evicted.
const windlass_error *windlass_writes_evict(const windlass_ref *pod) WINDLASS_MUST_USE;

// Some objects of a kind. All conditions must hold.
typedef struct windlass_collection {
    windlass_text api_version;
    windlass_text kind;
    // None: for a namespaced kind, the primary's namespace.
    windlass_text namespace;
    // In Kubernetes' syntax, such as `app=web,tier in (front,back)`.
    windlass_text label_selector;
    windlass_text field_selector;
    // Says that all objects of the kind and namespace are meant. Without it, one of the selectors must select.
    bool all;
} windlass_collection;

// Those that were deleted: each is gone, or waits for finalizers or its grace period.
typedef struct windlass_deleted {
    // The server says which.
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
    // Of all but a patch and a deletion; of a patch, the patch.
    const windlass_json *object;
    // Of a patch and a deletion.
    windlass_ref target;
    windlass_patch_type patch_type;
    // Of all but a deletion.
    windlass_write_options options;
    windlass_delete_options delete_options;
} windlass_operation;

// Runs operations concurrently, in no order, and returns their results in the order of the argument.
windlass_result *windlass_writes_batch(const windlass_operation *operations, size_t count);

// --- Control of existing objects by their labels ---

typedef struct windlass_claimed {
    windlass_ref *adopted;
    size_t adopted_count;
    windlass_ref *released;
    size_t released_count;
} windlass_claimed;

// Makes the primary the controller of all matching objects of its namespace that have none, and gives up those that it controls and
// that no longer match. It attempts all, and adds every error; false: there was one. `claimed` may be NULL.
bool windlass_owners_claim(windlass_text api_version, windlass_text kind, windlass_text label_selector, windlass_claimed *claimed,
    windlass_failures *failures);

// --- Events ---

struct windlass_event {
    enum { WINDLASS_EVENT_NORMAL, WINDLASS_EVENT_WARNING } type;
    // Why, and what was done, in CamelCase, for machines.
    windlass_text reason;
    windlass_text action;
    // The text for people.
    windlass_text note;
    // NULL: the primary.
    const windlass_ref *regarding;
    // Another object that has to do with it.
    const windlass_ref *related;
};

// Sends an event later; it may be merged with others or dropped, and never fails the call.
void windlass_events_emit(const windlass_event *event);
void windlass_events_normal(const char *reason, const char *action, const char *note);
void windlass_events_warning(const char *reason, const char *action, const char *note);

// --- The log ---
//
// What is printed to stdout and stderr goes there too, by whole lines.

typedef enum windlass_level { WINDLASS_TRACE, WINDLASS_DEBUG, WINDLASS_INFO, WINDLASS_WARN, WINDLASS_ERROR } windlass_level;

// A name and a value: of a line of the log, of a label, of a header.
typedef struct windlass_field {
    windlass_text name;
    windlass_text value;
} windlass_field;

// Writes a line: the message, and names and values of fields in turn, all C strings.
// `windlass_log(WINDLASS_INFO, "scaled", "name", name, "replicas", windlass_decimal(replicas))`
#define windlass_log(level, ...)                                                                                             \
    windlass_log_texts(level, (const char *const[]){__VA_ARGS__},                                                            \
        sizeof(struct {                                                                                                      \
            _Static_assert(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *) % 2 == 1,                              \
                "a line of the log is a message, and pairs of a name and a value");                                          \
            char one;                                                                                                        \
        }) * (sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))
void windlass_log_texts(windlass_level level, const char *const *texts, size_t count);
// The same with any texts.
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
// The same by name. What the manifest does not declare so is counted and dropped.
void windlass_metrics_add(windlass_text name, double value, const windlass_field *labels, size_t count);
void windlass_metrics_set(windlass_text name, double value, const windlass_field *labels, size_t count);
void windlass_metrics_observe(windlass_text name, double value, const windlass_field *labels, size_t count);

// --- Configuration, time, randomness ---

// The operator's configuration, which the manifest's schema accepts; an empty object if there is none.
windlass_json *windlass_config_get(void);

// A point in time, counted from 1970-01-01T00:00:00Z.
typedef struct windlass_instant {
    uint32_t seconds;
    uint32_t nanoseconds;
} windlass_instant;

// The host's clock, so that a call can be replayed; `time` and `clock_gettime` follow it from the beginning of the call on.
windlass_instant windlass_clock_now(void);
// As Kubernetes writes times: `2026-11-21T10:48:45Z`.
const char *windlass_instant_text(windlass_instant instant);

// The host's randomness; `rand`, `random` and `getentropy` are seeded from it in each call, and are no secret.
uint32_t windlass_random_u32(void);
void windlass_random_bytes(void *bytes, uint32_t length);

// --- Why a call is made now: for a line of the log and for people ---
//
// A key is queued once, however much happens, so these are not all things that have happened: what a plugin does must not depend on
// them. Only reconcilers have this.

// One thing that has queued the key.
typedef struct windlass_trigger {
    // What happened, in CamelCase; later hosts may tell others.
    // `Changed`: the object is new or has changed. `Deleted`: it has gone.
    // `Start`: the controller has begun, or the first list of a watch has come. `Resync`: its time has come round.
    // `RequeueAfter`: the call before has asked for it. `Retry`: it has failed.
    // `Swap`: this is another build of the plugin. `Configuration`: its configuration or its grants have changed.
    windlass_text reason;
    // The name of the watch, if the manifest gives it one.
    windlass_text watch;
    // The object, as far as it was one.
    bool has_object;
    windlass_ref object;
} windlass_trigger;

typedef struct windlass_triggers {
    windlass_trigger *items;
    size_t count;
} windlass_triggers;

// What has queued the key since the call before, the oldest first, and at most eight.
windlass_triggers windlass_triggers_list(void);

// --- Conditions: lists in a status, in Kubernetes' form ---

typedef enum windlass_condition_status { WINDLASS_CONDITION_FALSE, WINDLASS_CONDITION_TRUE, WINDLASS_CONDITION_UNKNOWN } windlass_condition_status;

typedef struct windlass_condition {
    // Which aspect, such as `Ready`. The list has each type once.
    windlass_text type;
    windlass_condition_status status;
    // Why, in CamelCase, for machines.
    windlass_text reason;
    windlass_text message;
    // The generation of the object that this is said about; 0: none.
    int64_t observed_generation;
} windlass_condition;

windlass_json *windlass_conditions_find(const windlass_json *conditions, const char *type);
bool windlass_conditions_is_true(const windlass_json *conditions, const char *type);
// Enters a condition into a list, in place of the one of its type. `lastTransitionTime` becomes `now` if the status is another, and
// stays otherwise, so that setting the same again changes nothing. Where there is no list, it ends the call, as `windlass_panic` does.
void windlass_conditions_set(windlass_json *conditions, const windlass_condition *condition, windlass_instant now);
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

// Such as `not-granted`.
const char *windlass_http_reason_name(windlass_http_reason reason);

typedef struct windlass_http_request {
    windlass_text method;
    windlass_text url;
    const windlass_field *headers;
    size_t header_count;
    // None: no body.
    windlass_text body;
    // The body is not text in UTF-8.
    bool is_bytes;
    // For the whole exchange. 0: the host's limit.
    uint32_t timeout_ms;
} windlass_http_request;

typedef struct windlass_http_response {
    uint16_t status;
    // Names in lower case.
    windlass_field *headers;
    size_t header_count;
    windlass_text body;
    // The body is not text in UTF-8.
    bool is_bytes;
} windlass_http_response;

// A request that brought no response.
typedef struct windlass_http_error {
    windlass_http_reason reason;
    windlass_text message;
} windlass_http_error;

// Sends a request and reads the whole response. Any status is a response. False: there is none, as `error` says.
bool windlass_http_fetch(const windlass_http_request *request, windlass_http_response *response, windlass_http_error *error) WINDLASS_MUST_USE;
// An error for a call that failed because of it: terminal if the request is malformed, an error of the API with WINDLASS_NOT_GRANTED
// if it is not granted (so that the key runs again when the policy changes), else transient.
const windlass_error *windlass_http_failure(const windlass_http_request *request, const windlass_http_error *error);

// --- Mappings as code: WINDLASS_MAPPER for a reconciler, WINDLASS_CUSTOMIZER for a composer ---

#include "windlass_mapping.h"

// --- The end ---

// Writes an error line with the message and what led to it, and ends the call: it fails, and its instance is dropped. For what can only be
// a mistake of the plugin. `assert` and `abort` do the same.
#define windlass_panic(...) windlass_panic_at(__FILE__, __LINE__, __func__, windlass_format(__VA_ARGS__))
_Noreturn void windlass_panic_at(const char *file, int line, const char *function, const char *message);

#ifdef __wasm__
// The C library's would trap without a word. These names are those by which its headers declare and call them.
#define abort windlass_abort
#define __assert_fail windlass_assert_fail
_Noreturn void windlass_abort(void);
_Noreturn void windlass_assert_fail(const char *expression, const char *file, int line, const char *function);
#endif

#endif
