// The steps that end a call, in both the composing and the reconciling probe.

#include <stdlib.h>

#include "probe.h"

#define NOT_INLINE __attribute__((__noinline__))

static void add(windlass_failures *failures, const windlass_error *error, const char *message) {
    windlass_fail(failures, message == NULL ? error : windlass_wrap(error, message));
}

static void fail(windlass_failures *failures, const windlass_json *list, const char *message) {
    windlass_json_each(failure, list) {
        windlass_text transient = text_in(failure, "transient");
        windlass_text terminal = text_in(failure, "terminal");
        bool has_delay = !windlass_json_is_null(windlass_json_get(failure, "afterMs"));
        if (transient.data != NULL && has_delay) {
            add(failures, windlass_transient_text_after_ms(number_in(failure, "afterMs", 0), transient), message);
        } else if (transient.data != NULL) {
            add(failures, windlass_transient_text(transient), message);
        } else if (terminal.data != NULL) {
            add(failures, windlass_terminal_text(terminal), message);
        } else {
            windlass_api_error error = api_error_in(windlass_json_get(failure, "api"));
            add(failures, windlass_api(&error), message);
        }
    }
}

NOT_INLINE static void deepest(const char *message) {
    windlass_panic("%s", message);
}

NOT_INLINE static void deeper(const char *message) {
    deepest(message);
}

void raise_with(windlass_text message) {
    deeper(message.data);
}

static void spin(void) {
    for (volatile unsigned turns = 0;; turns++) {
    }
}

static void grow(void) {
    enum { MEBIBYTE = 1 << 20 };
    for (;;) {
        char *piece = malloc(MEBIBYTE);
        if (piece == NULL) {
            windlass_panic("there is no more memory");
        }
        memset(piece, 1, MEBIBYTE);
        // This use keeps the compiler from removing the memory.
        *(volatile char *)piece = 2;
    }
}

NOT_INLINE static int recurse(volatile int *depth) {
    volatile int here = *depth + 1;
    return here != 0 ? recurse(&here) + here : 0;
}

struct ending common_end(windlass_text call, const windlass_json *step, windlass_failures *failures) {
    struct ending ending = {true, WINDLASS_DONE};
    if (windlass_text_is(call, "requeue-after")) {
        ending.outcome = windlass_requeue_after_ms(number_in(step, "ms", 0));
    } else if (windlass_text_is(call, "requeue-backoff")) {
        ending.outcome = windlass_requeue_with_backoff();
    } else if (windlass_text_is(call, "fail")) {
        fail(failures, windlass_json_get(step, "failures"), text_in(step, "message").data);
    } else if (windlass_text_is(call, "raise")) {
        raise_with(text_in(step, "message"));
    } else if (windlass_text_is(call, "spin")) {
        spin();
    } else if (windlass_text_is(call, "grow")) {
        grow();
    } else if (windlass_text_is(call, "recurse")) {
        volatile int depth = 0;
        ending.outcome.requeue_after_ms = (uint32_t)recurse(&depth);
    } else {
        ending.has_ended = false;
    }
    return ending;
}
