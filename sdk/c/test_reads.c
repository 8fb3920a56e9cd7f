// Reads, as the host of a unit test answers them.

#ifndef __wasm__

#include "windlass_test_internal.h"

static void get(const windlass_ref *target, windlass_host_answer *answer) {
    windlass_fake.reads++;
    answer->failed = windlass_fake_fails("get", target, &answer->error);
    windlass_json *object = windlass_fake_lookup(target);
    answer->object = !answer->failed && object ? windlass_json_print(object) : WINDLASS_NONE;
}

void windlass_host_cache_get(const windlass_ref *target, const char *const *fields, windlass_host_answer *answer) {
    (void)fields;
    get(target, answer);
}

void windlass_host_cache_get_many(
    const windlass_ref *targets, size_t count, const char *const *fields, windlass_host_answer *answers) {
    (void)fields;
    for (size_t i = 0; i < count; i++) {
        get(&targets[i], &answers[i]);
    }
}

void windlass_host_live_get(const windlass_ref *target, windlass_host_answer *answer) {
    get(target, answer);
}

// Objects of a kind, in a namespace perhaps, that the primary owns perhaps, with the labels of a selector.
static void list(const windlass_ref *kind, windlass_text selector, bool owned, windlass_host_page *page) {
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
            page->items[page->count++] = windlass_json_print(object);
        }
    }
}

void windlass_host_cache_list(const windlass_cache_query *query, windlass_host_page *page) {
    if (query->index.name.data != NULL) {
        windlass_trap("the host of tests has no indexes");
    }
    windlass_ref kind = {.api_version = query->api_version, .kind = query->kind, .namespace = query->namespace};
    list(&kind, query->label_selector, query->owned, page);
}

void windlass_host_live_list(const windlass_live_query *query, windlass_host_page *page) {
    windlass_ref kind = {.api_version = query->api_version, .kind = query->kind, .namespace = query->namespace};
    list(&kind, query->label_selector, false, page);
}

#else

typedef int windlass_no_reads_in_a_component;

#endif
