// Parsing, printing, reading, creating and changing JSON.

#include <stdlib.h>

#include <windlass_test.h>

static void check_round_trip(const char *text) {
    WINDLASS_CHECK_TEXT(windlass_json_print(windlass_test_json(text)), text);
}

static void check_refused(const char *text, const char *message, size_t offset) {
    windlass_json_error error = {0};
    WINDLASS_CHECK(windlass_json_parse(windlass_text(text), &error) == NULL);
    WINDLASS_CHECK_TEXT(error.message, message);
    WINDLASS_CHECK_TEXT(windlass_decimal((int64_t)error.offset), windlass_decimal((int64_t)offset));
}

WINDLASS_TEST(parsed_json_is_printed_unchanged) {
    check_round_trip("null");
    check_round_trip("{}");
    check_round_trip("[]");
    check_round_trip("[[],{},[[]],\"\"]");
    check_round_trip("{\"a\":{\"b\":[1,{\"c\":null},true,false]},\"d\":\"e\"}");
    check_round_trip("{\"\":\"\",\"\xC3\xBC\":\"\xF0\x9F\x98\x80\"}");
    check_round_trip("\"\\u0000\\u001f\\\"\\\\\\b\\f\\n\\r\\t/\"");
}

WINDLASS_TEST(white_space_and_escapes_are_parsed) {
    windlass_json *value = windlass_test_json(" { \"a\\/\" :\t[ 1 ,\r\n2 ] , \"\\u00e4\\ud83d\\ude00\" : \"\\u0041\" } ");
    WINDLASS_CHECK_TEXT(windlass_json_print(value), "{\"a/\":[1,2],\"\xC3\xA4\xF0\x9F\x98\x80\":\"A\"}");
}

WINDLASS_TEST(lone_surrogates_and_null_bytes_survive) {
    check_round_trip("\"\\ud800\"");
    check_round_trip("\"\\udc00x\\ud800\\ud800\"");
    WINDLASS_CHECK_TEXT(windlass_json_print(windlass_test_json("\"\\ud800\\u0041\"")), "\"\\ud800A\"");
}

WINDLASS_TEST(numbers_keep_their_digits) {
    check_round_trip("[9223372036854775807,-9223372036854775808,18446744073709551615,1e400,0.1000,-0,1E+2,123456789012345678901234567890]");
}

WINDLASS_TEST(invalid_json_is_refused_with_its_place) {
    check_refused("", "it ends too early", 0);
    check_refused("{\"a\":", "it ends too early", 5);
    check_refused("[1,]", "a value must follow", 3);
    check_refused("[1 2]", "a comma or the end must follow", 3);
    check_refused("{1:2}", "a member's name must follow", 1);
    check_refused("{\"a\" 1}", "a colon must follow", 5);
    check_refused("[1]x", "there is more text after the value", 3);
    check_refused("01", "a number begins with 0", 1);
    check_refused("-x", "a digit must follow", 1);
    check_refused("nul", "a value must follow", 0);
    check_refused("\"\\x\"", "an escape that JSON does not have", 3);
    check_refused("\"\\u12g4\"", "four hexadecimal digits must follow \\u", 5);
    check_refused("\"\n\"", "a control character within a string", 1);
    WINDLASS_CHECK(windlass_json_parse(WINDLASS_NONE, NULL) == NULL);
    WINDLASS_CHECK(windlass_json_parse(windlass_text("\"abc"), NULL) == NULL);
    WINDLASS_CHECK(windlass_json_parse(windlass_text("\"abc\\"), NULL) == NULL);
    WINDLASS_CHECK(windlass_json_parse(windlass_text("{]"), NULL) == NULL);
    WINDLASS_CHECK(windlass_json_parse(windlass_text("[}"), NULL) == NULL);
}

WINDLASS_TEST(every_truncated_document_is_refused) {
    const char *text = "{\"a\":[1.5e-3,\"\\ud83d\\ude00\\n\",true,{\"b\":null}]}";
    for (size_t length = 0; length < strlen(text); length++) {
        // The text gets its own memory, so that a sanitizer notices reads past its end.
        windlass_text part = windlass_text_copy((windlass_text){text, length});
        WINDLASS_CHECK(windlass_json_parse(part, NULL) == NULL);
    }
}

