// Compares, checks and concatenates texts.

#include "windlass_internal.h"

#include <stdarg.h>
#include <stdio.h>

bool windlass_text_equal(windlass_text one, windlass_text other) {
    if (one.data == NULL || other.data == NULL) {
        return one.data == other.data;
    }
    return one.length == other.length && memcmp(one.data, other.data, one.length) == 0;
}

bool windlass_text_is(windlass_text text, const char *other) {
    return windlass_text_equal(text, windlass_text_of(other));
}

bool windlass_text_ends_with(windlass_text text, const char *end) {
    size_t length = strlen(end);
    return text.length >= length && memcmp(text.data + text.length - length, end, length) == 0;
}

int windlass_text_compare(windlass_text one, windlass_text other) {
    size_t shorter = one.length < other.length ? one.length : other.length;
    int order = shorter ? memcmp(one.data, other.data, shorter) : 0;
    return order != 0 ? order : (one.length > other.length) - (one.length < other.length);
}

// Whether these bytes are one character of Unicode's White_Space.
static bool is_white(const char *at, size_t length) {
    const unsigned char *bytes = (const unsigned char *)at;
    if (length == 1) {
        return *at == ' ' || (*at >= '\t' && *at <= '\r');
    }
    if (length == 2) {
        return bytes[0] == 0xc2 && (bytes[1] == 0x85 || bytes[1] == 0xa0);
    }
    switch (bytes[0] << 16 | bytes[1] << 8 | bytes[2]) {
    case 0xe19a80: // U+1680
    case 0xe280a8: // U+2028
    case 0xe280a9: // U+2029
    case 0xe280af: // U+202F
    case 0xe2819f: // U+205F
    case 0xe38080: // U+3000
        return true;
    default: // U+2000 to U+200A
        return bytes[0] == 0xe2 && bytes[1] == 0x80 && bytes[2] >= 0x80 && bytes[2] <= 0x8a;
    }
}

// The number of bytes of the white-space character at the beginning or at the end; 0 if there is
// none.
static size_t white_at(windlass_text text, bool is_end) {
    for (size_t length = 1; length <= 3 && length <= text.length; length++) {
        if (is_white(is_end ? text.data + text.length - length : text.data, length)) {
            return length;
        }
    }
    return 0;
}

windlass_text windlass_text_trimmed(windlass_text text) {
    size_t white;
    while ((white = white_at(text, false)) > 0) {
        text.data += white;
        text.length -= white;
    }
    size_t length = text.length;
    while ((white = white_at((windlass_text){text.data, length}, true)) > 0) {
        length -= white;
    }
    // The copy is needed for the null byte after its end.
    return length == text.length ? text : windlass_text_copy((windlass_text){text.data, length});
}

size_t windlass_character(const char *at, size_t length, bool *is_surrogate) {
    const unsigned char *bytes = (const unsigned char *)at;
    unsigned char first = bytes[0];
    *is_surrogate = false;
    if (first < 0x80) {
        return 1;
    }
    size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || size > length) {
        return 0;
    }
    for (size_t i = 1; i < size; i++) {
        if ((bytes[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    bool is_overlong = (first == 0xE0 && bytes[1] < 0xA0) || (first == 0xF0 && bytes[1] < 0x90);
    bool is_too_large = first == 0xF4 && bytes[1] > 0x8F;
    *is_surrogate = first == 0xED && bytes[1] > 0x9F;
    return is_overlong || is_too_large ? 0 : size;
}

// The length of the valid UTF-8 at the beginning of a text.
static size_t valid_length(windlass_text text) {
    size_t at = 0;
    while (at < text.length) {
        bool is_surrogate;
        size_t size = windlass_character(text.data + at, text.length - at, &is_surrogate);
        if (size == 0 || is_surrogate) {
            break;
        }
        at += size;
    }
    return at;
}

windlass_text windlass_text_valid(windlass_text text) {
    size_t good = valid_length(text);
    if (good == text.length) {
        return text;
    }
    windlass_buffer buffer = {0};
    while (text.length > 0) {
        windlass_buffer_add(&buffer, text.data, good);
        text.data += good;
        text.length -= good;
        if (text.length > 0) {
            bool is_surrogate;
            size_t bad = windlass_character(text.data, text.length, &is_surrogate);
            windlass_buffer_add(&buffer, "\xEF\xBF\xBD", 3);
            bad = bad == 0 ? 1 : bad;
            text.data += bad;
            text.length -= bad;
            good = valid_length(text);
        }
    }
    return windlass_buffer_text(&buffer);
}

windlass_text windlass_text_copy(windlass_text text) {
    if (text.data == NULL) {
        return text;
    }
    char *copy = windlass_alloc_raw(text.length + 1);
    memcpy(copy, text.data, text.length);
    copy[text.length] = 0;
    return (windlass_text){copy, text.length};
}

const char *windlass_format(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *text = windlass_format_list(format, arguments);
    va_end(arguments);
    return text;
}

const char *windlass_format_list(const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0) {
        return "";
    }
    char *text = windlass_alloc_raw((size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    return text;
}

const char *windlass_decimal(int64_t number) {
    char *end = (char *)windlass_alloc(24) + 23;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do {
        *--end = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (number < 0) {
        *--end = '-';
    }
    return end;
}

const char *windlass_concat_all(const char *const *texts, size_t count) {
    windlass_buffer buffer = {0};
    for (size_t i = 0; i < count; i++) {
        windlass_buffer_add(&buffer, texts[i] ? texts[i] : "", texts[i] ? strlen(texts[i]) : 0);
    }
    return windlass_buffer_text(&buffer).data;
}

// Makes room for this many more bytes, and the null byte after them.
static void reserve(windlass_buffer *buffer, size_t more) {
    if (more > SIZE_MAX / 2 - buffer->length - 1) {
        windlass_trap("the call ran out of memory");
    }
    size_t wanted = buffer->length + more + 1;
    if (wanted > buffer->capacity) {
        size_t capacity = buffer->capacity < 32 ? 64 : buffer->capacity * 2;
        capacity = capacity < wanted ? wanted : capacity;
        buffer->data = windlass_regrow(buffer->data, buffer->capacity, capacity);
        buffer->capacity = capacity;
    }
}

void windlass_buffer_add(windlass_buffer *buffer, const char *data, size_t length) {
    if (length > 0) {
        reserve(buffer, length);
        memcpy(buffer->data + buffer->length, data, length);
        buffer->length += length;
    }
}

void windlass_buffer_add_text(windlass_buffer *buffer, windlass_text text) {
    windlass_buffer_add(buffer, text.data, text.length);
}

void windlass_buffer_add_byte(windlass_buffer *buffer, char byte) {
    reserve(buffer, 1);
    buffer->data[buffer->length++] = byte;
}

windlass_text windlass_buffer_text(windlass_buffer *buffer) {
    reserve(buffer, 0);
    buffer->data[buffer->length] = 0;
    return (windlass_text){buffer->data, buffer->length};
}
