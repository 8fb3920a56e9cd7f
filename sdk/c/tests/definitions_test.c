// Kinds that a test defines: validation, defaults and garbage collection. Run this in the SDK's folder.

#include <windlass_test.h>

#include "../windlass_test_internal.h"

// The tests of all SDKs share these files.
static const char *const DEFINITION = "../cases/shop.crd.yaml";
static const char *const MISFITS = "../cases/misfits.json";

static windlass_json *shop_with(windlass_json *spec) {
    windlass_json *shop = windlass_test_json(WINDLASS_JSON(
        {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "a", "namespace": "prod", "uid": "u-1"}}));
    windlass_json_set(shop, "spec", spec);
    return shop;
}

static const char *shop_text(const char *spec) { return windlass_json_print(shop_with(windlass_test_json(spec))).data; }

static windlass_ref shop_ref(void) {
    return windlass_ref_of("example.com/v1", "Shop", windlass_text("prod"), windlass_text("a"));
}

static windlass_json *shop(void) { return windlass_test_object("example.com/v1", "Shop", "prod", "a"); }

// --- Validation ---

WINDLASS_TEST(an_object_that_does_not_fit_its_definition_is_refused_with_the_paths) {
    windlass_test_define(DEFINITION);
    size_t count = 0;
    windlass_json_each(misfit, windlass_test_json(windlass_fake_file(MISFITS))) {
        const windlass_error *error = windlass_writes_create(shop_with(windlass_json_get(misfit, "spec")), NULL, NULL);
        WINDLASS_CHECK(windlass_is(error, WINDLASS_INVALID) && error->api.code == 422);
        const char *told = windlass_json_text(windlass_json_get(misfit, "told")).data;
        WINDLASS_CHECK_TEXT(error->api.message, windlass_concat("the object does not fit its definition: ", told));
        count++;
    }
    WINDLASS_CHECK(count > 10 && shop() == NULL && windlass_test_write_count() == count);
    const windlass_json *pod = windlass_test_json("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"},\"sise\":1}");
    WINDLASS_CHECK(windlass_writes_create(pod, NULL, NULL) == NULL);
}

WINDLASS_TEST(every_error_of_an_object_is_reported) {
    windlass_test_define(DEFINITION);
    const windlass_error *error = windlass_writes_apply(shop_with(windlass_test_json("{\"n\":10,\"nmae\":\"\"}")), NULL, NULL);
    WINDLASS_CHECK_TEXT(error->api.message, "the object does not fit its definition: .spec.n: 10 is too large for the maximum 9; "
                                            ".spec.nmae: there is no such field");
}

WINDLASS_TEST(an_invalid_change_leaves_the_object_unchanged) {
    windlass_test_define(DEFINITION);
    windlass_test_put(shop_text("{\"n\":1}"));
    windlass_ref target = shop_ref();
    const windlass_json *patch = windlass_test_json("{\"spec\":{\"n\":\"x\"}}");
    WINDLASS_CHECK(windlass_is(windlass_writes_patch(&target, WINDLASS_PATCH_MERGE, patch, NULL, NULL), WINDLASS_INVALID));
    WINDLASS_CHECK(windlass_is(windlass_writes_update(shop_with(windlass_empty_object()), NULL, NULL), WINDLASS_INVALID));
    windlass_test_answer_patch("Shop", shop_text("{\"n\":0}"));
    const windlass_error *error = windlass_writes_patch(&target, WINDLASS_PATCH_JSON, windlass_empty_array(), NULL, NULL);
    WINDLASS_CHECK(windlass_is(error, WINDLASS_INVALID));
    WINDLASS_CHECK_TEXT(error->api.verb, "patch");
    WINDLASS_CHECK(windlass_json_int_at(shop(), "/spec/n", 0) == 1);
    patch = windlass_test_json("{\"spec\":{\"n\":2}}");
    windlass_json *tried;
    WINDLASS_CHECK(windlass_writes_patch(&target, WINDLASS_PATCH_MERGE, patch, &(windlass_write_options){.dry_run = true}, &tried) == NULL);
    WINDLASS_CHECK(windlass_json_int_at(tried, "/spec/n", 0) == 2 && windlass_json_int_at(shop(), "/spec/n", 0) == 1);
    WINDLASS_CHECK(windlass_writes_patch(&target, WINDLASS_PATCH_MERGE, patch, NULL, NULL) == NULL);
    WINDLASS_CHECK(windlass_json_int_at(shop(), "/spec/n", 0) == 2);
}

