// The reads of the unit tests' host.

#ifndef __wasm__

#include "windlass_test_internal.h"

const windlass_json *windlass_fake_projected(const windlass_json *object, const char *const *fields) {
    if (fields == NULL) {
        return object;
    }
    static const char *const identity[] = {"/apiVersion", "/kind", "/metadata/name", "/metadata/namespace", "/metadata/uid"};
    windlass_json *part = windlass_empty_object();
    for (size_t i = 0; i < sizeof identity / sizeof *identity; i++) {
        windlass_json *value = windlass_json_at(object, identity[i]);
        if (value != NULL) {
            windlass_json_set_at(part, identity[i], windlass_json_copy(value));
        }
    }
    for (; *fields != NULL; fields++) {
        windlass_json *value = windlass_json_at(object, *fields);
        if (value != NULL) {
            windlass_json_set_at(part, *fields, windlass_json_copy(value));
        }
    }
    return part;
}

static void get(const windlass_ref *target, const char *const *fields, windlass_host_answer *answer) {
    windlass_fake.reads++;
    answer->failed = windlass_fake_fails("get", target, &answer->error);
    windlass_json *object = windlass_fake_lookup(target);
    answer->object = !answer->failed && object ? windlass_json_print(windlass_fake_projected(object, fields)) : WINDLASS_NONE;
}

void windlass_host_cache_get(const windlass_ref *target, const char *const *fields, windlass_host_answer *answer) {
    get(target, fields, answer);
}

void windlass_host_cache_get_many(
    const windlass_ref *targets, size_t count, const char *const *fields, windlass_host_answer *answers) {
    for (size_t i = 0; i < count; i++) {
        get(&targets[i], fields, &answers[i]);
    }
}

static windlass_text viewed(const windlass_json *object, const windlass_view *view) {
    if (!view->metadata_only) {
        return windlass_json_print(windlass_fake_projected(object, view->fields));
    }
    return windlass_json_print(windlass_object(
        {"apiVersion", windlass_json_copy(windlass_json_get(object, "apiVersion"))},
        {"kind", windlass_json_copy(windlass_json_get(object, "kind"))},
        {"metadata", windlass_json_copy(windlass_json_get(object, "metadata"))}));
}

static windlass_json *scale_of(const windlass_json *object) {
    return windlass_object(
        {"apiVersion", windlass_string("autoscaling/v1")},
        {"kind", windlass_string("Scale")},
        {"metadata", windlass_json_copy(windlass_json_get(object, "metadata"))},
        {"spec", windlass_object({"replicas", windlass_int(windlass_json_int_at(object, "/spec/replicas", 0))})},
        {"status", windlass_object({"replicas", windlass_int(windlass_json_int_at(object, "/status/replicas", 0))})});
}

void windlass_host_live_get(const windlass_ref *target, const windlass_live_options *options, windlass_host_answer *answer) {
    windlass_fake.reads++;
    answer->failed = windlass_fake_fails("get", target, &answer->error);
    const windlass_json *object = windlass_fake_lookup(target);
    if (answer->failed || object == NULL) {
        return;
    }
    if (windlass_text_is(options->subresource, "scale")) {
        object = scale_of(object);
    } else if (options->subresource.data != NULL && !windlass_text_is(options->subresource, "status")) {
        answer->failed = true;
        answer->error = windlass_fake_error(WINDLASS_NOT_FOUND, "get", target);
        // As on the real host, the error names no object, because the object itself exists.
        answer->error.has_object = false;
        return;
    }
    answer->object = viewed(object, &options->view);
}

// The start of the last `lines` lines.
static const char *tail(const char *log, uint32_t lines) {
    const char *from = log + strlen(log);
    for (uint32_t left = lines; from > log; from--) {
        bool is_end_of_line = from[-1] == '\n' && from[0] != 0;
        if (is_end_of_line && --left == 0) {
            break;
        }
    }
    return from;
}

void windlass_host_live_log(const windlass_ref *pod, const windlass_log_query *query, windlass_host_answer *answer) {
    windlass_fake.reads++;
    answer->failed = windlass_fake_fails("get", pod, &answer->error);
    const char *log = windlass_fake_log(pod);
    if (!answer->failed && log == NULL) {
        answer->failed = true;
        answer->error = windlass_fake_error(WINDLASS_NOT_FOUND, "get", pod);
    }
    if (answer->failed) {
        return;
    }
    windlass_text text = windlass_text(query->tail_lines ? tail(log, query->tail_lines) : log);
    if (query->limit_bytes != 0 && text.length > query->limit_bytes) {
        text.length = query->limit_bytes;
    }
    answer->object = windlass_text_copy(text);
}

static windlass_served_kind served_kind(windlass_text kind) {
    windlass_text *verbs = windlass_alloc_array(2, sizeof *verbs);
    verbs[0] = windlass_text("get");
    verbs[1] = windlass_text("list");
    windlass_text *status = windlass_alloc_array(1, sizeof *status);
    status[0] = windlass_text("status");
    char *plural = (char *)(uintptr_t)windlass_concat(kind.data, "s");
    for (size_t i = 0; i < kind.length; i++) {
        plural[i] = plural[i] >= 'A' && plural[i] <= 'Z' ? (char)(plural[i] | 0x20) : plural[i];
    }
    return (windlass_served_kind){windlass_text(plural), true, verbs, 2, status, 1};
}

