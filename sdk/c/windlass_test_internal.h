// Declarations that the files of the unit tests' host (test_*.c) share.
#ifndef WINDLASS_TEST_INTERNAL_H
#define WINDLASS_TEST_INTERNAL_H

#include <string.h>

#include "windlass_internal.h"
#include "windlass_test.h"

// A list whose items stay when the plugin releases memory.
typedef struct windlass_fake_list {
    void **items;
    size_t count;
} windlass_fake_list;

// The state of the unit tests' host. Each test begins with a new one.
typedef struct windlass_fake_host {
    // The world: its objects, the kinds, and the counters for versions, uids and random numbers.
    windlass_json *objects;
    // The kinds that the test defines: apiVersion, kind and schema of each (test_definitions.c).
    windlass_json *definitions;
    size_t versions;
    size_t uids;
    uint32_t drawn;
    windlass_instant now;
    const char *config;
    // The current primary, for the owner references of its children.
    windlass_json *primary;
    // Responses that the test has set in advance (test_plans.c).
    windlass_fake_list failures;
    windlass_fake_list patches;
    windlass_fake_list logs;
    windlass_fake_list unserved;
    windlass_fake_list created;
    windlass_fake_list triggers;
    windlass_fake_list answers;
    size_t answers_used;
    // The record.
    windlass_fake_list writes;
    windlass_fake_list events;
    windlass_fake_list lines;
    windlass_fake_list metrics;
    windlass_fake_list requests;
    size_t reads;
} windlass_fake_host;

extern windlass_fake_host windlass_fake;

// --- test_world.c ---

void windlass_fake_reset(void);
windlass_json *windlass_fake_lookup(const windlass_ref *target);
// Whether an object has the labels of a selector of the form `a=b,c=d`; any other selector ends the call.
bool windlass_fake_has_labels(const windlass_json *object, windlass_text selector);
// Gives an object its next version, and a uid: its own, the one that it had before, or a new one.
void windlass_fake_new_version(windlass_json *object, windlass_text had);

// Deletes an object as a server does. An object with finalizers stays until it has none. The objects that it controls
// are deleted with it. Returns the object if it stays, or NULL.
windlass_json *windlass_fake_delete(windlass_json *object, windlass_propagation propagation);
// Whether an object is being deleted and has no finalizers left.
bool windlass_fake_is_released(const windlass_json *object);

// --- test_reads.c ---

// The object's identity, with the values at these pointers. NULL for the whole object.
const windlass_json *windlass_fake_projected(const windlass_json *object, const char *const *fields);

// --- test_definitions.c ---

// Reads a file from the folder that the test runs in. If the file cannot be read, the call ends.
const char *windlass_fake_file(const char *path);
// The schema of a kind; NULL if the test has not defined the kind.
windlass_json *windlass_fake_schema(windlass_text api_version, windlass_text kind);
// Fills in the defaults of an object's kind.
void windlass_fake_fill(windlass_json *object);
// The errors of an object, with their paths. NULL if the object fits its kind, or the test has not defined the kind.
const char *windlass_fake_misfits(const windlass_json *object, bool is_about_status, bool refuses_unknown);

// --- test_yaml.c ---

// Parses the documents of a text. If it cannot, the call ends.
windlass_json *windlass_fake_yaml(const char *text);

// --- test_yaml_values.c ---

// The state of reading a flow: the rest of the text, and the error, if any.
typedef struct windlass_fake_flow {
    const char *at;
    bool is_unfinished;
    const char *wrong;
} windlass_fake_flow;

// Reads the value that begins here. NULL if there is no valid value.
windlass_json *windlass_fake_yaml_flow(windlass_fake_flow *from);
// Converts a plain text: to null, a boolean or a number if it looks like one.
windlass_json *windlass_fake_yaml_scalar(windlass_text text);
// A text without the comment at its end.
windlass_text windlass_fake_yaml_uncommented(const char *text);
// The length of the quoted text that begins here; 0 if the closing quote is missing.
size_t windlass_fake_yaml_quoted(const char *text);
// A text without its quotes. The result is no text if there is an escape that JSON does not have.
windlass_text windlass_fake_yaml_unquoted(windlass_text quoted);

// --- test_plans.c ---

windlass_api_error windlass_fake_error(windlass_reason reason, const char *verb, const windlass_ref *target);
// Whether the test makes a request fail; then `error` has the reason.
bool windlass_fake_fails(const char *verb, const windlass_ref *target, windlass_api_error *error);
// The result that the test has set for a JSON or strategic merge patch of this kind.
windlass_json *windlass_fake_patched(const windlass_ref *target);
// The log of a Pod, or NULL.
const char *windlass_fake_log(const windlass_ref *pod);
bool windlass_fake_is_unserved(const windlass_ref *kind);
// The response that the test has set for the creation of an object that is not stored, or NULL.
windlass_json *windlass_fake_created(const windlass_ref *target);
// The next HTTP response that the test has set, or NULL.
const windlass_http_response *windlass_fake_answer(void);

// --- test_record.c ---

void windlass_fake_keep(windlass_fake_list *into, void *item);
// These functions copy values that a plugin passed.
const windlass_field *windlass_fake_fields(const windlass_field *fields, size_t count);
const char *const *windlass_fake_texts(const char *const *texts);
windlass_ref windlass_fake_ref(const windlass_ref *ref);
const windlass_ref *windlass_fake_ref_or_none(const windlass_ref *ref);
// The last line of the log, which has the reason if a call ended.
const char *windlass_fake_last_line(void);

#endif
