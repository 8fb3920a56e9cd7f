// Memory, texts, errors, conditions, owners, the manifest, and the unit tests' host itself.

#include <stdlib.h>

#include <windlass_test.h>

#include "../windlass_internal.h"

// --- The plugin under test, which does what its primary's `spec.do` says ---

static const windlass_metric counted = {
    .name = "counted_total", .type = WINDLASS_COUNTER, .help = "What was counted.", .labels = WINDLASS_TEXTS("color", "size")};

static const windlass_manifest manifest = {
    .name = "tried",
    .version = "1.2.3",
    .controllers = WINDLASS_CONTROLLERS({
        .name = "things",
        .primary =
            {
                .api_version = "example.com/v1",
                .kind = "Thing",
                .name = "things",
                .where = WINDLASS_WHERE(
                    {.any = WINDLASS_WHERE({.annotation = "a", .is = "true"}, {.annotation = "b", .exists = true})},
                    {.field = "/c", .in = WINDLASS_TEXTS("d", "e")}, {.field = "/f", .not_in = WINDLASS_TEXTS("g")},
                    {.field = "/h", .is_json = "3"}, {.field = "/i", .absent = true}),
                .predicates = WINDLASS_PREDICATES(
                    WINDLASS_WHEN_GENERATION, WINDLASS_WHEN_FIELDS("/data", "/spec"),
                    WINDLASS_WHEN_AND(WINDLASS_WHEN_NOT(WINDLASS_WHEN_LABELS), WINDLASS_WHEN_FIELDS("/a/*"))),
                .indexes = WINDLASS_INDEXES(
                    WINDLASS_INDEX_FIELD("by-secret", "/spec/secret"), WINDLASS_INDEX_LABEL("tier", "tier"),
                    WINDLASS_INDEX_REFERENCE("refs", "/spec/refs/*", "/namespace", "/name"),
                    WINDLASS_INDEX_SELECTOR("selects", "/spec/selector"), WINDLASS_INDEX_SELECTED_LABELS("labels", "/spec/labels"),
                    WINDLASS_INDEX_SELECTOR_TEXT("text", "/spec/text"), WINDLASS_INDEX_ANNOTATION("note", "k"),
                    WINDLASS_INDEX_ANNOTATION_LIST("uses", "l", ",")),
                .without_no_op_skip = true,
                .call_fields = WINDLASS_TEXTS("/spec", "/status"),
            },
        .owns = WINDLASS_WATCHES(
            {.api_version = "v1", .kind = "Pod", .projection = WINDLASS_KEEP_METADATA, .managed_fields = true, .ignore_deletions = true,
                .call_fields = WINDLASS_NO_TEXTS}),
        .watches = WINDLASS_MAPPED_WATCHES(
            {{.api_version = "v1", .kind = "Secret", .projection = WINDLASS_KEEP_DIGEST("/data")}, WINDLASS_MAP_REFERENCED_BY("by-secret")},
            {{.api_version = "v1", .kind = "Service"}, WINDLASS_MAP_SELECTED_BY("selects")},
            {{.api_version = "v1", .kind = "ConfigMap"}, WINDLASS_MAP_REFERENCE(NULL, NULL, "/data/thing")},
            {{.api_version = "v1", .kind = "Node"}, WINDLASS_MAP_ALL},
            {{.api_version = "v1", .kind = "Namespace"}, WINDLASS_MAP_NONE},
            {{.kinds_from = "/kinds", .verbs = WINDLASS_TEXTS("delete"), .projection = WINDLASS_KEEP_METADATA}, WINDLASS_MAP_ALL},
            {{.api_version = "apps/v1", .kind = "Deployment"}, WINDLASS_MAP_ANY_OWNER},
            {{.api_version = "v1", .kind = "Pod", .name = "pods", .code_predicate = true}, WINDLASS_MAP_MAPPER},
            {{.api_version = "v1", .kind = "Role", .name = "roles"}, WINDLASS_MAP_CUSTOMIZE}),
        .hooks = WINDLASS_HOOKS({"pushed", WINDLASS_MAP_FIELD("/payload/name")}),
        .options = {.max_retries = WINDLASS_NO_RETRIES, .finalizer = true, .without_status = true, .backoff.base_ms = 7},
    }, {
        .name = "nightly",
        .primary.timer = &(const windlass_timer){
            .cron = "0 3 * * *", .time_zone = "Europe/Berlin", .jitter_ms = 60000, .missed = WINDLASS_MISSED_SKIP},
    }, {
        .name = "often",
        .primary.timer = &(const windlass_timer){.interval_ms = 1000},
    }),
    .metrics = WINDLASS_METRICS(&counted),
    .http = WINDLASS_HTTP_HOSTS({.host = "example.com", .methods = WINDLASS_TEXTS("GET")}),
    .config_schema = WINDLASS_JSON({"type": "object"}),
    .crds = WINDLASS_TEXTS(WINDLASS_JSON({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"})),
};

static windlass_outcome reconcile(const windlass_request *request, windlass_failures *failures) {
    const windlass_json *spec = windlass_json_get(request->object, "spec");
    windlass_json_each(object, windlass_json_get(spec, "apply")) {
        windlass_fail(failures, windlass_writes_apply(object, &(windlass_write_options){.owned = true, .force = true}, NULL));
    }
    return windlass_requeue_after_ms((uint64_t)windlass_json_int_at(spec, "/later", 0));
}

WINDLASS_RECONCILER(manifest, reconcile);

// --- Memory and texts ---

WINDLASS_TEST(memory_is_zero_aligned_and_may_be_large) {
    for (size_t size = 1; size < 2000000; size = size * 3 + 1) {
        char *piece = windlass_alloc(size);
        WINDLASS_CHECK((uintptr_t)piece % 8 == 0);
        for (size_t i = 0; i < size; i++) {
            WINDLASS_CHECK(piece[i] == 0);
        }
        memset(piece, 1, size);
    }
}

WINDLASS_TEST(memory_after_a_mark_is_released) {
    windlass_text kept = windlass_text_copy(windlass_text("kept"));
    windlass_mark mark = windlass_memory_mark();
    void *first = windlass_alloc(100);
    for (int i = 0; i < 100; i++) {
        windlass_memory_release(mark);
        windlass_alloc(1000000);
        windlass_alloc(10);
    }
    windlass_memory_release(mark);
    WINDLASS_CHECK(windlass_alloc(100) == first);
    WINDLASS_CHECK_TEXT(kept, "kept");
}

WINDLASS_TEST(a_buffer_grows_in_place_and_elsewhere) {
    windlass_buffer one = {0};
    windlass_buffer other = {0};
    for (int i = 0; i < 10000; i++) {
        windlass_buffer_add(&one, "ab", 2);
        windlass_buffer_add_byte(&other, 'x');
    }
    windlass_text text = windlass_buffer_text(&one);
    WINDLASS_CHECK(text.length == 20000 && strlen(text.data) == 20000 && text.data[19999] == 'b');
    WINDLASS_CHECK(windlass_buffer_text(&other).length == 10000);
}

WINDLASS_TEST(texts_are_compared_and_trimmed) {
    WINDLASS_CHECK(windlass_text_equal(WINDLASS_NONE, WINDLASS_NONE));
    WINDLASS_CHECK(!windlass_text_equal(WINDLASS_NONE, windlass_text("")));
    WINDLASS_CHECK(windlass_text_compare(windlass_text("ab"), windlass_text("abc")) < 0);
    WINDLASS_CHECK(windlass_text_compare(windlass_text("b"), windlass_text("abc")) > 0);
    WINDLASS_CHECK_TEXT(windlass_text_trimmed(windlass_text(" \t a b\n")), "a b");
    WINDLASS_CHECK(windlass_text_trimmed(windlass_text(" \n")).length == 0);
    // All white space of Unicode. U+FEFF and the separators U+001C to U+001F are not white space.
    const char *const white = "\t\n\v\f\r \xc2\x85\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000";
    WINDLASS_CHECK_TEXT(windlass_text_trimmed(windlass_text(windlass_format("%s\ufeffa%sb\x1c%s", white, white, white))),
        windlass_format("\ufeffa%sb\x1c", white));
    WINDLASS_CHECK(windlass_text_trimmed(windlass_text(white)).length == 0);
    WINDLASS_CHECK_TEXT(windlass_text_trimmed(windlass_text("\u200b\u1681")), "\u200b\u1681");
    static const windlass_text constant = WINDLASS_TEXT("a\0b");
    WINDLASS_CHECK(constant.length == 3);
    WINDLASS_CHECK_TEXT(windlass_concat("a", "", NULL, "b"), "ab");
    WINDLASS_CHECK_TEXT(windlass_decimal(INT64_MIN), "-9223372036854775808");
    WINDLASS_CHECK_TEXT(windlass_format("%d of %s", 1, "two"), "1 of two");
}

// --- Errors ---

static const windlass_api_error conflict = {
    .code = 409,
    .reason = WINDLASS_CONFLICT,
    .status_reason = WINDLASS_TEXT("Conflict"),
    .message = WINDLASS_TEXT("changed"),
    .verb = WINDLASS_TEXT("patch"),
    .resource = WINDLASS_TEXT("services"),
    .has_object = true,
    .object = {.kind = WINDLASS_TEXT("Service"), .namespace = WINDLASS_TEXT("prod"), .name = WINDLASS_TEXT("shop")},
};

WINDLASS_TEST(a_wrapped_api_error_keeps_its_details_and_class) {
    const windlass_error *error = windlass_api(&conflict);
    WINDLASS_CHECK_TEXT(error->message, "patch services Service prod/shop: Conflict: changed");
    const windlass_error *wrapped = windlass_wrap(error, "cannot mend it");
    WINDLASS_CHECK_TEXT(wrapped->message, "cannot mend it: patch services Service prod/shop: Conflict: changed");
    WINDLASS_CHECK_TEXT(wrapped->api.message, "cannot mend it: changed");
    WINDLASS_CHECK_TEXT(error->api.message, "changed");
    WINDLASS_CHECK(windlass_is(wrapped, WINDLASS_CONFLICT) && wrapped->api.code == 409);
    WINDLASS_CHECK(windlass_wrap(NULL, "nothing") == NULL && !windlass_is(NULL, WINDLASS_CONFLICT));
}

WINDLASS_TEST(failures_are_collected_in_their_order) {
    windlass_failures failures = {0};
    windlass_fail(&failures, NULL);
    WINDLASS_CHECK(failures.count == 0);
    for (int i = 0; i < 20; i++) {
        windlass_fail_transient(&failures, "attempt %d", i);
    }
    windlass_fail_terminal(&failures, "%s", "never");
    windlass_fail_api(&failures, &conflict);
    WINDLASS_CHECK(failures.count == 22);
    WINDLASS_CHECK_TEXT(failures.errors[19]->message, "attempt 19");
    WINDLASS_CHECK(failures.errors[20]->kind == WINDLASS_ERROR_TERMINAL);
    WINDLASS_CHECK(failures.errors[21]->kind == WINDLASS_ERROR_API);
}

WINDLASS_TEST(a_wrapped_or_joined_failure_keeps_its_delay) {
    const windlass_error *error = windlass_transient_after_ms(5000, "%s is not ready", "the database");
    WINDLASS_CHECK(error->kind == WINDLASS_ERROR_TRANSIENT && error->has_retry_after && error->retry_after_ms == 5000);
    windlass_failures failures = {0};
    windlass_fail_terminal(&failures, "%s", "never");
    windlass_fail(&failures, windlass_wrap(windlass_wrap(error, "the schema"), "the shop"));
    windlass_fail_transient_after_ms(&failures, 0, "attempt %d", 2);
    windlass_fail_transient(&failures, "attempt %d", 3);
    WINDLASS_CHECK(failures.count == 4);
    WINDLASS_CHECK(failures.errors[0]->kind == WINDLASS_ERROR_TERMINAL && !failures.errors[0]->has_retry_after);
    WINDLASS_CHECK_TEXT(failures.errors[1]->message, "the shop: the schema: the database is not ready");
    WINDLASS_CHECK(failures.errors[1]->kind == WINDLASS_ERROR_TRANSIENT);
    WINDLASS_CHECK(failures.errors[1]->has_retry_after && failures.errors[1]->retry_after_ms == 5000);
    WINDLASS_CHECK_TEXT(failures.errors[2]->message, "attempt 2");
    WINDLASS_CHECK(failures.errors[2]->has_retry_after && failures.errors[2]->retry_after_ms == 0);
    WINDLASS_CHECK(failures.errors[3]->kind == WINDLASS_ERROR_TRANSIENT && !failures.errors[3]->has_retry_after);
}

WINDLASS_TEST(failures_stay_when_memory_is_released) {
    windlass_failures failures = {0};
    for (int i = 0; i < 100; i++) {
        windlass_mark mark = windlass_memory_mark();
        windlass_api_error api = conflict;
        api.object.name = windlass_text(windlass_format("shop-%d", i));
        api.verb = windlass_text_copy(windlass_text("patch"));
        windlass_fail(&failures, windlass_wrap(windlass_api(&api), "in vain"));
        windlass_memory_release(mark);
        memset(windlass_alloc(5000), 'x', 5000);
        windlass_memory_release(mark);
    }
    memset(windlass_alloc(100000), 'x', 100000);
    WINDLASS_CHECK(failures.count == 100);
    for (int i = 0; i < 100; i++) {
        const windlass_error *error = failures.errors[i];
        WINDLASS_CHECK_TEXT(error->api.object.name, windlass_format("shop-%d", i));
        WINDLASS_CHECK_TEXT(error->api.verb, "patch");
        WINDLASS_CHECK_TEXT(error->message, windlass_format("in vain: patch services Service prod/shop-%d: Conflict: changed", i));
    }
}

WINDLASS_TEST(a_long_delay_is_limited) {
    WINDLASS_CHECK(windlass_requeue_after_ms(UINT64_MAX).requeue_after_ms == INT32_MAX);
    WINDLASS_CHECK(windlass_requeue_after_ms(5).requeue && !WINDLASS_DONE.requeue);
    WINDLASS_CHECK(!windlass_requeue_after_ms(5).requeue_with_backoff && !WINDLASS_DONE.requeue_with_backoff);
    WINDLASS_CHECK(windlass_requeue_with_backoff().requeue_with_backoff && !windlass_requeue_with_backoff().requeue);
    WINDLASS_CHECK(windlass_transient_text_after_ms(UINT64_MAX, windlass_text("late"))->retry_after_ms == INT32_MAX);
}

// --- Conditions, owners, time ---

static windlass_instant early(void) {
    return (windlass_instant){1795258125, 0};
}

static windlass_instant late(void) {
    return (windlass_instant){1795258126, 0};
}

static windlass_instant unread(void) {
    windlass_panic("a call that reads the time cannot be saved");
}

WINDLASS_TEST(the_transition_time_changes_only_with_the_status) {
    windlass_json *conditions = windlass_empty_array();
    windlass_condition ready = {.type = windlass_text("Ready"), .status = WINDLASS_CONDITION_TRUE, .reason = windlass_text("A")};
    windlass_conditions_set(conditions, &(windlass_condition){.type = windlass_text("Other")}, early);
    windlass_conditions_set(conditions, &ready, early);
    ready.reason = windlass_text("B");
    windlass_conditions_set(conditions, &ready, unread);
    const windlass_json *found = windlass_conditions_find(conditions, "Ready");
    WINDLASS_CHECK_TEXT(windlass_json_text_at(found, "/lastTransitionTime"), "2026-11-21T10:48:45Z");
    WINDLASS_CHECK_TEXT(windlass_json_text_at(found, "/reason"), "B");
    WINDLASS_CHECK(windlass_conditions_is_true(conditions, "Ready") && !windlass_conditions_is_true(conditions, "Other"));
    ready.status = WINDLASS_CONDITION_UNKNOWN;
    windlass_conditions_set(conditions, &ready, late);
    WINDLASS_CHECK_TEXT(windlass_json_text_at(conditions, "/1/lastTransitionTime"), "2026-11-21T10:48:46Z");
    windlass_conditions_remove(conditions, "Other");
    windlass_conditions_remove(conditions, "Other");
    WINDLASS_CHECK(conditions->count == 1);
}

static void set_in_nothing(void) {
    const windlass_json *status = windlass_empty_object();
    windlass_conditions_set(windlass_json_at(status, "/conditions"), &(windlass_condition){.type = windlass_text("Ready")}, early);
}

static void set_in_a_list(void) {
    windlass_conditions_set(windlass_empty_array(), &(windlass_condition){.type = windlass_text("Ready")}, early);
}

WINDLASS_TEST(setting_a_condition_without_a_list_ends_the_call) {
    WINDLASS_CHECK(windlass_test_end_of(set_in_a_list) == NULL);
    const char *why = windlass_test_end_of(set_in_nothing);
    WINDLASS_CHECK(why != NULL && strstr(why, "windlass_empty_array()") != NULL);
}

WINDLASS_TEST(times_are_written_as_kubernetes_writes_them) {
    const struct {
        uint32_t seconds;
        const char *text;
    } times[] = {{0, "1970-01-01T00:00:00Z"}, {951782399, "2000-02-28T23:59:59Z"}, {951782400, "2000-02-29T00:00:00Z"},
        {951868800, "2000-03-01T00:00:00Z"}, {4107542399, "2100-02-28T23:59:59Z"}, {4107542400, "2100-03-01T00:00:00Z"},
        {1798761599, "2026-12-31T23:59:59Z"}, {4294967295, "2106-02-07T06:28:15Z"}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        WINDLASS_CHECK_TEXT(windlass_instant_text((windlass_instant){times[i].seconds, 0}), times[i].text);
    }
}

WINDLASS_TEST(a_reference_names_an_object_and_finds_it_again) {
    windlass_json *object = windlass_test_json(
        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"namespace\":\"prod\",\"uid\":\"u-1\"}}");
    windlass_ref ref = windlass_ref_to(object);
    WINDLASS_CHECK_TEXT(windlass_ref_text(&ref), "Pod prod/a");
    WINDLASS_CHECK(windlass_find(&object, 1, &ref) == object);
    ref.uid = WINDLASS_NONE;
    WINDLASS_CHECK(windlass_find(&object, 1, &ref) == object);
    ref.uid = windlass_text("u-2");
    WINDLASS_CHECK(windlass_find(&object, 1, &ref) == NULL);
    windlass_json *child = windlass_object({"metadata", windlass_object({"ownerReferences", windlass_array(windlass_owner_reference(object))})});
    WINDLASS_CHECK(windlass_is_controlled_by(child, object));
    WINDLASS_CHECK(!windlass_is_controlled_by(object, child) && !windlass_is_controlled_by(NULL, object));
}

WINDLASS_TEST(every_requirement_of_a_selector_is_in_its_text) {
    const windlass_json *selector = windlass_test_json(WINDLASS_JSON({
        "matchLabels": {"a": "1", "b": "2"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["a", "b"]}, {"key": "zone", "operator": "NotIn", "values": ["x"]},
            {"key": "team", "operator": "Exists"}, {"key": "canary", "operator": "DoesNotExist"}
        ]}));
    WINDLASS_CHECK_TEXT(windlass_selector_text(selector), "a=1,b=2,tier in (a,b),zone notin (x),team,!canary");
    WINDLASS_CHECK_TEXT(windlass_selector_text(windlass_empty_object()), "");
    WINDLASS_CHECK(windlass_selector_text(NULL).data == NULL);
}

// --- The manifest ---

WINDLASS_TEST(a_manifest_has_only_the_set_fields) {
    const windlass_json *expected = windlass_test_json(WINDLASS_JSON({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "tried", "version": "1.2.3",
        "controllers": [{
            "name": "things",
            "primary": {
                "name": "things", "apiVersion": "example.com/v1", "kind": "Thing",
                "where": [
                    {"any": [{"annotation": "a", "is": "true"}, {"annotation": "b", "exists": true}]},
                    {"field": "/c", "in": ["d", "e"]}, {"field": "/f", "notIn": ["g"]},
                    {"field": "/h", "is": 3}, {"field": "/i", "exists": false}
                ],
                "indexes": [
                    {"name": "by-secret", "source": {"type": "field", "pointer": "/spec/secret"}},
                    {"name": "tier", "source": {"type": "label", "key": "tier"}},
                    {"name": "refs", "source": {"type": "reference", "base": "/spec/refs/*", "namespace": "/namespace", "name": "/name"}},
                    {"name": "selects", "source": {"type": "selector", "pointer": "/spec/selector"}},
                    {"name": "labels", "source": {"type": "selector", "pointer": "/spec/labels", "form": "labels"}},
                    {"name": "text", "source": {"type": "selector", "pointer": "/spec/text", "form": "text"}},
                    {"name": "note", "source": {"type": "annotation", "key": "k"}},
                    {"name": "uses", "source": {"type": "annotation", "key": "l", "split": ","}}
                ],
                "predicates": [
                    {"type": "generation"}, {"type": "fields", "pointers": ["/data", "/spec"]},
                    {"type": "and", "predicates": [
                        {"type": "not", "predicate": {"type": "labels"}}, {"type": "fields", "pointers": ["/a/*"]}
                    ]}
                ],
                "callFields": ["/spec", "/status"],
                "noOpSkip": false
            },
            "owns": [{
                "apiVersion": "v1", "kind": "Pod", "projection": {"type": "metadata"}, "managedFields": true, "callFields": [],
                "deleted": false
            }],
            "watches": [
                {
                    "apiVersion": "v1", "kind": "Secret", "projection": {"type": "digest", "pointers": ["/data"]},
                    "mapping": {"type": "referencedBy", "index": "by-secret"}
                },
                {"apiVersion": "v1", "kind": "Service", "mapping": {"type": "selectedBy", "index": "selects"}},
                {"apiVersion": "v1", "kind": "ConfigMap", "mapping": {"type": "reference", "name": "/data/thing"}},
                {"apiVersion": "v1", "kind": "Node", "mapping": {"type": "all"}},
                {"apiVersion": "v1", "kind": "Namespace", "mapping": {"type": "none"}},
                {
                    "kindsFrom": "/kinds", "verbs": ["delete"], "projection": {"type": "metadata"},
                    "mapping": {"type": "all"}
                },
                {"apiVersion": "apps/v1", "kind": "Deployment", "mapping": {"type": "anyOwner"}},
                {"name": "pods", "apiVersion": "v1", "kind": "Pod", "codePredicate": true, "mapping": {"type": "mapper"}},
                {"name": "roles", "apiVersion": "v1", "kind": "Role", "mapping": {"type": "customize"}}
            ],
            "hooks": [{"name": "pushed", "mapping": {"type": "field", "pointer": "/payload/name"}}],
            "options": {"maxRetries": 0, "backoff": {"baseMs": 7}, "finalizer": true, "status": false}
        }, {
            "name": "nightly",
            "primary": {"timer": {"cron": "0 3 * * *", "timeZone": "Europe/Berlin", "jitterMs": 60000, "missed": "skip"}}
        }, {
            "name": "often",
            "primary": {"timer": {"intervalMs": 1000}}
        }],
        "crds": [{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}],
        "metrics": [{"name": "counted_total", "type": "counter", "help": "What was counted.", "labels": ["color", "size"]}],
        "http": [{"scheme": "https", "host": "example.com", "methods": ["GET"]}],
        "config": {"schema": {"type": "object"}}
    }));
    WINDLASS_CHECK_TEXT(windlass_json_print(windlass_test_describe()), windlass_json_print(expected).data);
}

// --- The host of tests ---

WINDLASS_TEST(applied_objects_are_owned_and_can_be_read_and_listed) {
    windlass_outcome outcome = windlass_test_reconcile(WINDLASS_JSON({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "uid": "u-1"},
        "spec": {"later": 5, "apply": [
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"app": "x"}}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}
        ]}}));
    WINDLASS_CHECK(outcome.requeue && outcome.requeue_after_ms == 5 && windlass_test_failures.count == 0);
    windlass_list list;
    windlass_cache_query query = {.api_version = windlass_text("v1"), .kind = windlass_text("Pod"), .owned = true};
    WINDLASS_CHECK(windlass_cache_list(&query, &list) == NULL && list.count == 2);
    query.label_selector = windlass_text("app=x");
    WINDLASS_CHECK(windlass_cache_list(&query, &list) == NULL && list.count == 1);
    windlass_ref target = windlass_ref_to(list.items[0]);
    WINDLASS_CHECK(windlass_writes_delete(&target, NULL, NULL) == NULL);
    WINDLASS_CHECK(windlass_is(windlass_writes_delete(&target, NULL, NULL), WINDLASS_NOT_FOUND));
    windlass_json *object;
    WINDLASS_CHECK(windlass_live_get(&target, NULL, &object) == NULL && object == NULL);
    WINDLASS_CHECK(windlass_test_write_count() == 4);
}

