// Reads: `cache` and `live`.

#include "probe.h"

static windlass_cache_query cache_query_in(const windlass_json *step) {
    const windlass_json *query = windlass_json_get(step, "query");
    const windlass_json *kind = windlass_json_get(query, "kind");
    const windlass_json *index = windlass_json_get(query, "index");
    return (windlass_cache_query){
        .api_version = text_in(kind, "apiVersion"),
        .kind = text_in(kind, "kind"),
        .namespace = text_in(query, "namespace"),
        .label_selector = text_in(query, "labelSelector"),
        .index = {text_in(index, "index"), text_in(index, "value")},
        .owned = truth_in(query, "owned"),
        .fields = texts_in(query, "fields"),
        .limit = number_in(query, "limit", 0),
        .max_bytes = number_in(query, "maxBytes", 0),
        .page_token = text_in(query, "pageToken"),
    };
}

// The view: the word `metadata`, or an object with the fields.
static windlass_view view_in(const windlass_json *value) {
    const windlass_json *view = windlass_json_get(value, "view");
    bool is_metadata = windlass_text_is(windlass_json_text(view), "metadata");
    return (windlass_view){.metadata_only = is_metadata, .fields = is_metadata ? NULL : texts_in(view, "fields")};
}

static windlass_live_query live_query_in(const windlass_json *step) {
    const windlass_json *query = windlass_json_get(step, "query");
    const windlass_json *kind = windlass_json_get(query, "kind");
    return (windlass_live_query){
        .api_version = text_in(kind, "apiVersion"),
        .kind = text_in(kind, "kind"),
        .namespace = text_in(query, "namespace"),
        .label_selector = text_in(query, "labelSelector"),
        .field_selector = text_in(query, "fieldSelector"),
        .view = view_in(query),
        .limit = number_in(query, "limit", 0),
        .page_token = text_in(query, "pageToken"),
    };
}

static struct answer list_or(const windlass_list *list, const windlass_error *error) {
    return object_or(error ? NULL : windlass_json_array(list->items, list->count), error);
}

static struct answer get_many(const windlass_json *step) {
    const windlass_json *list = windlass_json_get(step, "targets");
    windlass_ref *targets = windlass_alloc_array(list->count, sizeof *targets);
    size_t count = 0;
    windlass_json_each(target, list) {
        targets[count++] = ref_in(target);
    }
    const windlass_result *results = windlass_cache_get_many(targets, count, texts_in(step, "fields"));
    windlass_json *all = windlass_empty_array();
    for (size_t i = 0; i < count; i++) {
        windlass_json_add(all, shown(object_or(results[i].object, results[i].error)));
    }
    return good(all);
}

static struct answer log_of(const windlass_json *step) {
    const windlass_json *query = windlass_json_get(step, "query");
    windlass_ref pod = ref_in(windlass_json_get(query, "target"));
    windlass_log_query asked = {
        .container = text_in(query, "container"),
        .previous = truth_in(query, "previous"),
        .tail_lines = number_in(query, "tailLines", 0),
        .since_ms = number_in(query, "sinceMs", 0),
        .limit_bytes = number_in(query, "limitBytes", 0),
    };
    windlass_text log;
    const windlass_error *error = windlass_live_log(&pod, &asked, &log);
    return object_or(error ? NULL : windlass_string(log), error);
}

static windlass_json *texts_shown(const windlass_text *texts, size_t count) {
    windlass_json *shown = windlass_empty_array();
    for (size_t i = 0; i < count; i++) {
        windlass_json_add(shown, windlass_string(texts[i]));
    }
    return shown;
}

static windlass_json *served_shown(const windlass_served_kind *served) {
    return windlass_object(
        {"resource", windlass_string(served->resource)},
        {"namespaced", windlass_bool(served->namespaced)},
        {"verbs", texts_shown(served->verbs, served->verb_count)},
        {"subresources", texts_shown(served->subresources, served->subresource_count)});
}

static struct answer kinds(void) {
    windlass_listed_kinds kinds;
    const windlass_error *error = windlass_live_kinds(&kinds);
    windlass_json *list = windlass_empty_array();
    for (size_t i = 0; i < kinds.count; i++) {
        windlass_json_add(list, windlass_object(
            {"kind", windlass_object(
                {"apiVersion", windlass_string(kinds.items[i].api_version)},
                {"kind", windlass_string(kinds.items[i].kind)})},
            {"served", served_shown(&kinds.items[i].served)}));
    }
    return object_or(list, error);
}

static struct answer served(const windlass_json *step) {
    const windlass_json *kind = windlass_json_get(step, "kind");
    windlass_served_kind served;
    const windlass_error *error = windlass_live_served(text_in(kind, "apiVersion"), text_in(kind, "kind"), &served);
    if (error != NULL || served.resource.data == NULL) {
        return object_or(NULL, error);
    }
    return good(served_shown(&served));
}

bool read_call(windlass_text call, const windlass_json *step, struct answer *answer) {
    windlass_ref target = ref_in(windlass_json_get(step, "target"));
    windlass_json *object;
    windlass_list list;
    const windlass_error *error;
    if (windlass_text_is(call, "cache.get")) {
        error = windlass_cache_get(&target, texts_in(step, "fields"), &object);
        *answer = object_or(object, error);
    } else if (windlass_text_is(call, "live.get")) {
        windlass_live_options options = {.subresource = text_in(step, "subresource"), .view = view_in(step)};
        error = windlass_live_get(&target, &options, &object);
        *answer = object_or(object, error);
    } else if (windlass_text_is(call, "live.log")) {
        *answer = log_of(step);
    } else if (windlass_text_is(call, "live.served")) {
        *answer = served(step);
    } else if (windlass_text_is(call, "live.kinds")) {
        *answer = kinds();
    } else if (windlass_text_is(call, "cache.get-many")) {
        *answer = get_many(step);
    } else if (windlass_text_is(call, "cache.list")) {
        windlass_cache_query query = cache_query_in(step);
        error = windlass_cache_list(&query, &list);
        *answer = list_or(&list, error);
    } else if (windlass_text_is(call, "live.list")) {
        windlass_live_query query = live_query_in(step);
        error = windlass_live_list(&query, &list);
        *answer = list_or(&list, error);
    } else {
        return false;
    }
    return true;
}

struct ending reading_end(windlass_text call, const windlass_json *step, windlass_failures *failures) {
    bool wraps = windlass_text_is(call, "wrap");
    if (!wraps && !windlass_text_is(call, "propagate")) {
        return (struct ending){false, WINDLASS_DONE};
    }
    windlass_ref target = ref_in(windlass_json_get(step, "target"));
    windlass_json *object;
    const windlass_error *error = windlass_cache_get(&target, NULL, &object);
    error = wraps ? windlass_wrap(error, text_in(step, "message").data) : error;
    return (struct ending){true, windlass_fail(failures, error)};
}
