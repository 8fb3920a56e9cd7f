// The arguments of steps and the form of results, with WIT's names in camelCase.

#include "probe.h"

windlass_text text_in(const windlass_json *step, const char *name) {
    return windlass_json_text(windlass_json_get(step, name));
}

uint32_t number_in(const windlass_json *step, const char *name, uint32_t otherwise) {
    uint64_t number;
    return windlass_json_read_uint(windlass_json_get(step, name), &number) ? (uint32_t)number : otherwise;
}

bool truth_in(const windlass_json *step, const char *name) {
    return windlass_json_is_true(windlass_json_get(step, name));
}

windlass_ref ref_in(const windlass_json *value) {
    return (windlass_ref){
        .api_version = text_in(value, "apiVersion"),
        .kind = text_in(value, "kind"),
        .namespace = text_in(value, "namespace"),
        .name = text_in(value, "name"),
        .uid = text_in(value, "uid"),
    };
}

const char *const *texts_in(const windlass_json *step, const char *name) {
    const windlass_json *list = windlass_json_get(step, name);
    if (windlass_json_is_null(list)) {
        return NULL;
    }
    const char **texts = windlass_alloc_array(list->count + 1, sizeof *texts);
    size_t count = 0;
    windlass_json_each(text, list) {
        texts[count++] = windlass_json_text(text).data;
    }
    return texts;
}

windlass_field *pairs_in(const windlass_json *step, const char *name, size_t *count) {
    const windlass_json *list = windlass_json_get(step, name);
    windlass_field *pairs = windlass_alloc_array(list ? list->count : 0, sizeof *pairs);
    *count = 0;
    windlass_json_each(pair, list) {
        windlass_text key = windlass_json_text(windlass_json_element(pair, 0));
        pairs[(*count)++] = (windlass_field){key, windlass_json_text(windlass_json_element(pair, 1))};
    }
    return pairs;
}

int word_in(const windlass_json *step, const char *name, const char *const *words) {
    windlass_text word = text_in(step, name);
    for (int i = 0; words[i] != NULL; i++) {
        if (windlass_text_is(word, words[i])) {
            return i;
        }
    }
    return -1;
}

static const windlass_ref *optional_ref(const windlass_json *value) {
    if (windlass_json_is_null(value)) {
        return NULL;
    }
    windlass_ref *ref = windlass_alloc(sizeof *ref);
    *ref = ref_in(value);
    return ref;
}

windlass_event event_in(const windlass_json *value) {
    return (windlass_event){
        .type = windlass_text_is(text_in(value, "eventType"), "warning") ? WINDLASS_EVENT_WARNING : WINDLASS_EVENT_NORMAL,
        .reason = text_in(value, "reason"),
        .action = text_in(value, "action"),
        .note = text_in(value, "note"),
        .regarding = optional_ref(windlass_json_get(value, "regarding")),
        .related = optional_ref(windlass_json_get(value, "related")),
    };
}

static windlass_reason reason_in(const windlass_json *value) {
    for (windlass_reason reason = WINDLASS_NOT_FOUND; reason <= WINDLASS_OTHER; reason++) {
        if (windlass_text_is(text_in(value, "reason"), windlass_reason_name(reason))) {
            return reason;
        }
    }
    windlass_panic("conformance: there is no such reason");
}

windlass_api_error api_error_in(const windlass_json *value) {
    const windlass_json *object = windlass_json_get(value, "object");
    return (windlass_api_error){
        .code = (uint16_t)number_in(value, "code", 0),
        .reason = reason_in(value),
        .status_reason = text_in(value, "statusReason"),
        .message = text_in(value, "message"),
        .has_retry_after = !windlass_json_is_null(windlass_json_get(value, "retryAfterMs")),
        .retry_after_ms = number_in(value, "retryAfterMs", 0),
        .verb = text_in(value, "verb"),
        .resource = text_in(value, "resource"),
        .has_object = !windlass_json_is_null(object),
        .object = ref_in(object),
    };
}

windlass_json *ref_shown(const windlass_ref *ref) {
    return windlass_object(
        {"apiVersion", windlass_string(ref->api_version)},
        {"kind", windlass_string(ref->kind)},
        {"namespace", windlass_string(ref->namespace)},
        {"name", windlass_string(ref->name)},
        {"uid", windlass_string(ref->uid)});
}

windlass_json *api_error_shown(const windlass_api_error *error) {
    return windlass_object(
        {"code", windlass_int(error->code)},
        {"reason", windlass_string(windlass_reason_name(error->reason))},
        {"statusReason", windlass_string(error->status_reason)},
        {"message", windlass_string(error->message)},
        {"retryAfterMs", error->has_retry_after ? windlass_uint(error->retry_after_ms) : NULL},
        {"verb", windlass_string(error->verb)},
        {"resource", windlass_string(error->resource)},
        {"object", error->has_object ? ref_shown(&error->object) : NULL});
}

windlass_json *error_shown(const windlass_error *error) {
    return error->kind == WINDLASS_ERROR_API ? api_error_shown(&error->api)
                                             : windlass_object({"message", windlass_string(error->message)});
}

struct answer object_or(windlass_json *object, const windlass_error *error) {
    return error ? (struct answer){NULL, error_shown(error)} : good(object);
}

windlass_json *shown(struct answer answer) {
    return answer.error ? windlass_object({"error", answer.error}) : windlass_object({"ok", answer.ok});
}
