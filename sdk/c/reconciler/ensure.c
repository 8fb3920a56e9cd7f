// Writes that are sent only if the cache does not show their fields yet.

#include "../windlass_internal.h"

// --- The difference ---

static void remove_nulls(windlass_json *value) {
    for (windlass_json *next, *part = value->first; part != NULL; part = next) {
        next = part->next;
        // A null in an array stays, because the other elements must keep their positions.
        if (part->type == WINDLASS_JSON_NULL && value->type == WINDLASS_JSON_OBJECT) {
            windlass_json_remove(part);
        } else {
            remove_nulls(part);
        }
    }
}

// A copy without the nulls in its objects.
static windlass_json *without_nulls(const windlass_json *value) {
    windlass_json *copy = windlass_json_copy(value);
    remove_nulls(copy);
    return copy;
}

// Whether a value, which may be NULL, has all wanted fields. A missing value is enough for a wanted null, and for a
// wanted object that contains only nulls. It is not enough for an empty object or array, such as `emptyDir: {}`.
static bool shows(const windlass_json *value, const windlass_json *wanted) {
    if (wanted->type == WINDLASS_JSON_NULL) {
        return windlass_json_is_null(value);
    }
    if (wanted->type != WINDLASS_JSON_OBJECT && wanted->type != WINDLASS_JSON_ARRAY) {
        return windlass_json_equal(value, wanted);
    }
    bool is_array = wanted->type == WINDLASS_JSON_ARRAY;
    bool is_there = !windlass_json_is_null(value);
    if (is_there && (!windlass_json_is(value, wanted->type) || (is_array && value->count != wanted->count))) {
        return false;
    }
    if (!is_there && (is_array || wanted->count == 0)) {
        return false;
    }
    const windlass_json *element = is_there ? value->first : NULL;
    windlass_json_each(part, wanted) {
        if (!shows(is_array ? element : windlass_json_get_text(value, part->key), part)) {
            return false;
        }
        element = element ? element->next : NULL;
    }
    return true;
}

// Sets the wanted members of an object, as a merge patch would.
static void overlay(windlass_json *object, const windlass_json *wanted) {
    windlass_json_each(member, wanted) {
        windlass_json *known = windlass_json_get_text(object, member->key);
        if (member->type == WINDLASS_JSON_NULL) {
            windlass_json_remove(known);
        } else if (shows(known, member)) {
            continue;
        } else if (windlass_json_is(known, WINDLASS_JSON_OBJECT) && member->type == WINDLASS_JSON_OBJECT) {
            overlay(known, member);
        } else {
            windlass_json_set_text(object, member->key, without_nulls(member));
        }
    }
}

// The wanted elements. Each keeps its other members if the known element at its position has the same name.
static windlass_json *list_of(const windlass_json *known, const windlass_json *wanted) {
    windlass_json *list = windlass_empty_array();
    const windlass_json *old = known->first;
    windlass_json_each(element, wanted) {
        windlass_text name = windlass_json_text(windlass_json_get(old, "name"));
        bool is_alike = name.data != NULL && windlass_text_equal(name, windlass_json_text(windlass_json_get(element, "name")));
        windlass_json *added = windlass_json_add(list, is_alike ? windlass_json_copy(old) : without_nulls(element));
        if (is_alike) {
            overlay(added, element);
        }
        old = old ? old->next : NULL;
    }
    return list;
}

