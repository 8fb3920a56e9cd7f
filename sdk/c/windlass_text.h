// Texts, and the memory that contains them.
//
// Everything that the SDK returns lives in the memory of the call, which is emptied when the call has ended: do not
// free it, and do not use it in a later call. Every text that the SDK returns has a null byte after its end, so
// `text.data` is a C string unless the text itself contains a null byte.
#ifndef WINDLASS_TEXT_H
#define WINDLASS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define WINDLASS_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#define WINDLASS_MUST_USE __attribute__((__warn_unused_result__))
#else
#define WINDLASS_PRINTF(text, first)
#define WINDLASS_MUST_USE
#endif

// A UTF-8 text, which may contain null bytes. If `data` is NULL, there is no text.
typedef struct windlass_text {
    const char *data;
    size_t length;
} windlass_text;

// No text.
#define WINDLASS_NONE ((windlass_text){NULL, 0})

// A literal as a text, also for constants.
#define WINDLASS_TEXT(literal) {"" literal, sizeof(literal) - 1}

static inline windlass_text windlass_text_of(const char *text) {
    return (windlass_text){text, text ? strlen(text) : 0};
}

static inline windlass_text windlass_text_same(windlass_text text) { return text; }

// A text from a C string or a text.
#define windlass_text(value)                \
    _Generic((value),                       \
        windlass_text: windlass_text_same,  \
        char *: windlass_text_of,           \
        const char *: windlass_text_of)(value)

// A missing text equals only another missing text.
bool windlass_text_equal(windlass_text one, windlass_text other);
bool windlass_text_is(windlass_text text, const char *other);
bool windlass_text_ends_with(windlass_text text, const char *end);
// Negative, zero or positive: the order of the bytes.
int windlass_text_compare(windlass_text one, windlass_text other);
// Trims white space at both ends: all White_Space characters of Unicode, as in Rust and Go.
windlass_text windlass_text_trimmed(windlass_text text);

// The text as valid UTF-8, so that it can be sent. U+FFFD replaces invalid bytes.
windlass_text windlass_text_valid(windlass_text text);

// --- The memory of the call ---

// Memory for this call, all zero. If there is no memory left, the call ends.
void *windlass_alloc(size_t size);
// Like `windlass_alloc`, for an array.
void *windlass_alloc_array(size_t count, size_t size);
// A copy with a null byte after its end.
windlass_text windlass_text_copy(windlass_text text);

// Like `sprintf`.
const char *windlass_format(const char *format, ...) WINDLASS_PRINTF(1, 2);
// Formats a decimal number. It adds less code than `sprintf`.
const char *windlass_decimal(int64_t number);
// All C strings concatenated: `windlass_concat("a ", kind, " of ", name)`.
#define windlass_concat(...) \
    windlass_concat_all((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))
const char *windlass_concat_all(const char *const *texts, size_t count);

// A text that grows.
typedef struct windlass_buffer {
    char *data;
    size_t length;
    size_t capacity;
} windlass_buffer;

void windlass_buffer_add(windlass_buffer *buffer, const char *data, size_t length);
void windlass_buffer_add_text(windlass_buffer *buffer, windlass_text text);
void windlass_buffer_add_byte(windlass_buffer *buffer, char byte);
// The content so far. It does not change until something is added.
windlass_text windlass_buffer_text(windlass_buffer *buffer);

// A mark in the memory of the call, for loops that need much memory. Releasing a mark frees everything allocated since;
// only errors reported by `windlass_fail` stay.
typedef struct windlass_mark {
    void *chunk;
    size_t used;
} windlass_mark;

windlass_mark windlass_memory_mark(void);
void windlass_memory_release(windlass_mark mark);

#endif
