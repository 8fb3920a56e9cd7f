// For reconcilers: the host's functions, called through the bindings, and the functions that the host calls.

#ifdef __wasm__

#include "wire.h"

#include "../windlass_bridge_host.h"

// --- Lifting ---

static windlass_ref lift_ref(const windlass_plugin_types_object_ref_t *wire) {
    return (windlass_ref){
        .api_version = lift(wire->api_version),
        .kind = lift(wire->kind),
        .namespace = lift_option(wire->namespace_),
        .name = lift(wire->name),
        .uid = lift_option(wire->uid),
    };
}

static windlass_api_error lift_error(const windlass_plugin_types_api_error_t *wire) {
    windlass_api_error error = {
        .code = wire->code,
        .reason = (windlass_reason)wire->reason,
        .status_reason = lift(wire->status_reason),
        .message = lift(wire->message),
        .has_retry_after = wire->retry_after_ms.is_some,
        .retry_after_ms = wire->retry_after_ms.is_some ? wire->retry_after_ms.val : 0,
        .verb = lift(wire->verb),
        .resource = lift(wire->resource),
        .has_object = wire->object.is_some,
    };
    if (wire->object.is_some) {
        error.object = lift_ref(&wire->object.val);
    }
    return error;
}

static void refuse(windlass_host_answer *answer, const windlass_plugin_types_api_error_t *wire) {
    answer->failed = true;
    answer->error = lift_error(wire);
}

// --- Reads ---

static wire_texts lower_pointers(const char *const *pointers) {
    size_t count = 0;
    while (pointers[count] != NULL) {
        count++;
    }
    wire_text *wire = windlass_alloc_array(count, sizeof *wire);
    for (size_t i = 0; i < count; i++) {
        wire[i] = lower(windlass_text_of(pointers[i]));
    }
    return (wire_texts){wire, count};
}

void windlass_host_cache_get(const windlass_ref *target, const char *const *fields, windlass_host_answer *answer) {
    windlass_plugin_types_object_ref_t wire = lower_ref(target);
    wire_texts pointers = {0};
    if (fields != NULL) {
        pointers = lower_pointers(fields);
    }
    windlass_plugin_cache_option_json_t object;
    windlass_plugin_types_api_error_t error;
    if (windlass_plugin_cache_get(&wire, fields ? &pointers : NULL, &object, &error)) {
        answer->object = object.is_some ? lift(object.val) : WINDLASS_NONE;
    } else {
        refuse(answer, &error);
    }
}

void windlass_host_cache_get_many(
    const windlass_ref *targets, size_t count, const char *const *fields, windlass_host_answer *answers) {
    windlass_plugin_types_object_ref_t *wire = windlass_alloc_array(count, sizeof *wire);
    for (size_t i = 0; i < count; i++) {
        wire[i] = lower_ref(&targets[i]);
    }
    wire_texts pointers = {0};
    if (fields != NULL) {
        pointers = lower_pointers(fields);
    }
    windlass_plugin_cache_list_object_ref_t list = {wire, count};
    windlass_plugin_cache_list_result_option_json_api_error_t results;
    windlass_plugin_cache_get_many(&list, fields ? &pointers : NULL, &results);
    for (size_t i = 0; i < results.len && i < count; i++) {
        if (results.ptr[i].is_err) {
            refuse(&answers[i], &results.ptr[i].val.err);
        } else if (results.ptr[i].val.ok.is_some) {
            answers[i].object = lift(results.ptr[i].val.ok.val);
        }
    }
}

static void lift_page(bool is_good, const windlass_plugin_types_page_t *wire, const windlass_plugin_types_api_error_t *error,
    windlass_host_page *page) {
    page->failed = !is_good;
    if (!is_good) {
        page->error = lift_error(error);
        return;
    }
    page->items = windlass_alloc_array(wire->items.len, sizeof *page->items);
    page->count = wire->items.len;
    for (size_t i = 0; i < wire->items.len; i++) {
        page->items[i] = lift(wire->items.ptr[i]);
    }
    page->next_token = lift_option(wire->next_token);
}

