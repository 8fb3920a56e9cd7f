// Texts and the memory that they live in.
//
// Everything that the SDK returns lives in the memory of the call, which is emptied when the call has ended: there is nothing to
// free, and nothing may be kept. Every text that the SDK returns has a null byte behind its end, so that `text.data` is a C string
// wherever the text holds no null byte itself.
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

// A text in UTF-8, which may hold null bytes. `data` is NULL: there is none.
typedef struct windlass_text {
    const char *data;
    size_t length;
} windlass_text;

// No text.
#define WINDLASS_NONE ((windlass_text){NULL, 0})

// A literal as a text, also where a constant is needed.
#define WINDLASS_TEXT(literal) {"" literal, sizeof(literal) - 1}

static inline windlass_text windlass_text_of(const char *text) {
    return (windlass_text){text, text ? strlen(text) : 0};
}

static inline windlass_text windlass_text_same(windlass_text text) { return text; }

// A text of a C string or of a text.
#define windlass_text(value)                \
    _Generic((value),                       \
        windlass_text: windlass_text_same,  \
        char *: windlass_text_of,           \
        const char *: windlass_text_of)(value)

// No text equals no text, and nothing else.
bool windlass_text_equal(windlass_text one, windlass_text other);
bool windlass_text_is(windlass_text text, const char *other);
bool windlass_text_ends_with(windlass_text text, const char *end);
// Negative, zero or positive, by bytes.
int windlass_text_compare(windlass_text one, windlass_text other);
// Without white space at both ends: all that is White_Space in Unicode, as in Rust and Go.
windlass_text windlass_text_trimmed(windlass_text text);

// The text as it may be sent: in valid UTF-8. What is none is replaced by U+FFFD.
windlass_text windlass_text_valid(windlass_text text);

// --- The memory of the call ---

// Memory for this call, all zero. It ends the call if there is none.
void *windlass_alloc(size_t size);
// The same for an array.
void *windlass_alloc_array(size_t count, size_t size);
// A copy, with a null byte behind its end.
windlass_text windlass_text_copy(windlass_text text);

// As `sprintf`.
const char *windlass_format(const char *format, ...) WINDLASS_PRINTF(1, 2);
// A number in decimals, without the weight of `sprintf`.
const char *windlass_decimal(int64_t number);
// All C strings one behind the other: `windlass_concat("a ", kind, " of ", name)`.
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
// What it holds so far. It stays as it is until something is added.
windlass_text windlass_buffer_text(windlass_buffer *buffer);

// A place in the memory of the call, for loops that need much of it: what was asked for since is given back. Only what was reported by
// `windlass_fail` stays.
typedef struct windlass_mark {
    void *chunk;
    size_t used;
} windlass_mark;

windlass_mark windlass_memory_mark(void);
void windlass_memory_release(windlass_mark mark);

#endif
