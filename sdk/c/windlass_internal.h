// Declarations that the SDK's files share. Plugins do not use them.
#ifndef WINDLASS_INTERNAL_H
#define WINDLASS_INTERNAL_H

#include <stdarg.h>

#include "windlass.h"

// --- text.c ---

const char *windlass_format_list(const char *format, va_list arguments);
// The length in bytes of the character that starts here; 0 if there is no valid character. Surrogates count as
// characters: JSON may contain them.
size_t windlass_character(const char *at, size_t length, bool *is_surrogate);

// --- json_number.c ---

// Whether two JSON numbers are equal.
bool windlass_number_equal(windlass_text one, windlass_text other);

// --- arena.c ---

// Like `windlass_alloc`, but uninitialised.
void *windlass_alloc_raw(size_t length);
// Extends a piece of memory, which may move.
void *windlass_regrow(void *piece, size_t before, size_t after);
void windlass_memory_clear(void);
// Sets whether memory that is allocated from now on outlives a release. Such memory is freed only when the memory of
// the call is emptied. Returns the previous setting.
bool windlass_memory_keep(bool keep);

// --- runtime.c ---

// Logs the reason, and ends the call.
_Noreturn void windlass_trap(const char *why);
void windlass_call_begin(void);
void windlass_call_end(void);

// --- errors.c ---

// The error for JSON from the host that cannot be read.
const windlass_error *windlass_error_of_json(const char *what, const windlass_json_error *error);

// --- manifest.c ---

windlass_text windlass_manifest_text(const windlass_manifest *manifest);

// --- mapping.c ---

// The targets of a change. A mapper without `map` fails.
windlass_targets windlass_map_change(const windlass_mapper *mapper, const windlass_change *change, windlass_failures *failures);
// Whether a change counts. Without `matches`, it does.
bool windlass_match_change(const windlass_mapper *mapper, const windlass_change *change, windlass_failures *failures);

// --- reconciler/ensure.c ---

// The merge patch that gives the cached object the fields of `desired`. NULL if it has them already.
windlass_json *windlass_ensure_patch(const windlass_json *cached, const windlass_json *desired);
// The `resourceVersion` of `cached`, if the patch must not be applied to a later version of the object.
windlass_text windlass_ensure_version(const windlass_json *cached, const windlass_json *patch);
// The kind and name of the controller of `cached`, if `desired` names a different controller; otherwise NULL.
const char *windlass_ensure_other_controller(const windlass_json *cached, const windlass_json *desired);

// --- Defined by the macros WINDLASS_RECONCILER, WINDLASS_COMPOSER and WINDLASS_CUSTOMIZER ---

const windlass_manifest *windlass_plugin_manifest(void);
windlass_outcome windlass_plugin_reconcile(const windlass_request *request, windlass_failures *failures);
void windlass_plugin_compose(const windlass_composition_request *request, windlass_composition *composition, windlass_failures *failures);
void windlass_plugin_customize(const windlass_request *request, windlass_related_rules *rules, windlass_failures *failures);

// --- The host: through the bindings (reconciler/host.c, composer/host.c), or the host of unit tests (test_*.c) ---

// A result: the object, which may be missing, or an error.
typedef struct windlass_host_answer {
    bool failed;
    windlass_text object;
    windlass_api_error error;
} windlass_host_answer;

typedef struct windlass_host_page {
    bool failed;
    windlass_text *items;
    size_t count;
    windlass_text next_token;
    windlass_api_error error;
} windlass_host_page;

typedef enum windlass_host_metric { WINDLASS_HOST_ADD, WINDLASS_HOST_SET, WINDLASS_HOST_OBSERVE } windlass_host_metric;

void windlass_host_log(windlass_level level, windlass_text message, const windlass_field *fields, size_t count);
windlass_instant windlass_host_now(void);
uint32_t windlass_host_random_u32(void);
void windlass_host_random_bytes(void *bytes, uint32_t length);
windlass_text windlass_host_config(void);

void windlass_host_cache_get(const windlass_ref *target, const char *const *fields, windlass_host_answer *answer);
void windlass_host_cache_get_many(const windlass_ref *targets, size_t count, const char *const *fields, windlass_host_answer *answers);
void windlass_host_cache_list(const windlass_cache_query *query, windlass_host_page *page);
void windlass_host_live_get(const windlass_ref *target, const windlass_live_options *options, windlass_host_answer *answer);
void windlass_host_live_list(const windlass_live_query *query, windlass_host_page *page);
// The log is returned as the object of the result.
void windlass_host_live_log(const windlass_ref *pod, const windlass_log_query *query, windlass_host_answer *answer);
// Returns false on failure; `error` has the reason.
bool windlass_host_live_served(windlass_text api_version, windlass_text kind, windlass_served_kind *served, windlass_api_error *error);
bool windlass_host_live_kinds(windlass_listed_kinds *kinds, windlass_api_error *error);
bool windlass_host_delete_collection(const windlass_collection *collection, const windlass_delete_options *options,
    windlass_deleted *deleted, windlass_api_error *error);
void windlass_host_write(const windlass_operation *operation, windlass_text body, windlass_host_answer *answer);
void windlass_host_batch(const windlass_operation *operations, const windlass_text *bodies, size_t count, windlass_host_answer *answers);
// Returns the number of errors, and sets `errors` to an array in the memory of the call.
size_t windlass_host_claim(windlass_text api_version, windlass_text kind, windlass_text selector, windlass_claimed *claimed, windlass_api_error **errors);
windlass_triggers windlass_host_triggers(void);
void windlass_host_emit(const windlass_event *event);
void windlass_host_metric_value(windlass_host_metric what, windlass_text name, double value, const windlass_field *labels, size_t count);
bool windlass_host_fetch(const windlass_http_request *request, windlass_http_response *response, windlass_http_error *error);

#endif
