// The composing probe of the conformance suite, in C. It carries out the steps in its parent.

#include "../c/probe.h"

#include <stdlib.h>

static const windlass_manifest manifest = {
    .name = "conformance-composer",
    .version = "0.1.0",
    .controllers = WINDLASS_CONTROLLERS({
        .name = "compositions",
        .primary = {.api_version = "conformance.windlass.dev/v1", .kind = "Composition"},
        .owns = WINDLASS_WATCHES({.api_version = "v1", .kind = "ConfigMap", .update_strategy = WINDLASS_UPDATE_RECREATE}),
        .watches = WINDLASS_MAPPED_WATCHES(
            {{.api_version = "v1", .kind = "Secret", .call_fields = WINDLASS_TEXTS("/data")}, WINDLASS_MAP_SAME_NAME},
            {{.name = "customized", .api_version = "v1", .kind = "Service"}, WINDLASS_MAP_CUSTOMIZE}),
    }),
};

static int by_text(const void *one, const void *other) {
    return windlass_text_compare(*(const windlass_text *)one, *(const windlass_text *)other);
}

// The names of objects, sorted.
static windlass_json *names(windlass_json *const *objects, size_t count) {
    windlass_text *texts = windlass_alloc_array(count, sizeof *texts);
    for (size_t i = 0; i < count; i++) {
        texts[i] = windlass_json_text_at(objects[i], "/metadata/name");
    }
    qsort(texts, count, sizeof *texts, by_text);
    windlass_json *list = windlass_empty_array();
    for (size_t i = 0; i < count; i++) {
        windlass_json_add(list, windlass_string(texts[i]));
    }
    return list;
}

// Adds everything that the parent's spec asks for to the composition.
static void answer_spec(const windlass_json *spec, windlass_composition *composition) {
    windlass_json_each(child, windlass_json_get(spec, "children")) {
        windlass_compose_child(composition, child);
    }
    windlass_json_each(item, windlass_json_get(spec, "events")) {
        windlass_event event = event_in(item);
        windlass_compose_event(composition, &event);
    }
    composition->requeue = !windlass_json_is_null(windlass_json_get(spec, "requeueAfterMs"));
    composition->requeue_after_ms = number_in(spec, "requeueAfterMs", 0);
    composition->requeue_with_backoff = truth_in(spec, "requeueBackoff");
    composition->allow_empty = truth_in(spec, "allowEmpty");
    composition->finalized = truth_in(spec, "finalized");
}

static void compose(
    const windlass_composition_request *request, windlass_composition *composition, windlass_failures *failures) {
    windlass_json *results = windlass_empty_array();
    windlass_json_each(step, windlass_json_at(request->parent, "/spec/steps")) {
        windlass_text call = text_in(step, "call");
        struct ending end = common_end(call, step, failures);
        if (end.has_ended) {
            composition->requeue = end.outcome.requeue;
            composition->requeue_after_ms = end.outcome.requeue_after_ms;
            composition->requeue_with_backoff = end.outcome.requeue_with_backoff;
            return;
        }
        struct answer answer;
        if (!common_call(&request->request, call, step, &answer)) {
            windlass_panic("conformance: there is no call %s", call.data ? call.data : "without a name");
        }
        windlass_json_add(results, shown(answer));
    }
    composition->status = windlass_object(
        {"results", results},
        {"children", names(request->children, request->child_count)},
        {"related", names(request->related, request->related_count)});
    answer_spec(windlass_json_get(request->parent, "spec"), composition);
}

WINDLASS_COMPOSER(manifest, compose);

static void add_rule(windlass_related_rules *rules, const windlass_json *rule) {
    const windlass_json *list = windlass_json_get(rule, "names");
    size_t count = 0;
    windlass_text *texts = windlass_alloc_array(list ? list->count : 0, sizeof *texts);
    windlass_json_each(name, list) {
        texts[count++] = windlass_json_text(name);
    }
    windlass_relate(rules,
        &(windlass_related_rule){
            .watch = text_in(rule, "watch").data,
            .namespace = text_in(rule, "namespace"),
            .names = texts,
            .name_count = count,
            .label_selector = text_in(rule, "labelSelector"),
        });
}

static void customize(const windlass_request *request, windlass_related_rules *rules, windlass_failures *failures) {
    const windlass_json *spec = windlass_json_get(request->object, "spec");
    windlass_text fail = text_in(spec, "failRules");
    windlass_text raise = text_in(spec, "raiseRules");
    if (fail.data != NULL) {
        windlass_fail(failures, windlass_transient_text(fail));
    }
    if (raise.data != NULL) {
        raise_with(raise);
    }
    windlass_json_each(rule, windlass_json_get(spec, "rules")) {
        add_rule(rules, rule);
    }
}

WINDLASS_CUSTOMIZER(customize);
