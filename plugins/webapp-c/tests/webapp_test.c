// The desired children, the decisions about them, the status, and whole calls.

#include <windlass_test.h>

#include "../children.h"
#include "../status.h"

static windlass_instant now(void) {
    return (windlass_instant){1795258125, 0};
}

static windlass_instant unread(void) {
    windlass_panic("the time was read, so the call cannot be saved");
}

// A `WebApp` of generation 1 that was never reconciled.
static windlass_json *new_object(void) {
    return windlass_test_json("{\"apiVersion\": \"apps.kubedojo.io/v1beta1\", \"kind\": \"WebApp\","
                              "\"metadata\": {\"name\": \"shop\", \"namespace\": \"default\", \"uid\": \"u-1\", \"generation\": 1},"
                              "\"spec\": {\"image\": \"nginx\"}}");
}

static web_app app_of(const windlass_json *object) {
    web_app app;
    WINDLASS_CHECK(read_app(object, &app) == NULL);
    return app;
}

static web_app new_app(void) {
    return app_of(new_object());
}

// A child as the server stores it, with defaults and an owner.
static windlass_json *stored(const windlass_json *wanted) {
    windlass_json *child = windlass_json_copy(wanted);
    windlass_json_set_at(child, "/metadata/resourceVersion", windlass_string("7"));
    windlass_json_set_at(child, "/metadata/generation", windlass_int(1));
    windlass_json_set_at(child, "/metadata/ownerReferences", windlass_test_json("[{\"uid\": \"u-1\", \"controller\": true}]"));
    windlass_json_set_at(child, "/spec/sessionAffinity", windlass_string("None"));
    return child;
}

static windlass_json *ready_deployment(const web_app *app) {
    windlass_json *deployment = stored(deployment_of(app).wanted);
    windlass_json_set(deployment, "status",
        windlass_test_json("{\"observedGeneration\": 1, \"readyReplicas\": 2, \"updatedReplicas\": 2}"));
    return deployment;
}

static windlass_json *status_with(const web_app *app, const windlass_json *deployment) {
    return status_of(app, deployment, &(struct problem){NULL, WINDLASS_NONE}, now);
}

// An app like `new_app`, whose replicas have become ready.
static web_app running_app(void) {
    web_app app = new_app();
    windlass_json *object = new_object();
    windlass_json_set(object, "status", status_with(&app, ready_deployment(&app)));
    return app_of(object);
}

static decision decide_service(const web_app *app, const char *pointer, const char *value) {
    struct child service = service_of(app);
    windlass_json *cached = stored(service.wanted);
    if (pointer != NULL) {
        windlass_json_set_at(cached, pointer, windlass_test_json(value));
    }
    return decide(app, &service, cached);
}

static windlass_text condition(const windlass_json *status, const char *type, const char *field) {
    return windlass_json_text(windlass_json_get(windlass_conditions_find(windlass_json_get(status, "conditions"), type), field));
}

WINDLASS_TEST(the_plugins_defaults_equal_those_of_the_schema) {
    web_app app = new_app();
    WINDLASS_CHECK(app.replicas == 2 && app.port == 8080);
}

WINDLASS_TEST(the_service_selects_the_pods_and_names_their_port) {
    web_app app = new_app();
    const windlass_json *deployment = deployment_of(&app).wanted;
    const windlass_json *service = service_of(&app).wanted;
    const windlass_json *selector = windlass_json_at(service, "/spec/selector");
    WINDLASS_CHECK(windlass_has_fields(windlass_json_at(deployment, "/spec/template/metadata/labels"), selector));
    WINDLASS_CHECK(windlass_json_equal(windlass_json_at(deployment, "/spec/selector/matchLabels"), selector));
    windlass_text name = windlass_json_text_at(deployment, "/spec/template/spec/containers/0/ports/0/name");
    WINDLASS_CHECK(windlass_text_equal(windlass_json_text_at(service, "/spec/ports/0/targetPort"), name));
    WINDLASS_CHECK(windlass_json_int_at(deployment, "/spec/template/spec/containers/0/ports/0/containerPort", 0) == 8080);
}

WINDLASS_TEST(a_missing_child_is_created_first_and_healed_later) {
    web_app app = new_app();
    web_app running = running_app();
    struct child service = service_of(&app);
    WINDLASS_CHECK(decide(&app, &service, NULL) == CREATE);
    WINDLASS_CHECK(decide(&running, &service, NULL) == HEAL);
}

WINDLASS_TEST(an_unchanged_child_is_left_alone) {
    web_app app = running_app();
    WINDLASS_CHECK(decide_service(&app, NULL, NULL) == LEAVE);
    WINDLASS_CHECK(decide_service(&app, "/metadata/labels/team", "\"a\"") == LEAVE);
}

WINDLASS_TEST(an_edited_child_is_healed) {
    web_app app = running_app();
    WINDLASS_CHECK(decide_service(&app, "/spec/ports/0/port", "81") == HEAL);
    WINDLASS_CHECK(decide_service(&app, "/spec/selector/tier", "\"x\"") == HEAL);
}