// The merge patch that changes a value, which may be NULL, into the wanted one. Returns NULL if they do not differ.
static windlass_json *difference(const windlass_json *value, const windlass_json *wanted) {
    if (windlass_json_is(value, WINDLASS_JSON_OBJECT) && wanted->type == WINDLASS_JSON_OBJECT) {
        windlass_json *differing = windlass_empty_object();
        windlass_json_each(member, wanted) {
            windlass_json *change = difference(windlass_json_get_text(value, member->key), member);
            if (change != NULL) {
                windlass_json_set_text(differing, member->key, change);
            }
        }
        return differing->count > 0 ? differing : NULL;
    }
    if (shows(value, wanted)) {
        return NULL;
    }
    if (windlass_json_is_null(value)) {
        return without_nulls(wanted);
    }
    if (value->type == WINDLASS_JSON_ARRAY && wanted->type == WINDLASS_JSON_ARRAY) {
        return list_of(value, wanted);
    }
    // Nulls may stay in this copy: a merge patch drops them when it replaces a value of another type.
    return windlass_json_copy(wanted);
}

// --- The patch ---

// Whether two entries are the same owner, or the same finalizer.
static bool is_same(const windlass_json *one, const windlass_json *other) {
    windlass_text uid = windlass_json_text(windlass_json_get(one, "uid"));
    return uid.data != NULL ? windlass_text_equal(uid, windlass_json_text(windlass_json_get(other, "uid")))
                            : windlass_json_equal(one, other);
}

// A copy of the known owners or finalizers with the wanted ones. A wanted entry replaces the known entry of the same
// owner or finalizer, or is appended.
static windlass_json *joined(const windlass_json *known, const windlass_json *wanted) {
    windlass_json *all = windlass_json_copy(known);
    windlass_json_each(element, wanted) {
        windlass_json *same = all->first;
        while (same != NULL && !is_same(same, element)) {
            same = same->next;
        }
        if (same == NULL) {
            windlass_json_add(all, element);
        } else {
            overlay(same, element);
        }
    }
    return all;
}

// The metadata to compare: without the fields that the server sets, and with the owners and finalizers that others have
// added.
static windlass_json *metadata_of(const windlass_json *cached, const windlass_json *desired) {
    static const char *const set_by_server[] = {"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
        "deletionGracePeriodSeconds", "managedFields", "selfLink"};
    static const char *const shared[] = {"ownerReferences", "finalizers"};
    windlass_json *wanted = windlass_json_copy(desired);
    for (size_t i = 0; i < sizeof set_by_server / sizeof *set_by_server; i++) {
        windlass_json_remove(windlass_json_get(wanted, set_by_server[i]));
    }
    // The server drops empty maps and lists in metadata.
    for (windlass_json *next, *field = wanted->first; field != NULL; field = next) {
        next = field->next;
        bool is_collection = field->type == WINDLASS_JSON_OBJECT || field->type == WINDLASS_JSON_ARRAY;
        if (is_collection && field->count == 0) {
            windlass_json_remove(field);
        }
    }
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        const windlass_json *known = windlass_json_get(cached, shared[i]);
        const windlass_json *list = windlass_json_get(wanted, shared[i]);
        if (windlass_json_is(known, WINDLASS_JSON_ARRAY) && windlass_json_is(list, WINDLASS_JSON_ARRAY)) {
            windlass_json_set(wanted, shared[i], joined(known, list));
        }
    }
    return wanted;
}

windlass_json *windlass_ensure_patch(const windlass_json *cached, const windlass_json *desired) {
    windlass_json *patch = windlass_empty_object();
    windlass_json_each(member, desired) {
        windlass_text key = member->key;
        if (windlass_text_is(key, "apiVersion") || windlass_text_is(key, "kind") || windlass_text_is(key, "status")) {
            continue;
        }
        const windlass_json *known = windlass_json_get_text(cached, key);
        bool is_metadata = windlass_text_is(key, "metadata") && member->type == WINDLASS_JSON_OBJECT;
        windlass_json *change = difference(known, is_metadata ? metadata_of(known, member) : member);
        if (change != NULL) {
            windlass_json_set_text(patch, key, change);
        }
    }
    return patch->count > 0 ? patch : NULL;
}

