// Reads, creates and changes JSON values.

#include "windlass_internal.h"

// --- Reading ---

windlass_json *windlass_json_get_text(const windlass_json *object, windlass_text key) {
    windlass_json *found = NULL;
    if (windlass_json_is(object, WINDLASS_JSON_OBJECT)) {
        windlass_json_each(member, object) {
            found = windlass_text_equal(member->key, key) ? member : found;
        }
    }
    return found;
}

windlass_json *windlass_json_get(const windlass_json *object, const char *key) {
    return windlass_json_get_text(object, windlass_text_of(key));
}

windlass_json *windlass_json_element(const windlass_json *array, size_t index) {
    if (!windlass_json_is(array, WINDLASS_JSON_ARRAY) || index >= array->count) {
        return NULL;
    }
    windlass_json *element = array->first;
    while (index-- > 0) {
        element = element->next;
    }
    return element;
}

// Reads the next part of a pointer, after its slash. Returns false at the end.
static bool next_part(const char **pointer, windlass_text *part) {
    const char *from = *pointer;
    if (*from != '/') {
        return false;
    }
    from++;
    size_t length = strcspn(from, "/");
    *pointer = from + length;
    *part = (windlass_text){from, length};
    if (memchr(from, '~', length) == NULL) {
        return true;
    }
    char *copy = windlass_alloc_raw(length + 1);
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        bool is_escape = from[i] == '~' && i + 1 < length && (from[i + 1] == '0' || from[i + 1] == '1');
        copy[used++] = is_escape ? (from[i + 1] == '0' ? '~' : '/') : from[i];
        i += is_escape;
    }
    copy[used] = 0;
    *part = (windlass_text){copy, used};
    return true;
}

static bool read_index(windlass_text part, size_t *index) {
    *index = 0;
    for (size_t i = 0; i < part.length; i++) {
        unsigned digit = (unsigned)(part.data[i] - '0');
        if (digit > 9 || *index > (SIZE_MAX - digit) / 10 || (part.length > 1 && part.data[0] == '0')) {
            return false;
        }
        *index = *index * 10 + digit;
    }
    return part.length > 0;
}

static windlass_json *step(const windlass_json *value, windlass_text part) {
    size_t index;
    if (windlass_json_is(value, WINDLASS_JSON_ARRAY)) {
        return read_index(part, &index) ? windlass_json_element(value, index) : NULL;
    }
    return windlass_json_get_text(value, part);
}

windlass_json *windlass_json_at(const windlass_json *value, const char *pointer) {
    windlass_text part;
    while (value != NULL && next_part(&pointer, &part)) {
        value = step(value, part);
    }
    // Dropping `const` is safe: the tree is never in constant memory, and a caller that may change the whole tree may
    // change its parts.
    return *pointer == 0 ? (windlass_json *)(uintptr_t)value : NULL;
}

int64_t windlass_json_int_at(const windlass_json *value, const char *pointer, int64_t otherwise) {
    int64_t number;
    return windlass_json_read_int(windlass_json_at(value, pointer), &number) ? number : otherwise;
}

static bool same_members(const windlass_json *one, const windlass_json *other) {
    if (one->count != other->count) {
        return false;
    }
    const windlass_json *counterpart = other->first;
    windlass_json_each(member, one) {
        if (one->type == WINDLASS_JSON_OBJECT) {
            counterpart = windlass_json_get_text(other, member->key);
        }
        if (counterpart == NULL || !windlass_json_equal(member, counterpart)) {
            return false;
        }
        counterpart = counterpart->next;
    }
    return true;
}

bool windlass_json_equal(const windlass_json *one, const windlass_json *other) {
    if (one == other) {
        return true;
    }
    if (one == NULL || other == NULL || one->type != other->type) {
        return false;
    }
    switch (one->type) {
        case WINDLASS_JSON_NULL: return true;
        case WINDLASS_JSON_BOOL: return one->boolean == other->boolean;
        case WINDLASS_JSON_NUMBER: return windlass_number_equal(one->text, other->text);
        case WINDLASS_JSON_STRING: return windlass_text_equal(one->text, other->text);
        case WINDLASS_JSON_ARRAY:
        case WINDLASS_JSON_OBJECT: return same_members(one, other);
    }
    return false;
}

static bool has_element(const windlass_json *array, const windlass_json *wanted) {
    windlass_json_each(element, array) {
        if (windlass_has_fields(element, wanted)) {
            return true;
        }
    }
    return false;
}

bool windlass_has_fields(const windlass_json *object, const windlass_json *wanted) {
    if (windlass_json_is(object, WINDLASS_JSON_OBJECT) && windlass_json_is(wanted, WINDLASS_JSON_OBJECT)) {
        windlass_json_each(member, wanted) {
            const windlass_json *value = windlass_json_get_text(object, member->key);
            if (value == NULL || !windlass_has_fields(value, member)) {
                return false;
            }
        }
        return true;
    }
    if (windlass_json_is(object, WINDLASS_JSON_ARRAY) && windlass_json_is(wanted, WINDLASS_JSON_ARRAY)) {
        windlass_json_each(element, wanted) {
            if (!has_element(object, element)) {
                return false;
            }
        }
        return true;
    }
    return windlass_json_equal(object, wanted);
}

// --- Creating ---

static windlass_json *make(windlass_json_type type) {
    windlass_json *value = windlass_alloc(sizeof *value);
    value->type = type;
    return value;
}

windlass_json *windlass_null(void) {
    return make(WINDLASS_JSON_NULL);
}

windlass_json *windlass_bool(bool is_true) {
    windlass_json *value = make(WINDLASS_JSON_BOOL);
    value->boolean = is_true;
    return value;
}

