// The environment of a call in the host. Time, randomness and output of the C library come from the host, and a call
// that cannot continue logs the reason.

#include "windlass_internal.h"

#ifdef __wasm__

#include <stdlib.h>

#define ADAPTER(name) __attribute__((__import_module__("wasi_snapshot_preview1"), __import_name__(name)))

ADAPTER("windlass_enter") extern int64_t adapter_enter(void *memory, uint32_t length);
ADAPTER("windlass_end") extern void adapter_end(void);

// Functions of the C library that are linked only if the plugin uses them. The first prints what is left in buffers,
// the other seeds `random`.
extern void __stdio_exit(void) __attribute__((__weak__));
extern void srandom(unsigned seed) __attribute__((__weak__));

// `rand` replaces the C library's, because zig links that one into every plugin. Whether a plugin uses it could not be
// seen, and if it were seeded in each call, the host would take each call for one that depends on random data.
static struct {
    bool is_seeded;
    uint64_t state;
} generator;

void srand(unsigned seed) {
    generator.is_seeded = true;
    generator.state = seed;
}

int rand(void) {
    if (!generator.is_seeded) {
        srand(windlass_host_random_u32());
    }
    // SplitMix64.
    uint64_t mixed = generator.state += 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return (int)((mixed ^ (mixed >> 31)) >> 33);
}

_Static_assert(RAND_MAX == 0x7fffffff, "rand returns 31 bits");

void windlass_call_begin(void) {
    // The adapter keeps unfinished lines of output in this buffer.
    static char lent[2048];
    adapter_enter(lent, sizeof lent);
    generator.is_seeded = false;
    if (srandom) {
        srandom(windlass_host_random_u32());
    }
}

void windlass_call_end(void) {
    if (__stdio_exit) {
        __stdio_exit();
    }
    adapter_end();
}

_Noreturn void windlass_trap(const char *why) {
    windlass_call_end();
    if (why != NULL) {
        windlass_host_log(WINDLASS_ERROR, windlass_text_of(why), NULL, 0);
    }
    __builtin_trap();
}

_Noreturn void windlass_abort(void) {
    windlass_trap("the plugin called abort");
}

_Noreturn void windlass_assert_fail(const char *expression, const char *file, int line, const char *function) {
    windlass_panic_at(file, line, function ? function : "?", windlass_concat("assertion failed: ", expression));
}

#else

// A native build needs no code here, because test_runner.c ends its calls.
typedef int windlass_nothing_to_do_natively;

#endif
