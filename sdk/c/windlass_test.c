// The host of unit tests. Natively only: in a component there is nothing of it.

#ifndef __wasm__

#include "windlass_test.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include "windlass_internal.h"

// --- The runner ---

static windlass_test_case *tests;
static jmp_buf end_of_test;
// Where a call ends that is to end, and why it did.
static jmp_buf end_of_call;
static bool is_to_end;
static const char *reason_of_end;

void windlass_test_register(windlass_test_case *test) {
    windlass_test_case **last = &tests;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = test;
}

void windlass_test_fail_check(const char *file, int line, const char *expression, const char *detail) {
    fprintf(stderr, "  %s:%d: %s%s%s\n", file, line, expression, detail ? " is " : "", detail ? detail : "");
    longjmp(end_of_test, 1);
}

void windlass_test_check_text(const char *file, int line, const char *expression, windlass_text text, const char *expected) {
    if (!windlass_text_is(text, expected)) {
        const char *detail = windlass_concat(text.data ? windlass_text_copy(text).data : "none", ", not ", expected);
        windlass_test_fail_check(file, line, expression, detail);
    }
}

static const char *last_line(void);

_Noreturn void windlass_trap(const char *why) {
    if (is_to_end) {
        reason_of_end = why ? why : last_line();
        longjmp(end_of_call, 1);
    }
    fprintf(stderr, "  the call ended: %s\n", why ? why : "panic");
    longjmp(end_of_test, 1);
}

const char *windlass_test_end_of(void (*run)(void)) {
    reason_of_end = NULL;
    is_to_end = true;
    if (setjmp(end_of_call) == 0) {
        run();
    }
    is_to_end = false;
    windlass_memory_keep(false);
    return reason_of_end;
}

static void reset(void);

static bool passes(const windlass_test_case *test) {
    reset();
    if (setjmp(end_of_test) != 0) {
        return false;
    }
    test->run();
    return true;
}

// All tests, or those whose name contains the argument.
int main(int count, char **arguments) {
    int failed = 0;
    int run = 0;
    for (const windlass_test_case *test = tests; test != NULL; test = test->next) {
        if (count > 1 && strstr(test->name, arguments[1]) == NULL) {
            continue;
        }
        run++;
        bool is_good = passes(test);
        failed += !is_good;
        printf("%s %s\n", is_good ? "ok    " : "FAILED", test->name);
    }
    reset();
    printf("%d of %d tests passed\n", run - failed, run);
    return failed == 0 && run > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

// --- The world and the record ---

windlass_failures windlass_test_failures;

// Things that are recorded, each in memory that no release takes back.
typedef struct record {
    void **items;
    size_t count;
} record;

static record writes;
static record events;
static record lines;
static record metrics;
static record requests;
static size_t reads;
static size_t versions;
static size_t uids;
static uint32_t drawn;
static windlass_instant now;
static const char *config;
static windlass_json *world;

typedef struct planned_failure {
    const char *verb;
    const char *kind;
    windlass_reason reason;
    bool is_used;
} planned_failure;

static record failures_to_come;
typedef struct planned_patch {
    const char *kind;
    const char *object;
    bool is_used;
} planned_patch;

static record patches_to_come;
static record answers_to_come;
static size_t answers_used;

static void keep(record *into, void *item) {
    size_t size = sizeof *into->items;
    into->items = windlass_regrow(into->items, into->count * size, (into->count + 1) * size);
    into->items[into->count++] = item;
}

static const char *last_line(void) {
    return lines.count > 0 ? ((const windlass_test_line *)lines.items[lines.count - 1])->message.data : "panic";
}

static void *at(const record *from, size_t index, const char *what) {
    if (index >= from->count) {
        windlass_test_fail_check("the record", (int)index, what, "not there");
    }
    return from->items[index];
}

static void reset(void) {
    record *const all[] = {&writes, &events, &lines, &metrics, &requests, &failures_to_come, &patches_to_come,
        &answers_to_come};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i] = (record){0};
    }
    windlass_memory_clear();
    is_to_end = false;
    windlass_test_failures = (windlass_failures){0};
    reads = 0;
    versions = 0;
    uids = 0;
    drawn = 0;
    answers_used = 0;
    now = (windlass_instant){1767225600, 0};
    config = "{}";
    windlass_memory_keep(true);
    world = windlass_empty_array();
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

