// Errors as values, and the failures that a failed call reports.

#include "windlass_internal.h"

const char *windlass_reason_name(windlass_reason reason) {
    static const char *const names[] = {"not-found", "already-exists", "conflict", "invalid", "forbidden", "not-granted", "not-watched",
        "namespace-terminating", "too-many-requests", "expired", "timeout", "unknown-outcome", "lease-lost", "read-only", "server-error",
        "too-large", "other"};
    return names[reason <= WINDLASS_OTHER ? reason : WINDLASS_OTHER];
}

// Limits a duration to the longest one that the interface can express.
static uint32_t cut_ms(uint64_t milliseconds) {
    return milliseconds > INT32_MAX ? INT32_MAX : (uint32_t)milliseconds;
}

const windlass_error *windlass_transient_text(windlass_text message) {
    windlass_error *error = windlass_alloc(sizeof *error);
    error->kind = WINDLASS_ERROR_TRANSIENT;
    error->message = windlass_text_copy(message);
    return error;
}

const windlass_error *windlass_transient_text_after_ms(uint64_t milliseconds, windlass_text message) {
    windlass_error *error = windlass_alloc(sizeof *error);
    error->kind = WINDLASS_ERROR_TRANSIENT;
    error->message = windlass_text_copy(message);
    error->has_retry_after = true;
    error->retry_after_ms = cut_ms(milliseconds);
    return error;
}

const windlass_error *windlass_terminal_text(windlass_text message) {
    windlass_error *error = windlass_alloc(sizeof *error);
    error->kind = WINDLASS_ERROR_TERMINAL;
    error->message = windlass_text_copy(message);
    return error;
}

const windlass_error *windlass_transient(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *message = windlass_format_list(format, arguments);
    va_end(arguments);
    return windlass_transient_text(windlass_text_of(message));
}

const windlass_error *windlass_transient_after_ms(uint64_t milliseconds, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *message = windlass_format_list(format, arguments);
    va_end(arguments);
    return windlass_transient_text_after_ms(milliseconds, windlass_text_of(message));
}

const windlass_error *windlass_terminal(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *message = windlass_format_list(format, arguments);
    va_end(arguments);
    return windlass_terminal_text(windlass_text_of(message));
}

// The text reads like `patch services Service prod/shop: Invalid: …`.
const windlass_error *windlass_api(const windlass_api_error *api) {
    windlass_error *error = windlass_alloc(sizeof *error);
    error->kind = WINDLASS_ERROR_API;
    error->api = *api;
    windlass_buffer text = {0};
    windlass_buffer_add_text(&text, api->verb);
    windlass_buffer_add_byte(&text, ' ');
    windlass_buffer_add_text(&text, api->resource);
    if (api->has_object) {
        windlass_buffer_add_byte(&text, ' ');
        windlass_buffer_add_text(&text, windlass_text_of(windlass_ref_text(&api->object)));
    }
    windlass_buffer_add(&text, ": ", 2);
    windlass_buffer_add_text(&text, api->status_reason);
    windlass_buffer_add(&text, ": ", 2);
    windlass_buffer_add_text(&text, api->message);
    error->message = windlass_buffer_text(&text);
    return error;
}

const windlass_error *windlass_error_of_json(const char *what, const windlass_json_error *error) {
    const char *offset = windlass_decimal((int64_t)error->offset);
    return windlass_terminal_text(windlass_text_of(windlass_concat(what, ": ", error->message, ", at byte ", offset)));
}

static windlass_text after(const char *context, windlass_text text) {
    windlass_buffer whole = {0};
    windlass_buffer_add_text(&whole, windlass_text_of(context));
    windlass_buffer_add(&whole, ": ", 2);
    windlass_buffer_add_text(&whole, text);
    return windlass_buffer_text(&whole);
}

const windlass_error *windlass_wrap(const windlass_error *error, const char *context) {
    if (error == NULL) {
        return NULL;
    }
    windlass_error *wrapped = windlass_alloc(sizeof *wrapped);
    *wrapped = *error;
    wrapped->message = after(context, error->message);
    // The host takes the text of an API error from this field, and adds the request and the object itself.
    wrapped->api.message = after(context, error->api.message);
    return wrapped;
}

bool windlass_is(const windlass_error *error, windlass_reason reason) {
    return error != NULL && error->kind == WINDLASS_ERROR_API && error->api.reason == reason;
}

// A deep copy with all texts, so that nothing is lost when memory after a mark is released.
static const windlass_error *kept_error(const windlass_error *error) {
    windlass_error *copy = windlass_alloc(sizeof *copy);
    *copy = *error;
    windlass_text *const texts[] = {&copy->message, &copy->api.status_reason, &copy->api.message, &copy->api.verb, &copy->api.resource,
        &copy->api.object.api_version, &copy->api.object.kind, &copy->api.object.namespace, &copy->api.object.name, &copy->api.object.uid};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        *texts[i] = windlass_text_copy(*texts[i]);
    }
    return copy;
}

windlass_outcome windlass_fail(windlass_failures *failures, const windlass_error *error) {
    if (error != NULL) {
        bool before = windlass_memory_keep(true);
        if (failures->count == failures->capacity) {
            size_t capacity = failures->capacity ? failures->capacity * 2 : 4;
            size_t each = sizeof(const windlass_error *);
            failures->errors = windlass_regrow(failures->errors, failures->capacity * each, capacity * each);
            failures->capacity = capacity;
        }
        failures->errors[failures->count++] = kept_error(error);
        windlass_memory_keep(before);
    }
    return WINDLASS_DONE;
}

windlass_outcome windlass_fail_api(windlass_failures *failures, const windlass_api_error *error) {
    return windlass_fail(failures, windlass_api(error));
}

windlass_outcome windlass_fail_transient(windlass_failures *failures, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *message = windlass_format_list(format, arguments);
    va_end(arguments);
    return windlass_fail(failures, windlass_transient_text(windlass_text_of(message)));
}

windlass_outcome windlass_fail_transient_after_ms(windlass_failures *failures, uint64_t milliseconds, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *message = windlass_format_list(format, arguments);
    va_end(arguments);
    return windlass_fail(failures, windlass_transient_text_after_ms(milliseconds, windlass_text_of(message)));
}

windlass_outcome windlass_fail_terminal(windlass_failures *failures, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *message = windlass_format_list(format, arguments);
    va_end(arguments);
    return windlass_fail(failures, windlass_terminal_text(windlass_text_of(message)));
}

windlass_outcome windlass_requeue_after_ms(uint64_t milliseconds) {
    return (windlass_outcome){.requeue = true, .requeue_after_ms = cut_ms(milliseconds)};
}

windlass_outcome windlass_requeue_with_backoff(void) {
    return (windlass_outcome){.requeue_with_backoff = true};
}