WINDLASS_TEST(defaults_are_filled_in_and_undeclared_fields_kept_if_allowed) {
    windlass_test_define(DEFINITION);
    windlass_json *spec = windlass_test_json(
        "{\"n\":1,\"size\":null,\"port\":\"http\",\"name\":null,\"extra\":{\"a\":1},\"parts\":[{}]}");
    windlass_json *written;
    WINDLASS_CHECK(windlass_writes_apply(shop_with(spec), NULL, &written) == NULL);
    const windlass_json *filled = windlass_test_json(
        "{\"n\":1,\"size\":\"small\",\"port\":\"http\",\"name\":null,\"extra\":{\"a\":1},\"parts\":[{\"on\":true}]}");
    WINDLASS_CHECK(windlass_json_equal(windlass_json_get(written, "spec"), filled));
    WINDLASS_CHECK(windlass_json_equal(windlass_json_get(shop(), "spec"), filled));
    windlass_test_put(shop_text("{\"n\":2}"));
    WINDLASS_CHECK(windlass_json_equal(windlass_json_get(shop(), "spec"), windlass_test_json("{\"n\":2,\"size\":\"small\"}")));
    windlass_write_options ignoring = {.field_validation = WINDLASS_VALIDATE_IGNORE};
    WINDLASS_CHECK(windlass_writes_update(shop_with(windlass_test_json("{\"n\":1,\"sise\":1}")), &ignoring, NULL) == NULL);
}

WINDLASS_TEST(a_status_write_is_validated_by_the_status_alone) {
    windlass_test_define(DEFINITION);
    windlass_test_put(shop_text("{}"));
    windlass_ref target = shop_ref();
    WINDLASS_CHECK(windlass_writes_apply_status(&target, windlass_object({"ready", windlass_bool(true)})) == NULL);
    const windlass_error *error = windlass_writes_apply_status(&target, windlass_object({"redy", windlass_bool(true)}));
    WINDLASS_CHECK_TEXT(error->api.message, "the object does not fit its definition: .status.redy: there is no such field");
}

// A composer that returns the children and the status that its parent's spec contains.
void windlass_plugin_compose(const windlass_composition_request *request, windlass_composition *composition, windlass_failures *failures) {
    (void)failures;
    windlass_json_each(child, windlass_json_at(request->parent, "/spec/extra/children")) {
        windlass_compose_child(composition, windlass_json_copy(child));
    }
    composition->status = windlass_json_copy(windlass_json_at(request->parent, "/spec/extra/status"));
}

static const char *composed;

static void compose(void) { windlass_test_compose(shop_text(composed), NULL, NULL); }

WINDLASS_TEST(a_composition_is_validated) {
    windlass_test_define(DEFINITION);
    composed = "{\"extra\":{\"children\":[{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}],\"status\":{\"ready\":true}}}";
    WINDLASS_CHECK(windlass_test_end_of(compose) == NULL);
    composed = "{\"extra\":{\"status\":{\"ready\":1}}}";
    WINDLASS_CHECK_TEXT(windlass_test_end_of(compose),
        "Shop prod/a: the object does not fit its definition: .status.ready: a whole number where a boolean is wanted");
    composed = "{\"extra\":{\"children\":[{\"apiVersion\":\"example.com/v1\",\"kind\":\"Shop\",\"metadata\":{\"name\":\"b\"},"
               "\"spec\":{\"n\":0}}]}}";
    WINDLASS_CHECK_TEXT(windlass_test_end_of(compose),
        "Shop b: the object does not fit its definition: .spec.n: 0 is too small for the minimum 1");
}

