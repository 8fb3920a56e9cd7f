// Converts the manifest to the document that wit/manifest.schema.json describes.

#include "windlass_internal.h"

// These functions set a member, unless its value means that the author left it out.

static void put_text(windlass_json *object, const char *key, const char *text) {
    if (text != NULL) {
        windlass_json_set(object, key, windlass_string(text));
    }
}

static void put_texts(windlass_json *object, const char *key, const char *const *texts) {
    if (texts == NULL) {
        return;
    }
    windlass_json *list = windlass_json_set(object, key, windlass_empty_array());
    while (*texts != NULL) {
        windlass_json_add(list, windlass_string(*texts++));
    }
}

static void put_number(windlass_json *object, const char *key, uint32_t number) {
    if (number != 0) {
        windlass_json_set(object, key, windlass_uint(number));
    }
}

static void put_switched_off(windlass_json *object, const char *key, bool is_off) {
    if (is_off) {
        windlass_json_set(object, key, windlass_bool(false));
    }
}

// Parses a JSON document that the author wrote as text. If it is not JSON, it is sent as a text, so that the host's
// message shows it.
static windlass_json *document(const char *text) {
    windlass_json *value = windlass_json_parse(windlass_text_of(text), NULL);
    return value ? value : windlass_string(text);
}

static windlass_json *typed(const char *type) {
    return windlass_object({"type", windlass_string(type)});
}

static windlass_json *conditions_of(const windlass_where *where) {
    windlass_json *list = windlass_empty_array();
    for (; where->annotation != NULL || where->field != NULL || where->any != NULL; where++) {
        windlass_json *value = windlass_json_add(list, windlass_empty_object());
        put_text(value, "annotation", where->annotation);
        put_text(value, "field", where->field);
        if (where->any != NULL) {
            windlass_json_set(value, "any", conditions_of(where->any));
        }
        put_text(value, "is", where->is);
        put_texts(value, "in", where->in);
        put_texts(value, "notIn", where->not_in);
        if (where->is_json != NULL) {
            windlass_json_set(value, "is", document(where->is_json));
        }
        if (where->exists || where->absent) {
            windlass_json_set(value, "exists", windlass_bool(where->exists));
        }
    }
    return list;
}

static void put_projection(windlass_json *watch, const windlass_projection *projection) {
    if (projection->type == WINDLASS_PROJECTION_FULL) {
        return;
    }
    static const char *const names[] = {NULL, "metadata", "fields", "digest"};
    windlass_json *value = windlass_json_set(watch, "projection", typed(names[projection->type]));
    put_texts(value, "pointers", projection->pointers);
}

static windlass_json *reference_of(const windlass_reference *reference) {
    windlass_json *value = typed("reference");
    put_text(value, "base", reference->base);
    put_text(value, "namespace", reference->namespace_at);
    put_text(value, "name", reference->name_at);
    return value;
}

static windlass_json *source_of(const windlass_index *index) {
    if (index->reference.name_at != NULL) {
        return reference_of(&index->reference);
    }
    bool is_selector = index->selector != NULL || index->selected_labels != NULL || index->selector_text != NULL;
    const char *of_value = index->label ? "label" : index->annotation ? "annotation" : "field";
    windlass_json *value = typed(is_selector ? "selector" : of_value);
    put_text(value, "key", index->label ? index->label : index->annotation);
    put_text(value, "split", index->split);
    put_text(value, "pointer", index->pointer);
    put_text(value, "pointer", index->selector);
    put_text(value, "pointer", index->selected_labels);
    put_text(value, "pointer", index->selector_text);
    put_text(value, "form", index->selected_labels ? "labels" : index->selector_text ? "text" : NULL);
    return value;
}

static void put_indexes(windlass_json *watch, const windlass_index *index) {
    windlass_json *list = index ? windlass_json_set(watch, "indexes", windlass_empty_array()) : NULL;
    for (; index != NULL && index->name != NULL; index++) {
        windlass_json_add(list, windlass_object({"name", windlass_string(index->name)}, {"source", source_of(index)}));
    }
}

static windlass_json *predicate_of(const windlass_predicate *predicate);

static windlass_json *predicates_of(const windlass_predicate *predicate) {
    windlass_json *list = windlass_empty_array();
    for (; predicate->type != WINDLASS_PREDICATE_UNSET; predicate++) {
        windlass_json_add(list, predicate_of(predicate));
    }
    return list;
}

static windlass_json *predicate_of(const windlass_predicate *predicate) {
    static const char *const names[] = {NULL, "generation", "labels", "annotations", "fields", "not", "and"};
    windlass_json *value = typed(names[predicate->type]);
    put_texts(value, "pointers", predicate->pointers);
    const windlass_predicate *inner = predicate->predicates;
    if (inner == NULL) {
        return value;
    }
    // If a `not` has several predicates, all are sent, so that the host's message shows them.
    bool is_one = predicate->type == WINDLASS_PREDICATE_NOT && inner[0].type != WINDLASS_PREDICATE_UNSET
        && inner[1].type == WINDLASS_PREDICATE_UNSET;
    if (is_one) {
        windlass_json_set(value, "predicate", predicate_of(inner));
    } else {
        windlass_json_set(value, "predicates", predicates_of(inner));
    }
    return value;
}