WINDLASS_TEST(writes_change_the_stored_objects) {
    const windlass_json *map = windlass_test_json("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"m\"},\"data\":{\"a\":\"1\"}}");
    windlass_json *object;
    WINDLASS_CHECK(windlass_writes_create(map, NULL, &object) == NULL);
    WINDLASS_CHECK(windlass_is(windlass_writes_create(map, NULL, NULL), WINDLASS_ALREADY_EXISTS));
    windlass_ref target = windlass_ref_to(map);
    const windlass_json *patch = windlass_test_json("{\"data\":{\"a\":null,\"b\":\"2\"}}");
    WINDLASS_CHECK(windlass_writes_patch(&target, WINDLASS_PATCH_MERGE, patch, NULL, &object) == NULL);
    WINDLASS_CHECK_TEXT(windlass_json_print(windlass_json_get(object, "data")), "{\"b\":\"2\"}");
    WINDLASS_CHECK(windlass_writes_apply_status(&target, windlass_object({"ok", windlass_bool(true)})) == NULL);
    WINDLASS_CHECK(windlass_json_is_true(windlass_json_at(windlass_test_object("v1", "ConfigMap", NULL, "m"), "/status/ok")));
    windlass_operation operations[] = {
        {.type = WINDLASS_UPDATE, .object = map},
        {.type = WINDLASS_DELETE, .target = target},
        {.type = WINDLASS_UPDATE, .object = map},
    };
    const windlass_result *results = windlass_writes_batch(operations, 3);
    WINDLASS_CHECK(results[0].error == NULL && results[1].error == NULL && windlass_is(results[2].error, WINDLASS_NOT_FOUND));
}

