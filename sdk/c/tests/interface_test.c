// Checks that the bindings were generated from the current interface. This works only in Windlass's repository: an
// author's copy of the SDK has no interface beside it.

#include <stdio.h>

#include <windlass_test.h>

// The FNV-1a hash of all files of the interface, one after another.
static const uint64_t BINDINGS_ARE_OF = 2222855221627785524u;

// The tests may be run from this repository's root, or from the SDK's folder.
static FILE *open_interface(const char *file) {
    FILE *in = fopen(windlass_concat("wit/", file), "rb");
    return in ? in : fopen(windlass_concat("../../wit/", file), "rb");
}

static uint64_t digest_of(const char *file, uint64_t digest) {
    FILE *in = open_interface(file);
    WINDLASS_CHECK(in != NULL);
    for (int byte = fgetc(in); byte != EOF; byte = fgetc(in)) {
        digest = (digest ^ (uint64_t)byte) * 1099511628211u;
    }
    fclose(in);
    return digest;
}

WINDLASS_TEST(the_bindings_match_the_current_interface) {
    static const char *const files[] = {"cache", "clock", "composer", "config", "customize", "events", "http", "live", "log", "mapper", "metrics",
        "owners", "random", "reconciler", "runtime", "script", "triggers", "types", "world", "writes"};
    uint64_t digest = 14695981039346656037u;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        digest = digest_of(windlass_concat(files[i], ".wit"), digest);
    }
    if (digest != BINDINGS_ARE_OF) {
        fprintf(stderr, "  generate the bindings again, as README.md says, and put their digest here: %lluu\n", (unsigned long long)digest);
    }
    WINDLASS_CHECK(digest == BINDINGS_ARE_OF);
}
