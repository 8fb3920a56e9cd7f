// What the files of the host of unit tests (test_*.c) share, and nobody else uses.
#ifndef WINDLASS_TEST_INTERNAL_H
#define WINDLASS_TEST_INTERNAL_H

#include <string.h>

#include "windlass_internal.h"
#include "windlass_test.h"

// Things that are kept, each in memory that no release takes back.
typedef struct windlass_fake_list {
    void **items;
    size_t count;
} windlass_fake_list;

// All that the host of a test is: each test begins with another.
typedef struct windlass_fake_host {
    // The world: its objects, and what came of it so far.
    windlass_json *objects;
    // The kinds that the test defines: apiVersion, kind and schema of each (test_definitions.c).
    windlass_json *definitions;
    size_t versions;
    size_t uids;
    uint32_t drawn;
    windlass_instant now;
    const char *config;
    // What the primary is now: owners of children are made of it.
    windlass_json *primary;
    // What the test has planned (test_plans.c).
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
// The next version of an object, with the uid that it says, that which it had, or a new one.
void windlass_fake_new_version(windlass_json *object, windlass_text had);

// Deletes an object as a server does: it stays as long as it has finalizers, and with it goes what it controls. What is left, or NULL.
windlass_json *windlass_fake_delete(windlass_json *object, windlass_propagation propagation);
// Whether an object that is being deleted has no finalizers any more.
bool windlass_fake_is_released(const windlass_json *object);

// --- test_definitions.c ---

// The text of a file. One that cannot be read from the folder that the test runs in ends the call.
const char *windlass_fake_file(const char *path);
// The schema of a kind; NULL: the test has not defined it.
windlass_json *windlass_fake_schema(windlass_text api_version, windlass_text kind);
// Puts the defaults of its kind into an object.
void windlass_fake_fill(windlass_json *object);
// Says with the paths how an object does not fit its kind; NULL: it fits, or the test has not defined the kind.
const char *windlass_fake_misfits(const windlass_json *object, bool is_about_status, bool refuses_unknown);

// --- test_yaml.c ---

// The documents of a text. One that it cannot read ends the call.
windlass_json *windlass_fake_yaml(const char *text);

// --- test_yaml_values.c ---

// A flow that is read: where it goes on, and why it cannot be read.
typedef struct windlass_fake_flow {
    const char *at;
    bool is_unfinished;
    const char *wrong;
} windlass_fake_flow;

// The value that begins here; NULL: there is none that can be read.
windlass_json *windlass_fake_yaml_flow(windlass_fake_flow *from);
// A plain text, or what it stands for.
windlass_json *windlass_fake_yaml_scalar(windlass_text text);
// A text without the comment at its end.
windlass_text windlass_fake_yaml_uncommented(const char *text);
// How long the quoted text is that begins here; 0: it does not end.
size_t windlass_fake_yaml_quoted(const char *text);
// A text without its quotes; none: it has an escape that JSON does not have.
windlass_text windlass_fake_yaml_unquoted(windlass_text quoted);

// --- test_plans.c ---

windlass_api_error windlass_fake_error(windlass_reason reason, const char *verb, const windlass_ref *target);
// Whether a request is to fail, and how.
bool windlass_fake_fails(const char *verb, const windlass_ref *target, windlass_api_error *error);
// What is left of an object of this kind after a JSON or strategic merge patch, as the test has said.
windlass_json *windlass_fake_patched(const windlass_ref *target);
// The log of a Pod, or NULL.
const char *windlass_fake_log(const windlass_ref *pod);
bool windlass_fake_is_unserved(const windlass_ref *kind);
// The answer to a create of what is not stored, or NULL.
windlass_json *windlass_fake_created(const windlass_ref *target);
// The answer to the next HTTP request, or NULL.
const windlass_http_response *windlass_fake_answer(void);

// --- test_record.c ---

void windlass_fake_keep(windlass_fake_list *into, void *item);
// Copies of what a plugin gave.
const windlass_field *windlass_fake_fields(const windlass_field *fields, size_t count);
windlass_ref windlass_fake_ref(const windlass_ref *ref);
const windlass_ref *windlass_fake_ref_or_none(const windlass_ref *ref);
// The last line of the log, as why a call ended.
const char *windlass_fake_last_line(void);

#endif