// --- Garbage ---

static void put_owned(const char *name, const char *owner, const char *finalizers) {
    windlass_test_put(windlass_format("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\",\"namespace\":\"prod\","
                                      "\"uid\":\"%s\",\"finalizers\":[%s],\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"X\","
                                      "\"name\":\"x\",\"uid\":\"%s\",\"controller\":true}]}}",
        name, name, finalizers, owner));
}

static windlass_json *pod(const char *name) { return windlass_test_object("v1", "Pod", "prod", name); }

WINDLASS_TEST(controlled_objects_are_deleted_with_their_owner) {
    windlass_test_put(shop_text("{}"));
    put_owned("waits", "u-1", "\"example.com/x\"");
    put_owned("child", "u-1", "");
    put_owned("grandchild", "child", "");
    put_owned("other", "u-2", "");
    windlass_ref target = shop_ref();
    WINDLASS_CHECK(windlass_writes_delete(&target, NULL, NULL) == NULL);
    WINDLASS_CHECK(shop() == NULL && pod("child") == NULL && pod("grandchild") == NULL && pod("other") != NULL);
    WINDLASS_CHECK_TEXT(windlass_json_text_at(pod("waits"), "/metadata/deletionTimestamp"), "2026-01-01T00:00:00Z");
    windlass_ref waiting = windlass_ref_of("v1", "Pod", windlass_text("prod"), windlass_text("waits"));
    const windlass_json *patch = windlass_test_json("{\"metadata\":{\"finalizers\":[]}}");
    WINDLASS_CHECK(windlass_writes_patch(&waiting, WINDLASS_PATCH_MERGE, patch, NULL, NULL) == NULL);
    WINDLASS_CHECK(pod("waits") == NULL);
}

WINDLASS_TEST(an_object_with_finalizers_is_left_until_it_has_none) {
    put_owned("waits", "u-1", "\"example.com/x\"");
    put_owned("child", "waits", "");
    windlass_ref target = windlass_ref_to(pod("waits"));
    windlass_json *left;
    WINDLASS_CHECK(windlass_writes_delete(&target, NULL, &left) == NULL && windlass_json_at(left, "/metadata/deletionTimestamp") != NULL);
    WINDLASS_CHECK(pod("waits") != NULL && pod("child") != NULL);
    windlass_json_remove(windlass_json_at(left, "/metadata/finalizers"));
    WINDLASS_CHECK(windlass_writes_update(left, NULL, NULL) == NULL);
    WINDLASS_CHECK(pod("waits") == NULL && pod("child") == NULL);
}

WINDLASS_TEST(orphans_stay_without_their_owner) {
    windlass_test_put(shop_text("{}"));
    put_owned("child", "u-1", "");
    windlass_ref target = shop_ref();
    windlass_delete_options orphaning = {.propagation = WINDLASS_PROPAGATE_ORPHAN};
    WINDLASS_CHECK(windlass_writes_delete(&target, &orphaning, NULL) == NULL);
    WINDLASS_CHECK(windlass_json_equal(windlass_json_at(pod("child"), "/metadata/ownerReferences"), windlass_empty_array()));
}

WINDLASS_TEST(deleting_a_collection_deletes_controlled_objects) {
    put_owned("parent", "u-1", "");
    put_owned("child", "parent", "");
    windlass_collection pods = {.api_version = windlass_text("v1"), .kind = windlass_text("Pod"), .all = true};
    windlass_deleted deleted;
    WINDLASS_CHECK(windlass_writes_delete_collection(&pods, NULL, &deleted) == NULL && deleted.count == 2);
    WINDLASS_CHECK(pod("parent") == NULL && pod("child") == NULL);
}