void windlass_host_cache_list(const windlass_cache_query *query, windlass_host_page *page) {
    windlass_plugin_cache_list_query_t wire = {
        .kind = {lower(query->api_version), lower(query->kind)},
        .namespace_ = lower_option(query->namespace),
        .label_selector = lower_option(query->label_selector),
        .index = {.is_some = query->index.name.data != NULL, .val = {lower(query->index.name), lower(query->index.value)}},
        .owned = query->owned,
        .fields = {.is_some = query->fields != NULL},
        .limit = query->limit,
        .max_bytes = {.is_some = query->max_bytes != 0, .val = query->max_bytes},
        .page_token = lower_option(query->page_token),
    };
    if (query->fields != NULL) {
        wire.fields.val = lower_pointers(query->fields);
    }
    windlass_plugin_types_page_t answer;
    windlass_plugin_types_api_error_t error;
    lift_page(windlass_plugin_cache_list(&wire, &answer, &error), &answer, &error, page);
}

static windlass_plugin_live_view_t lower_view(const windlass_view *view) {
    windlass_plugin_live_view_t wire = {.tag = WINDLASS_PLUGIN_LIVE_VIEW_WHOLE};
    if (view->metadata_only) {
        wire.tag = WINDLASS_PLUGIN_LIVE_VIEW_METADATA;
    } else if (view->fields != NULL) {
        wire.tag = WINDLASS_PLUGIN_LIVE_VIEW_FIELDS;
        wire.val.fields = lower_pointers(view->fields);
    }
    return wire;
}

void windlass_host_live_get(const windlass_ref *target, const windlass_live_options *options, windlass_host_answer *answer) {
    windlass_plugin_types_object_ref_t wire = lower_ref(target);
    windlass_plugin_live_view_t view = lower_view(&options->view);
    wire_text subresource = lower(options->subresource);
    windlass_plugin_live_option_json_t object;
    windlass_plugin_types_api_error_t error;
    if (windlass_plugin_live_get(&wire, options->subresource.data ? &subresource : NULL, &view, &object, &error)) {
        answer->object = object.is_some ? lift(object.val) : WINDLASS_NONE;
    } else {
        refuse(answer, &error);
    }
}

void windlass_host_live_log(const windlass_ref *pod, const windlass_log_query *query, windlass_host_answer *answer) {
    windlass_plugin_live_log_query_t wire = {
        .target = lower_ref(pod),
        .container = lower_option(query->container),
        .previous = query->previous,
        .tail_lines = {.is_some = query->tail_lines != 0, .val = query->tail_lines},
        .since_ms = {.is_some = query->since_ms != 0, .val = query->since_ms},
        .limit_bytes = {.is_some = query->limit_bytes != 0, .val = query->limit_bytes},
    };
    wire_text log;
    windlass_plugin_types_api_error_t error;
    if (windlass_plugin_live_log(&wire, &log, &error)) {
        answer->object = lift(log);
    } else {
        refuse(answer, &error);
    }
}

static windlass_text *lift_texts(const wire_texts *wire) {
    windlass_text *texts = windlass_alloc_array(wire->len, sizeof *texts);
    for (size_t i = 0; i < wire->len; i++) {
        texts[i] = lift(wire->ptr[i]);
    }
    return texts;
}

static windlass_served_kind lift_served(const windlass_plugin_live_served_kind_t *wire) {
    return (windlass_served_kind){
        .resource = lift(wire->resource),
        .namespaced = wire->namespaced,
        .verbs = lift_texts(&wire->verbs),
        .verb_count = wire->verbs.len,
        .subresources = lift_texts(&wire->subresources),
        .subresource_count = wire->subresources.len,
    };
}

