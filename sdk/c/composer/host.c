// For composers: the host's functions, called through the bindings, and the functions that the host calls.

#ifdef __wasm__

#include "wire.h"

#include "../windlass_bridge_host.h"

static windlass_json **lift_all(
    const exports_windlass_plugin_composer_list_json_t *wire, const char *what, windlass_failures *failures) {
    windlass_json **objects = windlass_alloc_array(wire->len, sizeof *objects);
    for (size_t i = 0; i < wire->len; i++) {
        objects[i] = lift_json(lift(wire->ptr[i]), what, failures);
    }
    return objects;
}

static exports_windlass_plugin_composer_composition_t lower_composition(const windlass_composition *composition) {
    size_t count = composition->children->count;
    wire_text *children = windlass_alloc_array(count, sizeof *children);
    size_t used = 0;
    windlass_json_each(child, composition->children) {
        children[used++] = lower(windlass_json_print(child));
    }
    windlass_plugin_types_event_t *events = windlass_alloc_array(composition->event_count, sizeof *events);
    for (size_t i = 0; i < composition->event_count; i++) {
        events[i] = lower_event(&composition->events[i]);
    }
    exports_windlass_plugin_composer_composition_t wire = {
        .children = {children, count},
        .status = {.is_some = composition->status != NULL},
        .events = {events, composition->event_count},
        .requeue =
            {
                .is_some = composition->requeue || composition->requeue_with_backoff,
                .val = lower_requeue(composition->requeue_with_backoff, composition->requeue_after_ms),
            },
        .allow_empty = composition->allow_empty,
        .finalized = composition->finalized,
    };
    if (composition->status != NULL) {
        wire.status.val = lower(windlass_json_print(composition->status));
    }
    return wire;
}

void exports_windlass_plugin_composer_describe(exports_windlass_plugin_composer_json_t *manifest) {
    windlass_call_begin();
    *manifest = lower(windlass_manifest_text(windlass_plugin_manifest()));
    windlass_call_end();
}

bool exports_windlass_plugin_composer_compose(exports_windlass_plugin_composer_composition_request_t *wire,
    exports_windlass_plugin_composer_composition_t *answer, exports_windlass_plugin_composer_list_failure_t *failed) {
    windlass_call_begin();
    windlass_failures failures = {0};
    windlass_composition_request request = {
        .request = lift_request(&wire->request, &failures),
        .parent = lift_json(lift(wire->parent), "the parent", &failures),
        .children = lift_all(&wire->children, "a child", &failures),
        .child_count = wire->children.len,
        .related = lift_all(&wire->related, "a related object", &failures),
        .related_count = wire->related.len,
        .config = lift_json(lift(wire->config), "the configuration", &failures),
    };
    windlass_composition composition = {.children = windlass_empty_array()};
    if (failures.count == 0) {
        windlass_plugin_compose(&request, &composition, &failures);
    }
    *answer = lower_composition(&composition);
    *failed = (exports_windlass_plugin_composer_list_failure_t){lower_failures(&failures), failures.count};
    windlass_call_end();
    return failures.count == 0;
}

// The host calls this once it has read the result. It replaces the bindings' function.

void __wasm_export_exports_windlass_plugin_composer_describe_post_return(uint8_t *answer);
void __wasm_export_exports_windlass_plugin_composer_compose_post_return(uint8_t *answer);

__attribute__((__export_name__("cabi_post_windlass:plugin/composer@0.3.0#describe"))) void
__wasm_export_exports_windlass_plugin_composer_describe_post_return(uint8_t *answer) {
    (void)answer;
    windlass_memory_clear();
}

__attribute__((__export_name__("cabi_post_windlass:plugin/composer@0.3.0#compose"))) void
__wasm_export_exports_windlass_plugin_composer_compose_post_return(uint8_t *answer) {
    (void)answer;
    windlass_memory_clear();
}

#else

typedef int windlass_no_host_natively;

#endif
