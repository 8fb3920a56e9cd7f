// The writes and claims of the unit tests' host.

#ifndef __wasm__

#include "windlass_test_internal.h"

// Merges as a JSON merge patch does (RFC 7386).
static void merge(windlass_json *into, const windlass_json *patch) {
    windlass_json_each(member, patch) {
        windlass_json *known = windlass_json_get_text(into, member->key);
        if (member->type == WINDLASS_JSON_NULL) {
            windlass_json_remove(known);
        } else if (windlass_json_is(known, WINDLASS_JSON_OBJECT) && member->type == WINDLASS_JSON_OBJECT) {
            merge(known, member);
        } else {
            windlass_json_set_text(into, member->key, windlass_json_copy(member));
        }
    }
}

static void own(windlass_json *object) {
    windlass_json_set_at(object, "/metadata/ownerReferences", windlass_array(windlass_owner_reference(windlass_fake.primary)));
}

// Applies a write to an existing object.
static void change(windlass_json *object, const windlass_test_write *write) {
    if (strcmp(write->verb, "apply") == 0 || write->patch_type == WINDLASS_PATCH_MERGE) {
        merge(object, write->body);
    }
    windlass_fake_fill(object);
}

static bool replaces(const windlass_test_write *write, const windlass_json *known) {
    return known == NULL || strcmp(write->verb, "update") == 0;
}

// A copy of the object with the write's changes. The stored object stays as it is.
static windlass_json *as_written(const windlass_test_write *write, const windlass_json *known) {
    windlass_json *object = windlass_json_copy(replaces(write, known) ? write->body : known);
    if (replaces(write, known)) {
        windlass_fake_fill(object);
    } else {
        change(object, write);
    }
    return object;
}

static windlass_json *store(const windlass_test_write *write, windlass_json *known) {
    windlass_json *object = known;
    windlass_text uid = windlass_json_text_at(known, "/metadata/uid");
    if (replaces(write, known)) {
        object = windlass_json_add(windlass_fake.objects, as_written(write, known));
        windlass_json_remove(known);
    } else {
        change(object, write);
    }
    const windlass_json *primary = windlass_fake.primary;
    if (write->options.owned && primary != NULL && !windlass_is_controlled_by(object, primary)) {
        own(object);
    }
    windlass_fake_new_version(object, uid);
    if (windlass_fake_is_released(object)) {
        windlass_fake_delete(object, WINDLASS_PROPAGATE_BACKGROUND);
    }
    return object;
}

// The object after a write; NULL with an error if it does not fit its kind.
static windlass_json *admit(const windlass_test_write *write, windlass_json *known, windlass_host_answer *answer) {
    bool is_about_status = windlass_text_is(write->options.subresource.name, "status");
    windlass_json *object = as_written(write, known);
    const char *misfits =
        windlass_fake_misfits(object, is_about_status, write->options.field_validation == WINDLASS_VALIDATE_STRICT);
    if (misfits != NULL) {
        answer->failed = true;
        answer->error = windlass_fake_error(WINDLASS_INVALID, write->verb, &write->target);
        answer->error.message = windlass_text_of(misfits);
        return NULL;
    }
    return write->options.dry_run ? object : store(write, known);
}

// Whether a write requires another version than the object has.
static bool is_stale(const windlass_test_write *write, const windlass_json *known) {
    windlass_text version = windlass_json_text_at(known, "/metadata/resourceVersion");
    const windlass_text wanted[] = {write->options.resource_version, write->delete_options.resource_version,
        windlass_json_text_at(write->body, "/metadata/resourceVersion")};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (wanted[i].length > 0 && !windlass_text_equal(wanted[i], version)) {
            return true;
        }
    }
    return false;
}

static windlass_test_write *note(const windlass_operation *operation, windlass_text body) {
    static const char *const verbs[] = {"create", "update", "patch", "apply", "delete"};
    windlass_test_write *write = windlass_alloc(sizeof *write);
    write->verb = verbs[operation->type];
    write->body = body.data ? windlass_json_parse(body, NULL) : NULL;
    bool has_target = operation->type == WINDLASS_PATCH || operation->type == WINDLASS_DELETE;
    write->target = has_target ? windlass_fake_ref(&operation->target) : windlass_ref_to(write->body);
    write->options = operation->options;
    write->options.resource_version = windlass_text_copy(write->options.resource_version);
    write->options.subresource.name = windlass_text_copy(write->options.subresource.name);
    write->options.subresource.parent = windlass_fake_ref_or_none(write->options.subresource.parent);
    write->options.manager_suffix = windlass_text_copy(write->options.manager_suffix);
    write->options.fields = windlass_fake_texts(write->options.fields);
    write->patch_type = operation->patch_type;
    write->delete_options = operation->delete_options;
    write->delete_options.resource_version = windlass_text_copy(write->delete_options.resource_version);
    windlass_fake_keep(&windlass_fake.writes, write);
    return write;
}