bool windlass_host_live_served(
    windlass_text api_version, windlass_text kind, windlass_served_kind *served, windlass_api_error *error) {
    windlass_plugin_types_object_kind_t wire = {lower(api_version), lower(kind)};
    windlass_plugin_live_option_served_kind_t found;
    windlass_plugin_types_api_error_t failure;
    if (!windlass_plugin_live_served(&wire, &found, &failure)) {
        *error = lift_error(&failure);
        return false;
    }
    if (found.is_some) {
        *served = lift_served(&found.val);
    }
    return true;
}

bool windlass_host_live_kinds(windlass_listed_kinds *kinds, windlass_api_error *error) {
    windlass_plugin_live_list_listed_kind_t listed;
    windlass_plugin_types_api_error_t failure;
    if (!windlass_plugin_live_kinds(&listed, &failure)) {
        *error = lift_error(&failure);
        return false;
    }
    *kinds = (windlass_listed_kinds){windlass_alloc_array(listed.len, sizeof *kinds->items), listed.len};
    for (size_t i = 0; i < listed.len; i++) {
        kinds->items[i] = (windlass_listed_kind){
            .api_version = lift(listed.ptr[i].kind.api_version),
            .kind = lift(listed.ptr[i].kind.kind),
            .served = lift_served(&listed.ptr[i].served),
        };
    }
    return true;
}

void windlass_host_live_list(const windlass_live_query *query, windlass_host_page *page) {
    windlass_plugin_live_list_query_t wire = {
        .kind = {lower(query->api_version), lower(query->kind)},
        .namespace_ = lower_option(query->namespace),
        .label_selector = lower_option(query->label_selector),
        .field_selector = lower_option(query->field_selector),
        .view = lower_view(&query->view),
        .limit = query->limit,
        .page_token = lower_option(query->page_token),
    };
    windlass_plugin_types_page_t answer;
    windlass_plugin_types_api_error_t error;
    lift_page(windlass_plugin_live_list(&wire, &answer, &error), &answer, &error, page);
}

// --- Writes ---

static windlass_plugin_writes_write_options_t lower_options(const windlass_write_options *options) {
    windlass_plugin_writes_write_options_t wire = {
        .subresource = {.is_some = options->subresource.name.data != NULL},
        .resource_version = lower_option(options->resource_version),
        .owned = options->owned,
        .force = options->force,
        .dry_run = options->dry_run,
        .field_validation = (windlass_plugin_writes_field_validation_t)options->field_validation,
        .manager_suffix = lower_option(options->manager_suffix),
        .fields = {.is_some = options->fields != NULL},
    };
    if (options->fields != NULL) {
        wire.fields.val = lower_pointers(options->fields);
    }
    if (wire.subresource.is_some) {
        windlass_plugin_types_option_object_ref_t parent = lower_option_ref(options->subresource.parent);
        wire.subresource.val.name = lower(options->subresource.name);
        wire.subresource.val.parent.is_some = parent.is_some;
        wire.subresource.val.parent.val = parent.val;
    }
    return wire;
}

static windlass_plugin_writes_delete_options_t lower_delete_options(const windlass_delete_options *options) {
    return (windlass_plugin_writes_delete_options_t){
        .resource_version = lower_option(options->resource_version),
        .propagation = (windlass_plugin_writes_propagation_t)options->propagation,
        .grace_period_ms = {.is_some = options->has_grace_period, .val = options->grace_period_ms},
        .dry_run = options->dry_run,
    };
}

