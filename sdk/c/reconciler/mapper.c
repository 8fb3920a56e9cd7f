// The host's calls of a mapper. In a plugin without a mapper nothing calls this code, so the linker drops it.

#ifdef __wasm__

#include "wire.h"

typedef exports_windlass_plugin_mapper_target_t wire_target;

static wire_target lower_target(const windlass_target *target) {
    if (target->index.data != NULL) {
        return (wire_target){
            .tag = EXPORTS_WINDLASS_PLUGIN_MAPPER_TARGET_INDEXED,
            .val.indexed = {.index = lower(target->index), .value = lower(target->value)},
        };
    }
    return (wire_target){
        .tag = EXPORTS_WINDLASS_PLUGIN_MAPPER_TARGET_PRIMARY,
        .val.primary = {.namespace_ = lower_option(target->namespace), .name = lower(target->name)},
    };
}

static exports_windlass_plugin_mapper_list_target_t lower_targets(const windlass_targets *targets) {
    wire_target *wire = windlass_alloc_array(targets->count, sizeof *wire);
    for (size_t i = 0; i < targets->count; i++) {
        wire[i] = lower_target(&targets->items[i]);
    }
    return (exports_windlass_plugin_mapper_list_target_t){wire, targets->count};
}

static windlass_json *lift_state(const exports_windlass_plugin_mapper_option_json_t *wire, windlass_failures *failures) {
    return wire->is_some ? lift_json(lift(wire->val), "the changed object", failures) : NULL;
}

// Adds the object whose change the mapper has failed to handle to the text of the error.
static void name_object(const windlass_change *change, windlass_failures *failures) {
    windlass_ref ref = windlass_ref_to(change->new ? change->new : change->old);
    for (size_t i = 0; i < failures->count && ref.name.data != NULL; i++) {
        bool before = windlass_memory_keep(true);
        failures->errors[i] = windlass_wrap(failures->errors[i], windlass_ref_text(&ref));
        windlass_memory_keep(before);
    }
}

static windlass_change lift_change(
    const exports_windlass_plugin_mapper_change_batch_t *batch, size_t index, windlass_failures *failures) {
    return (windlass_change){
        .controller = lift(batch->controller),
        .watch = lift(batch->watch),
        .old = lift_state(&batch->changes.ptr[index].old, failures),
        .new = lift_state(&batch->changes.ptr[index].new_, failures),
    };
}

// The objects of one change are freed before the objects of the next change are read.
static windlass_targets map_change(const exports_windlass_plugin_mapper_change_batch_t *batch, size_t index, windlass_failures *failures) {
    windlass_mark mark = windlass_memory_mark();
    windlass_change change = lift_change(batch, index, failures);
    windlass_targets targets = {0};
    if (failures->count == 0) {
        targets = windlass_map_change(&windlass_plugin_mapper, &change, failures);
    }
    name_object(&change, failures);
    windlass_memory_release(mark);
    return targets;
}

static bool match_change(const exports_windlass_plugin_mapper_change_batch_t *batch, size_t index, windlass_failures *failures) {
    if (windlass_plugin_mapper.matches == NULL) {
        return true;
    }
    windlass_mark mark = windlass_memory_mark();
    windlass_change change = lift_change(batch, index, failures);
    bool counts = failures->count == 0 && windlass_match_change(&windlass_plugin_mapper, &change, failures);
    name_object(&change, failures);
    windlass_memory_release(mark);
    return counts;
}

// Joins the messages of all failures, because the host takes only one text.
static windlass_text all_messages(const windlass_failures *failures) {
    windlass_buffer text = {0};
    for (size_t i = 0; i < failures->count; i++) {
        windlass_buffer_add(&text, "; ", i > 0 ? 2 : 0);
        windlass_buffer_add_text(&text, failures->errors[i]->message);
    }
    return windlass_buffer_text(&text);
}

bool exports_windlass_plugin_mapper_map(
    exports_windlass_plugin_mapper_change_batch_t *batch, exports_windlass_plugin_mapper_list_list_target_t *answer, wire_text *failed) {
    windlass_call_begin();
    windlass_failures failures = {0};
    size_t count = batch->changes.len;
    exports_windlass_plugin_mapper_list_target_t *lists = windlass_alloc_array(count, sizeof *lists);
    for (size_t i = 0; i < count && failures.count == 0; i++) {
        windlass_targets targets = map_change(batch, i, &failures);
        lists[i] = lower_targets(&targets);
    }
    *answer = (exports_windlass_plugin_mapper_list_list_target_t){lists, count};
    *failed = lower(all_messages(&failures));
    windlass_call_end();
    return failures.count == 0;
}

bool exports_windlass_plugin_mapper_matches(
    exports_windlass_plugin_mapper_change_batch_t *batch, reconciler_plugin_list_bool_t *answer, wire_text *failed) {
    windlass_call_begin();
    windlass_failures failures = {0};
    size_t count = batch->changes.len;
    bool *counts = windlass_alloc_array(count, sizeof *counts);
    for (size_t i = 0; i < count && failures.count == 0; i++) {
        counts[i] = match_change(batch, i, &failures);
    }
    *answer = (reconciler_plugin_list_bool_t){counts, count};
    *failed = lower(all_messages(&failures));
    windlass_call_end();
    return failures.count == 0;
}

// The host calls these once it has read the result. They replace the bindings' functions.

void __wasm_export_exports_windlass_plugin_mapper_map_post_return(uint8_t *answer) {
    (void)answer;
    windlass_memory_clear();
}

void __wasm_export_exports_windlass_plugin_mapper_matches_post_return(uint8_t *answer) {
    (void)answer;
    windlass_memory_clear();
}

#else

typedef int windlass_no_mapper_natively;

#endif
