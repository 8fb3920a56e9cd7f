#include "probe.h"

#define FOR "conformance.windlass.dev/for"

static const windlass_metric counted = {
    .name = "counted_total", .type = WINDLASS_COUNTER, .help = "What was counted.", .labels = WINDLASS_TEXTS("color")};
static const windlass_metric level = {.name = "level", .type = WINDLASS_GAUGE, .help = "What was found last."};
static const windlass_metric sizes = {
    .name = "sizes", .type = WINDLASS_HISTOGRAM, .help = "What was measured.", .buckets = WINDLASS_NUMBERS(1.5, 10)};

static const windlass_manifest manifest = {
    .name = "conformance",
    .version = "0.1.0",
    .description = "Does what its primary says, in every language alike.",
    .controllers = WINDLASS_CONTROLLERS({
        .name = "conformance",
        .primary =
            {
                .api_version = "conformance.windlass.dev/v1",
                .kind = "Conformance",
                .call_fields = WINDLASS_TEXTS("/spec"),
                .predicates = WINDLASS_PREDICATES(WINDLASS_WHEN_GENERATION, WINDLASS_WHEN_LABELS, WINDLASS_WHEN_FIELDS("/spec/steps")),
                .indexes = WINDLASS_INDEXES(WINDLASS_INDEX_FIELD("secrets", "/spec/secrets")),
            },
        .owns = WINDLASS_WATCHES(
            {
                .api_version = "v1",
                .kind = "ConfigMap",
                .label_selector = "conformance=yes",
                .namespaces = WINDLASS_TEXTS("prod", "test"),
                .projection = WINDLASS_KEEP_FIELDS("/data"),
                .indexes = WINDLASS_INDEXES(WINDLASS_INDEX_LABEL("tier", "tier")),
            },
            {.api_version = "apps/v1", .kind = "Deployment", .projection = WINDLASS_KEEP_METADATA}),
        .watches = WINDLASS_MAPPED_WATCHES(
            {{.api_version = "v1", .kind = "Secret", .field_selector = "type=Opaque"}, WINDLASS_MAP_REFERENCED_BY("secrets")},
            {{.api_version = "v1", .kind = "Service"}, WINDLASS_MAP_LABEL(FOR)},
            {{.api_version = "v1", .kind = "Pod"}, WINDLASS_MAP_ANNOTATION(FOR)},
            {{.api_version = "v1", .kind = "PersistentVolumeClaim"}, WINDLASS_MAP_FIELD("/spec/volumeName")},
            {{.api_version = "v1", .kind = "ServiceAccount"}, WINDLASS_MAP_SAME_NAME},
            {{.api_version = "v1", .kind = "Namespace"}, WINDLASS_MAP_ALL},
            {{.name = "mapped", .api_version = "v1", .kind = "Endpoints", .code_predicate = true}, WINDLASS_MAP_MAPPER}),
        .options =
            {
                .workers = 2,
                .max_retries = 5,
                .backoff = {.base_ms = 10, .max_ms = 60000},
                .resync_ms = 3600000,
                .deadline_ms = 20000,
                .finalizer = true,
                .expectation_timeout = WINDLASS_EXPECTATION_RUN,
                .without_saved_calls = true,
            },
    }),
    .permissions = WINDLASS_PERMISSIONS(
        {
            .api_groups = WINDLASS_TEXTS(""),
            .resources = WINDLASS_TEXTS("configmaps"),
            .verbs = WINDLASS_TEXTS("get", "create", "patch", "delete"),
            .namespaces = WINDLASS_TEXTS("prod"),
        },
        {
            .api_groups = WINDLASS_TEXTS("apps"),
            .resources = WINDLASS_TEXTS("deployments/scale"),
            .verbs = WINDLASS_TEXTS("patch"),
            .names = WINDLASS_TEXTS("web"),
        }),
    .metrics = WINDLASS_METRICS(&counted, &level, &sizes),
    .http = WINDLASS_HTTP_HOSTS(
        {.scheme = WINDLASS_HTTPS, .host = "api.example.com", .port = 8443, .methods = WINDLASS_TEXTS("GET", "POST")}),
    .config_schema = WINDLASS_JSON({"type": "object", "properties": {"greeting": {"type": "string"}}}),
    .finalizers = WINDLASS_TEXTS("conformance.windlass.dev/old"),
};

static struct answer carry_out(const windlass_request *request, windlass_text call, const windlass_json *step) {
    struct answer answer;
    if (!common_call(request, call, step, &answer) && !read_call(call, step, &answer) && !write_call(call, step, &answer)
        && !outside_call(call, step, &answer)) {
        windlass_panic("conformance: there is no call %s", call.data ? call.data : "without a name");
    }
    return answer;
}

static windlass_outcome reconcile(const windlass_request *request, windlass_failures *failures) {
    if (request->object == NULL) {
        return WINDLASS_DONE;
    }
    windlass_json *results = windlass_empty_array();
    windlass_json_each(step, windlass_json_at(request->object, "/spec/steps")) {
        windlass_text call = text_in(step, "call");
        struct ending end = common_end(call, step, failures);
        end = end.has_ended ? end : reading_end(call, step, failures);
        if (end.has_ended) {
            return end.outcome;
        }
        windlass_json_add(results, shown(carry_out(request, call, step)));
    }
    windlass_json *report = windlass_object(
        {"apiVersion", windlass_string("v1")},
        {"kind", windlass_string("ConfigMap")},
        {"metadata", windlass_object({"name", windlass_string("report")})},
        {"results", results});
    return windlass_fail(failures, windlass_writes_create(report, NULL, NULL));
}

WINDLASS_RECONCILER(manifest, reconcile);