WINDLASS_TEST(depth_is_limited_and_needs_no_recursion) {
    enum { DEEP = WINDLASS_JSON_DEPTH };
    char text[2 * (DEEP + 1) + 1];
    memset(text, '[', DEEP);
    memset(text + DEEP, ']', DEEP);
    text[2 * DEEP] = 0;
    check_round_trip(text);
    windlass_json *copy = windlass_json_copy(windlass_test_json(text));
    WINDLASS_CHECK(windlass_json_equal(copy, windlass_test_json(text)));
    memset(text, '[', DEEP + 1);
    memset(text + DEEP + 1, ']', DEEP + 1);
    text[2 * (DEEP + 1)] = 0;
    WINDLASS_CHECK(windlass_json_parse(windlass_text(text), NULL) == NULL);
}

WINDLASS_TEST(a_pointer_finds_its_value) {
    const windlass_json *value = windlass_test_json("{\"a\":[{\"b/c\":{\"~\":1}},2],\"\":3,\"0\":4}");
    WINDLASS_CHECK(windlass_json_at(value, "") == value);
    WINDLASS_CHECK(windlass_json_int_at(value, "/a/0/b~1c/~0", 0) == 1);
    WINDLASS_CHECK(windlass_json_int_at(value, "/a/1", 0) == 2);
    WINDLASS_CHECK(windlass_json_int_at(value, "/", 0) == 3);
    WINDLASS_CHECK(windlass_json_int_at(value, "/0", 0) == 4);
    const char *const nowhere[] = {"/a/2", "/a/01", "/a/-", "/a/x", "/b", "/a/0/b~1c/~0/x", "a", "/a/99999999999999999999"};
    for (size_t i = 0; i < sizeof nowhere / sizeof *nowhere; i++) {
        WINDLASS_CHECK(windlass_json_at(value, nowhere[i]) == NULL);
    }
    WINDLASS_CHECK(windlass_json_at(NULL, "/a") == NULL);
    WINDLASS_CHECK(windlass_json_text_at(value, "/a").data == NULL);
}

WINDLASS_TEST(the_last_of_equal_member_names_counts) {
    const windlass_json *value = windlass_test_json("{\"a\":1,\"a\":2}");
    WINDLASS_CHECK(windlass_json_int_at(value, "/a", 0) == 2);
}

WINDLASS_TEST(an_object_is_made_of_members) {
    const windlass_json *value = windlass_object(
        {"text", windlass_string("x")}, {"none", NULL}, {"list", windlass_array(windlass_int(-1), windlass_bool(true), windlass_null())},
        {"empty", windlass_empty_object()}, {"large", windlass_uint(UINT64_MAX)}, {"least", windlass_int(INT64_MIN)});
    WINDLASS_CHECK_TEXT(windlass_json_print(value),
        "{\"text\":\"x\",\"list\":[-1,true,null],\"empty\":{},\"large\":18446744073709551615,\"least\":-9223372036854775808}");
}

WINDLASS_TEST(invalid_utf8_is_printed_as_valid_utf8) {
    WINDLASS_CHECK_TEXT(windlass_json_print(windlass_string("a\xFFz\xC3")), "\"a\xEF\xBF\xBDz\xEF\xBF\xBD\"");
    WINDLASS_CHECK_TEXT(windlass_text_valid(windlass_text("\xED\xA0\x80x")), "\xEF\xBF\xBDx");
    WINDLASS_CHECK_TEXT(windlass_text_valid(windlass_text("gr\xC3\xBC\xC3\x9F")), "gr\xC3\xBC\xC3\x9F");
}

WINDLASS_TEST(a_set_member_keeps_its_position) {
    windlass_json *value = windlass_test_json("{\"a\":1,\"b\":2,\"c\":3}");
    windlass_json_set(value, "b", windlass_string("new"));
    windlass_json_set(value, "c", windlass_int(4));
    windlass_json_set(value, "d", windlass_bool(false));
    WINDLASS_CHECK_TEXT(windlass_json_print(value), "{\"a\":1,\"b\":\"new\",\"c\":4,\"d\":false}");
    windlass_json_remove(windlass_json_get(value, "d"));
    windlass_json_remove(windlass_json_get(value, "a"));
    windlass_json_remove(NULL);
    windlass_json_set(value, "e", NULL);
    WINDLASS_CHECK_TEXT(windlass_json_print(value), "{\"b\":\"new\",\"c\":4,\"e\":null}");
    WINDLASS_CHECK(value->count == 3);
    WINDLASS_CHECK(windlass_json_set(windlass_null(), "a", windlass_null()) == NULL);
    WINDLASS_CHECK(windlass_json_set(NULL, "a", windlass_null()) == NULL);
    WINDLASS_CHECK(windlass_json_add(value, windlass_null()) == NULL);
}

