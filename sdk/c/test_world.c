// The world of a unit test: objects in memory, a time and a configuration.

#ifndef __wasm__

#include "windlass_test_internal.h"

windlass_fake_host windlass_fake;

void windlass_fake_reset(void) {
    windlass_memory_clear();
    windlass_test_failures = (windlass_failures){0};
    windlass_fake = (windlass_fake_host){.now = {1767225600, 0}, .config = "{}"};
    windlass_memory_keep(true);
    windlass_fake.objects = windlass_empty_array();
    windlass_fake.definitions = windlass_empty_array();
    windlass_memory_keep(false);
}

windlass_json *windlass_test_json(const char *text) {
    windlass_json_error error;
    windlass_json *value = windlass_json_parse(windlass_text_of(text), &error);
    if (value == NULL) {
        windlass_test_fail_check("JSON, byte", (int)error.offset, text, error.message);
    }
    return value;
}

windlass_json *windlass_fake_lookup(const windlass_ref *target) {
    windlass_json_each(object, windlass_fake.objects) {
        if (windlass_find(&object, 1, target) != NULL) {
            return object;
        }
    }
    return NULL;
}

windlass_json *windlass_test_object(const char *api_version, const char *kind, const char *namespace, const char *name) {
    windlass_ref target = windlass_ref_of(api_version, kind, windlass_text(namespace), windlass_text(name));
    return windlass_fake_lookup(&target);
}

bool windlass_fake_has_labels(const windlass_json *object, windlass_text selector) {
    const windlass_json *labels = windlass_json_at(object, "/metadata/labels");
    const char *from = selector.length ? selector.data : "";
    while (*from != 0) {
        size_t length = strcspn(from, ",");
        const char *equals = memchr(from, '=', length);
        if (equals == NULL) {
            windlass_trap("the test host supports only selectors of the form `a=b,c=d`");
        }
        windlass_text key = {from, (size_t)(equals - from)};
        windlass_text value = {equals + 1, length - key.length - 1};
        if (!windlass_text_equal(windlass_json_text(windlass_json_get_text(labels, key)), value)) {
            return false;
        }
        from += length + (from[length] == ',');
    }
    return true;
}

void windlass_fake_new_version(windlass_json *object, windlass_text had) {
    windlass_json *metadata = windlass_json_get(object, "metadata");
    if (windlass_json_get(metadata, "uid") == NULL) {
        const char *uid = had.data ? had.data : windlass_concat("uid-", windlass_decimal((int64_t)++windlass_fake.uids));
        windlass_json_set(metadata, "uid", windlass_string(uid));
    }
    windlass_json_set(metadata, "resourceVersion", windlass_string(windlass_decimal((int64_t)++windlass_fake.versions)));
}

windlass_json *windlass_test_put(const char *text) {
    bool before = windlass_memory_keep(true);
    windlass_json *object = windlass_test_json(text);
    windlass_ref target = windlass_ref_to(object);
    target.uid = WINDLASS_NONE;
    windlass_json *known = windlass_fake_lookup(&target);
    windlass_json_remove(known);
    object = windlass_json_add(windlass_fake.objects, object);
    windlass_fake_fill(object);
    windlass_fake_new_version(object, windlass_json_text_at(known, "/metadata/uid"));
    windlass_memory_keep(before);
    return object;
}

// --- Deleting ---

static bool has_finalizers(const windlass_json *object) {
    const windlass_json *finalizers = windlass_json_at(object, "/metadata/finalizers");
    return finalizers != NULL && finalizers->count > 0;
}

bool windlass_fake_is_released(const windlass_json *object) {
    return !windlass_json_is_null(windlass_json_at(object, "/metadata/deletionTimestamp")) && !has_finalizers(object);
}

static void mark_deleted(windlass_json *object) {
    if (windlass_json_is_null(windlass_json_at(object, "/metadata/deletionTimestamp"))) {
        windlass_json_set_at(object, "/metadata/deletionTimestamp", windlass_string(windlass_instant_text(windlass_fake.now)));
        windlass_fake_new_version(object, WINDLASS_NONE);
    }
}

static void disown(windlass_json *object, windlass_text uid) {
    windlass_json *next;
    const windlass_json *owners = windlass_json_at(object, "/metadata/ownerReferences");
    for (windlass_json *owner = owners ? owners->first : NULL; owner != NULL; owner = next) {
        next = owner->next;
        bool is_meant = windlass_text_equal(windlass_json_text(windlass_json_get(owner, "uid")), uid);
        windlass_json_remove(is_meant ? owner : NULL);
    }
}

// The next child of a deleted owner: one to delete or, with `orphans`, to disown. Children with finalizers cannot be
// deleted yet; they are only marked as being deleted.
static windlass_json *next_child(windlass_text uid, bool orphans) {
    windlass_json_each(object, windlass_fake.objects) {
        if (!windlass_text_equal(windlass_controller_uid(object), uid)) {
            continue;
        }
        if (orphans || !has_finalizers(object)) {
            return object;
        }
        mark_deleted(object);
    }
    return NULL;
}

windlass_json *windlass_fake_delete(windlass_json *object, windlass_propagation propagation) {
    if (has_finalizers(object)) {
        mark_deleted(object);
        return object;
    }
    windlass_text uid = windlass_json_text_at(object, "/metadata/uid");
    bool orphans = propagation == WINDLASS_PROPAGATE_ORPHAN;
    windlass_json_remove(object);
    windlass_json *child;
    while (uid.data != NULL && (child = next_child(uid, orphans)) != NULL) {
        if (orphans) {
            disown(child, uid);
        } else {
            windlass_fake_delete(child, WINDLASS_PROPAGATE_BACKGROUND);
        }
    }
    return NULL;
}

void windlass_test_set_now(windlass_instant instant) {
    windlass_fake.now = instant;
}

void windlass_test_set_config(const char *text) {
    bool before = windlass_memory_keep(true);
    windlass_fake.config = windlass_concat(text);
    windlass_memory_keep(before);
}

#else

typedef int windlass_no_world_in_a_component;

#endif
