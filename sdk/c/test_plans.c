// Responses that a unit test has set in advance: failing requests, results of patches, HTTP responses and triggers.

#ifndef __wasm__

#include "windlass_test_internal.h"

typedef struct planned_failure {
    const char *verb;
    const char *kind;
    windlass_reason reason;
    bool is_used;
} planned_failure;

typedef struct planned_log {
    windlass_ref pod;
    const char *log;
} planned_log;

typedef struct planned_answer {
    const char *kind;
    const char *object;
} planned_answer;

typedef struct planned_patch {
    const char *kind;
    const char *object;
    bool is_used;
} planned_patch;

void windlass_test_fail_next(const char *verb, const char *kind, windlass_reason reason) {
    bool before = windlass_memory_keep(true);
    planned_failure *planned = windlass_alloc(sizeof *planned);
    *planned = (planned_failure){windlass_concat(verb), windlass_concat(kind), reason, false};
    windlass_fake_keep(&windlass_fake.failures, planned);
    windlass_memory_keep(before);
}

void windlass_test_answer_patch(const char *kind, const char *object) {
    bool before = windlass_memory_keep(true);
    planned_patch *planned = windlass_alloc(sizeof *planned);
    *planned = (planned_patch){windlass_concat(kind), windlass_concat(object), false};
    windlass_fake_keep(&windlass_fake.patches, planned);
    windlass_memory_keep(before);
}

void windlass_test_set_log(const char *namespace, const char *name, const char *log) {
    bool before = windlass_memory_keep(true);
    windlass_ref pod = windlass_ref_of("v1", "Pod", windlass_text(namespace), windlass_text(name));
    planned_log *planned = windlass_alloc(sizeof *planned);
    *planned = (planned_log){windlass_fake_ref(&pod), windlass_concat(log)};
    windlass_fake_keep(&windlass_fake.logs, planned);
    windlass_memory_keep(before);
}

const char *windlass_fake_log(const windlass_ref *pod) {
    for (size_t i = windlass_fake.logs.count; i > 0; i--) {
        planned_log *planned = windlass_fake.logs.items[i - 1];
        if (windlass_text_equal(planned->pod.namespace, pod->namespace) && windlass_text_equal(planned->pod.name, pod->name)) {
            return planned->log;
        }
    }
    return NULL;
}

void windlass_test_unserve(const char *api_version, const char *kind) {
    bool before = windlass_memory_keep(true);
    windlass_ref target = {.api_version = windlass_text(api_version), .kind = windlass_text(kind)};
    windlass_ref *planned = windlass_alloc(sizeof *planned);
    *planned = windlass_fake_ref(&target);
    windlass_fake_keep(&windlass_fake.unserved, planned);
    windlass_memory_keep(before);
}

bool windlass_fake_is_unserved(const windlass_ref *kind) {
    for (size_t i = 0; i < windlass_fake.unserved.count; i++) {
        windlass_ref *planned = windlass_fake.unserved.items[i];
        if (windlass_text_equal(planned->api_version, kind->api_version) && windlass_text_equal(planned->kind, kind->kind)) {
            return true;
        }
    }
    return false;
}

void windlass_test_answer_create(const char *kind, const char *object) {
    bool before = windlass_memory_keep(true);
    planned_answer *planned = windlass_alloc(sizeof *planned);
    *planned = (planned_answer){windlass_concat(kind), windlass_concat(object)};
    windlass_fake_keep(&windlass_fake.created, planned);
    windlass_memory_keep(before);
}

windlass_json *windlass_fake_created(const windlass_ref *target) {
    for (size_t i = windlass_fake.created.count; i > 0; i--) {
        planned_answer *planned = windlass_fake.created.items[i - 1];
        if (windlass_text_is(target->kind, planned->kind)) {
            return windlass_test_json(planned->object);
        }
    }
    return NULL;
}

void windlass_test_answer_http(uint16_t status, const char *body) {
    bool before = windlass_memory_keep(true);
    windlass_http_response *response = windlass_alloc(sizeof *response);
    *response = (windlass_http_response){.status = status, .body = windlass_text_copy(windlass_text(body))};
    windlass_fake_keep(&windlass_fake.answers, response);
    windlass_memory_keep(before);
}

void windlass_test_add_trigger(const windlass_trigger *trigger) {
    bool before = windlass_memory_keep(true);
    windlass_trigger *copy = windlass_alloc(sizeof *copy);
    copy->reason = windlass_text_copy(trigger->reason);
    copy->watch = windlass_text_copy(trigger->watch);
    copy->has_object = trigger->has_object;
    copy->object = windlass_fake_ref(&trigger->object);
    windlass_fake_keep(&windlass_fake.triggers, copy);
    windlass_memory_keep(before);
}

windlass_api_error windlass_fake_error(windlass_reason reason, const char *verb, const windlass_ref *target) {
    static const uint16_t codes[] = {404, 409, 409, 422, 403, 403, 400, 403, 429, 410, 504, 504, 503, 403, 500, 413, 418};
    return (windlass_api_error){
        .code = codes[reason],
        .reason = reason,
        .status_reason = windlass_text(windlass_reason_name(reason)),
        .message = windlass_text("the test makes this request fail"),
        .verb = windlass_text(verb),
        .resource = target->kind,
        .has_object = target->name.data != NULL,
        .object = *target,
    };
}

bool windlass_fake_fails(const char *verb, const windlass_ref *target, windlass_api_error *error) {
    for (size_t i = 0; i < windlass_fake.failures.count; i++) {
        planned_failure *planned = windlass_fake.failures.items[i];
        if (!planned->is_used && strcmp(planned->verb, verb) == 0 && windlass_text_is(target->kind, planned->kind)) {
            planned->is_used = true;
            *error = windlass_fake_error(planned->reason, verb, target);
            return true;
        }
    }
    return false;
}

windlass_json *windlass_fake_patched(const windlass_ref *target) {
    for (size_t i = 0; i < windlass_fake.patches.count; i++) {
        planned_patch *planned = windlass_fake.patches.items[i];
        if (!planned->is_used && windlass_text_is(target->kind, planned->kind)) {
            planned->is_used = true;
            return windlass_test_json(planned->object);
        }
    }
    windlass_trap("JSON and strategic merge patches are not supported by the test host: set the result with "
                  "windlass_test_answer_patch");
}

const windlass_http_response *windlass_fake_answer(void) {
    bool is_left = windlass_fake.answers_used < windlass_fake.answers.count;
    return is_left ? windlass_fake.answers.items[windlass_fake.answers_used++] : NULL;
}

#else

typedef int windlass_no_plans_in_a_component;

#endif