static windlass_json *timer_of(const windlass_timer *timer) {
    static const char *const missed[] = {NULL, "once", "skip"};
    windlass_json *value = windlass_empty_object();
    put_text(value, "cron", timer->cron);
    put_text(value, "timeZone", timer->time_zone);
    put_number(value, "intervalMs", timer->interval_ms);
    put_number(value, "jitterMs", timer->jitter_ms);
    put_text(value, "missed", missed[timer->missed]);
    return value;
}

static windlass_json *watch_of(const windlass_watch *watch) {
    static const char *const strategies[] = {NULL, "inPlace", "recreate", "onDelete"};
    windlass_json *value = windlass_empty_object();
    put_text(value, "name", watch->name);
    put_text(value, "apiVersion", watch->api_version);
    put_text(value, "kind", watch->kind);
    put_text(value, "kindsFrom", watch->kinds_from);
    put_texts(value, "verbs", watch->verbs);
    if (watch->timer != NULL) {
        windlass_json_set(value, "timer", timer_of(watch->timer));
    }
    put_texts(value, "namespaces", watch->namespaces);
    put_text(value, "labelSelector", watch->label_selector);
    put_text(value, "fieldSelector", watch->field_selector);
    if (watch->where != NULL) {
        windlass_json_set(value, "where", conditions_of(watch->where));
    }
    put_projection(value, &watch->projection);
    if (watch->managed_fields) {
        windlass_json_set(value, "managedFields", windlass_bool(true));
    }
    put_indexes(value, watch->indexes);
    if (watch->predicates != NULL) {
        windlass_json_set(value, "predicates", predicates_of(watch->predicates));
    }
    if (watch->code_predicate) {
        windlass_json_set(value, "codePredicate", windlass_bool(true));
    }
    put_texts(value, "callFields", watch->call_fields);
    put_switched_off(value, "deleted", watch->ignore_deletions);
    put_switched_off(value, "noOpSkip", watch->without_no_op_skip);
    put_text(value, "updateStrategy", strategies[watch->update_strategy]);
    return value;
}

static windlass_json *mapping_of(const windlass_mapping *mapping) {
    static const struct {
        const char *type;
        const char *key;
    } names[] = {
        {NULL, NULL},
        {"owner", NULL},
        {"label", "key"},
        {"annotation", "key"},
        {"field", "pointer"},
        {"referencedBy", "index"},
        {"sameName", NULL},
        {"all", NULL},
        {"reference", NULL},
        {"selectedBy", "index"},
        {"mapper", NULL},
        {"customize", NULL},
        {"anyOwner", NULL},
        {"none", NULL},
    };
    if (mapping->type == WINDLASS_MAPPING_UNSET) {
        return NULL;
    }
    if (mapping->type == WINDLASS_MAPPING_REFERENCE) {
        return reference_of(&mapping->reference);
    }
    windlass_json *value = typed(names[mapping->type].type);
    if (names[mapping->type].key != NULL) {
        put_text(value, names[mapping->type].key, mapping->value);
    }
    return value;
}

static void put_options(windlass_json *controller, const windlass_options *options) {
    static const char *const timeouts[] = {NULL, "probe", "run"};
    static const char *const limiters[] = {NULL, "exponential", "tokenBucket", "maxOf"};
    windlass_json *value = windlass_empty_object();
    put_number(value, "workers", options->workers);
    if (options->max_retries != 0) {
        windlass_json_set(value, "maxRetries", windlass_int(options->max_retries < 0 ? 0 : options->max_retries));
    }
    windlass_json *backoff = windlass_empty_object();
    put_number(backoff, "baseMs", options->backoff.base_ms);
    put_number(backoff, "maxMs", options->backoff.max_ms);
    put_text(backoff, "limiter", limiters[options->backoff.limiter]);
    put_number(backoff, "perSecond", options->backoff.per_second);
    put_number(backoff, "burst", options->backoff.burst);
    if (backoff->count > 0) {
        windlass_json_set(value, "backoff", backoff);
    }
    put_number(value, "resyncMs", options->resync_ms);
    put_number(value, "deadlineMs", options->deadline_ms);
    if (options->finalizer) {
        windlass_json_set(value, "finalizer", windlass_bool(true));
    }
    put_switched_off(value, "status", options->without_status);
    put_text(value, "expectationTimeout", timeouts[options->expectation_timeout]);
    put_switched_off(value, "savedCalls", options->without_saved_calls);
    if (value->count > 0) {
        windlass_json_set(controller, "options", value);
    }
}