WINDLASS_TEST(a_write_returns_the_fields_that_it_names) {
    const windlass_json *map = windlass_test_json(
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"m\",\"labels\":{\"app\":\"web\"}},\"data\":{\"a\":\"1\",\"b\":\"2\"}}");
    windlass_json *object;
    windlass_write_options options = {.fields = WINDLASS_TEXTS("/data/a", "/data/none")};
    WINDLASS_CHECK(windlass_writes_apply(map, &options, &object) == NULL);
    WINDLASS_CHECK_TEXT(windlass_json_print(object),
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"m\",\"uid\":\"uid-1\"},\"data\":{\"a\":\"1\"}}");
    options.fields = WINDLASS_NO_TEXTS;
    WINDLASS_CHECK(windlass_writes_apply(map, &options, &object) == NULL);
    WINDLASS_CHECK_TEXT(windlass_json_print(object), "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"m\",\"uid\":\"uid-1\"}}");
    WINDLASS_CHECK_TEXT(windlass_json_text_at(windlass_test_object("v1", "ConfigMap", NULL, "m"), "/data/b"), "2");
    const char *const *recorded = windlass_test_write_at(0)->options.fields;
    WINDLASS_CHECK_TEXT(recorded[1], "/data/none");
    WINDLASS_CHECK(recorded[2] == NULL && windlass_test_write_at(1)->options.fields[0] == NULL);
}