windlass_json *windlass_json_string(windlass_text text) {
    if (text.data == NULL) {
        return windlass_null();
    }
    windlass_json *value = make(WINDLASS_JSON_STRING);
    value->text = windlass_text_copy(text);
    return value;
}

windlass_json *windlass_json_object(const windlass_member *members, size_t count) {
    windlass_json *object = make(WINDLASS_JSON_OBJECT);
    for (size_t i = 0; i < count; i++) {
        if (members[i].value != NULL) {
            windlass_json_set(object, members[i].key, members[i].value);
        }
    }
    return object;
}

windlass_json *windlass_json_array(windlass_json *const *elements, size_t count) {
    windlass_json *array = make(WINDLASS_JSON_ARRAY);
    for (size_t i = 0; i < count; i++) {
        if (elements[i] != NULL) {
            windlass_json_add(array, elements[i]);
        }
    }
    return array;
}

// --- Changing ---

static void append(windlass_json *parent, windlass_json *value) {
    value->parent = parent;
    value->next = NULL;
    *(parent->last ? &parent->last->next : &parent->first) = value;
    parent->last = value;
    parent->count++;
}

// A shallow copy of a value without its parent and its children. Texts never change, so both may share them.
static windlass_json *copy_alone(const windlass_json *value) {
    windlass_json *copy = make(value->type);
    copy->boolean = value->boolean;
    copy->text = value->text;
    copy->key = value->key;
    return copy;
}

windlass_json *windlass_json_copy(const windlass_json *root) {
    if (root == NULL) {
        return NULL;
    }
    windlass_json *copy = copy_alone(root);
    copy->key = WINDLASS_NONE;
    windlass_json *into = copy;
    const windlass_json *value = root;
    for (;;) {
        if (value->first != NULL) {
            value = value->first;
        } else {
            while (value != root && value->next == NULL) {
                value = value->parent;
                into = into->parent;
            }
            if (value == root) {
                return copy;
            }
            value = value->next;
            into = into->parent;
        }
        windlass_json *part = copy_alone(value);
        append(into, part);
        into = part;
    }
}

// Whether `place` is `value` or inside it. Adding `value` there would make it contain itself.
static bool is_around(const windlass_json *value, const windlass_json *place) {
    while (place != NULL && place != value) {
        place = place->parent;
    }
    return place != NULL;
}

static windlass_json *free_for(windlass_json *value, const windlass_json *place) {
    if (value == NULL) {
        return windlass_null();
    }
    return value->parent != NULL || is_around(value, place) ? windlass_json_copy(value) : value;
}

windlass_json *windlass_json_set_text(windlass_json *object, windlass_text key, windlass_json *value) {
    if (!windlass_json_is(object, WINDLASS_JSON_OBJECT)) {
        return NULL;
    }
    windlass_json *known = windlass_json_get_text(object, key);
    if (known != NULL && known == value) {
        return known;
    }
    value = free_for(value, object);
    if (known == NULL) {
        value->key = windlass_text_copy(key);
        append(object, value);
        return value;
    }
    // The new value takes the position of the old one.
    value->key = known->key;
    windlass_json **link = &object->first;
    while (*link != known) {
        link = &(*link)->next;
    }
    *link = value;
    value->next = known->next;
    value->parent = object;
    object->last = object->last == known ? value : object->last;
    known->parent = NULL;
    known->next = NULL;
    return value;
}

windlass_json *windlass_json_set(windlass_json *object, const char *key, windlass_json *value) {
    return windlass_json_set_text(object, windlass_text_of(key), value);
}

windlass_json *windlass_json_add(windlass_json *array, windlass_json *value) {
    if (!windlass_json_is(array, WINDLASS_JSON_ARRAY)) {
        return NULL;
    }
    value = free_for(value, array);
    value->key = WINDLASS_NONE;
    append(array, value);
    return value;
}

static windlass_json *replace(windlass_json *element, windlass_json *value) {
    windlass_json *array = element->parent;
    value = free_for(value, array);
    windlass_json **link = &array->first;
    while (*link != element) {
        link = &(*link)->next;
    }
    *link = value;
    value->next = element->next;
    value->parent = array;
    value->key = WINDLASS_NONE;
    array->last = array->last == element ? value : array->last;
    element->parent = NULL;
    element->next = NULL;
    return value;
}

windlass_json *windlass_json_set_at(windlass_json *value, const char *pointer, windlass_json *new_value) {
    windlass_text part;
    while (next_part(&pointer, &part)) {
        bool is_last = *pointer == 0;
        windlass_json *found = step(value, part);
        if (windlass_json_is(value, WINDLASS_JSON_ARRAY)) {
            if (found == NULL && windlass_text_is(part, "-")) {
                found = windlass_json_add(value, is_last ? new_value : windlass_empty_object());
            } else if (found != NULL && is_last) {
                found = replace(found, new_value);
            }
        } else if (is_last) {
            found = windlass_json_set_text(value, part, new_value);
        } else if (windlass_json_is_null(found)) {
            found = windlass_json_set_text(value, part, windlass_empty_object());
        }
        if (found == NULL || is_last) {
            return found;
        }
        value = found;
    }
    return NULL;
}

void windlass_json_remove(windlass_json *value) {
    windlass_json *parent = value ? value->parent : NULL;
    if (parent == NULL) {
        return;
    }
    windlass_json *before = NULL;
    for (windlass_json *at = parent->first; at != value; at = at->next) {
        before = at;
    }
    *(before ? &before->next : &parent->first) = value->next;
    parent->last = parent->last == value ? before : parent->last;
    parent->count--;
    value->parent = NULL;
    value->next = NULL;
}
