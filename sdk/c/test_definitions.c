// Validation and defaults of the kinds that a unit test defines.

#ifndef __wasm__

#include <math.h>
#include <stdio.h>

#include "windlass_test_internal.h"

// --- Defining ---

static bool define(const windlass_json *document) {
    const windlass_json *spec = windlass_json_get(document, "spec");
    const char *group = windlass_json_text(windlass_json_get(spec, "group")).data;
    windlass_text kind = windlass_json_text_at(spec, "/names/kind");
    bool found = false;
    windlass_json_each(version, windlass_json_get(spec, "versions")) {
        const char *name = windlass_json_text(windlass_json_get(version, "name")).data;
        windlass_text api_version = windlass_text_of(windlass_concat(group, "/", name));
        windlass_json *schema = windlass_json_at(version, "/schema/openAPIV3Schema");
        windlass_json *known = windlass_fake_schema(api_version, kind);
        windlass_json_remove(known ? known->parent : NULL);
        windlass_json_add(windlass_fake.definitions, windlass_object({"apiVersion", windlass_string(api_version)},
            {"kind", windlass_string(kind)}, {"schema", schema ? schema : windlass_empty_object()}));
        found = true;
    }
    return found;
}

void windlass_test_define_text(const char *text) {
    bool before = windlass_memory_keep(true);
    bool found = false;
    windlass_json_each(document, windlass_fake_yaml(text)) {
        found = define(document) || found;
    }
    if (!found) {
        windlass_trap("the test's definitions contain no CustomResourceDefinition with versions");
    }
    windlass_memory_keep(before);
}

const char *windlass_fake_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        windlass_trap(windlass_concat("the test cannot read a file from the folder in which it runs: ", path));
    }
    windlass_buffer text = {0};
    char piece[4096];
    size_t length;
    while ((length = fread(piece, 1, sizeof piece, file)) > 0) {
        windlass_buffer_add(&text, piece, length);
    }
    fclose(file);
    return windlass_buffer_text(&text).data;
}

void windlass_test_define(const char *path) {
    windlass_test_define_text(windlass_fake_file(path));
}

windlass_json *windlass_fake_schema(windlass_text api_version, windlass_text kind) {
    windlass_json_each(definition, windlass_fake.definitions) {
        if (windlass_text_equal(windlass_json_text(windlass_json_get(definition, "apiVersion")), api_version)
            && windlass_text_equal(windlass_json_text(windlass_json_get(definition, "kind")), kind)) {
            return windlass_json_get(definition, "schema");
        }
    }
    return NULL;
}

static windlass_json *schema_of(const windlass_json *object) {
    windlass_ref self = windlass_ref_to(object);
    return windlass_fake_schema(self.api_version, self.kind);
}

// --- Defaults ---

// A null in a field that is not nullable counts as absent.
static void fill(const windlass_json *schema, windlass_json *value) {
    if (windlass_json_is(value, WINDLASS_JSON_ARRAY)) {
        windlass_json_each(item, value) {
            fill(windlass_json_get(schema, "items"), item);
        }
    }
    if (!windlass_json_is(value, WINDLASS_JSON_OBJECT)) {
        return;
    }
    const windlass_json *properties = windlass_json_get(schema, "properties");
    windlass_json_each(property, properties) {
        windlass_json *field = windlass_json_get_text(value, property->key);
        bool is_nothing = windlass_json_is(field, WINDLASS_JSON_NULL) && !windlass_json_is_true(windlass_json_get(property, "nullable"));
        windlass_json_remove(is_nothing ? field : NULL);
        const windlass_json *by_default = windlass_json_get(property, "default");
        if ((field == NULL || is_nothing) && !windlass_json_is_null(by_default)) {
            windlass_json_set_text(value, property->key, windlass_json_copy(by_default));
        }
    }
    windlass_json_each(field, value) {
        const windlass_json *property = windlass_json_get_text(properties, field->key);
        fill(property ? property : windlass_json_get(schema, "additionalProperties"), field);
    }
}