WINDLASS_TEST(a_read_returns_the_fields_that_it_names) {
    windlass_ref target = windlass_ref_to(windlass_test_put(
        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\"},\"spec\":{\"a\":1,\"b\":2}}"));
    const char *expected = "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"uid\":\"uid-1\"},\"spec\":{\"a\":1}}";
    const char *const *fields = WINDLASS_TEXTS("/spec/a");
    windlass_json *object;
    WINDLASS_CHECK(windlass_cache_get(&target, fields, &object) == NULL);
    WINDLASS_CHECK_TEXT(windlass_json_print(object), expected);
    WINDLASS_CHECK_TEXT(windlass_json_print(windlass_cache_get_many(&target, 1, fields)->object), expected);
    WINDLASS_CHECK(windlass_live_get(&target, &(windlass_live_options){.view.fields = fields}, &object) == NULL);
    WINDLASS_CHECK_TEXT(windlass_json_print(object), expected);
    windlass_list list;
    windlass_cache_query query = {.api_version = windlass_text("v1"), .kind = windlass_text("Pod"), .fields = fields};
    WINDLASS_CHECK(windlass_cache_list(&query, &list) == NULL && list.count == 1);
    WINDLASS_CHECK_TEXT(windlass_json_print(list.items[0]), expected);
}

