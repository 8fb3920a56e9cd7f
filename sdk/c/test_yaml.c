// Reads YAML as definitions of kinds use it, for the unit tests' host: blocks and flows, quoted, plain and folded
// texts, comments, and several documents. It refuses other features, such as anchors and tags, and names the line. It
// joins the lines of a text by spaces, which makes no difference to a definition.

#ifndef __wasm__

#include <ctype.h>

#include "windlass_test_internal.h"

// The lines of one document, without white space at their ends. `at` counts lines from the beginning of the whole text.
typedef struct reader {
    char **lines;
    size_t at;
    size_t end;
} reader;

static windlass_json *node(reader *in, int least);

// Reports an error in the line that was read last.
static _Noreturn void refuse(const reader *in, const char *what, const char *text) {
    windlass_trap(windlass_format("the definitions are not YAML that the test host supports: line %zu: %s%s", in->at, what, text));
}

static const char *behind_spaces(const char *text) { return text + strspn(text, " "); }

// The next line that is not empty, and its indentation. NULL if there is no such line.
static const char *peek(reader *in, int *indent) {
    for (; in->at < in->end; in->at++) {
        const char *text = behind_spaces(in->lines[in->at]);
        if (*text != 0 && *text != '#') {
            *indent = (int)(text - in->lines[in->at]);
            return text;
        }
    }
    return NULL;
}

static bool is_item(const char *text) { return text[0] == '-' && (text[1] == 0 || text[1] == ' '); }

// Reads further lines until the flow is complete.
static windlass_json *flow_lines(reader *in, const char *text) {
    for (;;) {
        windlass_fake_flow from = {.at = text};
        windlass_json *value = windlass_fake_yaml_flow(&from);
        if (value != NULL) {
            windlass_text rest = windlass_fake_yaml_uncommented(from.at);
            if (rest.length > 0) {
                refuse(in, "there is more text after the value:", rest.data);
            }
            return value;
        }
        if (!from.is_unfinished || in->at == in->end) {
            refuse(in, from.is_unfinished ? "it does not end: " : from.wrong, from.is_unfinished ? text : "");
        }
        text = windlass_concat(text, " ", behind_spaces(in->lines[in->at]));
        in->at++;
    }
}

// --- Blocks ---

// Reads a text of several lines (`|` or `>`).
static windlass_json *block(reader *in, const char *header, int parent) {
    size_t from = in->at;
    size_t depth = SIZE_MAX;
    for (; in->at < in->end; in->at++) {
        const char *line = in->lines[in->at];
        size_t indent = strspn(line, " ");
        if (*line != 0 && (int)indent <= parent) {
            break;
        }
        depth = *line != 0 && indent < depth ? indent : depth;
    }
    windlass_buffer text = {0};
    for (size_t i = from; i < in->at; i++) {
        const char *line = in->lines[i];
        windlass_buffer_add_text(&text, windlass_text_of(*line != 0 ? line + depth : ""));
        windlass_buffer_add_byte(&text, header[0] == '>' ? ' ' : '\n');
    }
    while (text.length > 0 && strchr(" \n", text.data[text.length - 1]) != NULL) {
        text.length--;
    }
    if (strchr(header, '-') == NULL) {
        windlass_buffer_add_byte(&text, '\n');
    }
    return windlass_json_string(windlass_buffer_text(&text));
}

// Reads a value that begins with `text` and continues in the lines that are indented further than its parent.
static windlass_json *value_of(reader *in, const char *text, int parent) {
    if (*text == '|' || *text == '>') {
        return block(in, text, parent);
    }
    if (strchr("&*!%@`", *text) != NULL) {
        refuse(in, "the test host does not support anchors, aliases and tags: ", text);
    }
    if (strchr("\"'[{", *text) != NULL) {
        return flow_lines(in, text);
    }
    windlass_text all = windlass_fake_yaml_uncommented(text);
    int indent;
    const char *more;
    while ((more = peek(in, &indent)) != NULL && indent > parent) {
        all = windlass_text_of(windlass_concat(all.data, " ", windlass_fake_yaml_uncommented(more).data));
        in->at++;
    }
    return windlass_fake_yaml_scalar(all);
}

static windlass_json *list(reader *in, int indent) {
    windlass_json *items = windlass_empty_array();
    int at;
    const char *text;
    while ((text = peek(in, &at)) != NULL && at == indent && is_item(text)) {
        // The text after the dash counts as a line of its own, with its indentation.
        in->lines[in->at][indent] = ' ';
        windlass_json_add(items, node(in, indent + 1));
    }
    return items;
}

