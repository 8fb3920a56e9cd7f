// Records what a plugin did in a unit test.

#ifndef __wasm__

#include "windlass_test_internal.h"

void windlass_fake_keep(windlass_fake_list *into, void *item) {
    size_t size = sizeof *into->items;
    into->items = windlass_regrow(into->items, into->count * size, (into->count + 1) * size);
    into->items[into->count++] = item;
}

const windlass_field *windlass_fake_fields(const windlass_field *fields, size_t count) {
    windlass_field *copy = windlass_alloc_array(count, sizeof *copy);
    for (size_t i = 0; i < count; i++) {
        copy[i] = (windlass_field){windlass_text_copy(fields[i].name), windlass_text_copy(fields[i].value)};
    }
    return copy;
}

const char *const *windlass_fake_texts(const char *const *texts) {
    size_t count = 0;
    while (texts != NULL && texts[count] != NULL) {
        count++;
    }
    const char **copy = windlass_alloc_array(count + 1, sizeof *copy);
    for (size_t i = 0; i < count; i++) {
        copy[i] = windlass_concat(texts[i]);
    }
    return texts ? copy : NULL;
}

windlass_ref windlass_fake_ref(const windlass_ref *ref) {
    return (windlass_ref){
        .api_version = windlass_text_copy(ref->api_version),
        .kind = windlass_text_copy(ref->kind),
        .namespace = windlass_text_copy(ref->namespace),
        .name = windlass_text_copy(ref->name),
        .uid = windlass_text_copy(ref->uid),
    };
}

const windlass_ref *windlass_fake_ref_or_none(const windlass_ref *ref) {
    if (ref == NULL) {
        return NULL;
    }
    windlass_ref *copy = windlass_alloc(sizeof *copy);
    *copy = windlass_fake_ref(ref);
    return copy;
}

const char *windlass_fake_last_line(void) {
    size_t count = windlass_fake.lines.count;
    return count > 0 ? windlass_test_line_at(count - 1)->message.data : "panic";
}

static void *at(const windlass_fake_list *from, size_t index, const char *what) {
    if (index >= from->count) {
        windlass_test_fail_check("the record", (int)index, what, "not there");
    }
    return from->items[index];
}

size_t windlass_test_write_count(void) { return windlass_fake.writes.count; }
const windlass_test_write *windlass_test_write_at(size_t index) { return at(&windlass_fake.writes, index, "a write"); }
size_t windlass_test_event_count(void) { return windlass_fake.events.count; }
const windlass_event *windlass_test_event_at(size_t index) { return at(&windlass_fake.events, index, "an event"); }
size_t windlass_test_line_count(void) { return windlass_fake.lines.count; }
const windlass_test_line *windlass_test_line_at(size_t index) { return at(&windlass_fake.lines, index, "a line of the log"); }
size_t windlass_test_metric_count(void) { return windlass_fake.metrics.count; }
const windlass_test_metric *windlass_test_metric_at(size_t index) { return at(&windlass_fake.metrics, index, "a metric"); }
size_t windlass_test_read_count(void) { return windlass_fake.reads; }
size_t windlass_test_http_count(void) { return windlass_fake.requests.count; }
const windlass_http_request *windlass_test_http_at(size_t index) { return at(&windlass_fake.requests, index, "an HTTP request"); }

#else

typedef int windlass_no_record_in_a_component;

#endif