WINDLASS_TEST(a_request_set_to_fail_fails_once) {
    windlass_test_fail_next("get", "Pod", WINDLASS_TIMEOUT);
    windlass_ref targets[2] = {windlass_ref_of("v1", "Pod", WINDLASS_NONE, windlass_text("a")),
        windlass_ref_of("v1", "Pod", WINDLASS_NONE, windlass_text("b"))};
    const windlass_result *results = windlass_cache_get_many(targets, 2, NULL);
    WINDLASS_CHECK(windlass_is(results[0].error, WINDLASS_TIMEOUT) && results[1].error == NULL && results[1].object == NULL);
    windlass_failures failures = {0};
    windlass_test_fail_next("claim", "Pod", WINDLASS_FORBIDDEN);
    WINDLASS_CHECK(!windlass_owners_claim(windlass_text("v1"), windlass_text("Pod"), windlass_text("a=b"), NULL, &failures));
    WINDLASS_CHECK(failures.count == 1);
}

WINDLASS_TEST(lines_metrics_events_and_requests_are_recorded) {
    windlass_log(WINDLASS_WARN, "one");
    windlass_log(WINDLASS_INFO, "two", "name", "shop", "count", windlass_decimal(2));
    WINDLASS_CHECK(windlass_test_line_count() == 2 && windlass_test_line_at(0)->field_count == 0);
    WINDLASS_CHECK_TEXT(windlass_test_line_at(1)->fields[1].value, "2");
    windlass_metric_add(&counted, 1.5, "red", "large");
    WINDLASS_CHECK(windlass_test_metric_at(0)->label_count == 2);
    WINDLASS_CHECK_TEXT(windlass_test_metric_at(0)->labels[1].value, "large");
    windlass_events_warning("Failed", "Try", "why");
    WINDLASS_CHECK(windlass_test_event_at(0)->type == WINDLASS_EVENT_WARNING);
    windlass_test_answer_http(204, "");
    windlass_http_request request = {.method = windlass_text("GET"), .url = windlass_text("https://example.com/a?secret=1")};
    windlass_http_response response;
    windlass_http_error error;
    WINDLASS_CHECK(windlass_http_fetch(&request, &response, &error) && response.status == 204);
    WINDLASS_CHECK(!windlass_http_fetch(&request, &response, &error));
    const windlass_error *denied = windlass_http_failure(&request, &error);
    WINDLASS_CHECK(windlass_is(denied, WINDLASS_NOT_GRANTED) && denied->api.code == 403);
    WINDLASS_CHECK_TEXT(denied->message, "fetch http: NotGranted: the test has set no response");
    error.reason = WINDLASS_HTTP_DNS;
    const windlass_error *lost = windlass_http_failure(&request, &error);
    WINDLASS_CHECK(lost->kind == WINDLASS_ERROR_TRANSIENT);
    WINDLASS_CHECK_TEXT(lost->message, "GET https://example.com/a: dns: the test has set no response");
    windlass_test_set_config("{\"a\":1}");
    WINDLASS_CHECK(windlass_json_int_at(windlass_config_get(), "/a", 0) == 1);
}

