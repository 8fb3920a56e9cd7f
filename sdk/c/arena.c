// The memory of the call. Allocations cut pieces off a chunk, and the end of the call frees all of them at once.
//
// The first chunk is part of the module, so most calls need no memory from `malloc`. Values that the host passes are
// stored here too, through `cabi_realloc`.
//
// Data that must outlive a release within the call (reported errors, and the state of the unit tests' host) is in a
// second arena of the same kind.

#include <stdlib.h>

#include "windlass_internal.h"

enum { FIRST = 48 * 1024, NEXT = 256 * 1024, NEXT_KEPT = 16 * 1024, ALIGNMENT = 8 };

typedef struct chunk {
    struct chunk *before;
    size_t size;
} chunk;

static _Alignas(ALIGNMENT) unsigned char first[FIRST];

// The current chunk: the first one, or the last one that was allocated.
typedef struct arena {
    chunk *current;
    unsigned char *base;
    size_t size;
    size_t used;
} arena;

static arena passing = {.base = first, .size = FIRST};
static arena kept;
// The arena that allocations use now.
static arena *in = &passing;

// The header's size, rounded up so that the memory after it is aligned.
static const size_t HEADER = (sizeof(chunk) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

static void cut_from(arena *of, chunk *from) {
    bool has_first = of == &passing;
    of->current = from;
    of->base = from ? (unsigned char *)from + HEADER : has_first ? first : NULL;
    of->size = from ? from->size : has_first ? FIRST : 0;
}

static void grow(size_t wanted) {
    size_t usual = in == &passing ? NEXT : NEXT_KEPT;
    size_t length = wanted > usual ? wanted : usual;
    chunk *next = length <= SIZE_MAX - HEADER ? malloc(HEADER + length) : NULL;
    if (next == NULL) {
        windlass_trap("the call ran out of memory");
    }
    next->before = in->current;
    next->size = length;
    cut_from(in, next);
    in->used = 0;
}

static unsigned char *cut(size_t length) {
    if (length > SIZE_MAX - ALIGNMENT) {
        windlass_trap("the call ran out of memory");
    }
    size_t whole = (length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (in->base == NULL || whole > in->size - in->used) {
        grow(whole);
    }
    unsigned char *piece = in->base + in->used;
    in->used += whole;
    return piece;
}

void *windlass_alloc(size_t length) {
    return memset(cut(length), 0, length);
}

void *windlass_alloc_array(size_t count, size_t each) {
    if (each != 0 && count > SIZE_MAX / each) {
        windlass_trap("the call ran out of memory");
    }
    return windlass_alloc(count * each);
}

void *windlass_alloc_raw(size_t length) {
    return cut(length);
}

void *windlass_regrow(void *piece, size_t before, size_t after) {
    unsigned char *old = piece;
    size_t whole = (before + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    // The last piece can grow in place.
    if (old != NULL && in->base != NULL && old + whole == in->base + in->used && after <= SIZE_MAX - ALIGNMENT) {
        size_t wanted = (after + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (wanted <= in->size - (size_t)(old - in->base)) {
            in->used = (size_t)(old - in->base) + wanted;
            return old;
        }
    }
    unsigned char *new = cut(after);
    if (before != 0) {
        memcpy(new, old, before < after ? before : after);
    }
    return new;
}

windlass_mark windlass_memory_mark(void) {
    return (windlass_mark){passing.current, passing.used};
}

static void release(arena *of, windlass_mark mark) {
    while (of->current != mark.chunk) {
        chunk *last = of->current;
        cut_from(of, last->before);
        free(last);
    }
    of->used = mark.used;
}

void windlass_memory_release(windlass_mark mark) {
    release(&passing, mark);
}

bool windlass_memory_keep(bool keep) {
    bool before = in == &kept;
    in = keep ? &kept : &passing;
    return before;
}

void windlass_memory_clear(void) {
    in = &passing;
    release(&passing, (windlass_mark){NULL, 0});
    release(&kept, (windlass_mark){NULL, 0});
}

#ifdef __wasm__
// Replaces the bindings' function: the host's data is freed with the call, and each text is followed by a null byte.
__attribute__((__export_name__("cabi_realloc"))) void *cabi_realloc(void *piece, size_t before, size_t alignment, size_t after) {
    // No value from the host needs a larger alignment than the arena's.
    (void)alignment;
    unsigned char *new = windlass_regrow(piece, before, after + 1);
    new[after] = 0;
    return new;
}
#endif
