// Values of YAML within a line, for the host of unit tests: plain and quoted texts, and flows in brackets and braces.

#ifndef __wasm__

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "windlass_test_internal.h"

windlass_text windlass_fake_yaml_uncommented(const char *text) {
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '#' && (i == 0 || isspace((unsigned char)text[i - 1]))) {
            length = i;
        }
    }
    while (length > 0 && isspace((unsigned char)text[length - 1])) {
        length--;
    }
    return windlass_text_copy((windlass_text){text, length});
}

size_t windlass_fake_yaml_quoted(const char *text) {
    char quote = text[0];
    for (size_t i = 1; text[i] != 0; i++) {
        bool is_escape = quote == '"' ? text[i] == '\\' : text[i] == '\'' && text[i + 1] == '\'';
        if (is_escape && text[i + 1] != 0) {
            i++;
        } else if (text[i] == quote) {
            return i + 1;
        }
    }
    return 0;
}

windlass_text windlass_fake_yaml_unquoted(windlass_text quoted) {
    if (quoted.data[0] == '"') {
        return windlass_json_text(windlass_json_parse(quoted, NULL));
    }
    windlass_buffer plain = {0};
    for (size_t i = 1; i + 1 < quoted.length; i++) {
        windlass_buffer_add_byte(&plain, quoted.data[i]);
        i += quoted.data[i] == '\'';
    }
    return windlass_buffer_text(&plain);
}

static size_t digits(const char *text) { return strspn(text, "0123456789"); }

static bool is_number(const char *text) {
    text += *text == '-' || *text == '+';
    size_t whole = digits(text);
    text += whole;
    if (*text == '.') {
        size_t part = digits(++text);
        whole += part;
        text += part;
    }
    if (whole > 0 && (*text == 'e' || *text == 'E')) {
        text++;
        text += *text == '-' || *text == '+';
        whole = digits(text);
        text += whole;
    }
    return whole > 0 && *text == 0;
}

static bool is_one_of(windlass_text text, const char *const *words) {
    while (*words != NULL && !windlass_text_is(text, *words)) {
        words++;
    }
    return *words != NULL;
}

windlass_json *windlass_fake_yaml_scalar(windlass_text text) {
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    if (is_one_of(text, nulls)) {
        return windlass_null();
    }
    bool is_true = is_one_of(text, trues);
    if (is_true || is_one_of(text, falses)) {
        return windlass_bool(is_true);
    }
    if (is_number(text.data)) {
        windlass_json *number = windlass_number(text);
        double read = strtod(text.data, NULL);
        // A number in JSON's notation keeps its digits. YAML has other notations too, which are converted.
        if (number->type == WINDLASS_JSON_NUMBER || isfinite(read)) {
            return number->type == WINDLASS_JSON_NUMBER ? number : windlass_double(read);
        }
    }
    return windlass_json_string(text);
}

// --- Flows ---

static windlass_json *unfinished(windlass_fake_flow *from) {
    from->is_unfinished = true;
    return NULL;
}

static windlass_json *flow_list(windlass_fake_flow *from) {
    windlass_json *list = windlass_empty_array();
    for (;;) {
        from->at += strspn(from->at, " ,");
        if (*from->at == ']') {
            from->at++;
            return list;
        }
        windlass_json *item = windlass_fake_yaml_flow(from);
        if (item == NULL) {
            return NULL;
        }
        windlass_json_add(list, item);
    }
}

static windlass_json *flow_object(windlass_fake_flow *from) {
    windlass_json *object = windlass_empty_object();
    for (;;) {
        from->at += strspn(from->at, " ,");
        if (*from->at == '}') {
            from->at++;
            return object;
        }
        windlass_json *key = windlass_fake_yaml_flow(from);
        if (key == NULL) {
            return NULL;
        }
        windlass_text name = key->type == WINDLASS_JSON_STRING ? key->text : windlass_json_print(key);
        from->at += strspn(from->at, " ");
        if (*from->at == 0) {
            return unfinished(from);
        }
        if (*from->at != ':') {
            from->wrong = windlass_concat("the key ", name.data, " has no value");
            return NULL;
        }
        from->at++;
        windlass_json *value = windlass_fake_yaml_flow(from);
        if (value == NULL) {
            return NULL;
        }
        windlass_json_set_text(object, name, value);
    }
}

static windlass_json *flow_plain(windlass_fake_flow *from) {
    const char *text = from->at;
    size_t length = 0;
    while (text[length] != 0) {
        char next = text[length + 1];
        if (text[length] == ':' && next != 0 && strchr(" \t,]}", next) == NULL) {
            length += 2;
        } else if (strchr(",[]{}:", text[length]) == NULL) {
            length++;
        } else {
            break;
        }
    }
    if (length == 0 || strchr("&*!%@`#|>", *text) != NULL) {
        const char *why = length == 0 ? "a value is missing before " : "in a flow, the test host does not support ";
        from->wrong = windlass_concat(why, text);
        return NULL;
    }
    from->at += length;
    return windlass_fake_yaml_scalar(windlass_text_trimmed(windlass_text_copy((windlass_text){text, length})));
}

windlass_json *windlass_fake_yaml_flow(windlass_fake_flow *from) {
    from->at += strspn(from->at, " ");
    char first = *from->at;
    if (first == 0) {
        return unfinished(from);
    }
    if (first == '[' || first == '{') {
        from->at++;
        return first == '[' ? flow_list(from) : flow_object(from);
    }
    if (first != '"' && first != '\'') {
        return flow_plain(from);
    }
    windlass_text quoted = {from->at, windlass_fake_yaml_quoted(from->at)};
    if (quoted.length == 0) {
        return unfinished(from);
    }
    from->at += quoted.length;
    windlass_text plain = windlass_fake_yaml_unquoted(quoted);
    from->wrong = plain.data ? NULL : windlass_concat("the test host does not support an escape in ", windlass_text_copy(quoted).data);
    return plain.data ? windlass_json_string(plain) : NULL;
}

#else

typedef int windlass_no_yaml_values_in_a_component;

#endif