static void overwrite(windlass_mark mark) {
    windlass_memory_release(mark);
    memset(windlass_alloc(100000), 'x', 100000);
    windlass_memory_release(mark);
}

WINDLASS_TEST(the_world_and_the_record_stay_when_memory_is_released) {
    windlass_mark mark = windlass_memory_mark();
    windlass_test_put("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"}}");
    windlass_test_set_config(windlass_format("{\"a\":%d}", 1));
    windlass_test_fail_next(windlass_format("%s", "get"), windlass_format("%s", "Pod"), WINDLASS_TIMEOUT);
    windlass_test_answer_http(200, windlass_format("%s", "body"));
    overwrite(mark);
    for (int i = 0; i < 20; i++) {
        const char *name = windlass_format("m-%d", i);
        windlass_json *map = windlass_object({"apiVersion", windlass_string("v1")}, {"kind", windlass_string("ConfigMap")},
            {"metadata", windlass_object({"name", windlass_string(name)})});
        WINDLASS_CHECK(windlass_writes_apply(map, NULL, NULL) == NULL);
        windlass_ref target = windlass_ref_of(windlass_format("%s", "v1"), windlass_format("%s", "ConfigMap"), WINDLASS_NONE,
            windlass_text(name));
        WINDLASS_CHECK(windlass_writes_patch(&target, WINDLASS_PATCH_MERGE, windlass_object({"data", windlass_string(name)}), NULL, NULL) == NULL);
        windlass_log(WINDLASS_INFO, name, "name", name);
        windlass_events_normal(name, "Try", name);
        windlass_metric_add(&counted, 1, name, "large");
        windlass_http_request request = {.method = windlass_text("GET"), .url = windlass_text(name)};
        windlass_http_response response;
        windlass_http_error error;
        WINDLASS_CHECK(windlass_http_fetch(&request, &response, &error) == (i == 0));
        WINDLASS_CHECK(i > 0 || windlass_text_is(response.body, "body"));
        overwrite(mark);
    }
    for (size_t i = 0; i < 20; i++) {
        const char *name = windlass_format("m-%d", (int)i);
        WINDLASS_CHECK_TEXT(windlass_json_text_at(windlass_test_object("v1", "ConfigMap", NULL, name), "/data"), name);
        WINDLASS_CHECK_TEXT(windlass_json_text_at(windlass_test_write_at(2 * i)->body, "/metadata/name"), name);
        WINDLASS_CHECK_TEXT(windlass_test_write_at(2 * i + 1)->target.name, name);
        WINDLASS_CHECK_TEXT(windlass_test_write_at(2 * i + 1)->target.kind, "ConfigMap");
        WINDLASS_CHECK_TEXT(windlass_test_line_at(i)->fields[0].value, name);
        WINDLASS_CHECK_TEXT(windlass_test_event_at(i)->note, name);
        WINDLASS_CHECK_TEXT(windlass_test_metric_at(i)->labels[0].value, name);
        WINDLASS_CHECK_TEXT(windlass_test_http_at(i)->url, name);
    }
    WINDLASS_CHECK(windlass_test_object("v1", "Pod", NULL, "a") != NULL);
    WINDLASS_CHECK(windlass_json_int_at(windlass_config_get(), "/a", 0) == 1);
    windlass_ref pod = windlass_ref_of("v1", "Pod", WINDLASS_NONE, windlass_text("a"));
    windlass_json *object;
    WINDLASS_CHECK(windlass_is(windlass_live_get(&pod, NULL, &object), WINDLASS_TIMEOUT));
}