WINDLASS_TEST(a_child_of_another_spec_is_updated) {
    web_app app = running_app();
    windlass_json *deployment = ready_deployment(&app);
    app.replicas = 5;
    app.generation = 2;
    struct child wanted = deployment_of(&app);
    WINDLASS_CHECK(decide(&app, &wanted, deployment) == UPDATE);
}

WINDLASS_TEST(a_deleting_child_is_left_until_it_is_gone) {
    web_app app = running_app();
    struct child service = service_of(&app);
    windlass_json *cached = stored(service.wanted);
    windlass_json_set_at(cached, "/metadata/deletionTimestamp", windlass_string("2026-11-21T10:48:45Z"));
    windlass_json_set_at(cached, "/spec/ports", windlass_empty_array());
    WINDLASS_CHECK(decide(&app, &service, cached) == LEAVE);
}

WINDLASS_TEST(orphans_are_adopted_but_not_objects_of_others) {
    web_app app = new_app();
    WINDLASS_CHECK(decide_service(&app, "/metadata/ownerReferences", "[{\"uid\": \"u-2\", \"controller\": true}]") == NAME_TAKEN);
    WINDLASS_CHECK(decide_service(&app, "/metadata", "{\"name\": \"shop\"}") == NAME_TAKEN);
    web_app running = running_app();
    WINDLASS_CHECK(decide_service(&running, "/metadata/ownerReferences", "[]") == HEAL);
}

WINDLASS_TEST(a_changed_port_is_removed_before_the_apply) {
    web_app app = running_app();
    const windlass_json *wanted = deployment_of(&app).wanted;
    windlass_json *edited = stored(wanted);
    windlass_json_set_at(edited, "/spec/template/spec/containers",
        windlass_test_json("[{\"name\": \"sidecar\", \"ports\": [{\"containerPort\": 1}]}, {\"name\": \"web\", \"image\": \"nginx\","
                           "\"ports\": [{\"name\": \"http\", \"containerPort\": 81, \"protocol\": \"TCP\"}]}]"));
    const windlass_json *patch = surplus(edited, wanted);
    WINDLASS_CHECK(patch->count == 1);
    WINDLASS_CHECK_TEXT(windlass_json_text_at(patch, "/0/path"), "/spec/template/spec/containers/1/ports");
    WINDLASS_CHECK(windlass_json_equal(windlass_json_at(patch, "/0/value"), windlass_json_at(wanted, "/spec/template/spec/containers/0/ports")));
    WINDLASS_CHECK(surplus(stored(wanted), wanted)->count == 0);
}

WINDLASS_TEST(an_app_is_pending_running_degraded_and_running_again) {
    web_app app = new_app();
    windlass_json *deployment = ready_deployment(&app);
    windlass_json_set_at(deployment, "/status/readyReplicas", windlass_int(1));
    windlass_json *pending = status_with(&app, deployment);
    WINDLASS_CHECK_TEXT(windlass_json_text_at(pending, "/phase"), "Pending");
    WINDLASS_CHECK_TEXT(condition(pending, READY, "message"), "1 of 2 replicas are ready");
    web_app running = running_app();
    WINDLASS_CHECK_TEXT(windlass_json_text_at(running.status, "/phase"), "Running");
    running.status = status_with(&running, deployment);
    WINDLASS_CHECK_TEXT(windlass_json_text_at(running.status, "/phase"), "Degraded");
    WINDLASS_CHECK_TEXT(windlass_json_text_at(status_with(&running, ready_deployment(&app)), "/phase"), "Running");
}

WINDLASS_TEST(a_running_app_that_is_scaled_up_is_pending_not_degraded) {
    web_app app = running_app();
    windlass_json *deployment = ready_deployment(&app);
    app.replicas = 4;
    app.generation = 2;
    windlass_json *scaled = status_with(&app, deployment);
    WINDLASS_CHECK_TEXT(windlass_json_text_at(scaled, "/phase"), "Pending");
    WINDLASS_CHECK(windlass_json_int_at(scaled, "/observedGeneration", 0) == 2);
    WINDLASS_CHECK_TEXT(condition(scaled, PROGRESSING, "status"), "True");
}

WINDLASS_TEST(a_deployment_status_for_an_older_spec_does_not_count) {
    web_app app = new_app();
    windlass_json *deployment = ready_deployment(&app);
    windlass_json_set_at(deployment, "/metadata/generation", windlass_int(2));
    WINDLASS_CHECK_TEXT(windlass_json_text_at(status_with(&app, deployment), "/phase"), "Pending");
}

WINDLASS_TEST(an_unchanged_status_stays_equal_over_time) {
    web_app app = running_app();
    WINDLASS_CHECK(windlass_json_equal(status_of(&app, ready_deployment(&app), &(struct problem){NULL, WINDLASS_NONE}, unread), app.status));
}

