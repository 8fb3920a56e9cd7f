// The probe of the conformance suite, in C. It carries out the steps in its primary, each through the SDK's public
// functions.
//
// tests/conformance/README.md lists the steps. A step that cannot be read is a mistake in the suite, and panics.
#ifndef PROBE_H
#define PROBE_H

#include <windlass.h>

// The outcome of a step: a value or an error.
struct answer {
    windlass_json *ok;
    windlass_json *error;
};

static inline struct answer good(windlass_json *value) {
    return (struct answer){value ? value : windlass_null(), NULL};
}

// The outcome in the form of the results.
windlass_json *shown(struct answer answer);

// How a step ends the call.
struct ending {
    bool has_ended;
    windlass_outcome outcome;
};

// Each of these functions carries out a step if it knows the call, and returns false otherwise.
bool common_call(const windlass_request *request, windlass_text call, const windlass_json *step, struct answer *answer);
bool read_call(windlass_text call, const windlass_json *step, struct answer *answer);
bool write_call(windlass_text call, const windlass_json *step, struct answer *answer);
bool outside_call(windlass_text call, const windlass_json *step, struct answer *answer);
// These functions carry out steps that end a call.
struct ending common_end(windlass_text call, const windlass_json *step, windlass_failures *failures);
struct ending reading_end(windlass_text call, const windlass_json *step, windlass_failures *failures);
// Panics with a message, in a function named `deepest`.
void raise_with(windlass_text message);

// --- The arguments of steps ---

windlass_text text_in(const windlass_json *step, const char *name);
uint32_t number_in(const windlass_json *step, const char *name, uint32_t otherwise);
bool truth_in(const windlass_json *step, const char *name);
windlass_ref ref_in(const windlass_json *value);
// The list of texts in the argument `name`. The list ends with NULL. Returns NULL if there is no list.
const char *const *texts_in(const windlass_json *step, const char *name);
// The list of pairs in the argument `name`.
windlass_field *pairs_in(const windlass_json *step, const char *name, size_t *count);
// The index of the word in the argument `name`, in a list of words that ends with NULL. Returns -1 if the word is
// not in the list.
int word_in(const windlass_json *step, const char *name, const char *const *words);
windlass_event event_in(const windlass_json *value);
windlass_api_error api_error_in(const windlass_json *value);

// --- The form of results ---

windlass_json *ref_shown(const windlass_ref *ref);
windlass_json *api_error_shown(const windlass_api_error *error);
windlass_json *error_shown(const windlass_error *error);
// An object, or the error if there is none.
struct answer object_or(windlass_json *object, const windlass_error *error);

#endif