static windlass_json *lookup(const windlass_ref *target) {
    windlass_json_each(object, world) {
        if (windlass_find(&object, 1, target) != NULL) {
            return object;
        }
    }
    return NULL;
}

windlass_json *windlass_test_object(const char *api_version, const char *kind, const char *namespace, const char *name) {
    windlass_ref target = windlass_ref_of(api_version, kind, windlass_text(namespace), windlass_text(name));
    return lookup(&target);
}

// An object has the uid that it says, that which it had, or a new one.
static void new_version(windlass_json *object, windlass_text had) {
    windlass_json *metadata = windlass_json_get(object, "metadata");
    if (windlass_json_get(metadata, "uid") == NULL) {
        const char *uid = had.data ? had.data : windlass_concat("uid-", windlass_decimal((int64_t)++uids));
        windlass_json_set(metadata, "uid", windlass_string(uid));
    }
    windlass_json_set(metadata, "resourceVersion", windlass_string(windlass_decimal((int64_t)++versions)));
}

windlass_json *windlass_test_put(const char *text) {
    bool before = windlass_memory_keep(true);
    windlass_json *object = windlass_test_json(text);
    windlass_ref target = windlass_ref_to(object);
    target.uid = WINDLASS_NONE;
    windlass_json *known = lookup(&target);
    windlass_json_remove(known);
    object = windlass_json_add(world, object);
    new_version(object, windlass_json_text_at(known, "/metadata/uid"));
    windlass_memory_keep(before);
    return object;
}

void windlass_test_fail_next(const char *verb, const char *kind, windlass_reason reason) {
    bool before = windlass_memory_keep(true);
    planned_failure *planned = windlass_alloc(sizeof *planned);
    *planned = (planned_failure){windlass_concat(verb), windlass_concat(kind), reason, false};
    keep(&failures_to_come, planned);
    windlass_memory_keep(before);
}

void windlass_test_answer_patch(const char *kind, const char *object) {
    bool before = windlass_memory_keep(true);
    planned_patch *planned = windlass_alloc(sizeof *planned);
    *planned = (planned_patch){windlass_concat(kind), windlass_concat(object), false};
    keep(&patches_to_come, planned);
    windlass_memory_keep(before);
}

void windlass_test_set_now(windlass_instant instant) {
    now = instant;
}

void windlass_test_set_config(const char *text) {
    bool before = windlass_memory_keep(true);
    config = windlass_concat(text);
    windlass_memory_keep(before);
}

void windlass_test_answer_http(uint16_t status, const char *body) {
    bool before = windlass_memory_keep(true);
    windlass_http_response *response = windlass_alloc(sizeof *response);
    *response = (windlass_http_response){.status = status, .body = windlass_text_copy(windlass_text(body))};
    keep(&answers_to_come, response);
    windlass_memory_keep(before);
}

size_t windlass_test_write_count(void) { return writes.count; }
const windlass_test_write *windlass_test_write_at(size_t index) { return at(&writes, index, "a write"); }
size_t windlass_test_event_count(void) { return events.count; }
const windlass_event *windlass_test_event_at(size_t index) { return at(&events, index, "an event"); }
size_t windlass_test_line_count(void) { return lines.count; }
const windlass_test_line *windlass_test_line_at(size_t index) { return at(&lines, index, "a line of the log"); }
size_t windlass_test_metric_count(void) { return metrics.count; }
const windlass_test_metric *windlass_test_metric_at(size_t index) { return at(&metrics, index, "a metric"); }
size_t windlass_test_read_count(void) { return reads; }
size_t windlass_test_http_count(void) { return requests.count; }
const windlass_http_request *windlass_test_http_at(size_t index) { return at(&requests, index, "an HTTP request"); }

// --- Calls ---

// A plugin has one of the two.
__attribute__((weak)) windlass_outcome windlass_plugin_reconcile(const windlass_request *request, windlass_failures *failures) {
    (void)request;
    (void)failures;
    windlass_trap("the plugin does not reconcile");
}

__attribute__((weak)) void windlass_plugin_compose(
    const windlass_composition_request *request, windlass_composition *composition, windlass_failures *failures) {
    (void)request;
    (void)composition;
    (void)failures;
    windlass_trap("the plugin does not compose");
}