WINDLASS_TEST(an_empty_image_is_a_problem_that_is_reported_once) {
    web_app app = new_app();
    WINDLASS_CHECK(problem_of_spec(&app).reason == NULL);
    app.image = windlass_text(" \t");
    struct problem problem = problem_of_spec(&app);
    WINDLASS_CHECK(is_news(&problem, &app));
    app.status = status_of(&app, NULL, &problem, now);
    WINDLASS_CHECK(!is_news(&problem, &app));
    WINDLASS_CHECK_TEXT(condition(app.status, READY, "status"), "False");
    WINDLASS_CHECK_TEXT(condition(app.status, READY, "reason"), "Invalid");
}

WINDLASS_TEST(only_a_lasting_refusal_is_a_problem) {
    WINDLASS_CHECK_TEXT(problem_of_error(windlass_api(&(windlass_api_error){.reason = WINDLASS_INVALID})).reason, "ApplyFailed");
    WINDLASS_CHECK(problem_of_error(windlass_api(&(windlass_api_error){.reason = WINDLASS_CONFLICT})).reason == NULL);
    WINDLASS_CHECK(problem_of_error(windlass_api(&(windlass_api_error){.reason = WINDLASS_SERVER_ERROR})).reason == NULL);
    WINDLASS_CHECK(problem_of_error(NULL).reason == NULL);
}

// --- Whole calls ---

static const char *const SHOP = "{\"apiVersion\": \"apps.kubedojo.io/v1beta1\", \"kind\": \"WebApp\","
                                "\"metadata\": {\"name\": \"shop\", \"namespace\": \"default\", \"uid\": \"u-1\", \"generation\": 1},"
                                "\"spec\": {\"image\": \"nginx\"}}";

WINDLASS_TEST(a_deleted_or_deleting_app_needs_nothing) {
    windlass_test_reconcile(NULL);
    windlass_test_reconcile("{\"apiVersion\": \"apps.kubedojo.io/v1beta1\", \"kind\": \"WebApp\", \"metadata\": {\"name\": \"shop\","
                            "\"deletionTimestamp\": \"2026-11-21T10:48:45Z\"}, \"spec\": {\"image\": \"nginx\"}}");
    WINDLASS_CHECK(windlass_test_failures.count == 0);
    WINDLASS_CHECK(windlass_test_write_count() == 0 && windlass_test_read_count() == 0);
}

WINDLASS_TEST(a_new_app_gets_its_children_and_status_once) {
    windlass_test_reconcile(SHOP);
    WINDLASS_CHECK(windlass_test_failures.count == 0);
    WINDLASS_CHECK(windlass_test_write_count() == 3);
    WINDLASS_CHECK_TEXT(windlass_test_write_at(0)->target.kind, "Deployment");
    WINDLASS_CHECK(windlass_test_write_at(0)->options.owned && windlass_test_write_at(0)->options.force);
    WINDLASS_CHECK_TEXT(windlass_test_write_at(1)->target.kind, "Service");
    WINDLASS_CHECK_TEXT(windlass_test_write_at(2)->options.subresource.name, "status");
    WINDLASS_CHECK(windlass_test_event_count() == 2);
    WINDLASS_CHECK_TEXT(windlass_test_event_at(0)->note, "Deployment shop: created");
    windlass_json *app = windlass_test_object("apps.kubedojo.io/v1beta1", "WebApp", "default", "shop");
    windlass_test_reconcile(windlass_json_print(app).data);
    WINDLASS_CHECK(windlass_test_failures.count == 0);
    WINDLASS_CHECK(windlass_test_write_count() == 3 && windlass_test_event_count() == 2);
}

WINDLASS_TEST(a_failed_child_does_not_stop_the_other) {
    windlass_test_fail_next("apply", "Deployment", WINDLASS_CONFLICT);
    windlass_test_reconcile(SHOP);
    WINDLASS_CHECK(windlass_test_failures.count == 1);
    WINDLASS_CHECK(windlass_is(windlass_test_failures.errors[0], WINDLASS_CONFLICT));
    // A failure that may pass by itself leaves the status alone.
    WINDLASS_CHECK(windlass_test_write_count() == 2);
    WINDLASS_CHECK_TEXT(windlass_test_write_at(1)->target.kind, "Service");
}

WINDLASS_TEST(a_taken_name_is_reported_and_checked_again) {
    windlass_test_put("{\"apiVersion\": \"v1\", \"kind\": \"Service\", \"metadata\": {\"name\": \"shop\", \"namespace\": \"default\"}}");
    windlass_outcome outcome = windlass_test_reconcile(SHOP);
    WINDLASS_CHECK(windlass_test_failures.count == 0);
    WINDLASS_CHECK(outcome.requeue && outcome.requeue_after_ms == 60000);
    WINDLASS_CHECK_TEXT(windlass_test_event_at(1)->reason, "NameTaken");
    WINDLASS_CHECK_TEXT(windlass_test_event_at(1)->note, "Service default/shop exists and is not this WebApp's");
}
