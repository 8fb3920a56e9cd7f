// Mappers and customizers.

#include <windlass_test.h>

#include "../windlass_internal.h"

// Maps a Pod to the Services whose selector matches it, before or now, and to the Service of its own name.
static void to_services(const windlass_change *change, windlass_targets *targets, windlass_failures *failures) {
    WINDLASS_CHECK_TEXT(change->watch, "pods");
    windlass_json *states[] = {change->old, change->new};
    for (int i = 0; i < 2; i++) {
        windlass_json *labels = windlass_json_at(states[i], "/metadata/labels");
        if (labels != NULL) {
            windlass_map_indexed(targets, "by-selector", windlass_selector_text(windlass_object({"matchLabels", labels})));
        }
    }
    if (windlass_json_get(change->new, "spec") != NULL) {
        windlass_ref self = windlass_ref_to(change->new);
        windlass_map_primary(targets, self.namespace, self.name);
    }
    if (windlass_json_get(change->new, "wrong") != NULL) {
        windlass_fail_terminal(failures, "it is wrong");
    }
}

// Accepts changes after which the object has labels.
static bool has_labels(const windlass_change *change, windlass_failures *failures) {
    if (windlass_json_get(change->new, "wrong") != NULL) {
        windlass_fail_terminal(failures, "it is wrong");
    }
    return windlass_json_at(change->new, "/metadata/labels") != NULL;
}

WINDLASS_MAPPER(to_services, has_labels);

#define POD(app) "{\"kind\": \"Pod\", \"metadata\": {\"name\": \"a\", \"namespace\": \"prod\", \"labels\": {\"app\": \"" app "\"}}}"

WINDLASS_TEST(a_change_has_the_targets_of_both_states) {
    windlass_targets targets = windlass_test_map("pods", POD("web"), POD("db"));
    WINDLASS_CHECK(windlass_test_failures.count == 0 && targets.count == 2);
    WINDLASS_CHECK_TEXT(targets.items[0].index, "by-selector");
    WINDLASS_CHECK_TEXT(targets.items[0].value, "app=web");
    WINDLASS_CHECK_TEXT(targets.items[1].value, "app=db");
    WINDLASS_CHECK(windlass_test_map("pods", POD("web"), NULL).count == 1);
    WINDLASS_CHECK(windlass_test_map("pods", NULL, "{\"metadata\": {}}").count == 0);
}

WINDLASS_TEST(a_target_may_be_a_key) {
    windlass_targets targets = windlass_test_map("pods", NULL, "{\"metadata\": {\"name\": \"a\"}, \"spec\": 1}");
    WINDLASS_CHECK(targets.count == 1 && targets.items[0].index.data == NULL && targets.items[0].namespace.data == NULL);
    WINDLASS_CHECK_TEXT(targets.items[0].name, "a");
}

WINDLASS_TEST(an_error_of_a_mapper_is_reported) {
    windlass_test_map("pods", NULL, "{\"wrong\": true}");
    WINDLASS_CHECK(windlass_test_failures.count == 1);
    WINDLASS_CHECK_TEXT(windlass_test_failures.errors[0]->message, "it is wrong");
}

WINDLASS_TEST(a_predicate_judges_a_change) {
    WINDLASS_CHECK(windlass_test_matches("pods", NULL, POD("web")) && windlass_test_matches("pods", "{}", POD("web")));
    WINDLASS_CHECK(!windlass_test_matches("pods", POD("web"), "{}") && windlass_test_failures.count == 0);
    windlass_test_matches("pods", NULL, "{\"wrong\": true}");
    WINDLASS_CHECK(windlass_test_failures.count == 1);
}

WINDLASS_TEST(a_mapper_may_have_one_of_its_functions) {
    windlass_change change = {.watch = windlass_text("pods"), .new = windlass_test_json(POD("web"))};
    windlass_failures failures = {0};
    windlass_mapper maps = {.map = to_services};
    WINDLASS_CHECK(windlass_match_change(&maps, &(windlass_change){0}, &failures) && failures.count == 0);
    WINDLASS_CHECK(windlass_map_change(&maps, &change, &failures).count == 1 && failures.count == 0);
    windlass_mapper judges = {.matches = has_labels};
    WINDLASS_CHECK(!windlass_match_change(&judges, &(windlass_change){0}, &failures) && failures.count == 0);
    WINDLASS_CHECK(windlass_map_change(&judges, &change, &failures).count == 0 && failures.count == 1);
    WINDLASS_CHECK_TEXT(
        failures.errors[0]->message, "the manifest maps the watch pods by WINDLASS_MAP_MAPPER, and WINDLASS_MAPPER has no `.map`");
}

WINDLASS_TEST(targets_and_rules_outlive_a_release) {
    windlass_targets targets = {0};
    windlass_related_rules rules = {0};
    for (int i = 0; i < 100; i++) {
        windlass_mark mark = windlass_memory_mark();
        windlass_text name = windlass_text(windlass_concat("shop-", windlass_decimal(i)));
        windlass_map_primary(&targets, windlass_text("prod"), name);
        windlass_relate(&rules, &(windlass_related_rule){.watch = name.data, .names = &name, .name_count = 1, .namespace = name});
        windlass_memory_release(mark);
        memset(windlass_alloc(1000), 'x', 1000);
    }
    WINDLASS_CHECK(targets.count == 100 && rules.count == 100);
    WINDLASS_CHECK_TEXT(targets.items[0].name, "shop-0");
    WINDLASS_CHECK_TEXT(targets.items[99].namespace, "prod");
    WINDLASS_CHECK_TEXT(rules.items[7].watch, "shop-7");
    WINDLASS_CHECK_TEXT(rules.items[7].namespace, "shop-7");
    WINDLASS_CHECK_TEXT(rules.items[99].names[0], "shop-99");
    WINDLASS_CHECK(rules.items[99].label_selector.data == NULL);
}

// Relates the ConfigMap that a shop names, if it names one.
static void relate_settings(const windlass_request *request, windlass_related_rules *rules, windlass_failures *failures) {
    windlass_json *named = windlass_json_at(request->object, "/spec/settings");
    windlass_text name = windlass_json_text(named);
    if (name.data != NULL) {
        windlass_relate(rules, &(windlass_related_rule){.watch = "settings", .names = &name, .name_count = 1});
    } else if (named != NULL) {
        windlass_fail_terminal(failures, "/spec/settings is no text");
    }
}

WINDLASS_CUSTOMIZER(relate_settings);

WINDLASS_TEST(a_customizer_returns_rules_for_its_parent) {
    windlass_related_rules rules = windlass_test_customize("{\"metadata\": {\"name\": \"a\"}, \"spec\": {\"settings\": \"eur\"}}");
    WINDLASS_CHECK(windlass_test_failures.count == 0 && rules.count == 1 && rules.items[0].name_count == 1);
    WINDLASS_CHECK_TEXT(rules.items[0].watch, "settings");
    WINDLASS_CHECK_TEXT(rules.items[0].names[0], "eur");
    WINDLASS_CHECK(windlass_test_customize("{\"metadata\": {\"name\": \"a\"}}").count == 0);
    windlass_test_customize("{\"metadata\": {\"name\": \"a\"}, \"spec\": {\"settings\": 7}}");
    WINDLASS_CHECK(windlass_test_failures.count == 1);
}