// Splits a line into its key, which may be quoted, and the text after the colon. Returns false if the line has no key.
static bool split_key(const char *line, windlass_text *key, const char **rest) {
    size_t colon = 1;
    if (*line == '"' || *line == '\'') {
        size_t length = windlass_fake_yaml_quoted(line);
        colon = length + strspn(line + length, " \t");
        if (length == 0 || line[colon] != ':' || strchr(" \t", line[colon + 1]) == NULL) {
            return false;
        }
    } else if (strchr("[]{}&*!|>%@#`", *line) != NULL || isspace((unsigned char)*line)) {
        return false;
    }
    while (line[colon] != 0 && (line[colon] != ':' || strchr(" \t", line[colon + 1]) == NULL)) {
        colon++;
    }
    if (line[colon] == 0) {
        return false;
    }
    *rest = line + colon + 1 + strspn(line + colon + 1, " \t");
    *key = windlass_text_trimmed(windlass_text_copy((windlass_text){line, colon}));
    return true;
}

static windlass_json *field(reader *in, const char *text, int indent) {
    if (*text != 0 && *text != '#') {
        return value_of(in, text, indent);
    }
    int at;
    const char *next = peek(in, &at);
    bool is_list = next != NULL && at == indent && is_item(next);
    return is_list ? list(in, indent) : node(in, indent + 1);
}

static windlass_json *object(reader *in, int indent) {
    windlass_json *fields = windlass_empty_object();
    int at;
    const char *text;
    windlass_text key;
    const char *rest;
    while ((text = peek(in, &at)) != NULL && at == indent && !is_item(text) && split_key(text, &key, &rest)) {
        in->at++;
        bool is_quoted = key.data[0] == '"' || key.data[0] == '\'';
        windlass_text name = is_quoted ? windlass_fake_yaml_unquoted(key) : key;
        if (name.data == NULL) {
            refuse(in, "the test host does not support an escape in ", key.data);
        }
        windlass_json_set_text(fields, name, field(in, rest, indent));
    }
    return fields;
}

// Reads the value that starts at the next line. The value is null if that line is indented less than `least`.
static windlass_json *node(reader *in, int least) {
    int indent;
    const char *text = peek(in, &indent);
    windlass_text key;
    const char *rest;
    if (text == NULL || indent < least) {
        return windlass_null();
    }
    if (is_item(text)) {
        return list(in, indent);
    }
    if (split_key(text, &key, &rest)) {
        return object(in, indent);
    }
    in->at++;
    return value_of(in, text, least - 1);
}

static void add_document(windlass_json *documents, reader *in) {
    int indent;
    if (peek(in, &indent) == NULL) {
        return;
    }
    windlass_json_add(documents, node(in, 0));
    const char *rest = peek(in, &indent);
    if (rest != NULL) {
        in->at++;
        refuse(in, rest, " does not belong to what is above it");
    }
}

// Copies the first line, without white space at its end. Returns the text after the line, or NULL.
static const char *cut_line(const char *text, char **line) {
    size_t length = strcspn(text, "\n");
    const char *rest = text[length] != 0 ? text + length + 1 : NULL;
    while (length > 0 && strchr(" \t\r", text[length - 1]) != NULL) {
        length--;
    }
    *line = (char *)(uintptr_t)windlass_text_copy((windlass_text){text, length}).data;
    return rest;
}

windlass_json *windlass_fake_yaml(const char *text) {
    if (text[strspn(text, " \t\r\n")] == '{') {
        windlass_json_error error;
        windlass_json *value = windlass_json_parse(windlass_text_of(text), &error);
        if (value == NULL) {
            windlass_trap(windlass_format("the definitions are not JSON: byte %zu: %s", error.offset, error.message));
        }
        return windlass_array(value);
    }
    windlass_json *documents = windlass_empty_array();
    size_t size = 1;
    for (const char *at = text; *at != 0; at++) {
        size += *at == '\n';
    }
    reader in = {.lines = windlass_alloc_array(size, sizeof *in.lines)};
    for (size_t i = 0; i < size; i++) {
        text = cut_line(text, &in.lines[i]);
    }
    for (; in.end <= size; in.end++) {
        bool is_mark = in.end == size || strcmp(in.lines[in.end], "---") == 0 || strncmp(in.lines[in.end], "--- ", 4) == 0;
        if (is_mark) {
            add_document(documents, &in);
            in.at = in.end + 1;
        }
    }
    return documents;
}

#else

typedef int windlass_no_yaml_in_a_component;

#endif
