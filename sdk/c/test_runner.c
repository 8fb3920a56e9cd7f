// Runs unit tests: `main`, and the code that ends calls and tests.

#ifndef __wasm__

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include "windlass_test_internal.h"

static windlass_test_case *tests;
static jmp_buf end_of_test;
// The place where execution continues after a call is ended, and the reason.
static jmp_buf end_of_call;
static bool is_to_end;
static const char *reason_of_end;

void windlass_test_register(windlass_test_case *test) {
    windlass_test_case **last = &tests;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = test;
}

void windlass_test_fail_check(const char *file, int line, const char *expression, const char *detail) {
    fprintf(stderr, "  %s:%d: %s%s%s\n", file, line, expression, detail ? " is " : "", detail ? detail : "");
    longjmp(end_of_test, 1);
}

void windlass_test_check_text(const char *file, int line, const char *expression, windlass_text text, const char *expected) {
    if (!windlass_text_is(text, expected)) {
        const char *detail = windlass_concat(text.data ? windlass_text_copy(text).data : "none", ", not ", expected);
        windlass_test_fail_check(file, line, expression, detail);
    }
}

_Noreturn void windlass_trap(const char *why) {
    if (is_to_end) {
        reason_of_end = why ? why : windlass_fake_last_line();
        longjmp(end_of_call, 1);
    }
    fprintf(stderr, "  the call ended: %s\n", why ? why : "panic");
    longjmp(end_of_test, 1);
}

const char *windlass_test_end_of(void (*run)(void)) {
    reason_of_end = NULL;
    is_to_end = true;
    if (setjmp(end_of_call) == 0) {
        run();
    }
    is_to_end = false;
    windlass_memory_keep(false);
    return reason_of_end;
}

static bool passes(const windlass_test_case *test) {
    is_to_end = false;
    windlass_fake_reset();
    if (setjmp(end_of_test) != 0) {
        return false;
    }
    test->run();
    return true;
}

// Runs all tests, or those whose name contains the argument.
int main(int count, char **arguments) {
    int failed = 0;
    int run = 0;
    for (const windlass_test_case *test = tests; test != NULL; test = test->next) {
        if (count > 1 && strstr(test->name, arguments[1]) == NULL) {
            continue;
        }
        run++;
        bool is_good = passes(test);
        failed += !is_good;
        printf("%s %s\n", is_good ? "ok    " : "FAILED", test->name);
    }
    windlass_fake_reset();
    printf("%d of %d tests passed\n", run - failed, run);
    return failed == 0 && run > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#else

typedef int windlass_no_runner_in_a_component;

#endif