static windlass_json *controller_of(const windlass_controller *controller) {
    windlass_json *value = windlass_empty_object();
    put_text(value, "name", controller->name);
    windlass_json_set(value, "primary", watch_of(&controller->primary));
    if (controller->owns != NULL) {
        windlass_json *list = windlass_json_set(value, "owns", windlass_empty_array());
        for (const windlass_watch *watch = controller->owns; watch->kind != NULL; watch++) {
            windlass_json_add(list, watch_of(watch));
        }
    }
    if (controller->watches != NULL) {
        windlass_json *list = windlass_json_set(value, "watches", windlass_empty_array());
        for (const windlass_mapped_watch *watch = controller->watches; watch->watch.kind != NULL || watch->watch.kinds_from != NULL; watch++) {
            windlass_json *mapped = windlass_json_add(list, watch_of(&watch->watch));
            windlass_json *mapping = mapping_of(&watch->mapping);
            if (mapping != NULL) {
                windlass_json_set(mapped, "mapping", mapping);
            }
        }
    }
    if (controller->hooks != NULL) {
        windlass_json *list = windlass_json_set(value, "hooks", windlass_empty_array());
        for (const windlass_hook *hook = controller->hooks; hook->name != NULL; hook++) {
            windlass_json *entry = windlass_json_add(list, windlass_empty_object());
            put_text(entry, "name", hook->name);
            windlass_json *mapping = mapping_of(&hook->mapping);
            if (mapping != NULL) {
                windlass_json_set(entry, "mapping", mapping);
            }
        }
    }
    put_options(value, &controller->options);
    return value;
}

static void put_permissions(windlass_json *manifest, const windlass_permission *permission) {
    windlass_json *list = permission ? windlass_json_set(manifest, "permissions", windlass_empty_array()) : NULL;
    for (; permission != NULL && permission->resources != NULL; permission++) {
        windlass_json *value = windlass_json_add(list, windlass_empty_object());
        put_texts(value, "apiGroups", permission->api_groups);
        put_texts(value, "resources", permission->resources);
        put_texts(value, "verbs", permission->verbs);
        put_texts(value, "namespaces", permission->namespaces);
        put_texts(value, "names", permission->names);
    }
}

static void put_metrics(windlass_json *manifest, const windlass_metric *const *metrics) {
    static const char *const types[] = {"counter", "gauge", "histogram"};
    windlass_json *list = metrics ? windlass_json_set(manifest, "metrics", windlass_empty_array()) : NULL;
    for (; metrics != NULL && *metrics != NULL; metrics++) {
        const windlass_metric *metric = *metrics;
        windlass_json *value = windlass_json_add(list, windlass_empty_object());
        put_text(value, "name", metric->name);
        put_text(value, "type", types[metric->type]);
        put_text(value, "help", metric->help);
        put_texts(value, "labels", metric->labels);
        if (metric->buckets.count > 0) {
            windlass_json *bounds = windlass_json_set(value, "buckets", windlass_empty_array());
            for (size_t i = 0; i < metric->buckets.count; i++) {
                windlass_json_add(bounds, windlass_double(metric->buckets.values[i]));
            }
        }
    }
}

static void put_http(windlass_json *manifest, const windlass_http_access *access) {
    windlass_json *list = access ? windlass_json_set(manifest, "http", windlass_empty_array()) : NULL;
    for (; access != NULL && access->host != NULL; access++) {
        windlass_json *value = windlass_json_add(list, windlass_empty_object());
        put_text(value, "scheme", access->scheme == WINDLASS_HTTPS ? "https" : "http");
        put_text(value, "host", access->host);
        put_number(value, "port", access->port);
        put_texts(value, "methods", access->methods);
    }
}

windlass_text windlass_manifest_text(const windlass_manifest *manifest) {
    windlass_json *value = windlass_object(
        {"apiVersion", windlass_string("windlass.dev/v1alpha1")},
        {"kind", windlass_string("PluginManifest")});
    put_text(value, "name", manifest->name);
    put_text(value, "version", manifest->version);
    put_text(value, "description", manifest->description);
    windlass_json *controllers = windlass_json_set(value, "controllers", windlass_empty_array());
    for (const windlass_controller *controller = manifest->controllers; controller && controller->name; controller++) {
        windlass_json_add(controllers, controller_of(controller));
    }
    if (manifest->crds != NULL) {
        windlass_json *crds = windlass_json_set(value, "crds", windlass_empty_array());
        for (const char *const *crd = manifest->crds; *crd != NULL; crd++) {
            windlass_json_add(crds, document(*crd));
        }
    }
    put_permissions(value, manifest->permissions);
    put_texts(value, "finalizers", manifest->finalizers);
    put_metrics(value, manifest->metrics);
    put_http(value, manifest->http);
    if (manifest->config_schema != NULL) {
        windlass_json_set(value, "config", windlass_object({"schema", document(manifest->config_schema)}));
    }
    return windlass_json_print(value);
}
