// References to objects, selectors and owners.

#include "windlass_internal.h"

windlass_ref windlass_ref_of(const char *api_version, const char *kind, windlass_text namespace, windlass_text name) {
    return (windlass_ref){
        .api_version = windlass_text(api_version),
        .kind = windlass_text(kind),
        .namespace = namespace,
        .name = name,
    };
}

windlass_ref windlass_ref_to(const windlass_json *object) {
    const windlass_json *metadata = windlass_json_get(object, "metadata");
    return (windlass_ref){
        .api_version = windlass_json_text(windlass_json_get(object, "apiVersion")),
        .kind = windlass_json_text(windlass_json_get(object, "kind")),
        .namespace = windlass_json_text(windlass_json_get(metadata, "namespace")),
        .name = windlass_json_text(windlass_json_get(metadata, "name")),
        .uid = windlass_json_text(windlass_json_get(metadata, "uid")),
    };
}

windlass_ref windlass_sibling(const windlass_json *object, const char *api_version, const char *kind) {
    windlass_ref self = windlass_ref_to(object);
    return windlass_ref_of(api_version, kind, self.namespace, self.name);
}

const char *windlass_ref_text(const windlass_ref *ref) {
    windlass_buffer text = {0};
    windlass_buffer_add_text(&text, ref->kind);
    windlass_buffer_add_byte(&text, ' ');
    if (ref->namespace.data != NULL) {
        windlass_buffer_add_text(&text, ref->namespace);
        windlass_buffer_add_byte(&text, '/');
    }
    windlass_buffer_add_text(&text, ref->name);
    return windlass_buffer_text(&text).data;
}

windlass_json *windlass_find(windlass_json *const *objects, size_t count, const windlass_ref *ref) {
    for (size_t i = 0; i < count; i++) {
        windlass_ref known = windlass_ref_to(objects[i]);
        if (windlass_text_equal(known.name, ref->name) && windlass_text_equal(known.namespace, ref->namespace)
            && windlass_text_equal(known.kind, ref->kind) && windlass_text_equal(known.api_version, ref->api_version)
            && (ref->uid.data == NULL || windlass_text_equal(known.uid, ref->uid))) {
            return objects[i];
        }
    }
    return NULL;
}

// Adds a requirement: `key in (a,b)`, or only a key. The host refuses an unknown operator by its name.
static void add_requirement(windlass_buffer *text, const windlass_json *requirement) {
    windlass_text key = windlass_json_text(windlass_json_get(requirement, "key"));
    windlass_text operator = windlass_json_text(windlass_json_get(requirement, "operator"));
    bool is_absent = windlass_text_is(operator, "DoesNotExist");
    if (is_absent) {
        windlass_buffer_add_byte(text, '!');
    }
    windlass_buffer_add_text(text, key);
    if (is_absent || windlass_text_is(operator, "Exists")) {
        return;
    }
    const char *word = windlass_text_is(operator, "In") ? "in" : windlass_text_is(operator, "NotIn") ? "notin" : NULL;
    windlass_buffer_add_byte(text, ' ');
    windlass_buffer_add_text(text, word ? windlass_text(word) : operator);
    windlass_buffer_add_text(text, windlass_text(" ("));
    const windlass_json *values = windlass_json_get(requirement, "values");
    windlass_json_each(value, values) {
        if (value != values->first) {
            windlass_buffer_add_byte(text, ',');
        }
        windlass_buffer_add_text(text, windlass_json_text(value));
    }
    windlass_buffer_add_byte(text, ')');
}

windlass_text windlass_selector_text(const windlass_json *selector) {
    if (windlass_json_is_null(selector)) {
        return WINDLASS_NONE;
    }
    windlass_buffer text = {0};
    windlass_json_each(label, windlass_json_get(selector, "matchLabels")) {
        if (text.length > 0) {
            windlass_buffer_add_byte(&text, ',');
        }
        windlass_buffer_add_text(&text, label->key);
        windlass_buffer_add_byte(&text, '=');
        windlass_buffer_add_text(&text, windlass_json_text(label));
    }
    windlass_json_each(requirement, windlass_json_get(selector, "matchExpressions")) {
        if (text.length > 0) {
            windlass_buffer_add_byte(&text, ',');
        }
        add_requirement(&text, requirement);
    }
    return windlass_buffer_text(&text);
}

windlass_json *windlass_owner_reference(const windlass_json *owner) {
    windlass_ref ref = windlass_ref_to(owner);
    return windlass_object(
        {"apiVersion", windlass_string(ref.api_version)},
        {"kind", windlass_string(ref.kind)},
        {"name", windlass_string(ref.name)},
        {"uid", windlass_string(ref.uid)},
        {"controller", windlass_bool(true)},
        {"blockOwnerDeletion", windlass_bool(true)});
}

windlass_text windlass_controller_uid(const windlass_json *object) {
    windlass_json_each(owner, windlass_json_at(object, "/metadata/ownerReferences")) {
        if (windlass_json_is_true(windlass_json_get(owner, "controller"))) {
            return windlass_json_text(windlass_json_get(owner, "uid"));
        }
    }
    return WINDLASS_NONE;
}

bool windlass_is_controlled_by(const windlass_json *object, const windlass_json *owner) {
    windlass_text uid = windlass_json_text_at(owner, "/metadata/uid");
    return uid.data != NULL && windlass_text_equal(windlass_controller_uid(object), uid);
}