WINDLASS_TEST(a_call_has_the_triggers_that_the_test_gives_it) {
    WINDLASS_CHECK(windlass_triggers_list().count == 0);
    windlass_mark mark = windlass_memory_mark();
    windlass_ref pod = windlass_ref_of("v1", "Pod", WINDLASS_NONE, windlass_text(windlass_format("%s", "a")));
    windlass_test_add_trigger(&(windlass_trigger){.reason = windlass_text("Resync")});
    windlass_test_add_trigger(&(windlass_trigger){
        .reason = windlass_text("Changed"), .watch = windlass_text("pods"), .has_object = true, .object = pod});
    overwrite(mark);
    windlass_triggers triggers = windlass_triggers_list();
    WINDLASS_CHECK(triggers.count == 2);
    WINDLASS_CHECK_TEXT(triggers.items[0].reason, "Resync");
    WINDLASS_CHECK(triggers.items[0].watch.data == NULL && !triggers.items[0].has_object);
    WINDLASS_CHECK_TEXT(triggers.items[1].reason, "Changed");
    WINDLASS_CHECK_TEXT(triggers.items[1].watch, "pods");
    WINDLASS_CHECK(triggers.items[1].has_object);
    WINDLASS_CHECK_TEXT(windlass_ref_text(&triggers.items[1].object), "Pod a");
}

static const char *const THING = WINDLASS_JSON({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"},
    "spec": {"apply": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}]}});

WINDLASS_TEST(an_object_keeps_a_uid_of_its_own) {
    windlass_test_reconcile(THING);
    const char *uid = windlass_json_text_at(windlass_test_object("example.com/v1", "Thing", NULL, "t"), "/metadata/uid").data;
    windlass_test_reconcile(THING);
    const windlass_json *thing = windlass_test_object("example.com/v1", "Thing", NULL, "t");
    const windlass_json *pod = windlass_test_object("v1", "Pod", NULL, "a");
    WINDLASS_CHECK_TEXT(windlass_json_text_at(thing, "/metadata/uid"), uid);
    WINDLASS_CHECK(!windlass_text_is(windlass_json_text_at(pod, "/metadata/uid"), uid));
    WINDLASS_CHECK(windlass_is_controlled_by(pod, thing));
    windlass_ref target = windlass_ref_to(pod);
    WINDLASS_CHECK(windlass_writes_delete(&target, NULL, NULL) == NULL);
    WINDLASS_CHECK(!windlass_text_equal(windlass_json_text_at(windlass_test_put(
        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"b\"}}"), "/metadata/uid"), target.uid));
    WINDLASS_CHECK(windlass_writes_update(windlass_test_json(THING), NULL, NULL) == NULL);
    thing = windlass_test_object("example.com/v1", "Thing", NULL, "t");
    WINDLASS_CHECK_TEXT(windlass_json_text_at(thing, "/metadata/uid"), uid);
}

static windlass_ref put_map(void) {
    return windlass_ref_to(windlass_test_put(
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"m\",\"uid\":\"u-1\"},\"data\":{\"a\":\"1\"}}"));
}

WINDLASS_TEST(a_write_about_an_older_version_is_a_conflict) {
    windlass_ref target = put_map();
    windlass_json *object;
    WINDLASS_CHECK(windlass_live_get(&target, NULL, &object) == NULL);
    windlass_text version = windlass_json_text_at(object, "/metadata/resourceVersion");
    windlass_write_options options = {.resource_version = version};
    const windlass_json *patch = windlass_object({"data", windlass_object({"b", windlass_string("2")})});
    WINDLASS_CHECK(windlass_writes_patch(&target, WINDLASS_PATCH_MERGE, patch, &options, NULL) == NULL);
    WINDLASS_CHECK(windlass_is(windlass_writes_patch(&target, WINDLASS_PATCH_MERGE, patch, &options, NULL), WINDLASS_CONFLICT));
    WINDLASS_CHECK(windlass_is(windlass_writes_update(object, NULL, NULL), WINDLASS_CONFLICT));
    windlass_json_remove(windlass_json_at(object, "/metadata/resourceVersion"));
    WINDLASS_CHECK(windlass_is(windlass_writes_apply(object, &options, NULL), WINDLASS_CONFLICT));
    windlass_delete_options delete_options = {.resource_version = version};
    WINDLASS_CHECK(windlass_is(windlass_writes_delete(&target, &delete_options, NULL), WINDLASS_CONFLICT));
    object = windlass_test_object("v1", "ConfigMap", NULL, "m");
    delete_options.resource_version = windlass_json_text_at(object, "/metadata/resourceVersion");
    WINDLASS_CHECK(windlass_writes_delete(&target, &delete_options, NULL) == NULL);
}

WINDLASS_TEST(a_dry_run_deletion_deletes_nothing) {
    windlass_ref target = put_map();
    WINDLASS_CHECK(windlass_writes_delete(&target, &(windlass_delete_options){.dry_run = true}, NULL) == NULL);
    WINDLASS_CHECK(windlass_test_object("v1", "ConfigMap", NULL, "m") != NULL && windlass_test_write_count() == 1);
}

static void patch_map(windlass_patch_type type) {
    windlass_ref target = put_map();
    windlass_json *object = NULL;
    WINDLASS_CHECK(windlass_writes_patch(&target, type, windlass_empty_array(), NULL, &object) == NULL);
    WINDLASS_CHECK_TEXT(windlass_json_text_at(object, "/data/a"), "2");
}

static void patch_by_json(void) { patch_map(WINDLASS_PATCH_JSON); }
static void patch_strategically(void) { patch_map(WINDLASS_PATCH_STRATEGIC); }

WINDLASS_TEST(an_unsupported_patch_needs_a_result_set_by_the_test) {
    const char *why = windlass_test_end_of(patch_by_json);
    WINDLASS_CHECK(why != NULL && strstr(why, "not supported by the test host") != NULL);
    WINDLASS_CHECK(windlass_test_end_of(patch_strategically) != NULL);
    windlass_test_answer_patch("ConfigMap", "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"m\"},\"data\":{\"a\":\"2\"}}");
    WINDLASS_CHECK(windlass_test_end_of(patch_by_json) == NULL);
    const windlass_json *map = windlass_test_object("v1", "ConfigMap", NULL, "m");
    WINDLASS_CHECK_TEXT(windlass_json_text_at(map, "/data/a"), "2");
    WINDLASS_CHECK_TEXT(windlass_json_text_at(map, "/metadata/uid"), "u-1");
    WINDLASS_CHECK(windlass_test_end_of(patch_by_json) != NULL);
}