WINDLASS_TEST(a_value_with_a_parent_is_copied) {
    windlass_json *value = windlass_test_json("{\"a\":{\"x\":1}}");
    windlass_json *copy = windlass_json_set(value, "b", windlass_json_get(value, "a"));
    windlass_json_set(copy, "x", windlass_int(2));
    windlass_json_set(value, "self", value);
    windlass_json_set(windlass_json_get(value, "a"), "around", value);
    WINDLASS_CHECK_TEXT(windlass_json_print(value),
        "{\"a\":{\"x\":1,\"around\":{\"a\":{\"x\":1},\"b\":{\"x\":2},\"self\":{\"a\":{\"x\":1},\"b\":{\"x\":2}}}},\"b\":{\"x\":2},"
        "\"self\":{\"a\":{\"x\":1},\"b\":{\"x\":2}}}");
    windlass_json_set(value, "a", windlass_json_get(value, "a"));
    WINDLASS_CHECK(value->count == 3);
}

WINDLASS_TEST(setting_a_pointer_creates_missing_objects) {
    windlass_json *value = windlass_empty_object();
    windlass_json_set_at(value, "/metadata/labels/a~1b", windlass_string("x"));
    windlass_json_set_at(value, "/list", windlass_empty_array());
    windlass_json_set_at(value, "/list/-", windlass_int(1));
    windlass_json_set_at(value, "/list/-/a", windlass_int(2));
    windlass_json_set_at(value, "/list/0", windlass_int(3));
    WINDLASS_CHECK_TEXT(windlass_json_print(value), "{\"metadata\":{\"labels\":{\"a/b\":\"x\"}},\"list\":[3,{\"a\":2}]}");
    WINDLASS_CHECK(windlass_json_set_at(value, "/list/9", windlass_null()) == NULL);
    WINDLASS_CHECK(windlass_json_set_at(value, "/list/0/x", windlass_null()) == NULL);
}

WINDLASS_TEST(numbers_are_read_as_far_as_they_fit) {
    int64_t number;
    uint64_t amount;
    double real;
    WINDLASS_CHECK(windlass_json_read_int(windlass_test_json("-9223372036854775808"), &number) && number == INT64_MIN);
    WINDLASS_CHECK(windlass_json_read_int(windlass_test_json("9223372036854775807"), &number) && number == INT64_MAX);
    WINDLASS_CHECK(!windlass_json_read_int(windlass_test_json("9223372036854775808"), &number));
    WINDLASS_CHECK(!windlass_json_read_int(windlass_test_json("-9223372036854775809"), &number));
    WINDLASS_CHECK(!windlass_json_read_int(windlass_test_json("1.0"), &number));
    WINDLASS_CHECK(!windlass_json_read_int(windlass_test_json("\"1\""), &number));
    WINDLASS_CHECK(!windlass_json_read_int(NULL, &number));
    WINDLASS_CHECK(windlass_json_read_uint(windlass_test_json("18446744073709551615"), &amount) && amount == UINT64_MAX);
    WINDLASS_CHECK(!windlass_json_read_uint(windlass_test_json("18446744073709551616"), &amount));
    WINDLASS_CHECK(!windlass_json_read_uint(windlass_test_json("-1"), &amount));
    WINDLASS_CHECK(windlass_json_read_double(windlass_test_json("-1.5e3"), &real) && real <= -1500 && real >= -1500);
    WINDLASS_CHECK(!windlass_json_read_double(windlass_test_json("1e999"), &real));
}

static void infinite_number(void) {
    windlass_double(1e308 * 10);
}

static void no_number(void) {
    windlass_double(strtod("nan", NULL));
}

