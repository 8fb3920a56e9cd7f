// The functions of the unit tests' host other than reads and writes: log, clock, randomness, configuration, triggers,
// events, metrics and HTTP.

#ifndef __wasm__

#include "windlass_test_internal.h"

void windlass_host_log(windlass_level level, windlass_text message, const windlass_field *fields, size_t count) {
    bool before = windlass_memory_keep(true);
    windlass_test_line *line = windlass_alloc(sizeof *line);
    *line = (windlass_test_line){level, windlass_text_copy(message), windlass_fake_fields(fields, count), count};
    windlass_fake_keep(&windlass_fake.lines, line);
    windlass_memory_keep(before);
}

windlass_instant windlass_host_now(void) { return windlass_fake.now; }
uint32_t windlass_host_random_u32(void) { return ++windlass_fake.drawn * 2654435769u; }
windlass_text windlass_host_config(void) { return windlass_text(windlass_fake.config); }

void windlass_host_random_bytes(void *bytes, uint32_t length) {
    for (uint32_t i = 0; i < length; i++) {
        ((unsigned char *)bytes)[i] = (unsigned char)(windlass_host_random_u32() >> 24);
    }
}

windlass_triggers windlass_host_triggers(void) {
    size_t count = windlass_fake.triggers.count;
    windlass_trigger *triggers = windlass_alloc_array(count, sizeof *triggers);
    for (size_t i = 0; i < count; i++) {
        triggers[i] = *(const windlass_trigger *)windlass_fake.triggers.items[i];
    }
    return (windlass_triggers){triggers, count};
}

void windlass_host_emit(const windlass_event *event) {
    bool before = windlass_memory_keep(true);
    windlass_event *copy = windlass_alloc(sizeof *copy);
    *copy = *event;
    copy->reason = windlass_text_copy(event->reason);
    copy->action = windlass_text_copy(event->action);
    copy->note = windlass_text_copy(event->note);
    copy->regarding = windlass_fake_ref_or_none(event->regarding);
    copy->related = windlass_fake_ref_or_none(event->related);
    windlass_fake_keep(&windlass_fake.events, copy);
    windlass_memory_keep(before);
}

void windlass_host_metric_value(
    windlass_host_metric what, windlass_text name, double value, const windlass_field *labels, size_t count) {
    static const char *const names[] = {"add", "set", "observe"};
    bool before = windlass_memory_keep(true);
    windlass_test_metric *metric = windlass_alloc(sizeof *metric);
    *metric = (windlass_test_metric){names[what], windlass_text_copy(name), value, windlass_fake_fields(labels, count), count};
    windlass_fake_keep(&windlass_fake.metrics, metric);
    windlass_memory_keep(before);
}

bool windlass_host_fetch(const windlass_http_request *request, windlass_http_response *response, windlass_http_error *error) {
    bool before = windlass_memory_keep(true);
    windlass_http_request *copy = windlass_alloc(sizeof *copy);
    *copy = *request;
    copy->method = windlass_text_copy(request->method);
    copy->url = windlass_text_copy(request->url);
    copy->body = windlass_text_copy(request->body);
    copy->headers = windlass_fake_fields(request->headers, request->header_count);
    windlass_fake_keep(&windlass_fake.requests, copy);
    windlass_memory_keep(before);
    const windlass_http_response *answer = windlass_fake_answer();
    if (answer == NULL) {
        *error = (windlass_http_error){WINDLASS_HTTP_NOT_GRANTED, windlass_text("the test has set no response")};
        return false;
    }
    *response = *answer;
    return true;
}

#else

typedef int windlass_no_host_in_a_component;

#endif
