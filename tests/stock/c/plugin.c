// A plugin on the bare interface. Its types are those of wit/; C lays them out like the canonical ABI. `wit-bindgen c`
// could generate all of them.
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEXT(literal) ((text){(char *)(literal), sizeof(literal) - 1})

typedef struct {
    char *at;
    size_t length;
} text;
typedef struct {
    bool is_some;
    text value;
} optional_text;
typedef struct {
    bool is_some;
    uint32_t value;
} optional_number;
typedef struct {
    optional_text cluster;
    text api_version, kind;
    optional_text namespace;
    text name;
    optional_text uid;
} object_ref;
typedef struct {
    bool is_some;
    object_ref value;
} optional_object_ref;
typedef struct {
    uint16_t code;
    uint8_t reason;
    text status_reason, message;
    optional_number retry_after_ms;
    text verb, resource;
    optional_object_ref object;
} api_error;
typedef struct {
    text message;
    struct {
        bool is_some;
        api_error value;
    } api;
    bool terminal;
    optional_number retry_after_ms;
} failure;
typedef struct {
    text controller;
    optional_text cluster, namespace;
    text name;
    optional_text uid, object;
    bool deleting;
    uint32_t attempt;
    text trace_id;
} reconcile_request;
typedef struct {
    bool failed;
    union {
        optional_number requeue_after_ms;
        struct {
            failure *at;
            size_t length;
        } failures;
    };
} reconciled;
typedef struct {
    text object;
    struct {
        bool is_some;
        text name;
        optional_object_ref parent;
    } subresource;
    optional_text resource_version;
    bool owned, force, dry_run;
    uint8_t field_validation;
    optional_text manager_suffix;
} apply_arguments;
typedef struct {
    bool failed;
    union {
        text object;
        api_error error;
    };
} applied;

__attribute__((import_module("windlass:plugin/writes@0.2.0"), import_name("apply"))) void apply(const apply_arguments *, applied *);

// Allocates memory for the host's data.
__attribute__((export_name("cabi_realloc"))) void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
    (void)old_size, (void)align;
    void *memory = realloc(old, size);
    if (memory == NULL && size > 0) abort();
    return memory;
}

static void release(text it) {
    if (it.length > 0) free(it.at);
}

static void release_optional(optional_text it) {
    if (it.is_some) release(it.value);
}

static void release_request(const reconcile_request *it) {
    release(it->controller), release(it->name), release(it->trace_id);
    release_optional(it->cluster), release_optional(it->namespace), release_optional(it->uid), release_optional(it->object);
}

__attribute__((export_name("windlass:plugin/reconciler@0.2.0#describe"))) const text *describe(void) {
    static const text manifest =
        TEXT("{\"apiVersion\":\"windlass.dev/v1alpha1\",\"kind\":\"PluginManifest\",\"name\":\"stock-c\",\"version\":\"0.1.0\",\"controllers\":["
             "{\"name\":\"stock\",\"primary\":{\"apiVersion\":\"apps.kubedojo.io/v1beta1\",\"kind\":\"WebApp\"},"
             "\"owns\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}]}]}");
    return &manifest;
}

__attribute__((export_name("windlass:plugin/reconciler@0.2.0#reconcile"))) const reconciled *reconcile(const reconcile_request *request) {
    static reconciled answer;
    static failure failed;
    static char body[1024];
    FILE *file = fopen("/etc/hostname", "r");
    const char *said = file != NULL ? "opened" : strerror(errno);
    uint32_t drawn;
    if (getentropy(&drawn, sizeof drawn) != 0) abort();
    text name = request->name, namespace = request->namespace.value;
    printf("for %.*s at %lld drew %08x, and /etc/hostname: %s\n", (int)name.length, name.at, (long long)time(NULL), (unsigned)drawn, said);
    // Standard output is not a terminal, so the C library would keep the line in its buffer.
    fflush(stdout);
    int length = snprintf(body, sizeof body,
                          "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"%.*s-stock-c\",\"namespace\":\"%.*s\"},"
                          "\"data\":{\"file\":\"%s\"}}",
                          (int)name.length, name.at, (int)namespace.length, namespace.at, file != NULL ? "opened" : "refused");
    applied result;
    apply(&(apply_arguments){.object = {body, (size_t)length}, .owned = true}, &result);
    release_request(request);
    answer = (reconciled){.failed = result.failed};
    if (result.failed) {
        failed = (failure){.api = {true, result.error}};
        answer.failures.at = &failed, answer.failures.length = 1;
    } else {
        release(result.object);
    }
    return &answer;
}
