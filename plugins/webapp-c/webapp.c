// The WebApp plugin in C: a Deployment and a Service for each `WebApp`.
//
// This file reads, writes and reports. Pure functions in children.c and status.c compute the children and the status.

#include "children.h"
#include "status.h"

// The interval for checking a taken name again. No watch shows when it becomes free.
enum { NAME_TAKEN_RETRY_MS = 60 * 1000 };

static const windlass_manifest manifest = {
    .name = "webapp-c",
    .version = "0.1.0",
    .description = "Runs each WebApp as a Deployment behind a Service.",
    .controllers = WINDLASS_CONTROLLERS({
        .name = "webapp",
        .primary = {.api_version = API_VERSION, .kind = KIND, .predicates = WINDLASS_PREDICATES(WINDLASS_WHEN_GENERATION)},
        .owns = WINDLASS_WATCHES({.api_version = "apps/v1", .kind = "Deployment"}, {.api_version = "v1", .kind = "Service"}),
    }),
};

// The fields of a child that the plugin compares or reports. For a change of any other field, such as the time in a
// condition of the Deployment, the host need not call the plugin.
static const char *const CHILD_FIELDS[] = {"/metadata/uid", "/metadata/labels", "/metadata/ownerReferences",
    "/metadata/deletionTimestamp", "/metadata/generation", "/spec", "/status/observedGeneration", "/status/readyReplicas", "/status/updatedReplicas", NULL};

// The result of applying the children.
struct progress {
    // The Deployment after this call. NULL if it is unknown.
    windlass_json *deployment;
    struct problem problem;
    bool is_name_taken;
};

// Removes the entries that an apply would leave. An earlier removal counts as another manager's change, so this also
// concerns the port of an older spec.
static const windlass_error *cut(const struct child *child, const windlass_json *judged) {
    // Read again, with the version that the entries are in. By now, another client may have created a new object under
    // the name: only the judged one is known to be ours.
    windlass_ref ours = windlass_ref_to(judged);
    windlass_json *cached = NULL;
    const windlass_error *error = windlass_cache_get(&ours, NULL, &cached);
    if (error != NULL || cached == NULL) {
        return error;
    }
    windlass_json *patch = surplus(cached, child->wanted);
    if (patch->count == 0) {
        return NULL;
    }
    windlass_text version = windlass_json_text_at(cached, "/metadata/resourceVersion");
    windlass_write_options options = {.resource_version = version.data ? version : windlass_text("")};
    return windlass_writes_patch(&child->target, WINDLASS_PATCH_JSON, patch, &options, NULL);
}

static void announce(const struct child *child, decision change) {
    static const struct {
        const char *reason;
        const char *action;
        const char *what;
    } words[] = {
        [CREATE] = {"Created", "Create", "created"},
        [UPDATE] = {"Updated", "Update", "updated to the new spec"},
        [HEAL] = {"Healed", "Heal", "was deleted or edited, and is restored"},
    };
    const char *kind = child->target.kind.data;
    windlass_log(WINDLASS_INFO, "applied a child", "kind", kind, "reason", words[change].reason);
    const char *note = windlass_concat(kind, " ", child->target.name.data, ": ", words[change].what);
    windlass_events_normal(words[change].reason, words[change].action, note);
}

// Brings one child to its desired state, and sets its new state.
static const windlass_error *ensure(const web_app *app, const struct child *child, windlass_json **object, bool *is_name_taken) {
    const windlass_error *error = windlass_cache_get(&child->target, CHILD_FIELDS, object);
    if (error != NULL) {
        return error;
    }
    decision change = decide(app, child, *object);
    if (change == LEAVE) {
        return NULL;
    }
    if (change == NAME_TAKEN) {
        *is_name_taken = true;
        return NULL;
    }
    if (*object != NULL) {
        error = cut(child, *object);
        if (error != NULL) {
            return error;
        }
    }
    // The apply uses force: a field that someone edited becomes ours again.
    error = windlass_writes_apply(child->wanted, &(windlass_write_options){.owned = true, .force = true, .fields = CHILD_FIELDS}, object);
    if (error == NULL) {
        announce(child, change);
    }
    return error;
}

// Brings one child to its desired state. Returns NULL if this failed.
static windlass_json *bring_about(const web_app *app, const struct child *child, struct progress *progress, windlass_failures *failures) {
    windlass_json *object = NULL;
    bool is_name_taken = false;
    const windlass_error *error = ensure(app, child, &object, &is_name_taken);
    windlass_fail(failures, error);
    if (progress->problem.reason == NULL) {
        progress->problem = is_name_taken ? problem_of_name(&child->target) : problem_of_error(error);
    }
    progress->is_name_taken |= is_name_taken;
    return error == NULL && !is_name_taken ? object : NULL;
}

// The Deployment that the status is about. If the spec is invalid, nothing can be applied, but an existing
// Deployment may still run.
static const windlass_error *deployment_to_report(const web_app *app, struct progress *progress) {
    if (progress->problem.reason == NULL) {
        return NULL;
    }
    if (is_news(&progress->problem, app)) {
        windlass_events_emit(&(windlass_event){
            .type = WINDLASS_EVENT_WARNING,
            .reason = windlass_text(progress->problem.reason),
            .action = windlass_text("Reconcile"),
            .note = progress->problem.message,
        });
    }
    windlass_ref target = windlass_sibling(app->object, "apps/v1", "Deployment");
    const windlass_error *error = windlass_cache_get(&target, CHILD_FIELDS, &progress->deployment);
    if (!windlass_is_controlled_by(progress->deployment, app->object)) {
        progress->deployment = NULL;
    }
    return error;
}

// Writes the status, if it has changed, and reports a new problem.
static const windlass_error *report(const web_app *app, struct progress *progress, bool has_failed) {
    // A failure that may pass by itself leaves the status alone. The retry that succeeds will write it.
    if (has_failed && progress->problem.reason == NULL) {
        return NULL;
    }
    const windlass_error *error = deployment_to_report(app, progress);
    if (error != NULL) {
        return error;
    }
    windlass_json *status = status_of(app, progress->deployment, &progress->problem, windlass_clock_now);
    if (windlass_json_equal(status, app->status)) {
        return NULL;
    }
    windlass_ref target = windlass_sibling(app->object, API_VERSION, KIND);
    return windlass_writes_apply_status(&target, status);
}

static windlass_outcome reconcile_app(const web_app *app, windlass_failures *failures) {
    struct progress progress = {.problem = problem_of_spec(app)};
    if (progress.problem.reason != NULL) {
        windlass_fail(failures, windlass_terminal_text(progress.problem.message));
    } else {
        // A failed child does not stop the other one.
        struct child deployment = deployment_of(app);
        progress.deployment = bring_about(app, &deployment, &progress, failures);
        struct child service = service_of(app);
        bring_about(app, &service, &progress, failures);
    }
    windlass_fail(failures, report(app, &progress, failures->count > 0));
    return progress.is_name_taken ? windlass_requeue_after_ms(NAME_TAKEN_RETRY_MS) : WINDLASS_DONE;
}

static windlass_outcome reconcile(const windlass_request *request, windlass_failures *failures) {
    // The garbage collector deletes the children, because the `WebApp` owns them.
    if (request->object == NULL) {
        return WINDLASS_DONE;
    }
    web_app app;
    const windlass_error *error = read_app(request->object, &app);
    if (error != NULL) {
        return windlass_fail(failures, error);
    }
    return request->deleting ? WINDLASS_DONE : reconcile_app(&app, failures);
}

WINDLASS_RECONCILER(manifest, reconcile);
