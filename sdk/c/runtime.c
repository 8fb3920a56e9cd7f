// The environment of a call in the host. Time, randomness and output of the C library come from the host, and a call
// that cannot continue logs the reason.

#include "windlass_internal.h"

#ifdef __wasm__

#include <stdlib.h>

#define ADAPTER(name) __attribute__((__import_module__("wasi_snapshot_preview1"), __import_name__(name)))

ADAPTER("windlass_begin") extern void adapter_begin(int64_t time, int64_t seed, void *memory, uint32_t length);
ADAPTER("windlass_end") extern void adapter_end(void);

// Functions of the C library that are linked only if the plugin uses them. The first prints what is left in buffers,
// the second seeds `random`.
extern void __stdio_exit(void) __attribute__((__weak__));
extern void srandom(unsigned seed) __attribute__((__weak__));

void windlass_call_begin(void) {
    // The adapter keeps unfinished lines of output in this buffer.
    static char lent[2048];
    windlass_instant now = windlass_host_now();
    uint64_t seed = (uint64_t)windlass_host_random_u32() << 32;
    seed |= windlass_host_random_u32();
    int64_t time = (int64_t)now.seconds * 1000000000 + now.nanoseconds;
    adapter_begin(time, (int64_t)seed, lent, sizeof lent);
    srand((unsigned)seed);
    if (srandom) {
        srandom((unsigned)seed);
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
