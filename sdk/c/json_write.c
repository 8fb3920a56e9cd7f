// Prints JSON without recursion. The output is valid UTF-8, whatever bytes the texts contain.

#include "windlass_internal.h"

static const char HEX[] = "0123456789abcdef";

static void put_unit(windlass_buffer *out, uint32_t unit) {
    char escape[6] = {'\\', 'u', HEX[unit >> 12 & 15], HEX[unit >> 8 & 15], HEX[unit >> 4 & 15], HEX[unit & 15]};
    windlass_buffer_add(out, escape, sizeof escape);
}

static void put_ascii(windlass_buffer *out, char byte) {
    static const char values[] = "\"\\\b\f\n\r\t";
    static const char names[] = "\"\\bfnrt";
    const char *found = memchr(values, byte, sizeof values - 1);
    if (found != NULL) {
        char escape[2] = {'\\', names[found - values]};
        windlass_buffer_add(out, escape, sizeof escape);
    } else {
        put_unit(out, (unsigned char)byte);
    }
}

// Whether a byte needs an escape or a check, so that it cannot simply be copied.
static bool is_special(char byte) {
    unsigned char value = (unsigned char)byte;
    return value < 0x20 || value >= 0x80 || byte == '"' || byte == '\\';
}

static void put_string(windlass_buffer *out, windlass_text text) {
    windlass_buffer_add_byte(out, '"');
    size_t at = 0;
    while (at < text.length) {
        size_t plain = at;
        while (plain < text.length && !is_special(text.data[plain])) {
            plain++;
        }
        windlass_buffer_add(out, text.data + at, plain - at);
        at = plain;
        if (at == text.length) {
            break;
        }
        bool is_surrogate;
        size_t size = windlass_character(text.data + at, text.length - at, &is_surrogate);
        if (is_surrogate) {
            const unsigned char *bytes = (const unsigned char *)text.data + at;
            put_unit(out, 0xD000u | (bytes[1] & 0x3Fu) << 6 | (bytes[2] & 0x3Fu));
        } else if (size == 1) {
            put_ascii(out, text.data[at]);
        } else if (size == 0) {
            windlass_buffer_add(out, "\xEF\xBF\xBD", 3);
        } else {
            windlass_buffer_add(out, text.data + at, size);
        }
        at += size ? size : 1;
    }
    windlass_buffer_add_byte(out, '"');
}

static void put_word(windlass_buffer *out, const char *word) {
    windlass_buffer_add(out, word, strlen(word));
}

// Prints a value; of an array or object only the beginning.
static void put_begin(windlass_buffer *out, const windlass_json *value) {
    switch (value->type) {
        case WINDLASS_JSON_NULL: put_word(out, "null"); break;
        case WINDLASS_JSON_BOOL: put_word(out, value->boolean ? "true" : "false"); break;
        case WINDLASS_JSON_NUMBER: windlass_buffer_add_text(out, value->text); break;
        case WINDLASS_JSON_STRING: put_string(out, value->text); break;
        case WINDLASS_JSON_ARRAY: windlass_buffer_add_byte(out, '['); break;
        case WINDLASS_JSON_OBJECT: windlass_buffer_add_byte(out, '{'); break;
    }
}

static void put_key(windlass_buffer *out, const windlass_json *value) {
    if (value->parent->type == WINDLASS_JSON_OBJECT) {
        put_string(out, value->key);
        windlass_buffer_add_byte(out, ':');
    }
}

static void put_end(windlass_buffer *out, const windlass_json *value) {
    if (value->type >= WINDLASS_JSON_ARRAY) {
        windlass_buffer_add_byte(out, value->type == WINDLASS_JSON_ARRAY ? ']' : '}');
    }
}

windlass_text windlass_json_print(const windlass_json *root) {
    windlass_buffer out = {0};
    const windlass_json *value = root;
    if (root == NULL) {
        put_word(&out, "null");
    }
    while (value != NULL) {
        if (value != root) {
            put_key(&out, value);
        }
        put_begin(&out, value);
        if (value->first != NULL) {
            value = value->first;
            continue;
        }
        put_end(&out, value);
        while (value != root && value->next == NULL) {
            value = value->parent;
            put_end(&out, value);
        }
        if (value == root) {
            break;
        }
        windlass_buffer_add_byte(&out, ',');
        value = value->next;
    }
    return windlass_buffer_text(&out);
}