WINDLASS_TEST(printed_doubles_parse_to_the_same_value) {
    const double numbers[] = {0.1, 0.005, 1.5, 10, 1e6, 1e15, 123456789.125, 1.0 / 3, 2.2250738585072014e-308, 5e-324, 1.7976931348623157e308,
        1e21, 1e22, 1e23, 9007199254740993.0, 0.30000000000000004, 1e-7, 4.35, 1e300 / 3};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        double back;
        windlass_json *value = windlass_double(numbers[i]);
        WINDLASS_CHECK(windlass_json_read_double(windlass_test_json(windlass_json_print(value).data), &back));
        WINDLASS_CHECK(memcmp(&back, &numbers[i], sizeof back) == 0);
    }
    WINDLASS_CHECK_TEXT(windlass_double(0.1)->text, "0.1");
    WINDLASS_CHECK_TEXT(windlass_double(-1.5)->text, "-1.5");
    WINDLASS_CHECK_TEXT(windlass_double(0)->text, "0");
    WINDLASS_CHECK_TEXT(windlass_double(1000000)->text, "1000000");
    WINDLASS_CHECK_TEXT(windlass_double(0.00025)->text, "0.00025");
    WINDLASS_CHECK_TEXT(windlass_double(1e21)->text, "1e21");
    const char *why = windlass_test_end_of(infinite_number);
    WINDLASS_CHECK(why != NULL && strstr(why, "isfinite") != NULL);
    WINDLASS_CHECK(windlass_test_end_of(no_number) != NULL);
}

WINDLASS_TEST(equal_values_may_be_written_differently) {
    const char *const pairs[][2] = {{"{\"a\":1,\"b\":[1,2]}", "{\"b\":[1,2],\"a\":1}"}, {"1.0", "1"}, {"100", "1e2"}, {"0.01", "1E-2"},
        {"-0", "0"}, {"1.50", "15e-1"}, {"\"\\u0041\"", "\"A\""}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        WINDLASS_CHECK(windlass_json_equal(windlass_test_json(pairs[i][0]), windlass_test_json(pairs[i][1])));
    }
    const char *const others[][2] = {{"1", "-1"}, {"1", "10"}, {"1", "1.01"}, {"[1,2]", "[2,1]"}, {"{\"a\":1}", "{\"a\":1,\"b\":2}"},
        {"0", "1"}, {"9007199254740993", "9007199254740992"}, {"null", "false"}, {"\"1\"", "1"}, {"12", "1.2"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        WINDLASS_CHECK(!windlass_json_equal(windlass_test_json(others[i][0]), windlass_test_json(others[i][1])));
    }
}

WINDLASS_TEST(has_fields_ignores_other_fields) {
    const windlass_json *object = windlass_test_json("{\"a\":1,\"list\":[{\"n\":1,\"x\":2},{\"n\":2}],\"z\":null}");
    WINDLASS_CHECK(windlass_has_fields(object, windlass_test_json("{\"list\":[{\"n\":2},{\"n\":1}],\"z\":null}")));
    WINDLASS_CHECK(!windlass_has_fields(object, windlass_test_json("{\"list\":[{\"n\":3}]}")));
    WINDLASS_CHECK(!windlass_has_fields(object, windlass_test_json("{\"b\":null}")));
    WINDLASS_CHECK(!windlass_has_fields(NULL, windlass_test_json("{}")));
}

// A fixed generator, so that every run is the same.
static uint32_t drawn(uint32_t *state, uint32_t below) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

WINDLASS_TEST(damaged_documents_never_crash_the_parser) {
    static const char document[] = "{\"a\":[1,2.5e-3,-0,{\"b\":null}],\"c\":\"\\ud83d\\ude00\\u0000\\ud800x\\n\xC3\xBC\",\"d\":true}";
    static const char bytes[] = "{}[]\",:\\u0019eE+-.tfn\xC3\xED\xA0\x80\xFF \n";
    uint32_t state = 1;
    windlass_mark mark = windlass_memory_mark();
    for (int turn = 0; turn < 20000; turn++) {
        windlass_memory_release(mark);
        // Half of the documents are cut off, in memory whose bounds a sanitizer checks.
        size_t length = sizeof document - 1 - drawn(&state, 2) * drawn(&state, sizeof document - 1);
        char *damaged = malloc(length);
        memcpy(damaged, document, length);
        for (uint32_t left = 1 + drawn(&state, 3); left > 0; left--) {
            damaged[drawn(&state, (uint32_t)length)] = bytes[drawn(&state, sizeof bytes - 1)];
        }
        windlass_json *value = windlass_json_parse((windlass_text){damaged, length}, NULL);
        free(damaged);
        if (value != NULL) {
            windlass_text printed = windlass_json_print(value);
            WINDLASS_CHECK(windlass_text_equal(printed, windlass_text_valid(printed)));
            WINDLASS_CHECK_TEXT(windlass_json_print(windlass_json_parse(printed, NULL)), printed.data);
        }
    }
}