__attribute__((weak)) const windlass_manifest *windlass_plugin_manifest(void) {
    windlass_trap("there is no plugin");
}

static windlass_request request_about(windlass_json *object) {
    windlass_ref self = windlass_ref_to(object);
    return (windlass_request){
        .controller = windlass_text("test"),
        .namespace = self.namespace,
        .name = self.name,
        .uid = self.uid,
        .object = object,
        .deleting = windlass_json_at(object, "/metadata/deletionTimestamp") != NULL,
        .trace_id = windlass_text("00000000000000000000000000000001"),
    };
}

// What the primary is now: owners of children are made of it.
static windlass_json *primary;

windlass_outcome windlass_test_reconcile_request(const windlass_request *request) {
    windlass_test_failures = (windlass_failures){0};
    primary = request->object;
    return windlass_plugin_reconcile(request, &windlass_test_failures);
}

windlass_outcome windlass_test_reconcile(const char *object) {
    windlass_request request = {.controller = windlass_text("test"), .name = windlass_text("gone"), .trace_id = windlass_text("1")};
    if (object != NULL) {
        request = request_about(windlass_test_put(object));
    }
    return windlass_test_reconcile_request(&request);
}

static windlass_json **elements(const char *text, size_t *count) {
    windlass_json *list = text ? windlass_test_json(text) : windlass_empty_array();
    windlass_json **items = windlass_alloc_array(list->count, sizeof *items);
    *count = 0;
    windlass_json_each(item, list) {
        items[(*count)++] = item;
    }
    return items;
}

windlass_composition windlass_test_compose(const char *parent, const char *children, const char *related) {
    windlass_test_failures = (windlass_failures){0};
    windlass_json *object = windlass_test_json(parent);
    windlass_composition_request request = {.request = request_about(object), .parent = object, .config = windlass_test_json(config)};
    request.request.object = NULL;
    request.children = elements(children, &request.child_count);
    request.related = elements(related, &request.related_count);
    windlass_composition composition = {.children = windlass_empty_array()};
    windlass_plugin_compose(&request, &composition, &windlass_test_failures);
    return composition;
}

windlass_json *windlass_test_describe(void) {
    return windlass_json_parse(windlass_manifest_text(windlass_plugin_manifest()), NULL);
}

// --- The host ---

void windlass_host_log(windlass_level level, windlass_text message, const windlass_field *fields, size_t count) {
    bool before = windlass_memory_keep(true);
    windlass_test_line *line = windlass_alloc(sizeof *line);
    windlass_field *copy = windlass_alloc_array(count, sizeof *copy);
    for (size_t i = 0; i < count; i++) {
        copy[i] = (windlass_field){windlass_text_copy(fields[i].name), windlass_text_copy(fields[i].value)};
    }
    *line = (windlass_test_line){level, windlass_text_copy(message), copy, count};
    keep(&lines, line);
    windlass_memory_keep(before);
}

windlass_instant windlass_host_now(void) { return now; }
uint32_t windlass_host_random_u32(void) { return ++drawn * 2654435769u; }
windlass_text windlass_host_config(void) { return windlass_text(config); }

void windlass_host_random_bytes(void *bytes, uint32_t length) {
    for (uint32_t i = 0; i < length; i++) {
        ((unsigned char *)bytes)[i] = (unsigned char)(windlass_host_random_u32() >> 24);
    }
}

static windlass_api_error error_about(windlass_reason reason, const char *verb, const windlass_ref *target) {
    static const uint16_t codes[] = {404, 409, 409, 422, 403, 403, 400, 403, 429, 410, 504, 504, 503, 403, 500, 413, 418};
    return (windlass_api_error){
        .code = codes[reason],
        .reason = reason,
        .status_reason = windlass_text(windlass_reason_name(reason)),
        .message = windlass_text("as the test asked for"),
        .verb = windlass_text(verb),
        .resource = target->kind,
        .has_object = target->name.data != NULL,
        .object = *target,
    };
}

// Whether a request is to fail, and how.
static bool fails(const char *verb, const windlass_ref *target, windlass_api_error *error) {
    for (size_t i = 0; i < failures_to_come.count; i++) {
        planned_failure *planned = failures_to_come.items[i];
        if (!planned->is_used && strcmp(planned->verb, verb) == 0 && windlass_text_is(target->kind, planned->kind)) {
            planned->is_used = true;
            *error = error_about(planned->reason, verb, target);
            return true;
        }
    }
    return false;
}