WINDLASS_TEST(live_reads_have_views_and_parts) {
    windlass_ref target = windlass_ref_to(windlass_test_put(
        "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"d\"},\"spec\":{\"replicas\":3}}"));
    windlass_json *object;
    WINDLASS_CHECK(windlass_live_get(&target, &(windlass_live_options){.view.metadata_only = true}, &object) == NULL);
    WINDLASS_CHECK(windlass_json_get(object, "spec") == NULL && windlass_json_at(object, "/metadata/uid") != NULL);
    WINDLASS_CHECK(windlass_live_get(&target, &(windlass_live_options){.subresource = windlass_text("scale")}, &object) == NULL);
    WINDLASS_CHECK_TEXT(windlass_json_text_at(object, "/kind"), "Scale");
    WINDLASS_CHECK(windlass_json_int_at(object, "/spec/replicas", 0) == 3);
    windlass_live_options binding = {.subresource = windlass_text("binding")};
    WINDLASS_CHECK(windlass_is(windlass_live_get(&target, &binding, &object), WINDLASS_NOT_FOUND));
}

WINDLASS_TEST(logs_and_served_kinds_are_set_by_the_test) {
    windlass_ref pod = windlass_ref_of("v1", "Pod", windlass_text("prod"), windlass_text("p"));
    windlass_text log;
    WINDLASS_CHECK(windlass_is(windlass_live_log(&pod, NULL, &log), WINDLASS_NOT_FOUND));
    windlass_test_set_log("prod", "p", "one\ntwo\nthree\n");
    WINDLASS_CHECK(windlass_live_log(&pod, &(windlass_log_query){.tail_lines = 2}, &log) == NULL);
    WINDLASS_CHECK_TEXT(log, "two\nthree\n");
    WINDLASS_CHECK(windlass_live_log(&pod, &(windlass_log_query){.limit_bytes = 5}, &log) == NULL);
    WINDLASS_CHECK_TEXT(log, "one\nt");
    windlass_served_kind served;
    WINDLASS_CHECK(windlass_live_served(windlass_text("v1"), windlass_text("Pod"), &served) == NULL);
    WINDLASS_CHECK_TEXT(served.resource, "pods");
    windlass_test_unserve("v1", "Pod");
    WINDLASS_CHECK(windlass_live_served(windlass_text("v1"), windlass_text("Pod"), &served) == NULL && served.resource.data == NULL);
}

WINDLASS_TEST(kinds_are_listed_once_by_group_and_kind) {
    windlass_test_define_text("{\"spec\": {\"group\": \"example.com\", \"names\": {\"kind\": \"Shop\"}, "
                              "\"versions\": [{\"name\": \"v2\"}, {\"name\": \"v1\"}]}}");
    windlass_test_put("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\"}}");
    windlass_test_put("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}}");
    windlass_test_put("{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"d\"}}");
    windlass_test_put("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"b\"}}");
    windlass_test_unserve("v1", "Pod");
    windlass_listed_kinds kinds;
    WINDLASS_CHECK(windlass_live_kinds(&kinds) == NULL && kinds.count == 3);
    WINDLASS_CHECK_TEXT(kinds.items[0].kind, "ConfigMap");
    WINDLASS_CHECK_TEXT(kinds.items[0].served.resource, "configmaps");
    WINDLASS_CHECK_TEXT(kinds.items[1].api_version, "apps/v1");
    WINDLASS_CHECK_TEXT(kinds.items[2].api_version, "example.com/v1");
    windlass_test_fail_next("kinds", "", WINDLASS_SERVER_ERROR);
    WINDLASS_CHECK(windlass_is(windlass_live_kinds(&kinds), WINDLASS_SERVER_ERROR) && kinds.count == 0);
}

WINDLASS_TEST(a_review_is_answered_and_a_collection_deleted) {
    windlass_test_answer_create("SubjectAccessReview", "{\"status\":{\"allowed\":true}}");
    const windlass_json *review = windlass_test_json("{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SubjectAccessReview\"}");
    windlass_json *answer;
    WINDLASS_CHECK(windlass_writes_create(review, NULL, &answer) == NULL);
    WINDLASS_CHECK(windlass_json_at(answer, "/status/allowed") != NULL);
    windlass_test_put("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"labels\":{\"app\":\"web\"}}}");
    windlass_test_put("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"b\"}}");
    windlass_collection pods = {.api_version = windlass_text("v1"), .kind = windlass_text("Pod")};
    WINDLASS_CHECK(windlass_is(windlass_writes_delete_collection(&pods, NULL, NULL), WINDLASS_INVALID));
    pods.label_selector = windlass_text("app=web");
    windlass_deleted deleted;
    WINDLASS_CHECK(windlass_writes_delete_collection(&pods, NULL, &deleted) == NULL && deleted.is_known && deleted.count == 1);
    WINDLASS_CHECK_TEXT(deleted.objects[0].name, "a");
    WINDLASS_CHECK(windlass_test_object("v1", "Pod", NULL, "a") == NULL && windlass_test_object("v1", "Pod", NULL, "b") != NULL);
    WINDLASS_CHECK_TEXT(windlass_test_write_at(2)->label_selector, "app=web");
}

WINDLASS_TEST(evicting_a_missing_pod_succeeds) {
    windlass_ref pod = windlass_ref_of("v1", "Pod", windlass_text("prod"), windlass_text("p"));
    windlass_test_fail_next("create", "Eviction", WINDLASS_NOT_FOUND);
    WINDLASS_CHECK(windlass_writes_evict(&pod) == NULL);
    windlass_test_fail_next("create", "Eviction", WINDLASS_TOO_MANY_REQUESTS);
    WINDLASS_CHECK(windlass_is(windlass_writes_evict(&pod), WINDLASS_TOO_MANY_REQUESTS));
}
