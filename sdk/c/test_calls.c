// Runs a plugin's functions for a unit test.

#ifndef __wasm__

#include "windlass_test_internal.h"

windlass_failures windlass_test_failures;

// A plugin is a reconciler or a composer. These weak definitions replace the function that it does not have.
__attribute__((weak)) windlass_outcome windlass_plugin_reconcile(const windlass_request *request, windlass_failures *failures) {
    (void)request;
    (void)failures;
    windlass_trap("the plugin does not reconcile");
}

__attribute__((weak)) void windlass_plugin_compose(
    const windlass_composition_request *request, windlass_composition *composition, windlass_failures *failures) {
    (void)request;
    (void)composition;
    (void)failures;
    windlass_trap("the plugin does not compose");
}

__attribute__((weak)) const windlass_mapper windlass_plugin_mapper = {0};

__attribute__((weak)) void windlass_plugin_customize(
    const windlass_request *request, windlass_related_rules *rules, windlass_failures *failures) {
    (void)request;
    (void)rules;
    (void)failures;
    windlass_trap("the plugin has no customizer: add one with WINDLASS_CUSTOMIZER");
}

__attribute__((weak)) const windlass_manifest *windlass_plugin_manifest(void) {
    windlass_trap("there is no plugin");
}

static windlass_request request_about(windlass_json *object) {
    windlass_ref self = windlass_ref_to(object);
    return (windlass_request){
        .controller = windlass_text("test"),
        .namespace = self.namespace,
        .name = self.name,
        .uid = self.uid,
        .object = object,
        .deleting = windlass_json_at(object, "/metadata/deletionTimestamp") != NULL,
        .trace_id = windlass_text("00000000000000000000000000000001"),
    };
}

windlass_outcome windlass_test_reconcile_request(const windlass_request *request) {
    windlass_test_failures = (windlass_failures){0};
    windlass_fake.primary = request->object;
    return windlass_plugin_reconcile(request, &windlass_test_failures);
}

windlass_outcome windlass_test_reconcile(const char *object) {
    windlass_request request = {.controller = windlass_text("test"), .name = windlass_text("gone"), .trace_id = windlass_text("1")};
    if (object != NULL) {
        request = request_about(windlass_test_put(object));
    }
    return windlass_test_reconcile_request(&request);
}

static windlass_json **elements(const char *text, size_t *count) {
    windlass_json *list = text ? windlass_test_json(text) : windlass_empty_array();
    windlass_json **items = windlass_alloc_array(list->count, sizeof *items);
    *count = 0;
    windlass_json_each(item, list) {
        items[(*count)++] = item;
    }
    return items;
}

// Ends the call if a composed object does not fit its kind: the real host could not write it.
static void judge(const windlass_json *object, bool is_about_status) {
    windlass_json *filled = windlass_json_copy(object);
    windlass_fake_fill(filled);
    const char *misfits = windlass_fake_misfits(filled, is_about_status, true);
    if (misfits != NULL) {
        windlass_ref self = windlass_ref_to(object);
        windlass_trap(windlass_concat(windlass_ref_text(&self), ": ", misfits));
    }
}

windlass_composition windlass_test_compose(const char *parent, const char *children, const char *related) {
    windlass_test_failures = (windlass_failures){0};
    windlass_json *object = windlass_test_json(parent);
    windlass_composition_request request = {.request = request_about(object), .parent = object};
    request.config = windlass_test_json(windlass_fake.config);
    request.request.object = NULL;
    request.children = elements(children, &request.child_count);
    request.related = elements(related, &request.related_count);
    windlass_composition composition = {.children = windlass_empty_array()};
    windlass_plugin_compose(&request, &composition, &windlass_test_failures);
    if (windlass_test_failures.count > 0) {
        return composition;
    }
    windlass_json_each(child, composition.children) {
        judge(child, false);
    }
    if (composition.status != NULL) {
        object = windlass_json_copy(object);
        windlass_json_set(object, "status", windlass_json_copy(composition.status));
        judge(object, true);
    }
    return composition;
}

static windlass_change change_of(const char *watch, const char *old, const char *new) {
    windlass_test_failures = (windlass_failures){0};
    return (windlass_change){
        .controller = windlass_text("test"),
        .watch = windlass_text(watch),
        .old = old ? windlass_test_json(old) : NULL,
        .new = new ? windlass_test_json(new) : NULL,
    };
}

windlass_targets windlass_test_map(const char *watch, const char *old, const char *new) {
    windlass_change change = change_of(watch, old, new);
    return windlass_map_change(&windlass_plugin_mapper, &change, &windlass_test_failures);
}

bool windlass_test_matches(const char *watch, const char *old, const char *new) {
    windlass_change change = change_of(watch, old, new);
    return windlass_match_change(&windlass_plugin_mapper, &change, &windlass_test_failures);
}

windlass_related_rules windlass_test_customize(const char *parent) {
    windlass_test_failures = (windlass_failures){0};
    windlass_request request = request_about(windlass_test_json(parent));
    windlass_related_rules rules = {0};
    windlass_plugin_customize(&request, &rules, &windlass_test_failures);
    return rules;
}

windlass_json *windlass_test_describe(void) {
    return windlass_json_parse(windlass_manifest_text(windlass_plugin_manifest()), NULL);
}

#else

typedef int windlass_no_calls_in_a_component;

#endif