void windlass_fake_fill(windlass_json *object) {
    fill(schema_of(object), object);
}

// --- Judging ---

// The validation of one object: its options, and the errors so far.
typedef struct judge {
    bool refuses_unknown;
    bool is_about_status;
    windlass_buffer found;
} judge;

static void judge_value(judge *by, const windlass_json *schema, const windlass_json *value, const char *path);

static void say(judge *by, const char *path, const char *what) {
    if (by->is_about_status && strncmp(path, ".status", 7) != 0) {
        return;
    }
    const char *told = windlass_concat(by->found.length > 0 ? "; " : "", path, ": ", what);
    windlass_buffer_add(&by->found, told, strlen(told));
}

static const char *type_of(const windlass_json *value) {
    static const char *const names[] = {"null", "a boolean", "a number", "text", "a list", "an object"};
    double number;
    // JSON does not distinguish 1.0 from 1.
    bool is_whole = windlass_json_read_double(value, &number) && number == floor(number);
    return is_whole ? "a whole number" : names[value->type];
}

// The type that a schema allows; NULL if it allows any.
static const char *wanted_type(const windlass_json *schema) {
    static const char *const names[][2] = {{"boolean", "a boolean"}, {"integer", "a whole number"}, {"number", "a number"},
        {"string", "text"}, {"array", "a list"}, {"object", "an object"}};
    if (windlass_json_is_true(windlass_json_get(schema, "x-kubernetes-int-or-string"))) {
        return "a whole number or text";
    }
    windlass_text type = windlass_json_text(windlass_json_get(schema, "type"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (windlass_text_is(type, names[i][0])) {
            return names[i][1];
        }
    }
    return NULL;
}

static bool is_of_type(const char *type, const char *wanted) {
    bool is_either = strcmp(wanted, "a whole number or text") == 0 && strcmp(type, "text") == 0;
    bool is_whole = strcmp(type, "a whole number") == 0;
    return is_either || strcmp(type, wanted) == 0 || (is_whole && strstr(wanted, "number") != NULL);
}

static void judge_enum(judge *by, const windlass_json *allowed, const windlass_json *value, const char *path) {
    windlass_buffer all = {0};
    windlass_json_each(one, allowed) {
        if (windlass_json_equal(one, value)) {
            return;
        }
        windlass_buffer_add(&all, ", ", all.length > 0 ? 2 : 0);
        windlass_buffer_add_text(&all, windlass_json_print(one));
    }
    say(by, path, windlass_concat(windlass_json_print(value).data, " is not one of ", windlass_buffer_text(&all).data));
}

// Checks the bounds whose keywords end in `keyword`, such as minLength and maxLength.
static void judge_size(judge *by, const windlass_json *schema, const char *keyword, size_t size, const char *path) {
    static const char *const ends[] = {"min", "max"};
    for (int i = 0; i < 2; i++) {
        const char *name = windlass_concat(ends[i], keyword);
        const windlass_json *bound = windlass_json_get(schema, name);
        double number;
        if (windlass_json_read_double(bound, &number) && (i == 0 ? (double)size < number : (double)size > number)) {
            const char *told = windlass_decimal((int64_t)size);
            say(by, path, windlass_concat("its size is ", told, ", and ", name, " is ", bound->text.data));
        }
    }
}

static void judge_number(judge *by, const windlass_json *schema, const windlass_json *value, const char *path) {
    const windlass_json *least = windlass_json_get(schema, "minimum");
    const windlass_json *most = windlass_json_get(schema, "maximum");
    double number;
    double bound;
    if (!windlass_json_read_double(value, &number)) {
        return;
    }
    bool is_excluded = windlass_json_is_true(windlass_json_get(schema, "exclusiveMinimum"));
    if (windlass_json_read_double(least, &bound) && (number < bound || (number == bound && is_excluded))) {
        say(by, path, windlass_concat(value->text.data, " is too small for the minimum ", least->text.data));
    }
    is_excluded = windlass_json_is_true(windlass_json_get(schema, "exclusiveMaximum"));
    if (windlass_json_read_double(most, &bound) && (number > bound || (number == bound && is_excluded))) {
        say(by, path, windlass_concat(value->text.data, " is too large for the maximum ", most->text.data));
    }
}

static void judge_fields(judge *by, const windlass_json *schema, const windlass_json *object, const char *path) {
    windlass_json_each(name, windlass_json_get(schema, "required")) {
        if (windlass_json_get_text(object, windlass_json_text(name)) == NULL) {
            say(by, windlass_concat(path, ".", name->text.data), "is required");
        }
    }
    bool is_resource = *path == 0 || windlass_json_is_true(windlass_json_get(schema, "x-kubernetes-embedded-resource"));
    const windlass_json *others = windlass_json_get(schema, "additionalProperties");
    bool knows_all = windlass_json_is_true(others)
                     || windlass_json_is_true(windlass_json_get(schema, "x-kubernetes-preserve-unknown-fields"));
    const windlass_json *properties = windlass_json_get(schema, "properties");
    windlass_json_each(field, object) {
        const windlass_json *property = windlass_json_get_text(properties, field->key);
        const char *at = windlass_concat(path, ".", field->key.data);
        bool is_own = windlass_text_is(field->key, "apiVersion") || windlass_text_is(field->key, "kind")
                      || windlass_text_is(field->key, "metadata");
        if (is_resource && is_own) {
            continue;
        }
        if (property != NULL || windlass_json_is(others, WINDLASS_JSON_OBJECT)) {
            judge_value(by, property ? property : others, field, at);
        } else if (!knows_all && by->refuses_unknown) {
            say(by, at, "there is no such field");
        }
    }
}

// In characters.
static size_t length_of(windlass_text text) {
    size_t count = 0;
    for (size_t i = 0; i < text.length; i++) {
        count += ((unsigned char)text.data[i] & 0xC0) != 0x80;
    }
    return count;
}

static void judge_value(judge *by, const windlass_json *schema, const windlass_json *value, const char *path) {
    if (value->type == WINDLASS_JSON_NULL && windlass_json_is_true(windlass_json_get(schema, "nullable"))) {
        return;
    }
    const char *wanted = wanted_type(schema);
    if (wanted != NULL && !is_of_type(type_of(value), wanted)) {
        say(by, path, windlass_concat(type_of(value), " where ", wanted, " is wanted"));
        return;
    }
    const windlass_json *allowed = windlass_json_get(schema, "enum");
    if (windlass_json_is(allowed, WINDLASS_JSON_ARRAY)) {
        judge_enum(by, allowed, value, path);
    }
    if (value->type == WINDLASS_JSON_STRING) {
        judge_size(by, schema, "Length", length_of(value->text), path);
    } else if (value->type == WINDLASS_JSON_NUMBER) {
        judge_number(by, schema, value, path);
    } else if (value->type == WINDLASS_JSON_OBJECT) {
        judge_size(by, schema, "Properties", value->count, path);
        judge_fields(by, schema, value, path);
    } else if (value->type == WINDLASS_JSON_ARRAY) {
        judge_size(by, schema, "Items", value->count, path);
        int64_t place = 0;
        windlass_json_each(item, value) {
            judge_value(by, windlass_json_get(schema, "items"), item, windlass_concat(path, "[", windlass_decimal(place++), "]"));
        }
    }
}

const char *windlass_fake_misfits(const windlass_json *object, bool is_about_status, bool refuses_unknown) {
    judge by = {.refuses_unknown = refuses_unknown, .is_about_status = is_about_status};
    const windlass_json *schema = schema_of(object);
    if (schema != NULL) {
        judge_value(&by, schema, object, "");
    }
    return by.found.length == 0 ? NULL
                                : windlass_concat("the object does not fit its definition: ", windlass_buffer_text(&by.found).data);
}

#else

typedef int windlass_no_definitions_in_a_component;

#endif
