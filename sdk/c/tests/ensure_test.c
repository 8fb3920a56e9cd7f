// The requests that `windlass_writes_ensure` sends. Run this in the SDK's folder.

#include <windlass_test.h>

#include "../windlass_test_internal.h"

// The tests of all SDKs share this file.
static const char *const CASES = "../cases/ensure.json";

static const char *text_of(const windlass_json *value) { return value ? windlass_json_print(value).data : "nothing"; }

WINDLASS_TEST(ensure_sends_the_smallest_patch) {
    size_t count = 0;
    windlass_json_each(test, windlass_test_json(windlass_fake_file(CASES))) {
        const char *name = windlass_json_text(windlass_json_get(test, "name")).data;
        const windlass_json *cached = windlass_json_get(test, "cached");
        const windlass_json *desired = windlass_json_get(test, "desired");
        windlass_text controller = windlass_json_text(windlass_json_get(test, "controlledBy"));
        const char *found = windlass_ensure_other_controller(cached, desired);
        WINDLASS_CHECK_TEXT(windlass_concat(name, ": ", found), windlass_concat(name, ": ", controller.data));
        count++;
        if (controller.data != NULL) {
            continue;
        }
        const windlass_json *wanted = windlass_json_get(test, "patch");
        const windlass_json *patch = windlass_ensure_patch(cached, desired);
        if (!windlass_json_equal(patch, windlass_json_is_null(wanted) ? NULL : wanted)) {
            WINDLASS_CHECK_TEXT(windlass_concat(name, ": ", text_of(patch)), windlass_concat(name, ": ", text_of(wanted)));
        }
        windlass_text version = windlass_json_text(windlass_json_get(test, "version"));
        WINDLASS_CHECK(windlass_text_equal(windlass_ensure_version(cached, patch), version));
    }
    WINDLASS_CHECK(count > 10);
}

static windlass_json *map(const char *value) {
    windlass_json *map = windlass_test_json(
        WINDLASS_JSON({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "prod"}, "data": {}}));
    windlass_json_set_at(map, "/data/k", windlass_string(value));
    return map;
}

static windlass_json *stored(void) { return windlass_test_object("v1", "ConfigMap", "prod", "m"); }

WINDLASS_TEST(ensure_creates_or_patches_only_if_needed) {
    windlass_ensured ensured;
    WINDLASS_CHECK(windlass_writes_ensure(map("v"), &ensured) == NULL && ensured.effect == WINDLASS_CREATED);
    WINDLASS_CHECK(windlass_json_equal(ensured.object, stored()));
    WINDLASS_CHECK(windlass_writes_ensure(map("v"), &ensured) == NULL && ensured.effect == WINDLASS_UNCHANGED);
    WINDLASS_CHECK(windlass_json_equal(ensured.object, stored()));
    windlass_ref target = windlass_ref_to(stored());
    const windlass_json *theirs = windlass_test_json("{\"data\":{\"theirs\":\"v\"}}");
    WINDLASS_CHECK(windlass_writes_patch(&target, WINDLASS_PATCH_MERGE, theirs, NULL, NULL) == NULL);
    WINDLASS_CHECK(windlass_writes_ensure(map("w"), &ensured) == NULL && ensured.effect == WINDLASS_PATCHED);
    WINDLASS_CHECK(windlass_json_equal(ensured.object, stored()));
    WINDLASS_CHECK(windlass_writes_ensure(map("w"), NULL) == NULL);
    WINDLASS_CHECK_TEXT(text_of(windlass_json_get(stored(), "data")), "{\"k\":\"w\",\"theirs\":\"v\"}");
    WINDLASS_CHECK(windlass_test_write_count() == 3);
    WINDLASS_CHECK_TEXT(windlass_test_write_at(0)->verb, "create");
    WINDLASS_CHECK_TEXT(text_of(windlass_test_write_at(2)->body), "{\"data\":{\"k\":\"w\"}}");
    WINDLASS_CHECK(windlass_text_equal(windlass_test_write_at(2)->target.uid, windlass_json_text_at(stored(), "/metadata/uid")));
}

static windlass_json *owned_by(const char *name) {
    windlass_json *owner = windlass_test_json("{\"apiVersion\":\"v1\",\"kind\":\"Shop\",\"metadata\":{}}");
    windlass_json_set_at(owner, "/metadata/name", windlass_string(name));
    windlass_json_set_at(owner, "/metadata/uid", windlass_string(windlass_concat("u-", name)));
    windlass_json *object = map("v");
    windlass_json_set_at(object, "/metadata/ownerReferences", windlass_array(windlass_owner_reference(owner)));
    return object;
}

WINDLASS_TEST(ensure_refuses_an_object_of_another_controller) {
    windlass_test_put(text_of(owned_by("theirs")));
    const windlass_error *error = windlass_writes_ensure(owned_by("ours"), NULL);
    WINDLASS_CHECK(windlass_is(error, WINDLASS_ALREADY_EXISTS));
    WINDLASS_CHECK_TEXT(error->message, "ensure ConfigMap ConfigMap prod/m: AlreadyExists: it exists, and Shop theirs controls it");
    WINDLASS_CHECK(windlass_test_write_count() == 0);
}

WINDLASS_TEST(an_object_without_a_name_is_refused_before_any_read) {
    const windlass_error *error =
        windlass_writes_ensure(windlass_test_json("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{}}"), NULL);
    WINDLASS_CHECK(error != NULL && error->kind == WINDLASS_ERROR_TERMINAL && windlass_test_read_count() == 0);
    WINDLASS_CHECK_TEXT(error->message, "an object to write: metadata.name is missing");
}
