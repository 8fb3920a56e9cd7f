// JSON: a tree in the memory of the call.
//
//     windlass_json *settings = windlass_object(
//         {"apiVersion", windlass_string("v1")},
//         {"kind", windlass_string("ConfigMap")},
//         {"metadata", windlass_object({"name", windlass_string(request->name)})},
//         {"data", windlass_object({"currency", windlass_string("EUR")})});
//     windlass_text currency = windlass_json_text_at(settings, "/data/currency");
//
// Reading needs no checks on the way: a missing value is NULL, and every function accepts NULL. Numbers keep their
// text, so no digit is lost. Objects keep the order of their members; if several members have the same name, the last
// one counts.
#ifndef WINDLASS_JSON_H
#define WINDLASS_JSON_H

#include "windlass_text.h"

typedef enum windlass_json_type {
    WINDLASS_JSON_NULL,
    WINDLASS_JSON_BOOL,
    WINDLASS_JSON_NUMBER,
    WINDLASS_JSON_STRING,
    WINDLASS_JSON_ARRAY,
    WINDLASS_JSON_OBJECT
} windlass_json_type;

// A value. Read its fields directly, but change them with the functions.
typedef struct windlass_json {
    windlass_json_type type;
    bool boolean;
    // For a string, its text; for a number, its digits.
    windlass_text text;
    // For a member of an object, its name.
    windlass_text key;
    // The number of members or elements, and the first and the last one.
    size_t count;
    struct windlass_json *first;
    struct windlass_json *last;
    // The next element or member of the same array or object.
    struct windlass_json *next;
    // The object or array that contains this value.
    struct windlass_json *parent;
} windlass_json;

// The maximum depth of nested arrays and objects.
#define WINDLASS_JSON_DEPTH 1000

// --- Parsing and printing ---

// Where and why a text is not JSON.
typedef struct windlass_json_error {
    size_t offset;
    const char *message;
} windlass_json_error;

// Returns NULL if the text is not JSON; `error`, unless it is NULL, gets the reason.
windlass_json *windlass_json_parse(windlass_text text, windlass_json_error *error);
windlass_text windlass_json_print(const windlass_json *value);

// --- Reading values ---

// A member of an object.
windlass_json *windlass_json_get(const windlass_json *object, const char *key);
windlass_json *windlass_json_get_text(const windlass_json *object, windlass_text key);
// An element of an array.
windlass_json *windlass_json_element(const windlass_json *array, size_t index);
// The value at a JSON pointer (RFC 6901), such as `/spec/containers/0/image`.
windlass_json *windlass_json_at(const windlass_json *value, const char *pointer);

// Walks the elements of an array or the members of an object.
#define windlass_json_each(item, of) \
    for (windlass_json *item = (of) ? (of)->first : NULL; item != NULL; item = item->next)

static inline bool windlass_json_is(const windlass_json *value, windlass_json_type type) {
    return value != NULL && value->type == type;
}
// Whether the value is missing or null.
static inline bool windlass_json_is_null(const windlass_json *value) {
    return value == NULL || value->type == WINDLASS_JSON_NULL;
}
static inline bool windlass_json_is_true(const windlass_json *value) {
    return windlass_json_is(value, WINDLASS_JSON_BOOL) && value->boolean;
}
// The text of a string; none if it is not a string.
static inline windlass_text windlass_json_text(const windlass_json *value) {
    return windlass_json_is(value, WINDLASS_JSON_STRING) ? value->text : WINDLASS_NONE;
}
static inline windlass_text windlass_json_text_at(const windlass_json *value, const char *pointer) {
    return windlass_json_text(windlass_json_at(value, pointer));
}
// Returns false if the value is not a whole number, or is too large.
bool windlass_json_read_int(const windlass_json *value, int64_t *number);
bool windlass_json_read_uint(const windlass_json *value, uint64_t *number);
bool windlass_json_read_double(const windlass_json *value, double *number);
// The whole number at a pointer, or `otherwise`.
int64_t windlass_json_int_at(const windlass_json *value, const char *pointer, int64_t otherwise);

// Whether two values are equal. The order of members and the notation of numbers do not matter.
bool windlass_json_equal(const windlass_json *one, const windlass_json *other);
// Whether an object has every wanted field with the wanted value. Fields that the server or other clients have added
// are ignored, as in an apply. A list must contain each wanted element, at any position. Do not use this function to
// decide whether to apply: it does not notice a field that is no longer wanted, or a missing owner. The host itself
// skips an apply that would change nothing.
bool windlass_has_fields(const windlass_json *object, const windlass_json *wanted);

// --- Creating ---

windlass_json *windlass_null(void);
windlass_json *windlass_bool(bool value);
windlass_json *windlass_int(int64_t number);
windlass_json *windlass_uint(uint64_t number);
// A number that is not finite ends the call, like `windlass_panic`: JSON cannot represent it.
windlass_json *windlass_double(double number);
// A number from its digits; null if they are not a number.
windlass_json *windlass_number(windlass_text digits);
windlass_json *windlass_json_string(windlass_text text);
// A string from a C string or a text. A missing text becomes null.
#define windlass_string(text) windlass_json_string(windlass_text(text))

// A member of an object that is being created. A member whose value is NULL is left out.
typedef struct windlass_member {
    const char *key;
    windlass_json *value;
} windlass_member;

windlass_json *windlass_json_object(const windlass_member *members, size_t count);
windlass_json *windlass_json_array(windlass_json *const *elements, size_t count);
// `windlass_object({"name", value}, …)`. An empty one is `windlass_empty_object()`.
#define windlass_object(...)                                    \
    windlass_json_object((const windlass_member[]){__VA_ARGS__}, \
        sizeof((const windlass_member[]){__VA_ARGS__}) / sizeof(windlass_member))
// `windlass_array(value, …)`. An empty one is `windlass_empty_array()`.
#define windlass_array(...)                                         \
    windlass_json_array((windlass_json *const[]){__VA_ARGS__}, \
        sizeof((windlass_json *const[]){__VA_ARGS__}) / sizeof(windlass_json *))
static inline windlass_json *windlass_empty_object(void) { return windlass_json_object(NULL, 0); }
static inline windlass_json *windlass_empty_array(void) { return windlass_json_array(NULL, 0); }
windlass_json *windlass_json_copy(const windlass_json *value);

// --- Changing ---
//
// If the value to add already is part of another value, these functions add a copy of it. They return the value in its
// new place. If the value to change is NULL or of the wrong type, they do nothing and return NULL.

windlass_json *windlass_json_set(windlass_json *object, const char *key, windlass_json *value);
windlass_json *windlass_json_set_text(windlass_json *object, windlass_text key, windlass_json *value);
// Sets the value at a pointer, and creates the objects on the way; `-` after an array's pointer appends to it.
windlass_json *windlass_json_set_at(windlass_json *value, const char *pointer, windlass_json *new_value);
windlass_json *windlass_json_add(windlass_json *array, windlass_json *value);
// Removes a value from its object or array.
void windlass_json_remove(windlass_json *value);

#endif