// --- YAML ---

static const char *defined;

static void define(void) { windlass_test_define_text(defined); }

static void define_file(void) { windlass_test_define("not/there.yaml"); }

WINDLASS_TEST(unsupported_definitions_are_refused_with_their_line) {
    static const char *const refused[][2] = {
        {"", "no CustomResourceDefinition"},
        {"kind: ConfigMap", "no CustomResourceDefinition"},
        {"spec:\n  a: &x 1", "line 2: the test host does not support anchors"},
        {"spec:\n  a: [1, *x]", "line 2: in a flow, the test host does not support *x"},
        {"a: [1,\n  2", "line 2: it does not end: [1, 2"},
        {"a: {b c}", "line 1: the key b c has no value"},
        {"a: {b: }", "line 1: a value is missing before }"},
        {"a: [1] 2", "line 1: there is more text after the value: 2"},
        {"---\na: \"\\x41\"", "line 2: the test host does not support an escape in \"\\x41\""},
        {"\n\"\\x41\": 1", "line 2: the test host does not support an escape in \"\\x41\""},
        {"a: 'b", "line 1: it does not end: 'b"},
        {"a: 1\nb", "line 2: b does not belong"},
        {"{a: 1}", "the definitions are not JSON: byte 1: "},
        {"a:\n    b: 1\n  c: 2", "line 3: c: 2 does not belong"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        defined = refused[i][0];
        const char *why = windlass_test_end_of(define);
        WINDLASS_CHECK(why != NULL);
        if (strstr(why, refused[i][1]) == NULL) {
            WINDLASS_CHECK_TEXT(why, refused[i][1]);
        }
    }
    const char *why = windlass_test_end_of(define_file);
    WINDLASS_CHECK(why != NULL && strstr(why, "not/there.yaml") != NULL);
}

static void check_yaml(const char *text, const char *json) {
    windlass_text found = windlass_json_print(windlass_fake_yaml(text));
    WINDLASS_CHECK_TEXT(found, json);
}

WINDLASS_TEST(scalars_are_parsed_to_their_values) {
    check_yaml("- 1\n- -1.5e3\n- 'it''s'\n- \"a\\tb # c\"\n- no # comment\n- ~\n- >\n  a\n  b\n- |\n  a\n   b\n-\n  c: d\n- http://x\n",
        "[[1,-1.5e3,\"it's\",\"a\\tb # c\",\"no\",null,\"a b\\n\",\"a\\n b\\n\",{\"c\":\"d\"},\"http://x\"]]");
    check_yaml("[+1, .5, 010, 1., 1e, -, True, 'true', a:b, 1.2.3, 99999999999999999999]",
        "[[1,0.5,10,1,\"1e\",\"-\",true,\"true\",\"a:b\",\"1.2.3\",99999999999999999999]]");
}

WINDLASS_TEST(blocks_flows_and_documents_are_read) {
    check_yaml("{\"a\": [1]}", "[{\"a\":[1]}]");
    check_yaml("a: 1\n---\n# nothing\n--- \nb: 2\r\n", "[{\"a\":1},{\"b\":2}]");
    check_yaml("a:\n- b: 1\n  c: [x, {y: z}, []]\n- - d\n  -\n'e f' : g\n  h # i\nj:\nk: {}\n",
        "[{\"a\":[{\"b\":1,\"c\":[\"x\",{\"y\":\"z\"},[]]},[\"d\",null]],\"e f\":\"g h\",\"j\":null,\"k\":{}}]");
    check_yaml("a: |-\n  b: c\n\n  # d\n\ne: \"f\n  g\"\nh: [i,\n  j] # k\n",
        "[{\"a\":\"b: c\\n\\n# d\",\"e\":\"f g\",\"h\":[\"i\",\"j\"]}]");
}