static void get(const windlass_ref *target, windlass_host_answer *answer) {
    reads++;
    answer->failed = fails("get", target, &answer->error);
    windlass_json *object = lookup(target);
    answer->object = !answer->failed && object ? windlass_json_print(object) : WINDLASS_NONE;
}

void windlass_host_cache_get(const windlass_ref *target, const char *const *fields, windlass_host_answer *answer) {
    (void)fields;
    get(target, answer);
}

void windlass_host_cache_get_many(
    const windlass_ref *targets, size_t count, const char *const *fields, windlass_host_answer *answers) {
    (void)fields;
    for (size_t i = 0; i < count; i++) {
        get(&targets[i], &answers[i]);
    }
}

void windlass_host_live_get(const windlass_ref *target, windlass_host_answer *answer) {
    get(target, answer);
}

// Objects of a kind, in a namespace perhaps, that the primary owns perhaps, with the labels of a selector of the form `a=b,c=d`.
static bool has_labels(const windlass_json *object, windlass_text selector) {
    const windlass_json *labels = windlass_json_at(object, "/metadata/labels");
    const char *from = selector.length ? selector.data : "";
    while (*from != 0) {
        size_t length = strcspn(from, ",");
        const char *equals = memchr(from, '=', length);
        if (equals == NULL) {
            windlass_trap("the host of tests knows selectors of the form `a=b,c=d` only");
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

static void list(const windlass_ref *kind, windlass_text selector, bool owned, windlass_host_page *page) {
    reads++;
    page->failed = fails("list", kind, &page->error);
    if (page->failed) {
        return;
    }
    page->items = windlass_alloc_array(world->count, sizeof *page->items);
    windlass_json_each(object, world) {
        windlass_ref self = windlass_ref_to(object);
        bool is_meant = windlass_text_equal(self.kind, kind->kind) && windlass_text_equal(self.api_version, kind->api_version)
                        && (kind->namespace.data == NULL || windlass_text_equal(self.namespace, kind->namespace))
                        && (!owned || windlass_is_controlled_by(object, primary)) && has_labels(object, selector);
        if (is_meant) {
            page->items[page->count++] = windlass_json_print(object);
        }
    }
}

void windlass_host_cache_list(const windlass_cache_query *query, windlass_host_page *page) {
    if (query->index.name.data != NULL) {
        windlass_trap("the host of tests has no indexes");
    }
    windlass_ref kind = {.api_version = query->api_version, .kind = query->kind, .namespace = query->namespace};
    list(&kind, query->label_selector, query->owned, page);
}

void windlass_host_live_list(const windlass_live_query *query, windlass_host_page *page) {
    windlass_ref kind = {.api_version = query->api_version, .kind = query->kind, .namespace = query->namespace};
    list(&kind, query->label_selector, false, page);
}

// As a merge patch does (RFC 7386).
static void merge(windlass_json *into, const windlass_json *patch) {
    windlass_json_each(member, patch) {
        windlass_json *known = windlass_json_get_text(into, member->key);
        if (member->type == WINDLASS_JSON_NULL) {
            windlass_json_remove(known);
        } else if (windlass_json_is(known, WINDLASS_JSON_OBJECT) && member->type == WINDLASS_JSON_OBJECT) {
            merge(known, member);
        } else {
            windlass_json_set_text(into, member->key, windlass_json_copy(member));
        }
    }
}

static windlass_json *store(const windlass_test_write *write, windlass_json *known) {
    windlass_json *object = known;
    windlass_text uid = windlass_json_text_at(known, "/metadata/uid");
    if (object == NULL) {
        object = windlass_json_add(world, windlass_json_copy(write->body));
    } else if (strcmp(write->verb, "update") == 0) {
        windlass_json_remove(known);
        object = windlass_json_add(world, windlass_json_copy(write->body));
    } else if (strcmp(write->verb, "apply") == 0 || write->patch_type == WINDLASS_PATCH_MERGE) {
        merge(object, write->body);
    }
    if (write->options.owned && primary != NULL && !windlass_is_controlled_by(object, primary)) {
        windlass_json_set_at(object, "/metadata/ownerReferences", windlass_array(windlass_owner_reference(primary)));
    }
    new_version(object, uid);
    return object;
}

// What is left after a JSON or strategic patch, as the test has said.
static windlass_json *patched(const windlass_test_write *write) {
    for (size_t i = 0; i < patches_to_come.count; i++) {
        planned_patch *planned = patches_to_come.items[i];
        if (!planned->is_used && windlass_text_is(write->target.kind, planned->kind)) {
            planned->is_used = true;
            return windlass_test_json(planned->object);
        }
    }
    windlass_trap("JSON and strategic merge patches are not supported by the test host: say what they make of the object by "
                  "windlass_test_answer_patch");
}

// Whether a write is about a version that the object does not have, or has no more.
static bool is_stale(const windlass_test_write *write, const windlass_json *known) {
    windlass_text version = windlass_json_text_at(known, "/metadata/resourceVersion");
    const windlass_text wanted[] = {write->options.resource_version, write->delete_options.resource_version,
        windlass_json_text_at(write->body, "/metadata/resourceVersion")};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (wanted[i].length > 0 && !windlass_text_equal(wanted[i], version)) {
            return true;
        }
    }
    return false;
}

static windlass_ref copy_of(const windlass_ref *ref) {
    return (windlass_ref){
        .api_version = windlass_text_copy(ref->api_version),
        .kind = windlass_text_copy(ref->kind),
        .namespace = windlass_text_copy(ref->namespace),
        .name = windlass_text_copy(ref->name),
        .uid = windlass_text_copy(ref->uid),
    };
}

static const windlass_ref *kept_ref(const windlass_ref *ref) {
    if (ref == NULL) {
        return NULL;
    }
    windlass_ref *copy = windlass_alloc(sizeof *copy);
    *copy = copy_of(ref);
    return copy;
}

static windlass_test_write *note(const windlass_operation *operation, windlass_text body) {
    static const char *const verbs[] = {"create", "update", "patch", "apply", "delete"};
    windlass_test_write *write = windlass_alloc(sizeof *write);
    write->verb = verbs[operation->type];
    write->body = body.data ? windlass_json_parse(body, NULL) : NULL;
    write->target = operation->type == WINDLASS_PATCH || operation->type == WINDLASS_DELETE ? copy_of(&operation->target)
                                                                                           : windlass_ref_to(write->body);
    write->options = operation->options;
    write->options.resource_version = windlass_text_copy(write->options.resource_version);
    write->options.subresource.name = windlass_text_copy(write->options.subresource.name);
    write->options.subresource.parent = kept_ref(write->options.subresource.parent);
    write->patch_type = operation->patch_type;
    write->delete_options = operation->delete_options;
    write->delete_options.resource_version = windlass_text_copy(write->delete_options.resource_version);
    keep(&writes, write);
    return write;
}

// The object as it is after a write, or NULL: it failed, or nothing is left.
static windlass_json *carry_out(const windlass_operation *operation, windlass_text body, windlass_host_answer *answer) {
    windlass_test_write *write = note(operation, body);
    windlass_json *known = lookup(&write->target);
    answer->failed = fails(write->verb, &write->target, &answer->error);
    bool is_missing = known == NULL && operation->type != WINDLASS_CREATE && operation->type != WINDLASS_APPLY;
    bool is_taken = known != NULL && operation->type == WINDLASS_CREATE;
    bool is_other = operation->type != WINDLASS_CREATE && is_stale(write, known);
    if (!answer->failed && (is_missing || is_taken || is_other)) {
        windlass_reason reason = is_missing ? WINDLASS_NOT_FOUND : is_taken ? WINDLASS_ALREADY_EXISTS : WINDLASS_CONFLICT;
        answer->failed = true;
        answer->error = error_about(reason, write->verb, &write->target);
    }
    if (answer->failed) {
        return NULL;
    }
    if (operation->type == WINDLASS_DELETE) {
        windlass_json_remove(operation->delete_options.dry_run ? NULL : known);
        return NULL;
    }
    if (operation->type == WINDLASS_PATCH && operation->patch_type != WINDLASS_PATCH_MERGE) {
        windlass_test_write replacing = *write;
        replacing.verb = "update";
        replacing.body = patched(write);
        return operation->options.dry_run ? replacing.body : store(&replacing, known);
    }
    return operation->options.dry_run ? write->body : store(write, known);
}

void windlass_host_write(const windlass_operation *operation, windlass_text body, windlass_host_answer *answer) {
    bool before = windlass_memory_keep(true);
    const windlass_json *object = carry_out(operation, body, answer);
    windlass_memory_keep(before);
    answer->object = object ? windlass_json_print(object) : WINDLASS_NONE;
}

void windlass_host_batch(
    const windlass_operation *operations, const windlass_text *bodies, size_t count, windlass_host_answer *answers) {
    for (size_t i = 0; i < count; i++) {
        windlass_host_write(&operations[i], bodies[i], &answers[i]);
    }
}

size_t windlass_host_claim(windlass_text api_version, windlass_text kind, windlass_text selector, windlass_claimed *claimed,
    windlass_api_error **errors) {
    windlass_ref target = {.api_version = api_version, .kind = kind};
    windlass_api_error *error = windlass_alloc(sizeof *error);
    if (fails("claim", &target, error)) {
        *errors = error;
        return 1;
    }
    claimed->adopted = windlass_alloc_array(world->count, sizeof *claimed->adopted);
    claimed->released = windlass_alloc_array(world->count, sizeof *claimed->released);
    windlass_json_each(object, world) {
        windlass_ref self = windlass_ref_to(object);
        if (!windlass_text_equal(self.kind, kind) || !windlass_text_equal(self.api_version, api_version)) {
            continue;
        }
        bool is_ours = windlass_is_controlled_by(object, primary);
        bool matches = has_labels(object, selector);
        if (matches && windlass_controller_uid(object).data == NULL) {
            bool before = windlass_memory_keep(true);
            windlass_json_set_at(object, "/metadata/ownerReferences", windlass_array(windlass_owner_reference(primary)));
            windlass_memory_keep(before);
            claimed->adopted[claimed->adopted_count++] = self;
        } else if (!matches && is_ours) {
            windlass_json_remove(windlass_json_at(object, "/metadata/ownerReferences"));
            claimed->released[claimed->released_count++] = self;
        }
    }
    return 0;
}

void windlass_host_emit(const windlass_event *event) {
    bool before = windlass_memory_keep(true);
    windlass_event *copy = windlass_alloc(sizeof *copy);
    *copy = *event;
    copy->reason = windlass_text_copy(event->reason);
    copy->action = windlass_text_copy(event->action);
    copy->note = windlass_text_copy(event->note);
    copy->regarding = kept_ref(event->regarding);
    copy->related = kept_ref(event->related);
    keep(&events, copy);
    windlass_memory_keep(before);
}

void windlass_host_metric_value(
    windlass_host_metric what, windlass_text name, double value, const windlass_field *labels, size_t count) {
    static const char *const names[] = {"add", "set", "observe"};
    bool before = windlass_memory_keep(true);
    windlass_test_metric *metric = windlass_alloc(sizeof *metric);
    windlass_field *copy = windlass_alloc_array(count, sizeof *copy);
    for (size_t i = 0; i < count; i++) {
        copy[i] = (windlass_field){windlass_text_copy(labels[i].name), windlass_text_copy(labels[i].value)};
    }
    *metric = (windlass_test_metric){names[what], windlass_text_copy(name), value, copy, count};
    keep(&metrics, metric);
    windlass_memory_keep(before);
}

bool windlass_host_fetch(const windlass_http_request *request, windlass_http_response *response, windlass_http_error *error) {
    bool before = windlass_memory_keep(true);
    windlass_http_request *copy = windlass_alloc(sizeof *copy);
    *copy = *request;
    copy->method = windlass_text_copy(request->method);
    copy->url = windlass_text_copy(request->url);
    copy->body = windlass_text_copy(request->body);
    windlass_field *headers = windlass_alloc_array(request->header_count, sizeof *headers);
    for (size_t i = 0; i < request->header_count; i++) {
        headers[i] = (windlass_field){windlass_text_copy(request->headers[i].name), windlass_text_copy(request->headers[i].value)};
    }
    copy->headers = headers;
    keep(&requests, copy);
    windlass_memory_keep(before);
    if (answers_used < answers_to_come.count) {
        *response = *(const windlass_http_response *)answers_to_come.items[answers_used++];
        return true;
    }
    *error = (windlass_http_error){WINDLASS_HTTP_NOT_GRANTED, windlass_text("the test has no answer for it")};
    return false;
}

#else

typedef int windlass_no_test_in_a_component;

#endif
