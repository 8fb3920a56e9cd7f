// Parses JSON (RFC 8259) without recursion, so that no document can exhaust the stack.

#include "windlass_internal.h"

typedef struct reader {
    const char *at;
    const char *end;
    const char *problem;
    size_t depth;
} reader;

static bool fail(reader *in, const char *problem) {
    in->problem = in->problem ? in->problem : problem;
    return false;
}

static void skip_space(reader *in) {
    while (in->at < in->end && (*in->at == ' ' || *in->at == '\n' || *in->at == '\t' || *in->at == '\r')) {
        in->at++;
    }
}

static bool is_next(const reader *in, char byte) {
    return in->at < in->end && *in->at == byte;
}

static bool take(reader *in, char byte) {
    bool is_there = is_next(in, byte);
    in->at += is_there;
    return is_there;
}

static int hex_digit(char byte) {
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    char lower = (char)(byte | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Four hexadecimal digits.
static bool read_unit(reader *in, uint32_t *unit) {
    *unit = 0;
    for (int i = 0; i < 4; i++, in->at++) {
        int digit = in->at < in->end ? hex_digit(*in->at) : -1;
        if (digit < 0) {
            return fail(in, "four hexadecimal digits must follow \\u");
        }
        *unit = *unit * 16 + (uint32_t)digit;
    }
    return true;
}

static char *put_character(char *out, uint32_t character) {
    if (character < 0x80) {
        *out++ = (char)character;
        return out;
    }
    if (character < 0x800) {
        *out++ = (char)(0xC0 | character >> 6);
    } else if (character < 0x10000) {
        *out++ = (char)(0xE0 | character >> 12);
        *out++ = (char)(0x80 | (character >> 6 & 0x3F));
    } else {
        *out++ = (char)(0xF0 | character >> 18);
        *out++ = (char)(0x80 | (character >> 12 & 0x3F));
        *out++ = (char)(0x80 | (character >> 6 & 0x3F));
    }
    *out++ = (char)(0x80 | (character & 0x3F));
    return out;
}

// Reads the digits after `\u`. A surrogate without its other half is kept as three bytes, and printed as an escape
// again.
static bool read_escaped_unit(reader *in, char **out) {
    uint32_t character;
    if (!read_unit(in, &character)) {
        return false;
    }
    if (character >= 0xD800 && character < 0xDC00 && in->end - in->at >= 6 && in->at[0] == '\\' && in->at[1] == 'u') {
        reader ahead = {in->at + 2, in->end, NULL, 0};
        uint32_t low;
        if (read_unit(&ahead, &low) && low >= 0xDC00 && low < 0xE000) {
            character = 0x10000 + ((character - 0xD800) << 10) + (low - 0xDC00);
            in->at = ahead.at;
        }
    }
    *out = put_character(*out, character);
    return true;
}

static bool read_escape(reader *in, char **out) {
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    if (in->at == in->end) {
        return fail(in, "a string has no end");
    }
    char name = *in->at++;
    if (name == 'u') {
        return read_escaped_unit(in, out);
    }
    const char *found = memchr(names, name, sizeof names - 1);
    if (found == NULL) {
        return fail(in, "an escape that JSON does not have");
    }
    *(*out)++ = values[found - names];
    return true;
}

// Returns the end of the string that begins here, or NULL if the string does not end. Sets whether it has escapes.
static const char *end_of_string(const reader *in, bool *has_escapes) {
    *has_escapes = false;
    for (const char *at = in->at; at < in->end; at++) {
        if (*at == '"') {
            return at;
        }
        if (*at == '\\') {
            *has_escapes = true;
            at++;
        }
    }
    return NULL;
}

// Reads a string, starting after its opening quote.
static bool read_string(reader *in, windlass_text *text) {
    bool has_escapes;
    const char *end = end_of_string(in, &has_escapes);
    if (end == NULL) {
        return fail(in, "a string has no end");
    }
    // An escape is never shorter than its character, so the length of the escaped text is enough.
    size_t length = (size_t)(end - in->at);
    char *copy = windlass_alloc_raw(length + 1);
    char *out = copy;
    if (!has_escapes) {
        memcpy(copy, in->at, length);
        out += length;
    }
    for (const char *at = in->at; at < end; at++) {
        if ((unsigned char)*at < 0x20) {
            in->at = at;
            return fail(in, "a control character within a string");
        }
    }
    while (has_escapes && in->at < end) {
        if (*in->at != '\\') {
            *out++ = *in->at++;
            continue;
        }
        in->at++;
        if (!read_escape(in, &out)) {
            return false;
        }
    }
    *out = 0;
    in->at = end + 1;
    *text = (windlass_text){copy, (size_t)(out - copy)};
    return true;
}

static bool read_digits(reader *in) {
    const char *first = in->at;
    while (in->at < in->end && *in->at >= '0' && *in->at <= '9') {
        in->at++;
    }
    return in->at > first || fail(in, "a digit must follow");
}

static bool read_number(reader *in, windlass_text *text) {
    const char *first = in->at;
    take(in, '-');
    if (take(in, '0')) {
        if (in->at < in->end && *in->at >= '0' && *in->at <= '9') {
            return fail(in, "a number begins with 0");
        }
    } else if (!read_digits(in)) {
        return false;
    }
    if (take(in, '.') && !read_digits(in)) {
        return false;
    }
    if (in->at < in->end && (*in->at | 0x20) == 'e') {
        in->at++;
        if (!take(in, '+')) {
            take(in, '-');
        }
        if (!read_digits(in)) {
            return false;
        }
    }
    *text = windlass_text_copy((windlass_text){first, (size_t)(in->at - first)});
    return true;
}

static bool read_word(reader *in, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(in->end - in->at) < length || memcmp(in->at, word, length) != 0) {
        return fail(in, "a value must follow");
    }
    in->at += length;
    return true;
}

// Reads a value; of an array or object only the beginning.
static windlass_json *read_value(reader *in) {
    windlass_json *value = windlass_alloc(sizeof *value);
    bool is_good = false;
    skip_space(in);
    switch (in->at < in->end ? *in->at : 0) {
        case '{':
        case '[':
            value->type = *in->at == '{' ? WINDLASS_JSON_OBJECT : WINDLASS_JSON_ARRAY;
            in->at++;
            is_good = ++in->depth <= WINDLASS_JSON_DEPTH || fail(in, "arrays and objects are nested too deeply");
            break;
        case '"':
            value->type = WINDLASS_JSON_STRING;
            in->at++;
            is_good = read_string(in, &value->text);
            break;
        case 't':
        case 'f':
            value->type = WINDLASS_JSON_BOOL;
            value->boolean = *in->at == 't';
            is_good = read_word(in, value->boolean ? "true" : "false");
            break;
        case '-': case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8': case '9':
            value->type = WINDLASS_JSON_NUMBER;
            is_good = read_number(in, &value->text);
            break;
        default:
            is_good = read_word(in, "null");
    }
    return is_good ? value : NULL;
}

static bool read_key(reader *in, windlass_text *key) {
    skip_space(in);
    if (!take(in, '"')) {
        return fail(in, "a member's name must follow");
    }
    if (!read_string(in, key)) {
        return false;
    }
    skip_space(in);
    return take(in, ':') || fail(in, "a colon must follow");
}

static void append(windlass_json *parent, windlass_json *value) {
    value->parent = parent;
    *(parent->last ? &parent->last->next : &parent->first) = value;
    parent->last = value;
    parent->count++;
}

static char closing(const windlass_json *container) {
    return container->type == WINDLASS_JSON_OBJECT ? '}' : ']';
}

// Closes all arrays and objects that end here. Returns the innermost array or object that stays open, which needs
// another element or member. Returns NULL at the end of the document, or after an error.
static windlass_json *close_all(reader *in, windlass_json *open) {
    while (open != NULL) {
        skip_space(in);
        if (open->count > 0 && take(in, ',')) {
            return open;
        }
        if (!take(in, closing(open))) {
            if (open->count == 0) {
                return open;
            }
            fail(in, "a comma or the end must follow");
            return NULL;
        }
        in->depth--;
        open = open->parent;
    }
    return NULL;
}

static windlass_json *read_document(reader *in) {
    windlass_json *root = read_value(in);
    bool is_container = root != NULL && root->type >= WINDLASS_JSON_ARRAY;
    windlass_json *open = is_container ? close_all(in, root) : NULL;
    while (open != NULL) {
        windlass_text key = WINDLASS_NONE;
        if (open->type == WINDLASS_JSON_OBJECT && !read_key(in, &key)) {
            return NULL;
        }
        windlass_json *value = read_value(in);
        if (value == NULL) {
            return NULL;
        }
        value->key = key;
        append(open, value);
        open = close_all(in, value->type >= WINDLASS_JSON_ARRAY ? value : open);
    }
    if (root == NULL || in->problem != NULL) {
        return NULL;
    }
    skip_space(in);
    return in->at == in->end || fail(in, "there is more text after the value") ? root : NULL;
}

windlass_json *windlass_json_parse(windlass_text text, windlass_json_error *error) {
    reader in = {text.data, text.data ? text.data + text.length : NULL, NULL, 0};
    windlass_json *root = read_document(&in);
    if (root == NULL && error != NULL) {
        error->message = in.at == in.end ? "it ends too early" : in.problem;
        error->offset = text.data ? (size_t)(in.at - text.data) : 0;
    }
    return root;
}
