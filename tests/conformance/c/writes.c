// Changes: `writes`.

#include "probe.h"

static windlass_write_options options_in(const windlass_json *step) {
    static const char *const validations[] = {"strict", "warn", "ignore", NULL};
    const windlass_json *options = windlass_json_get(step, "options");
    const windlass_json *parent = windlass_json_at(options, "/subresource/parent");
    int validation = word_in(options, "fieldValidation", validations);
    windlass_write_options read = {
        .subresource.name = windlass_json_text_at(options, "/subresource/name"),
        .resource_version = text_in(options, "resourceVersion"),
        .owned = truth_in(options, "owned"),
        .force = truth_in(options, "force"),
        .dry_run = truth_in(options, "dryRun"),
        .field_validation = validation < 0 ? WINDLASS_VALIDATE_STRICT : (windlass_field_validation)validation,
        .manager_suffix = text_in(options, "managerSuffix"),
        .fields = texts_in(options, "fields"),
    };
    if (!windlass_json_is_null(parent)) {
        windlass_ref *ref = windlass_alloc(sizeof *ref);
        *ref = ref_in(parent);
        read.subresource.parent = ref;
    }
    return read;
}

static windlass_delete_options delete_options_in(const windlass_json *step) {
    static const char *const propagations[] = {"background", "foreground", "orphan", NULL};
    const windlass_json *options = windlass_json_get(step, "options");
    int propagation = word_in(options, "propagation", propagations);
    return (windlass_delete_options){
        .resource_version = text_in(options, "resourceVersion"),
        .propagation = propagation < 0 ? WINDLASS_PROPAGATE_BACKGROUND : (windlass_propagation)propagation,
        .has_grace_period = !windlass_json_is_null(windlass_json_get(options, "gracePeriodMs")),
        .grace_period_ms = number_in(options, "gracePeriodMs", 0),
        .dry_run = truth_in(options, "dryRun"),
    };
}

static windlass_patch_type patch_type_in(const windlass_json *step) {
    static const char *const types[] = {"merge", "json", "strategic", NULL};
    int type = word_in(step, "patchType", types);
    return type < 0 ? WINDLASS_PATCH_MERGE : (windlass_patch_type)type;
}

static struct answer batch(const windlass_json *step) {
    static const char *const names[] = {"create", "update", "patch", "apply", "delete", NULL};
    const windlass_json *list = windlass_json_get(step, "operations");
    windlass_operation *operations = windlass_alloc_array(list->count, sizeof *operations);
    size_t count = 0;
    windlass_json_each(item, list) {
        windlass_operation *operation = &operations[count++];
        int type = word_in(item, "op", names);
        operation->type = type == 0   ? WINDLASS_CREATE
                          : type == 1 ? WINDLASS_UPDATE
                          : type == 2 ? WINDLASS_PATCH
                          : type == 3 ? WINDLASS_APPLY
                                      : WINDLASS_DELETE;
        operation->object = windlass_json_get(item, operation->type == WINDLASS_PATCH ? "patch" : "object");
        operation->target = ref_in(windlass_json_get(item, "target"));
        operation->patch_type = patch_type_in(item);
        operation->options = options_in(item);
        operation->delete_options = delete_options_in(item);
    }
    const windlass_result *results = windlass_writes_batch(operations, count);
    windlass_json *all = windlass_empty_array();
    for (size_t i = 0; i < count; i++) {
        windlass_json_add(all, shown(object_or(results[i].object, results[i].error)));
    }
    return good(all);
}

static struct answer delete_collection(const windlass_json *step) {
    const windlass_json *given = windlass_json_get(step, "collection");
    const windlass_json *kind = windlass_json_get(given, "kind");
    windlass_collection collection = {
        .api_version = text_in(kind, "apiVersion"),
        .kind = text_in(kind, "kind"),
        .namespace = text_in(given, "namespace"),
        .label_selector = text_in(given, "labelSelector"),
        .field_selector = text_in(given, "fieldSelector"),
        .all = truth_in(given, "all"),
    };
    windlass_delete_options options = delete_options_in(step);
    windlass_deleted deleted;
    const windlass_error *error = windlass_writes_delete_collection(&collection, &options, &deleted);
    if (error != NULL || !deleted.is_known) {
        return object_or(NULL, error);
    }
    windlass_json *all = windlass_empty_array();
    for (size_t i = 0; i < deleted.count; i++) {
        windlass_json_add(all, ref_shown(&deleted.objects[i]));
    }
    return good(all);
}

bool write_call(windlass_text call, const windlass_json *step, struct answer *answer) {
    const windlass_json *object = windlass_json_get(step, "object");
    windlass_ref target = ref_in(windlass_json_get(step, "target"));
    windlass_write_options options = options_in(step);
    windlass_json *written = NULL;
    const windlass_error *error;
    if (windlass_text_is(call, "writes.create")) {
        error = windlass_writes_create(object, &options, &written);
    } else if (windlass_text_is(call, "writes.update")) {
        error = windlass_writes_update(object, &options, &written);
    } else if (windlass_text_is(call, "writes.apply")) {
        error = windlass_writes_apply(object, &options, &written);
    } else if (windlass_text_is(call, "writes.patch")) {
        error = windlass_writes_patch(&target, patch_type_in(step), windlass_json_get(step, "patch"), &options, &written);
    } else if (windlass_text_is(call, "writes.delete")) {
        windlass_delete_options delete_options = delete_options_in(step);
        error = windlass_writes_delete(&target, &delete_options, &written);
    } else if (windlass_text_is(call, "writes.delete-collection")) {
        *answer = delete_collection(step);
        return true;
    } else if (windlass_text_is(call, "writes.evict")) {
        error = windlass_writes_evict(&target);
    } else if (windlass_text_is(call, "writes.batch")) {
        *answer = batch(step);
        return true;
    } else {
        return false;
    }
    *answer = object_or(written, error);
    return true;
}
