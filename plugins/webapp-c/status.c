#include "status.h"

struct problem problem_of_spec(const web_app *app) {
    bool is_empty = windlass_text_trimmed(app->image).length == 0;
    return is_empty ? (struct problem){"Invalid", windlass_text("spec.image is empty")} : (struct problem){NULL, WINDLASS_NONE};
}

struct problem problem_of_name(const windlass_ref *child) {
    const char *message = windlass_concat(windlass_ref_text(child), " exists and is not this WebApp's");
    return (struct problem){"NameTaken", windlass_text(message)};
}

struct problem problem_of_error(const windlass_error *error) {
    bool is_lasting = windlass_is(error, WINDLASS_INVALID) || windlass_is(error, WINDLASS_FORBIDDEN)
                      || windlass_is(error, WINDLASS_NOT_GRANTED) || windlass_is(error, WINDLASS_TOO_LARGE);
    return is_lasting ? (struct problem){"ApplyFailed", error->message} : (struct problem){NULL, WINDLASS_NONE};
}

bool is_news(const struct problem *problem, const web_app *app) {
    const windlass_json *ready = windlass_conditions_find(windlass_json_get(app->status, "conditions"), READY);
    bool is_known = windlass_text_is(windlass_json_text_at(ready, "/reason"), problem->reason)
                    && windlass_text_equal(windlass_json_text_at(ready, "/message"), problem->message);
    return !is_known || windlass_json_int_at(ready, "/observedGeneration", 0) != app->generation;
}

// The Deployment's report.
struct rollout {
    int64_t ready_replicas;
    // Whether the report is about the current spec, and all replicas have that spec.
    bool is_complete;
};

static struct rollout rollout_of(const web_app *app, const windlass_json *deployment) {
    bool is_about_this = windlass_json_int_at(deployment, "/status/observedGeneration", 0)
                         >= windlass_json_int_at(deployment, "/metadata/generation", 0);
    bool is_updated = windlass_json_int_at(deployment, "/status/updatedReplicas", 0) >= app->replicas;
    return (struct rollout){
        .ready_replicas = windlass_json_int_at(deployment, "/status/readyReplicas", 0),
        .is_complete = deployment != NULL && is_about_this && is_updated,
    };
}

static const char *phase_of(const web_app *app, bool is_ready) {
    windlass_text before = windlass_json_text_at(app->status, "/phase");
    bool was_ready = windlass_text_is(before, "Running") || windlass_text_is(before, "Degraded");
    if (is_ready) {
        return "Running";
    }
    return was_ready && !is_changed(app) ? "Degraded" : "Pending";
}

static void set(windlass_json *conditions, const web_app *app, const char *type, bool is_true, const char *reason, windlass_text message,
    windlass_instant (*now)(void)) {
    windlass_condition condition = {
        .type = windlass_text(type),
        .status = is_true ? WINDLASS_CONDITION_TRUE : WINDLASS_CONDITION_FALSE,
        .reason = windlass_text(reason),
        .message = message,
        .observed_generation = app->generation,
    };
    windlass_conditions_set(conditions, &condition, now);
}

static windlass_json *conditions_of(
    const web_app *app, struct rollout rollout, bool is_ready, const struct problem *problem, windlass_instant (*now)(void)) {
    windlass_json *conditions = windlass_json_copy(windlass_json_get(app->status, "conditions"));
    if (problem->reason != NULL) {
        set(conditions, app, READY, false, problem->reason, problem->message, now);
        set(conditions, app, PROGRESSING, false, problem->reason, problem->message, now);
        return conditions;
    }
    const char *count = windlass_concat(
        windlass_decimal(rollout.ready_replicas), " of ", windlass_decimal(app->replicas), " replicas are ready");
    set(conditions, app, READY, is_ready, is_ready ? "ReplicasReady" : "ReplicasNotReady", windlass_text(count), now);
    if (rollout.is_complete) {
        set(conditions, app, PROGRESSING, false, "RolledOut", windlass_text("the Deployment runs this spec"), now);
    } else {
        set(conditions, app, PROGRESSING, true, "RollingOut", windlass_text("the Deployment is rolling out this spec"), now);
    }
    return conditions;
}

windlass_json *status_of(const web_app *app, const windlass_json *deployment, const struct problem *problem, windlass_instant (*now)(void)) {
    struct rollout rollout = rollout_of(app, deployment);
    bool is_ready = problem->reason == NULL && rollout.is_complete && rollout.ready_replicas >= app->replicas;
    return windlass_object(
        {"observedGeneration", app->generation ? windlass_int(app->generation) : NULL},
        {"readyReplicas", windlass_int(rollout.ready_replicas)},
        {"phase", windlass_string(phase_of(app, is_ready))},
        {"conditions", conditions_of(app, rollout, is_ready, problem, now)});
}