static windlass_plugin_writes_operation_t lower_operation(const windlass_operation *operation, windlass_text body) {
    windlass_plugin_writes_operation_t wire = {.tag = (uint8_t)operation->type};
    if (operation->type == WINDLASS_DELETE) {
        wire.tag = WINDLASS_PLUGIN_WRITES_OPERATION_DELETE;
        wire.val.delete_.target = lower_ref(&operation->target);
        wire.val.delete_.options = lower_delete_options(&operation->delete_options);
    } else if (operation->type == WINDLASS_PATCH) {
        wire.tag = WINDLASS_PLUGIN_WRITES_OPERATION_PATCH;
        wire.val.patch.target = lower_ref(&operation->target);
        wire.val.patch.patch_type = (windlass_plugin_writes_patch_type_t)operation->patch_type;
        wire.val.patch.patch = lower(body);
        wire.val.patch.options = lower_options(&operation->options);
    } else {
        wire.tag = operation->type == WINDLASS_CREATE   ? WINDLASS_PLUGIN_WRITES_OPERATION_CREATE
                   : operation->type == WINDLASS_UPDATE ? WINDLASS_PLUGIN_WRITES_OPERATION_UPDATE
                                                        : WINDLASS_PLUGIN_WRITES_OPERATION_APPLY;
        wire.val.apply.object = lower(body);
        wire.val.apply.options = lower_options(&operation->options);
    }
    return wire;
}

static bool carry_out(windlass_plugin_writes_operation_t *wire, windlass_plugin_writes_option_json_t *object,
    windlass_plugin_types_api_error_t *error) {
    object->is_some = true;
    switch (wire->tag) {
        case WINDLASS_PLUGIN_WRITES_OPERATION_CREATE:
            return windlass_plugin_writes_create(&wire->val.create.object, &wire->val.create.options, &object->val, error);
        case WINDLASS_PLUGIN_WRITES_OPERATION_UPDATE:
            return windlass_plugin_writes_update(&wire->val.update.object, &wire->val.update.options, &object->val, error);
        case WINDLASS_PLUGIN_WRITES_OPERATION_PATCH:
            return windlass_plugin_writes_patch(&wire->val.patch.target, wire->val.patch.patch_type, &wire->val.patch.patch,
                &wire->val.patch.options, &object->val, error);
        case WINDLASS_PLUGIN_WRITES_OPERATION_APPLY:
            return windlass_plugin_writes_apply(&wire->val.apply.object, &wire->val.apply.options, &object->val, error);
        default:
            return windlass_plugin_writes_delete(&wire->val.delete_.target, &wire->val.delete_.options, object, error);
    }
}

void windlass_host_write(const windlass_operation *operation, windlass_text body, windlass_host_answer *answer) {
    windlass_plugin_writes_operation_t wire = lower_operation(operation, body);
    windlass_plugin_writes_option_json_t object;
    windlass_plugin_types_api_error_t error;
    if (!carry_out(&wire, &object, &error)) {
        refuse(answer, &error);
    } else if (object.is_some) {
        answer->object = lift(object.val);
    }
}

void windlass_host_batch(
    const windlass_operation *operations, const windlass_text *bodies, size_t count, windlass_host_answer *answers) {
    windlass_plugin_writes_operation_t *wire = windlass_alloc_array(count, sizeof *wire);
    for (size_t i = 0; i < count; i++) {
        wire[i] = lower_operation(&operations[i], bodies[i]);
    }
    windlass_plugin_writes_list_operation_t list = {wire, count};
    windlass_plugin_writes_list_result_option_json_api_error_t results;
    windlass_plugin_writes_batch(&list, &results);
    for (size_t i = 0; i < results.len && i < count; i++) {
        if (results.ptr[i].is_err) {
            refuse(&answers[i], &results.ptr[i].val.err);
        } else if (results.ptr[i].val.ok.is_some) {
            answers[i].object = lift(results.ptr[i].val.ok.val);
        }
    }
}

static windlass_ref *lift_refs(const windlass_plugin_types_object_ref_t *wire, size_t count) {
    windlass_ref *refs = windlass_alloc_array(count, sizeof *refs);
    for (size_t i = 0; i < count; i++) {
        refs[i] = lift_ref(&wire[i]);
    }
    return refs;
}

