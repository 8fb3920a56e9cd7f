// The remaining imports, `owners`, `triggers`, `events`, `metrics` and `http`, and the SDK's helpers for conditions and
// owners.

#include "probe.h"

static windlass_json *refs_shown(const windlass_ref *refs, size_t count) {
    windlass_json *list = windlass_empty_array();
    for (size_t i = 0; i < count; i++) {
        windlass_json_add(list, ref_shown(&refs[i]));
    }
    return list;
}

static struct answer claim(const windlass_json *step) {
    const windlass_json *kind = windlass_json_get(step, "kind");
    windlass_claimed claimed;
    windlass_failures failures = {0};
    if (windlass_owners_claim(
            text_in(kind, "apiVersion"), text_in(kind, "kind"), text_in(step, "labelSelector"), &claimed, &failures)) {
        return good(windlass_object(
            {"adopted", refs_shown(claimed.adopted, claimed.adopted_count)},
            {"released", refs_shown(claimed.released, claimed.released_count)}));
    }
    windlass_json *errors = windlass_empty_array();
    for (size_t i = 0; i < failures.count; i++) {
        windlass_json_add(errors, error_shown(failures.errors[i]));
    }
    return (struct answer){NULL, windlass_object({"errors", errors})};
}

static windlass_json *triggers_shown(windlass_triggers triggers) {
    windlass_json *list = windlass_empty_array();
    for (size_t i = 0; i < triggers.count; i++) {
        const windlass_trigger *trigger = &triggers.items[i];
        windlass_json_add(list, windlass_object(
            {"reason", windlass_string(trigger->reason)},
            {"watch", windlass_string(trigger->watch)},
            {"object", trigger->has_object ? ref_shown(&trigger->object) : NULL}));
    }
    return list;
}

static struct answer fetch(const windlass_json *step) {
    const windlass_json *given = windlass_json_get(step, "request");
    const windlass_json *bytes = windlass_json_at(given, "/body/bytes");
    windlass_http_request request = {
        .method = text_in(given, "method"),
        .url = text_in(given, "url"),
        .body = windlass_json_text_at(given, "/body/text"),
        .timeout_ms = number_in(given, "timeoutMs", 0),
    };
    request.headers = pairs_in(given, "headers", &request.header_count);
    if (bytes != NULL) {
        windlass_buffer buffer = {0};
        windlass_json_each(byte, bytes) {
            windlass_buffer_add_byte(&buffer, (char)windlass_json_int_at(byte, "", 0));
        }
        request.body = windlass_buffer_text(&buffer);
        request.is_bytes = true;
    }
    windlass_http_response response;
    windlass_http_error error;
    if (!windlass_http_fetch(&request, &response, &error)) {
        windlass_json *reason = windlass_string(windlass_http_reason_name(error.reason));
        return (struct answer){NULL, windlass_object({"reason", reason}, {"message", windlass_string(error.message)})};
    }
    windlass_json *headers = windlass_empty_array();
    for (size_t i = 0; i < response.header_count; i++) {
        windlass_json_add(
            headers, windlass_array(windlass_string(response.headers[i].name), windlass_string(response.headers[i].value)));
    }
    windlass_json *body = windlass_string(response.body);
    if (response.is_bytes) {
        body = windlass_empty_array();
        for (size_t i = 0; i < response.body.length; i++) {
            windlass_json_add(body, windlass_int((unsigned char)response.body.data[i]));
        }
    }
    return good(windlass_object({"status", windlass_int(response.status)}, {"headers", headers},
        {"body", windlass_object({response.is_bytes ? "bytes" : "text", body})}));
}

static windlass_json *conditions(const windlass_json *step) {
    static const char *const statuses[] = {"False", "True", "Unknown", NULL};
    windlass_json *list = windlass_json_get(step, "conditions");
    windlass_condition condition = {
        .type = text_in(step, "type"),
        .status = (windlass_condition_status)word_in(step, "status", statuses),
        .reason = text_in(step, "reason"),
        .message = text_in(step, "message"),
        .observed_generation = windlass_json_int_at(step, "/generation", 0),
    };
    windlass_conditions_set(list, &condition, windlass_clock_now);
    return list;
}

static windlass_json *measure(windlass_text call, const windlass_json *step) {
    double value = 0;
    size_t count;
    const windlass_field *labels = pairs_in(step, "labels", &count);
    windlass_json_read_double(windlass_json_get(step, "value"), &value);
    if (windlass_text_is(call, "metrics.add")) {
        windlass_metrics_add(text_in(step, "name"), value, labels, count);
    } else if (windlass_text_is(call, "metrics.set")) {
        windlass_metrics_set(text_in(step, "name"), value, labels, count);
    } else {
        windlass_metrics_observe(text_in(step, "name"), value, labels, count);
    }
    return NULL;
}

bool outside_call(windlass_text call, const windlass_json *step, struct answer *answer) {
    if (windlass_text_is(call, "owners.claim")) {
        *answer = claim(step);
    } else if (windlass_text_is(call, "triggers.list")) {
        *answer = good(triggers_shown(windlass_triggers_list()));
    } else if (windlass_text_is(call, "events.emit")) {
        windlass_event event = event_in(windlass_json_get(step, "event"));
        windlass_events_emit(&event);
        *answer = good(NULL);
    } else if (call.length > 8 && memcmp(call.data, "metrics.", 8) == 0) {
        *answer = good(measure(call, step));
    } else if (windlass_text_is(call, "http.fetch")) {
        *answer = fetch(step);
    } else if (windlass_text_is(call, "conditions.set")) {
        *answer = good(conditions(step));
    } else if (windlass_text_is(call, "owner-reference")) {
        *answer = good(windlass_owner_reference(windlass_json_get(step, "object")));
    } else {
        return false;
    }
    return true;
}