// Whether a merge patch may undo newer writes of other clients, because it replaces whole lists, or removes a whole
// field by a null.
static bool may_undo(const windlass_json *patch) {
    if (!windlass_json_is(patch, WINDLASS_JSON_OBJECT)) {
        return windlass_json_is(patch, WINDLASS_JSON_ARRAY) || windlass_json_is(patch, WINDLASS_JSON_NULL);
    }
    windlass_json_each(member, patch) {
        if (may_undo(member)) {
            return true;
        }
    }
    return false;
}

windlass_text windlass_ensure_version(const windlass_json *cached, const windlass_json *patch) {
    return may_undo(patch) ? windlass_json_text_at(cached, "/metadata/resourceVersion") : WINDLASS_NONE;
}

static const windlass_json *controller_of(const windlass_json *object) {
    windlass_json_each(owner, windlass_json_at(object, "/metadata/ownerReferences")) {
        if (windlass_json_is_true(windlass_json_get(owner, "controller"))) {
            return owner;
        }
    }
    return NULL;
}

const char *windlass_ensure_other_controller(const windlass_json *cached, const windlass_json *desired) {
    const windlass_json *known = controller_of(cached);
    const windlass_json *wanted = controller_of(desired);
    if (known == NULL || wanted == NULL || windlass_json_equal(windlass_json_get(known, "uid"), windlass_json_get(wanted, "uid"))) {
        return NULL;
    }
    windlass_text kind = windlass_json_text(windlass_json_get(known, "kind"));
    return windlass_concat(kind.data, " ", windlass_json_text(windlass_json_get(known, "name")).data);
}

// --- The write ---

static const windlass_error *find_target(const windlass_json *object, windlass_ref *target) {
    *target = windlass_ref_to(object);
    // The server sets the UID, so it is not compared.
    target->uid = WINDLASS_NONE;
    const char *missing = target->api_version.length == 0 ? "apiVersion"
                          : target->kind.length == 0      ? "kind"
                          : target->name.length == 0      ? "metadata.name"
                                                          : NULL;
    const char *message = windlass_concat("an object to write: ", missing, " is missing");
    return missing ? windlass_terminal_text(windlass_text_of(message)) : NULL;
}

static const windlass_error *taken(const windlass_ref *target, const char *controller) {
    return windlass_api(&(windlass_api_error){
        .code = 409,
        .reason = WINDLASS_ALREADY_EXISTS,
        .status_reason = windlass_text("AlreadyExists"),
        .message = windlass_text_of(windlass_concat("it exists, and ", controller, " controls it")),
        .verb = windlass_text("ensure"),
        .resource = target->kind,
        .has_object = true,
        .object = *target,
    });
}

const windlass_error *windlass_writes_ensure(const windlass_json *object, windlass_ensured *ensured) {
    windlass_ensured nowhere;
    ensured = ensured ? ensured : &nowhere;
    *ensured = (windlass_ensured){WINDLASS_UNCHANGED, NULL};
    windlass_ref target;
    const windlass_error *error = find_target(object, &target);
    windlass_json *cached = NULL;
    error = error ? error : windlass_cache_get(&target, NULL, &cached);
    if (error != NULL) {
        return error;
    }
    // The result of the write is parsed only if the caller wants it.
    windlass_json **now = ensured == &nowhere ? NULL : &ensured->object;
    if (cached == NULL) {
        ensured->effect = WINDLASS_CREATED;
        return windlass_writes_create(object, NULL, now);
    }
    const char *controller = windlass_ensure_other_controller(cached, object);
    if (controller != NULL) {
        return taken(&target, controller);
    }
    const windlass_json *patch = windlass_ensure_patch(cached, object);
    if (patch == NULL) {
        ensured->object = cached;
        return NULL;
    }
    ensured->effect = WINDLASS_PATCHED;
    // The patch must not reach a later object of this name, which may have another controller.
    target.uid = windlass_json_text_at(cached, "/metadata/uid");
    windlass_write_options options = {.resource_version = windlass_ensure_version(cached, patch)};
    return windlass_writes_patch(&target, WINDLASS_PATCH_MERGE, patch, &options, now);
}