bool windlass_host_delete_collection(const windlass_collection *collection, const windlass_delete_options *options,
    windlass_deleted *deleted, windlass_api_error *error) {
    windlass_plugin_writes_collection_t wire = {
        .kind = {lower(collection->api_version), lower(collection->kind)},
        .namespace_ = lower_option(collection->namespace),
        .label_selector = lower_option(collection->label_selector),
        .field_selector = lower_option(collection->field_selector),
        .all = collection->all,
    };
    windlass_plugin_writes_delete_options_t how = lower_delete_options(options);
    windlass_plugin_writes_option_list_object_ref_t named;
    windlass_plugin_types_api_error_t failure;
    if (!windlass_plugin_writes_delete_collection(&wire, &how, &named, &failure)) {
        *error = lift_error(&failure);
        return false;
    }
    if (named.is_some) {
        *deleted = (windlass_deleted){true, lift_refs(named.val.ptr, named.val.len), named.val.len};
    }
    return true;
}

size_t windlass_host_claim(windlass_text api_version, windlass_text kind, windlass_text selector, windlass_claimed *claimed,
    windlass_api_error **errors) {
    windlass_plugin_types_object_kind_t wire_kind = {lower(api_version), lower(kind)};
    wire_text wire_selector = lower(selector);
    windlass_plugin_owners_claimed_t changed;
    windlass_plugin_owners_list_api_error_t failed;
    if (windlass_plugin_owners_claim(&wire_kind, &wire_selector, &changed, &failed)) {
        *claimed = (windlass_claimed){
            lift_refs(changed.adopted.ptr, changed.adopted.len), changed.adopted.len,
            lift_refs(changed.released.ptr, changed.released.len), changed.released.len};
        return 0;
    }
    *errors = windlass_alloc_array(failed.len, sizeof **errors);
    for (size_t i = 0; i < failed.len; i++) {
        (*errors)[i] = lift_error(&failed.ptr[i]);
    }
    return failed.len;
}

// --- Triggers, events, metrics, HTTP ---

windlass_triggers windlass_host_triggers(void) {
    windlass_plugin_triggers_list_trigger_t wire;
    windlass_plugin_triggers_list(&wire);
    windlass_trigger *triggers = windlass_alloc_array(wire.len, sizeof *triggers);
    for (size_t i = 0; i < wire.len; i++) {
        triggers[i].reason = lift(wire.ptr[i].reason);
        triggers[i].watch = lift_option(wire.ptr[i].watch);
        triggers[i].has_object = wire.ptr[i].object.is_some;
        if (wire.ptr[i].object.is_some) {
            triggers[i].object = lift_ref(&wire.ptr[i].object.val);
        }
    }
    return (windlass_triggers){triggers, wire.len};
}

void windlass_host_emit(const windlass_event *event) {
    windlass_plugin_types_event_t wire = lower_event(event);
    windlass_plugin_events_emit(&wire);
}

void windlass_host_metric_value(
    windlass_host_metric what, windlass_text name, double value, const windlass_field *labels, size_t count) {
    wire_text wire_name = lower(name);
    wire_fields wire_labels = lower_fields(labels, count);
    switch (what) {
        case WINDLASS_HOST_ADD: windlass_plugin_metrics_add(&wire_name, value, &wire_labels); break;
        case WINDLASS_HOST_SET: windlass_plugin_metrics_set(&wire_name, value, &wire_labels); break;
        case WINDLASS_HOST_OBSERVE: windlass_plugin_metrics_observe(&wire_name, value, &wire_labels); break;
    }
}

static windlass_plugin_http_body_t lower_body(const windlass_http_request *request) {
    windlass_plugin_http_body_t wire = {.tag = request->is_bytes ? WINDLASS_PLUGIN_HTTP_BODY_BYTES : WINDLASS_PLUGIN_HTTP_BODY_TEXT};
    if (request->is_bytes) {
        wire.val.bytes = (wire_bytes){(uint8_t *)(uintptr_t)request->body.data, request->body.length};
    } else {
        wire.val.text = lower(request->body);
    }
    return wire;
}

