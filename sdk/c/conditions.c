// Status conditions, in Kubernetes' form.

#include "windlass_internal.h"

windlass_json *windlass_conditions_find(const windlass_json *conditions, const char *type) {
    windlass_json_each(condition, conditions) {
        if (windlass_text_is(windlass_json_text(windlass_json_get(condition, "type")), type)) {
            return condition;
        }
    }
    return NULL;
}

bool windlass_conditions_is_true(const windlass_json *conditions, const char *type) {
    return windlass_text_is(windlass_json_text(windlass_json_get(windlass_conditions_find(conditions, type), "status")), "True");
}

void windlass_conditions_remove(windlass_json *conditions, const char *type) {
    windlass_json_remove(windlass_conditions_find(conditions, type));
}

static windlass_json *find(const windlass_json *conditions, windlass_text type) {
    windlass_json_each(condition, conditions) {
        if (windlass_text_equal(windlass_json_text(windlass_json_get(condition, "type")), type)) {
            return condition;
        }
    }
    return NULL;
}

void windlass_conditions_set(windlass_json *conditions, const windlass_condition *condition, windlass_instant (*now)(void)) {
    if (!windlass_json_is(conditions, WINDLASS_JSON_ARRAY)) {
        windlass_panic_at(__FILE__, __LINE__, __func__,
            "there is no list of conditions: create it first, for example with windlass_json_set(status, \"conditions\", windlass_empty_array())");
    }
    static const char *const statuses[] = {"False", "True", "Unknown"};
    const char *status = statuses[condition->status];
    windlass_json *known = find(conditions, condition->type);
    windlass_text since = windlass_json_text(windlass_json_get(known, "lastTransitionTime"));
    bool is_same = windlass_text_is(windlass_json_text(windlass_json_get(known, "status")), status);
    if (!is_same || since.length == 0) {
        since = windlass_text_of(windlass_instant_text(now()));
    }
    windlass_text message = condition->message.data ? condition->message : windlass_text_of("");
    windlass_json *value = windlass_object(
        {"type", windlass_string(condition->type)},
        {"status", windlass_string(status)},
        {"reason", windlass_string(condition->reason)},
        {"message", windlass_string(message)},
        {"observedGeneration", condition->observed_generation ? windlass_int(condition->observed_generation) : NULL},
        {"lastTransitionTime", windlass_string(since)});
    if (known == NULL) {
        windlass_json_add(conditions, value);
        return;
    }
    // The condition keeps its position in the list: only its members are replaced.
    while (known->first != NULL) {
        windlass_json_remove(known->first);
    }
    while (value->first != NULL) {
        windlass_json *member = value->first;
        windlass_json_remove(member);
        windlass_json_set_text(known, member->key, member);
    }
}