// The API group of a version; empty for the core group.
static windlass_text group_of(windlass_text api_version) {
    const char *slash = memchr(api_version.data, '/', api_version.length);
    return slash ? (windlass_text){api_version.data, (size_t)(slash - api_version.data)} : windlass_text("");
}

bool windlass_host_live_served(
    windlass_text api_version, windlass_text kind, windlass_served_kind *served, windlass_api_error *error) {
    windlass_ref target = {.api_version = api_version, .kind = kind};
    windlass_fake.reads++;
    if (windlass_fake_fails("served", &target, error)) {
        return false;
    }
    if (!windlass_fake_is_unserved(&target)) {
        *served = served_kind(kind);
    }
    return true;
}

// Finds the place of a kind in the list: after the kinds of a lower group, name or version. Returns NULL if the list has
// the kind already, at a lower version.
static windlass_listed_kind *place_of(windlass_listed_kinds *kinds, const windlass_listed_kind *kind) {
    windlass_listed_kind *place = kinds->items;
    for (; place < kinds->items + kinds->count; place++) {
        int order = windlass_text_compare(group_of(place->api_version), group_of(kind->api_version));
        order = order ? order : windlass_text_compare(place->kind, kind->kind);
        if (order == 0 && windlass_text_compare(place->api_version, kind->api_version) <= 0) {
            return NULL;
        }
        if (order >= 0) {
            break;
        }
    }
    return place;
}

// Adds the kind of an object or a definition to the list, unless the list has it already.
static void add_kind(windlass_listed_kinds *kinds, const windlass_json *object) {
    windlass_listed_kind kind = {
        .api_version = windlass_json_text_at(object, "/apiVersion"),
        .kind = windlass_json_text_at(object, "/kind"),
    };
    windlass_ref target = {.api_version = kind.api_version, .kind = kind.kind};
    windlass_listed_kind *place = windlass_fake_is_unserved(&target) ? NULL : place_of(kinds, &kind);
    if (place == NULL) {
        return;
    }
    kind.served = served_kind(kind.kind);
    windlass_listed_kind *end = kinds->items + kinds->count;
    bool replaces = place < end && windlass_text_equal(place->kind, kind.kind)
                    && windlass_text_equal(group_of(place->api_version), group_of(kind.api_version));
    if (!replaces) {
        memmove(place + 1, place, (size_t)(end - place) * sizeof *place);
        kinds->count++;
    }
    *place = kind;
}

bool windlass_host_live_kinds(windlass_listed_kinds *kinds, windlass_api_error *error) {
    windlass_fake.reads++;
    if (windlass_fake_fails("kinds", &(windlass_ref){.kind = windlass_text("")}, error)) {
        return false;
    }
    kinds->items = windlass_alloc_array(windlass_fake.objects->count + windlass_fake.definitions->count, sizeof *kinds->items);
    windlass_json_each(object, windlass_fake.objects) {
        add_kind(kinds, object);
    }
    windlass_json_each(definition, windlass_fake.definitions) {
        add_kind(kinds, definition);
    }
    return true;
}

// Lists the objects of a kind with the selector's labels. A namespace and `owned` restrict the list further.
static void list(
    const windlass_ref *kind, windlass_text selector, bool owned, const windlass_view *view, windlass_host_page *page) {
    windlass_fake.reads++;
    page->failed = windlass_fake_fails("list", kind, &page->error);
    if (page->failed) {
        return;
    }
    page->items = windlass_alloc_array(windlass_fake.objects->count, sizeof *page->items);
    windlass_json_each(object, windlass_fake.objects) {
        windlass_ref self = windlass_ref_to(object);
        bool is_owned = windlass_is_controlled_by(object, windlass_fake.primary);
        bool is_meant = windlass_text_equal(self.kind, kind->kind) && windlass_text_equal(self.api_version, kind->api_version)
                        && (kind->namespace.data == NULL || windlass_text_equal(self.namespace, kind->namespace))
                        && (!owned || is_owned) && windlass_fake_has_labels(object, selector);
        if (is_meant) {
            page->items[page->count++] = viewed(object, view);
        }
    }
}

void windlass_host_cache_list(const windlass_cache_query *query, windlass_host_page *page) {
    if (query->index.name.data != NULL) {
        windlass_trap("the test host has no indexes");
    }
    windlass_ref kind = {.api_version = query->api_version, .kind = query->kind, .namespace = query->namespace};
    list(&kind, query->label_selector, query->owned, &(windlass_view){.fields = query->fields}, page);
}

void windlass_host_live_list(const windlass_live_query *query, windlass_host_page *page) {
    windlass_ref kind = {.api_version = query->api_version, .kind = query->kind, .namespace = query->namespace};
    list(&kind, query->label_selector, false, &query->view, page);
}

#else

typedef int windlass_no_reads_in_a_component;

#endif