bool windlass_host_fetch(const windlass_http_request *request, windlass_http_response *response, windlass_http_error *error) {
    windlass_plugin_http_request_t wire = {
        .method = lower(request->method),
        .url = lower(request->url),
        .headers = lower_fields(request->headers, request->header_count),
        .body = {.is_some = request->body.data != NULL, .val = lower_body(request)},
        .timeout_ms = {.is_some = request->timeout_ms != 0, .val = request->timeout_ms},
    };
    windlass_plugin_http_response_t answer;
    windlass_plugin_http_http_error_t failure;
    if (!windlass_plugin_http_fetch(&wire, &answer, &failure)) {
        *error = (windlass_http_error){(windlass_http_reason)failure.reason, lift(failure.message)};
        return false;
    }
    bool is_bytes = answer.body.tag == WINDLASS_PLUGIN_HTTP_BODY_BYTES;
    windlass_text bytes = {(const char *)answer.body.val.bytes.ptr, answer.body.val.bytes.len};
    *response = (windlass_http_response){
        .status = answer.status,
        .headers = windlass_alloc_array(answer.headers.len, sizeof *response->headers),
        .header_count = answer.headers.len,
        .body = is_bytes ? bytes : lift(answer.body.val.text),
        .is_bytes = is_bytes,
    };
    for (size_t i = 0; i < answer.headers.len; i++) {
        response->headers[i] = (windlass_field){lift(answer.headers.ptr[i].f0), lift(answer.headers.ptr[i].f1)};
    }
    return true;
}

// --- What the host calls ---

void exports_windlass_plugin_reconciler_describe(exports_windlass_plugin_reconciler_json_t *manifest) {
    windlass_call_begin();
    *manifest = lower(windlass_manifest_text(windlass_plugin_manifest()));
    windlass_call_end();
}

bool exports_windlass_plugin_reconciler_reconcile(exports_windlass_plugin_reconciler_request_t *wire,
    exports_windlass_plugin_reconciler_outcome_t *answer, exports_windlass_plugin_reconciler_list_failure_t *failed) {
    windlass_call_begin();
    windlass_failures failures = {0};
    windlass_request request = lift_request(wire, &failures);
    windlass_outcome outcome = WINDLASS_DONE;
    if (failures.count == 0) {
        outcome = windlass_plugin_reconcile(&request, &failures);
    }
    *answer = (exports_windlass_plugin_reconciler_outcome_t){
        .requeue =
            {
                .is_some = outcome.requeue || outcome.requeue_with_backoff,
                .val = lower_requeue(outcome.requeue_with_backoff, outcome.requeue_after_ms),
            },
    };
    *failed = (exports_windlass_plugin_reconciler_list_failure_t){lower_failures(&failures), failures.count};
    windlass_call_end();
    return failures.count == 0;
}

// The host calls this once it has read the result. It replaces the bindings' function.

void __wasm_export_exports_windlass_plugin_reconciler_describe_post_return(uint8_t *answer);
void __wasm_export_exports_windlass_plugin_reconciler_reconcile_post_return(uint8_t *answer);

__attribute__((__export_name__("cabi_post_windlass:plugin/reconciler@0.3.0#describe"))) void
__wasm_export_exports_windlass_plugin_reconciler_describe_post_return(uint8_t *answer) {
    (void)answer;
    windlass_memory_clear();
}

__attribute__((__export_name__("cabi_post_windlass:plugin/reconciler@0.3.0#reconcile"))) void
__wasm_export_exports_windlass_plugin_reconciler_reconcile_post_return(uint8_t *answer) {
    (void)answer;
    windlass_memory_clear();
}

#else

typedef int windlass_no_host_natively;

#endif