// The object after a write, or NULL if the write failed or removed the object.
static windlass_json *carry_out(const windlass_operation *operation, windlass_text body, windlass_host_answer *answer) {
    windlass_test_write *write = note(operation, body);
    windlass_json *known = windlass_fake_lookup(&write->target);
    answer->failed = windlass_fake_fails(write->verb, &write->target, &answer->error);
    bool is_missing = known == NULL && operation->type != WINDLASS_CREATE && operation->type != WINDLASS_APPLY;
    bool is_taken = known != NULL && operation->type == WINDLASS_CREATE;
    bool is_other = operation->type != WINDLASS_CREATE && is_stale(write, known);
    if (!answer->failed && (is_missing || is_taken || is_other)) {
        windlass_reason reason = is_missing ? WINDLASS_NOT_FOUND : is_taken ? WINDLASS_ALREADY_EXISTS : WINDLASS_CONFLICT;
        answer->failed = true;
        answer->error = windlass_fake_error(reason, write->verb, &write->target);
    }
    if (answer->failed) {
        return NULL;
    }
    bool is_part = write->options.subresource.name.data != NULL;
    bool is_named = write->target.name.length > 0 || windlass_json_at(write->body, "/metadata/generateName") != NULL;
    if (operation->type == WINDLASS_CREATE && !is_part && !is_named) {
        // An object without a name is of a kind that is not stored.
        windlass_json *planned = windlass_fake_created(&write->target);
        return planned ? planned : write->body;
    }
    if (operation->type == WINDLASS_DELETE) {
        return operation->delete_options.dry_run ? NULL : windlass_fake_delete(known, operation->delete_options.propagation);
    }
    if (operation->type == WINDLASS_PATCH && operation->patch_type != WINDLASS_PATCH_MERGE) {
        windlass_test_write replacing = *write;
        replacing.verb = "update";
        replacing.body = windlass_fake_patched(&write->target);
        windlass_json *object = admit(&replacing, known, answer);
        answer->error.verb = windlass_text(write->verb);
        return object;
    }
    return admit(write, known, answer);
}

void windlass_host_write(const windlass_operation *operation, windlass_text body, windlass_host_answer *answer) {
    bool before = windlass_memory_keep(true);
    const windlass_json *object = carry_out(operation, body, answer);
    windlass_memory_keep(before);
    const char *const *fields = operation->type == WINDLASS_DELETE ? NULL : operation->options.fields;
    answer->object = object ? windlass_json_print(windlass_fake_projected(object, fields)) : WINDLASS_NONE;
}

void windlass_host_batch(
    const windlass_operation *operations, const windlass_text *bodies, size_t count, windlass_host_answer *answers) {
    for (size_t i = 0; i < count; i++) {
        windlass_host_write(&operations[i], bodies[i], &answers[i]);
    }
}

static void note_collection(const windlass_ref *target, const windlass_collection *collection, const windlass_delete_options *options) {
    bool before = windlass_memory_keep(true);
    windlass_test_write *write = windlass_alloc(sizeof *write);
    *write = (windlass_test_write){.verb = "deletecollection", .target = windlass_fake_ref(target), .delete_options = *options};
    write->delete_options.resource_version = windlass_text_copy(options->resource_version);
    write->label_selector = windlass_text_copy(collection->label_selector);
    windlass_fake_keep(&windlass_fake.writes, write);
    windlass_memory_keep(before);
}

bool windlass_host_delete_collection(const windlass_collection *collection, const windlass_delete_options *options,
    windlass_deleted *deleted, windlass_api_error *error) {
    windlass_ref target = {.api_version = collection->api_version, .kind = collection->kind, .namespace = collection->namespace};
    note_collection(&target, collection, options);
    if (windlass_fake_fails("deletecollection", &target, error)) {
        return false;
    }
    if (collection->field_selector.length > 0) {
        windlass_trap("the test host does not support field selectors");
    }
    if (!collection->all && collection->label_selector.length == 0) {
        *error = windlass_fake_error(WINDLASS_INVALID, "deletecollection", &target);
        return false;
    }
    *deleted = (windlass_deleted){true, windlass_alloc_array(windlass_fake.objects->count, sizeof(windlass_ref)), 0};
    windlass_json_each(object, windlass_fake.objects) {
        windlass_ref self = windlass_ref_to(object);
        bool is_meant = windlass_text_equal(self.kind, target.kind) && windlass_text_equal(self.api_version, target.api_version)
                        && (target.namespace.data == NULL || windlass_text_equal(self.namespace, target.namespace))
                        && windlass_fake_has_labels(object, collection->label_selector);
        if (is_meant) {
            deleted->objects[deleted->count++] = windlass_fake_ref(&self);
        }
    }
    bool before = windlass_memory_keep(true);
    for (size_t i = 0; i < deleted->count && !options->dry_run; i++) {
        // The object may be gone already, deleted together with its owner.
        windlass_json *object = windlass_fake_lookup(&deleted->objects[i]);
        if (object != NULL) {
            windlass_fake_delete(object, options->propagation);
        }
    }
    windlass_memory_keep(before);
    return true;
}

size_t windlass_host_claim(windlass_text api_version, windlass_text kind, windlass_text selector, windlass_claimed *claimed,
    windlass_api_error **errors) {
    windlass_ref target = {.api_version = api_version, .kind = kind};
    windlass_api_error *error = windlass_alloc(sizeof *error);
    if (windlass_fake_fails("claim", &target, error)) {
        *errors = error;
        return 1;
    }
    claimed->adopted = windlass_alloc_array(windlass_fake.objects->count, sizeof *claimed->adopted);
    claimed->released = windlass_alloc_array(windlass_fake.objects->count, sizeof *claimed->released);
    windlass_json_each(object, windlass_fake.objects) {
        windlass_ref self = windlass_ref_to(object);
        if (!windlass_text_equal(self.kind, kind) || !windlass_text_equal(self.api_version, api_version)) {
            continue;
        }
        bool is_ours = windlass_is_controlled_by(object, windlass_fake.primary);
        bool matches = windlass_fake_has_labels(object, selector);
        if (matches && windlass_controller_uid(object).data == NULL) {
            bool before = windlass_memory_keep(true);
            own(object);
            windlass_memory_keep(before);
            claimed->adopted[claimed->adopted_count++] = self;
        } else if (!matches && is_ours) {
            windlass_json_remove(windlass_json_at(object, "/metadata/ownerReferences"));
            claimed->released[claimed->released_count++] = self;
        }
    }
    return 0;
}

#else

typedef int windlass_no_writes_in_a_component;

#endif
