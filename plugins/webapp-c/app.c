#include "app.h"

// A condition with exactly the known fields, so that statuses can be compared.
static windlass_json *known_condition(const windlass_json *condition) {
    static const char *const fields[] = {"type", "status", "reason", "message", "observedGeneration", "lastTransitionTime"};
    windlass_json *known = windlass_empty_object();
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        windlass_json *value = windlass_json_get(condition, fields[i]);
        if (!windlass_json_is_null(value)) {
            windlass_json_set(known, fields[i], value);
        }
    }
    return known;
}

static windlass_json *known_status(const windlass_json *status) {
    windlass_json *conditions = windlass_empty_array();
    windlass_json_each(condition, windlass_json_get(status, "conditions")) {
        windlass_json_add(conditions, known_condition(condition));
    }
    return windlass_object(
        {"observedGeneration", windlass_json_get(status, "observedGeneration")},
        {"readyReplicas", windlass_int(windlass_json_int_at(status, "/readyReplicas", 0))},
        {"phase", windlass_json_get(status, "phase")},
        {"conditions", conditions});
}

// Reads a whole number that may be missing.
static bool read_number(const windlass_json *object, const char *pointer, int64_t otherwise, int64_t *number) {
    const windlass_json *value = windlass_json_at(object, pointer);
    *number = otherwise;
    return value == NULL || windlass_json_read_int(value, number);
}

const windlass_error *read_app(const windlass_json *object, web_app *app) {
    *app = (web_app){
        .object = object,
        .name = windlass_json_text_at(object, "/metadata/name"),
        .generation = windlass_json_int_at(object, "/metadata/generation", 0),
        .image = windlass_json_text_at(object, "/spec/image"),
        .status = known_status(windlass_json_get(object, "status")),
        .observed_generation = windlass_json_int_at(object, "/status/observedGeneration", 0),
    };
    bool is_good = app->name.data && app->image.data && read_number(object, "/spec/replicas", 2, &app->replicas)
                   && read_number(object, "/spec/port", 8080, &app->port);
    return is_good ? NULL : windlass_terminal_text(windlass_text("the primary is not a WebApp: the CRD's schema would have refused it"));
}

bool is_changed(const web_app *app) {
    return app->observed_generation != app->generation;
}
