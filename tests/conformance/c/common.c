// The steps that both the composing and the reconciling probe support.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "probe.h"

// The number of times that this instance has carried out `state`. Real plugins must not keep such state; the probe
// shows whether an instance is reused.
static int64_t carried_out;

static windlass_json *request_shown(const windlass_request *request, bool has_object) {
    return windlass_object(
        {"controller", windlass_string(request->controller)},
        {"namespace", windlass_string(request->namespace)},
        {"name", windlass_string(request->name)},
        {"uid", windlass_string(request->uid)},
        {"deleting", windlass_bool(request->deleting)},
        {"attempt", windlass_int(request->attempt)},
        {"traceId", windlass_string(request->trace_id)},
        {"hasObject", windlass_bool(has_object)});
}

static windlass_level level_in(const windlass_json *step) {
    static const char *const levels[] = {"trace", "debug", "info", "warn", "error", NULL};
    int level = word_in(step, "level", levels);
    if (level < 0) {
        windlass_panic("conformance: there is no such level");
    }
    return (windlass_level)level;
}

static void write_line(const windlass_json *step) {
    size_t count;
    const windlass_field *fields = pairs_in(step, "fields", &count);
    windlass_log_fields(level_in(step), text_in(step, "message"), fields, count);
}

static void use_logger(const windlass_json *step) {
    size_t count;
    const windlass_field *fields = pairs_in(step, "fields", &count);
    const char *message = text_in(step, "message").data;
    windlass_level level = level_in(step);
    if (count == 0) {
        windlass_log(level, message);
    } else if (count == 1) {
        windlass_log(level, message, "name", fields[0].value.data);
    } else {
        windlass_log(level, message, "name", fields[0].value.data, "count", fields[1].value.data);
    }
}

static windlass_json *print_to(FILE *stream, windlass_text text) {
    fwrite(text.data, 1, text.length, stream);
    return windlass_null();
}

static windlass_json *now_shown(void) {
    windlass_instant now = windlass_clock_now();
    return windlass_object({"seconds", windlass_uint(now.seconds)}, {"nanoseconds", windlass_uint(now.nanoseconds)});
}

static windlass_json *bytes_shown(uint32_t length) {
    unsigned char bytes[64];
    windlass_json *list = windlass_empty_array();
    length = length < sizeof bytes ? length : sizeof bytes;
    windlass_random_bytes(bytes, length);
    for (uint32_t i = 0; i < length; i++) {
        windlass_json_add(list, windlass_int(bytes[i]));
    }
    return list;
}

static windlass_json *draw(void) {
    windlass_json *list = windlass_empty_array();
    for (int i = 0; i < 8; i++) {
        windlass_json_add(list, windlass_int(rand() % 1000));
    }
    return list;
}

static int by_text(const void *one, const void *other) {
    return windlass_text_compare(*(const windlass_text *)one, *(const windlass_text *)other);
}

// C has no maps, so the keys are sorted.
static windlass_json *order(void) {
    windlass_text keys[50];
    for (int i = 0; i < 50; i++) {
        keys[i] = windlass_text(windlass_concat("k", windlass_decimal(49 - i)));
    }
    qsort(keys, 50, sizeof *keys, by_text);
    windlass_json *list = windlass_empty_array();
    for (int i = 0; i < 50; i++) {
        windlass_json_add(list, windlass_string(keys[i]));
    }
    return list;
}

static windlass_json *language(void) {
    char text[32];
    snprintf(text, sizeof text, "%05d %.2f", 42, 1.0 / 3);
    char *memory = calloc(1, 1000);
    bool has_memory = memory != NULL && memory[999] == 0;
    free(memory);
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    windlass_instant now = windlass_clock_now();
    return windlass_object(
        {"formats", windlass_bool(strcmp(text, "00042 0.33") == 0)},
        {"memory", windlass_bool(has_memory)},
        {"time", windlass_bool(at.tv_sec == (time_t)now.seconds)});
}

static struct answer open_file(windlass_text path) {
    FILE *file = fopen(path.data, "r");
    if (file != NULL) {
        fclose(file);
        return good(windlass_bool(true));
    }
    return (struct answer){NULL, windlass_object({"message", windlass_string(strerror(errno))})};
}

static windlass_json *rest(uint32_t milliseconds) {
    struct timespec time = {.tv_sec = milliseconds / 1000, .tv_nsec = (long)(milliseconds % 1000) * 1000000};
    nanosleep(&time, NULL);
    return windlass_null();
}

// C has no function for these steps.
static windlass_json *unsupported(void) {
    return windlass_object({"unsupported", windlass_bool(true)});
}

static bool language_call(windlass_text call, const windlass_json *step, struct answer *answer) {
    if (windlass_text_is(call, "language.now")) {
        windlass_instant now = windlass_clock_now();
        *answer = good(windlass_int((int64_t)now.seconds * 1000 + now.nanoseconds / 1000000));
    } else if (windlass_text_is(call, "language.random")) {
        *answer = good(draw());
    } else if (windlass_text_is(call, "language.order")) {
        *answer = good(order());
    } else if (windlass_text_is(call, "language")) {
        *answer = good(language());
    } else if (windlass_text_is(call, "state")) {
        *answer = good(windlass_int(++carried_out));
    } else if (windlass_text_is(call, "open-file")) {
        *answer = open_file(text_in(step, "path"));
    } else if (windlass_text_is(call, "connect")) {
        *answer = good(unsupported());
    } else if (windlass_text_is(call, "sleep")) {
        *answer = good(rest(number_in(step, "ms", 0)));
    } else {
        return false;
    }
    return true;
}

bool common_call(const windlass_request *request, windlass_text call, const windlass_json *step, struct answer *answer) {
    if (windlass_text_is(call, "request")) {
        *answer = good(request_shown(request, request->object != NULL));
    } else if (windlass_text_is(call, "log.log")) {
        write_line(step);
        *answer = good(NULL);
    } else if (windlass_text_is(call, "logger")) {
        use_logger(step);
        *answer = good(NULL);
    } else if (windlass_text_is(call, "stdout")) {
        *answer = good(print_to(stdout, text_in(step, "text")));
    } else if (windlass_text_is(call, "stderr")) {
        *answer = good(print_to(stderr, text_in(step, "text")));
    } else if (windlass_text_is(call, "config.get")) {
        *answer = good(windlass_config_get());
    } else if (windlass_text_is(call, "clock.now")) {
        *answer = good(now_shown());
    } else if (windlass_text_is(call, "random.bytes")) {
        *answer = good(bytes_shown(number_in(step, "length", 0)));
    } else if (windlass_text_is(call, "echo")) {
        *answer = good(windlass_json_get(step, "value"));
    } else {
        return language_call(call, step, answer);
    }
    return true;
}
