// Reads and writes of the API through the host's functions. Texts become objects, and failures become errors.

#include "../windlass_internal.h"

static const windlass_error *object_of(const windlass_host_answer *answer, const char *what, windlass_json **object) {
    if (object != NULL) {
        *object = NULL;
    }
    if (answer->failed) {
        return windlass_api(&answer->error);
    }
    if (object == NULL || answer->object.data == NULL) {
        return NULL;
    }
    windlass_json_error error;
    *object = windlass_json_parse(answer->object, &error);
    return *object ? NULL : windlass_error_of_json(what, &error);
}

static windlass_result *results_of(const windlass_host_answer *answers, size_t count, const char *what) {
    windlass_result *results = windlass_alloc_array(count, sizeof *results);
    for (size_t i = 0; i < count; i++) {
        results[i].error = object_of(&answers[i], what, &results[i].object);
    }
    return results;
}

// --- cache ---

const windlass_error *windlass_cache_get(const windlass_ref *target, const char *const *fields, windlass_json **object) {
    windlass_host_answer answer = {0};
    windlass_host_cache_get(target, fields, &answer);
    return object_of(&answer, "a cached object", object);
}

windlass_result *windlass_cache_get_many(const windlass_ref *targets, size_t count, const char *const *fields) {
    windlass_host_answer *answers = windlass_alloc_array(count, sizeof *answers);
    windlass_host_cache_get_many(targets, count, fields, answers);
    return results_of(answers, count, "a cached object");
}

// Adds a page to a list.
static const windlass_error *add_page(windlass_list *list, const windlass_host_page *page, size_t *capacity) {
    list->next_token = WINDLASS_NONE;
    if (page->failed) {
        return windlass_api(&page->error);
    }
    if (page->count > *capacity - list->count) {
        size_t wanted = *capacity * 2 > list->count + page->count ? *capacity * 2 : list->count + page->count;
        list->items = windlass_regrow(list->items, *capacity * sizeof *list->items, wanted * sizeof *list->items);
        *capacity = wanted;
    }
    for (size_t i = 0; i < page->count; i++) {
        windlass_json_error error;
        windlass_json *item = windlass_json_parse(page->items[i], &error);
        if (item == NULL) {
            return windlass_error_of_json("a listed object", &error);
        }
        list->items[list->count++] = item;
    }
    list->next_token = page->next_token;
    return NULL;
}

enum { PAGE = 500 };

const windlass_error *windlass_cache_page(const windlass_cache_query *query, windlass_list *page) {
    windlass_cache_query asked = *query;
    asked.limit = asked.limit ? asked.limit : PAGE;
    windlass_host_page answer = {0};
    windlass_host_cache_list(&asked, &answer);
    size_t capacity = 0;
    *page = (windlass_list){0};
    return add_page(page, &answer, &capacity);
}

const windlass_error *windlass_cache_list(const windlass_cache_query *query, windlass_list *list) {
    windlass_cache_query asked = *query;
    asked.limit = asked.limit ? asked.limit : PAGE;
    size_t capacity = 0;
    *list = (windlass_list){0};
    const windlass_error *error;
    do {
        windlass_host_page page = {0};
        windlass_host_cache_list(&asked, &page);
        error = add_page(list, &page, &capacity);
        asked.page_token = list->next_token;
    } while (error == NULL && asked.page_token.data != NULL);
    return error;
}

// --- live ---

const windlass_error *windlass_live_get(const windlass_ref *target, const windlass_live_options *options, windlass_json **object) {
    windlass_host_answer answer = {0};
    windlass_live_options nothing = {0};
    windlass_host_live_get(target, options ? options : &nothing, &answer);
    return object_of(&answer, "an object", object);
}

const windlass_error *windlass_live_log(const windlass_ref *pod, const windlass_log_query *query, windlass_text *log) {
    windlass_host_answer answer = {0};
    windlass_log_query everything = {0};
    windlass_ref target = *pod;
    target.uid = WINDLASS_NONE;
    windlass_host_live_log(&target, query ? query : &everything, &answer);
    *log = answer.object;
    return answer.failed ? windlass_api(&answer.error) : NULL;
}

const windlass_error *windlass_live_served(windlass_text api_version, windlass_text kind, windlass_served_kind *served) {
    windlass_api_error error;
    *served = (windlass_served_kind){0};
    return windlass_host_live_served(api_version, kind, served, &error) ? NULL : windlass_api(&error);
}

const windlass_error *windlass_live_kinds(windlass_listed_kinds *kinds) {
    windlass_api_error error;
    *kinds = (windlass_listed_kinds){0};
    return windlass_host_live_kinds(kinds, &error) ? NULL : windlass_api(&error);
}

const windlass_error *windlass_live_page(const windlass_live_query *query, windlass_list *page) {
    windlass_live_query asked = *query;
    asked.limit = asked.limit ? asked.limit : PAGE;
    windlass_host_page answer = {0};
    windlass_host_live_list(&asked, &answer);
    size_t capacity = 0;
    *page = (windlass_list){0};
    return add_page(page, &answer, &capacity);
}

const windlass_error *windlass_live_list(const windlass_live_query *query, windlass_list *list) {
    windlass_live_query asked = *query;
    asked.limit = asked.limit ? asked.limit : PAGE;
    size_t capacity = 0;
    *list = (windlass_list){0};
    const windlass_error *error;
    do {
        windlass_host_page page = {0};
        windlass_host_live_list(&asked, &page);
        error = add_page(list, &page, &capacity);
        asked.page_token = list->next_token;
    } while (error == NULL && asked.page_token.data != NULL);
    return error;
}

