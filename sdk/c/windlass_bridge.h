// Converts between the SDK's types and the types of the generated bindings that both worlds share. Only
// reconciler/wire.h and composer/wire.h include it. Before that, they include their generated header, and define these
// names for types whose generated names contain the world's name: `wire_text`, `wire_option_text`, `wire_field`,
// `wire_fields`, `wire_bytes`, `wire_texts`.
//
// To lower a value is to convert it for the host; to lift it is to convert it for the SDK. Only texts that are not
// valid UTF-8 are copied.

#include "windlass_internal.h"

static inline wire_text lower(windlass_text text) {
    text = windlass_text_valid(text.data ? text : (windlass_text){"", 0});
    return (wire_text){(uint8_t *)(uintptr_t)text.data, text.length};
}

static inline wire_option_text lower_option(windlass_text text) {
    return (wire_option_text){.is_some = text.data != NULL, .val = lower(text)};
}

static inline windlass_text lift(wire_text text) {
    return (windlass_text){text.ptr ? (const char *)text.ptr : "", text.len};
}

static inline windlass_text lift_option(wire_option_text text) {
    return text.is_some ? lift(text.val) : WINDLASS_NONE;
}

// `cluster` is never set, and ignored when lifting: the host works on one cluster.
static inline windlass_plugin_types_object_ref_t lower_ref(const windlass_ref *ref) {
    return (windlass_plugin_types_object_ref_t){
        .api_version = lower(ref->api_version),
        .kind = lower(ref->kind),
        .namespace_ = lower_option(ref->namespace),
        .name = lower(ref->name),
        .uid = lower_option(ref->uid),
    };
}

static inline windlass_plugin_types_option_object_ref_t lower_option_ref(const windlass_ref *ref) {
    windlass_plugin_types_option_object_ref_t wire = {.is_some = ref != NULL};
    if (ref != NULL) {
        wire.val = lower_ref(ref);
    }
    return wire;
}

static inline wire_fields lower_fields(const windlass_field *fields, size_t count) {
    wire_field *wire = windlass_alloc_array(count, sizeof *wire);
    for (size_t i = 0; i < count; i++) {
        wire[i] = (wire_field){lower(fields[i].name), lower(fields[i].value)};
    }
    return (wire_fields){wire, count};
}

static inline windlass_plugin_types_api_error_t lower_error(const windlass_api_error *error) {
    return (windlass_plugin_types_api_error_t){
        .code = error->code,
        .reason = (windlass_plugin_types_api_reason_t)error->reason,
        .status_reason = lower(error->status_reason),
        .message = lower(error->message),
        .retry_after_ms = {.is_some = error->has_retry_after, .val = error->retry_after_ms},
        .verb = lower(error->verb),
        .resource = lower(error->resource),
        .object = lower_option_ref(error->has_object ? &error->object : NULL),
    };
}

// The message of an API error has its context already, so the failure needs no other message.
static inline windlass_plugin_types_failure_t lower_failure(const windlass_error *error) {
    bool is_api = error->kind == WINDLASS_ERROR_API;
    windlass_plugin_types_failure_t wire = {
        .message = lower(is_api ? WINDLASS_NONE : error->message),
        .api = {.is_some = is_api},
        .terminal = error->kind == WINDLASS_ERROR_TERMINAL,
        .retry_after_ms = {.is_some = error->has_retry_after, .val = error->retry_after_ms},
    };
    if (is_api) {
        wire.api.val = lower_error(&error->api);
    }
    return wire;
}

static inline windlass_plugin_types_failure_t *lower_failures(const windlass_failures *failures) {
    windlass_plugin_types_failure_t *wire = windlass_alloc_array(failures->count, sizeof *wire);
    for (size_t i = 0; i < failures->count; i++) {
        wire[i] = lower_failure(failures->errors[i]);
    }
    return wire;
}

static inline windlass_plugin_types_requeue_t lower_requeue(bool with_backoff, uint32_t after_ms) {
    if (with_backoff) {
        return (windlass_plugin_types_requeue_t){.tag = WINDLASS_PLUGIN_TYPES_REQUEUE_BACKOFF};
    }
    return (windlass_plugin_types_requeue_t){.tag = WINDLASS_PLUGIN_TYPES_REQUEUE_AFTER_MS, .val.after_ms = after_ms};
}

static inline windlass_plugin_types_event_t lower_event(const windlass_event *event) {
    return (windlass_plugin_types_event_t){
        .regarding = lower_option_ref(event->regarding),
        .related = lower_option_ref(event->related),
        .event_type = event->type == WINDLASS_EVENT_WARNING ? WINDLASS_PLUGIN_TYPES_EVENT_TYPE_WARNING
                                                            : WINDLASS_PLUGIN_TYPES_EVENT_TYPE_NORMAL,
        .reason = lower(event->reason),
        .action = lower(event->action),
        .note = lower(event->note),
    };
}

// Parses a document from the host. A document that cannot be parsed is added to the failures.
static inline windlass_json *lift_json(windlass_text text, const char *what, windlass_failures *failures) {
    windlass_json_error error;
    windlass_json *value = windlass_json_parse(text, &error);
    if (value == NULL) {
        windlass_fail(failures, windlass_error_of_json(what, &error));
    }
    return value;
}

static inline windlass_request lift_request(const windlass_plugin_types_request_t *wire, windlass_failures *failures) {
    return (windlass_request){
        .controller = lift(wire->controller),
        .namespace = lift_option(wire->namespace_),
        .name = lift(wire->name),
        .uid = lift_option(wire->uid),
        .object = wire->object.is_some ? lift_json(lift(wire->object.val), "the primary", failures) : NULL,
        .deleting = wire->deleting,
        .attempt = wire->attempt,
        .trace_id = lift(wire->trace_id),
    };
}
