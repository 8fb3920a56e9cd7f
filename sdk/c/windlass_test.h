// A host for unit tests: objects in memory, and a record of all that a plugin does.
//
// A test file is compiled natively with the plugin and the SDK, and run; there is no `main` to write:
//
//     #include <windlass_test.h>
//
//     WINDLASS_TEST(the_settings_are_applied) {
//         windlass_test_reconcile("{\"apiVersion\": \"example.com/v1\", \"kind\": \"Shop\", \"metadata\": {\"name\": \"one\"}}");
//         WINDLASS_CHECK(windlass_test_failures.count == 0);
//         WINDLASS_CHECK(windlass_test_object("v1", "ConfigMap", NULL, "one") != NULL);
//     }
//
//     cc -std=c11 -I sdk -o build/tests *.c tests/*.c sdk/*.c sdk/reconciler/*.c -lm && build/tests
//
// The memory of the call lasts until the test ends. The objects and the record stay, even if the plugin releases
// memory. Each test begins without objects, at 2026-01-01T00:00:00Z.
#ifndef WINDLASS_TEST_H
#define WINDLASS_TEST_H

#include "windlass.h"

// --- Tests ---

typedef struct windlass_test_case {
    const char *name;
    void (*run)(void);
    struct windlass_test_case *next;
} windlass_test_case;

void windlass_test_register(windlass_test_case *test);
void windlass_test_fail_check(const char *file, int line, const char *expression, const char *detail);

#define WINDLASS_TEST(name)                                                                \
    static void name(void);                                                                \
    __attribute__((constructor)) static void register_##name(void) {                       \
        static windlass_test_case test = {#name, name, NULL};                              \
        windlass_test_register(&test);                                                     \
    }                                                                                      \
    static void name(void)

// Ends the test unless the condition is true.
#define WINDLASS_CHECK(expression) \
    ((expression) ? (void)0 : windlass_test_fail_check(__FILE__, __LINE__, #expression, NULL))
// Ends the test unless a text (or C string) equals this C string, and shows the actual text.
#define WINDLASS_CHECK_TEXT(text, expected) \
    windlass_test_check_text(__FILE__, __LINE__, #text, windlass_text(text), expected)
void windlass_test_check_text(const char *file, int line, const char *expression, windlass_text text, const char *expected);
// Runs code that should end the call (by `windlass_panic`, for example), and returns the reason. NULL if the call did
// not end.
const char *windlass_test_end_of(void (*run)(void));

// --- Calls ---

// The result of the last call.
extern windlass_failures windlass_test_failures;

// A JSON text as a value; it ends the test if the text is not JSON.
windlass_json *windlass_test_json(const char *text);
// Calls the plugin with an object as its primary, given as JSON. NULL if the primary was deleted.
windlass_outcome windlass_test_reconcile(const char *object);
// The same with any request.
windlass_outcome windlass_test_reconcile_request(const windlass_request *request);
// Composes for a parent, with the children and the related objects of two JSON arrays, which may be NULL.
windlass_composition windlass_test_compose(const char *parent, const char *children, const char *related);
// Calls the plugin's mapper for a change of an object in a watch of this name. A missing state is NULL.
windlass_targets windlass_test_map(const char *watch, const char *old, const char *new);
// Calls the predicate of the plugin's mapper for such a change.
bool windlass_test_matches(const char *watch, const char *old, const char *new);
// Calls the plugin's customizer for a parent.
windlass_related_rules windlass_test_customize(const char *parent);
// The result of `describe`.
windlass_json *windlass_test_describe(void);

// --- The world ---

// Defines kinds by the CustomResourceDefinitions of a file in YAML, which is read from the folder that the test runs
// in:
//
//     windlass_test_define("crd.yaml");
//
// From now on objects of these kinds get their defaults, and a write of an invalid object fails with WINDLASS_INVALID,
// with the paths in its message. An unknown field is invalid, as for an API server with strict field validation; a
// write with another field validation keeps it. An invalid composition ends the call. The host does not check pattern,
// format, allOf and similar keywords, list types, and rules in CEL. A file without definitions, or with YAML that this
// host does not know, ends the call.
void windlass_test_define(const char *path);
// Defines kinds by a text instead of a file.
void windlass_test_define_text(const char *yaml);
// Adds an object to the server and the caches, with its defaults.
windlass_json *windlass_test_put(const char *object);
// An object of the world, or NULL; the namespace may be NULL.
windlass_json *windlass_test_object(const char *api_version, const char *kind, const char *namespace, const char *name);
// Makes the next request with this verb for this kind fail with this error. Verbs are get, list, create, update, apply,
// patch, delete, deletecollection, claim, served, and kinds, whose kind is "".
void windlass_test_fail_next(const char *verb, const char *kind, windlass_reason reason);
void windlass_test_set_now(windlass_instant now);
void windlass_test_set_config(const char *config);
// Adds a trigger to the result of `windlass_triggers_list` in every call of the test. Otherwise this result is empty.
void windlass_test_add_trigger(const windlass_trigger *trigger);
// Sets the result of the next JSON or strategic merge patch of this kind, as JSON. This host cannot apply such patches,
// so a patch without a result ends the call.
void windlass_test_answer_patch(const char *kind, const char *object);
// Sets the log of a Pod, for all its containers. Without it, the log is not found.
void windlass_test_set_log(const char *namespace, const char *name, const char *log);
// Makes `windlass_live_served` report that the API server does not serve this kind. It reports all other kinds as
// served. `windlass_live_kinds` returns the kinds of the world's objects and definitions that are not removed so.
void windlass_test_unserve(const char *api_version, const char *kind);
// Sets the response to creates of objects of this kind without a name, such as a SubjectAccessReview, which are not stored. Without it, the
// response is the object sent.
void windlass_test_answer_create(const char *kind, const char *object);
// Sets the response to the next HTTP request.
void windlass_test_answer_http(uint16_t status, const char *body);

// --- The record ---

typedef struct windlass_test_write {
    // create, update, apply, patch, delete or deletecollection.
    const char *verb;
    windlass_ref target;
    // The object or the patch; NULL for a deletion.
    windlass_json *body;
    windlass_write_options options;
    windlass_patch_type patch_type;
    windlass_delete_options delete_options;
    // For a collection; its target has no name.
    windlass_text label_selector;
} windlass_test_write;

typedef struct windlass_test_line {
    windlass_level level;
    windlass_text message;
    const windlass_field *fields;
    size_t field_count;
} windlass_test_line;

typedef struct windlass_test_metric {
    // add, set or observe.
    const char *what;
    windlass_text name;
    double value;
    const windlass_field *labels;
    size_t label_count;
} windlass_test_metric;

// The number of all writes so far, including failed ones.
size_t windlass_test_write_count(void);
// Ends the test if there is no write with that number. The other functions that take a number do the same.
const windlass_test_write *windlass_test_write_at(size_t index);
size_t windlass_test_event_count(void);
const windlass_event *windlass_test_event_at(size_t index);
size_t windlass_test_line_count(void);
const windlass_test_line *windlass_test_line_at(size_t index);
size_t windlass_test_metric_count(void);
const windlass_test_metric *windlass_test_metric_at(size_t index);
// The number of reads, of caches and live.
size_t windlass_test_read_count(void);
size_t windlass_test_http_count(void);
const windlass_http_request *windlass_test_http_at(size_t index);

#endif
