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