// --- writes ---

static const windlass_error *write(const windlass_operation *operation, windlass_json **object) {
    windlass_text body = operation->type == WINDLASS_DELETE ? WINDLASS_NONE : windlass_json_print(operation->object);
    windlass_host_answer answer = {0};
    windlass_host_write(operation, body, &answer);
    return object_of(&answer, "a written object", object);
}

static windlass_write_options given(const windlass_write_options *options) {
    return options ? *options : (windlass_write_options){0};
}

const windlass_error *windlass_writes_create(const windlass_json *object, const windlass_write_options *options, windlass_json **created) {
    return write(&(windlass_operation){.type = WINDLASS_CREATE, .object = object, .options = given(options)}, created);
}

const windlass_error *windlass_writes_update(const windlass_json *object, const windlass_write_options *options, windlass_json **updated) {
    return write(&(windlass_operation){.type = WINDLASS_UPDATE, .object = object, .options = given(options)}, updated);
}

const windlass_error *windlass_writes_apply(const windlass_json *object, const windlass_write_options *options, windlass_json **applied) {
    return write(&(windlass_operation){.type = WINDLASS_APPLY, .object = object, .options = given(options)}, applied);
}

const windlass_error *windlass_writes_apply_status(const windlass_ref *target, windlass_json *status) {
    bool is_namespaced = target->namespace.data != NULL;
    const windlass_json *object = windlass_object(
        {"apiVersion", windlass_string(target->api_version)},
        {"kind", windlass_string(target->kind)},
        {"metadata", windlass_object(
            {"name", windlass_string(target->name)},
            {"namespace", is_namespaced ? windlass_string(target->namespace) : NULL})},
        {"status", status});
    return windlass_writes_apply(object, &(windlass_write_options){.force = true, .subresource.name = windlass_text("status")}, NULL);
}

const windlass_error *windlass_writes_patch(const windlass_ref *target, windlass_patch_type type, const windlass_json *patch,
    const windlass_write_options *options, windlass_json **patched) {
    return write(&(windlass_operation){
        .type = WINDLASS_PATCH, .object = patch, .target = *target, .patch_type = type, .options = given(options)}, patched);
}

const windlass_error *windlass_writes_delete(const windlass_ref *target, const windlass_delete_options *options, windlass_json **left) {
    windlass_delete_options delete_options = options ? *options : (windlass_delete_options){0};
    return write(&(windlass_operation){.type = WINDLASS_DELETE, .target = *target, .delete_options = delete_options}, left);
}

const windlass_error *windlass_writes_evict(const windlass_ref *pod) {
    bool is_namespaced = pod->namespace.data != NULL;
    windlass_json *eviction = windlass_object(
        {"apiVersion", windlass_string("policy/v1")},
        {"kind", windlass_string("Eviction")},
        {"metadata", windlass_object(
            {"name", windlass_string(pod->name)},
            {"namespace", is_namespaced ? windlass_string(pod->namespace) : NULL})});
    if (pod->uid.data != NULL) {
        windlass_json_set(eviction, "deleteOptions", windlass_object(
            {"preconditions", windlass_object({"uid", windlass_string(pod->uid)})}));
    }
    windlass_ref parent = *pod;
    parent.uid = WINDLASS_NONE;
    windlass_write_options options = {.subresource = {windlass_text("eviction"), &parent}};
    const windlass_error *error = windlass_writes_create(eviction, &options, NULL);
    // If the Pod is gone, the error names it. If the server does not serve evictions, the error names no object.
    bool has_gone = windlass_is(error, WINDLASS_NOT_FOUND) && error->api.has_object;
    return has_gone ? NULL : error;
}

const windlass_error *windlass_writes_delete_collection(
    const windlass_collection *collection, const windlass_delete_options *options, windlass_deleted *deleted) {
    windlass_delete_options delete_options = options ? *options : (windlass_delete_options){0};
    windlass_deleted named = {0};
    windlass_api_error error;
    bool is_done = windlass_host_delete_collection(collection, &delete_options, &named, &error);
    if (deleted != NULL) {
        *deleted = named;
    }
    return is_done ? NULL : windlass_api(&error);
}

windlass_result *windlass_writes_batch(const windlass_operation *operations, size_t count) {
    windlass_text *bodies = windlass_alloc_array(count, sizeof *bodies);
    for (size_t i = 0; i < count; i++) {
        bodies[i] = operations[i].type == WINDLASS_DELETE ? WINDLASS_NONE : windlass_json_print(operations[i].object);
    }
    windlass_host_answer *answers = windlass_alloc_array(count, sizeof *answers);
    windlass_host_batch(operations, bodies, count, answers);
    return results_of(answers, count, "a written object");
}

// --- owners ---

bool windlass_owners_claim(windlass_text api_version, windlass_text kind, windlass_text label_selector, windlass_claimed *claimed,
    windlass_failures *failures) {
    windlass_claimed changed = {0};
    windlass_api_error *errors = NULL;
    size_t count = windlass_host_claim(api_version, kind, label_selector, &changed, &errors);
    for (size_t i = 0; i < count; i++) {
        windlass_fail_api(failures, &errors[i]);
    }
    if (claimed != NULL) {
        *claimed = changed;
    }
    return count == 0;
}
