// The host's functions for both kinds of plugins: the log, the time, randomness, the configuration.

#include "windlass_internal.h"

void windlass_log_fields(windlass_level level, windlass_text message, const windlass_field *fields, size_t count) {
    windlass_host_log(level, message, fields, count);
}

void windlass_log_texts(windlass_level level, const char *const *texts, size_t count) {
    windlass_field *fields = windlass_alloc_array(count, sizeof *fields);
    size_t used = 0;
    for (size_t i = 1; i + 1 < count; i += 2) {
        fields[used++] = (windlass_field){windlass_text_of(texts[i]), windlass_text_of(texts[i + 1] ? texts[i + 1] : "")};
    }
    windlass_host_log(level, windlass_text_of(texts[0] ? texts[0] : ""), fields, used);
}

_Noreturn void windlass_panic_at(const char *file, int line, const char *function, const char *message) {
    const char *stack = windlass_concat(function, " (", file, ":", windlass_decimal(line), ")");
    windlass_log(WINDLASS_ERROR, message, "stack", stack);
    windlass_trap(NULL);
}

windlass_instant windlass_clock_now(void) {
    return windlass_host_now();
}

static const char *two_digits(uint32_t number) {
    return windlass_concat(number < 10 ? "0" : "", windlass_decimal(number));
}

// Days since 1970 as a date, by counting eras of 400 years that begin in March (Hinnant, "chrono-compatible low-level date algorithms").
const char *windlass_instant_text(windlass_instant instant) {
    uint32_t time = instant.seconds % 86400;
    uint32_t days = instant.seconds / 86400 + 719468;
    uint32_t of_era = days % 146097;
    uint32_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint32_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint32_t shifted = (5 * of_year + 2) / 153;
    uint32_t day = of_year - (153 * shifted + 2) / 5 + 1;
    uint32_t month = shifted < 10 ? shifted + 3 : shifted - 9;
    uint32_t year = year_of_era + days / 146097 * 400 + (month <= 2);
    return windlass_concat(windlass_decimal(year), "-", two_digits(month), "-", two_digits(day), "T", two_digits(time / 3600), ":",
        two_digits(time / 60 % 60), ":", two_digits(time % 60), "Z");
}

uint32_t windlass_random_u32(void) {
    return windlass_host_random_u32();
}

void windlass_random_bytes(void *bytes, uint32_t length) {
    windlass_host_random_bytes(bytes, length);
}

windlass_json *windlass_config_get(void) {
    windlass_json *config = windlass_json_parse(windlass_host_config(), NULL);
    return config ? config : windlass_empty_object();
}

void windlass_compose_child(windlass_composition *composition, windlass_json *child) {
    windlass_json_add(composition->children, child);
}

void windlass_compose_event(windlass_composition *composition, const windlass_event *event) {
    size_t before = composition->event_count * sizeof *event;
    composition->events = windlass_regrow(composition->events, before, before + sizeof *event);
    composition->events[composition->event_count++] = *event;
}
