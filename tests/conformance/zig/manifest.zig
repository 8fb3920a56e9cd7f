//! The manifest, as tests/conformance/manifest.json has it.

const c = @import("sdk.zig").c;

const purpose = "conformance.windlass.dev/for";

fn texts(comptime list: []const [*c]const u8) [*c]const [*c]const u8 {
    return ended([*c]const u8, list, null);
}

/// The C SDK's lists end with an empty element.
fn ended(comptime T: type, comptime list: []const T, comptime end: T) [*c]const T {
    const whole = comptime blk: {
        var all: [list.len + 1]T = undefined;
        for (list, 0..) |item, index| all[index] = item;
        all[list.len] = end;
        break :blk all;
    };
    return &whole;
}

const counted = c.windlass_metric{ .name = "counted_total", .type = c.WINDLASS_COUNTER, .help = "What was counted.", .labels = texts(&.{"color"}) };
const level = c.windlass_metric{ .name = "level", .type = c.WINDLASS_GAUGE, .help = "What was found last." };
const bounds = [_]f64{ 1.5, 10 };
const sizes = c.windlass_metric{
    .name = "sizes",
    .type = c.WINDLASS_HISTOGRAM,
    .help = "What was measured.",
    .buckets = .{ .values = &bounds, .count = bounds.len },
};

fn watch(comptime api_version: [*c]const u8, comptime kind: [*c]const u8) c.windlass_watch {
    return .{ .api_version = api_version, .kind = kind };
}

const secrets = c.windlass_watch{ .api_version = "v1", .kind = "Secret", .field_selector = "type=Opaque" };

const endpoints = c.windlass_watch{ .name = "mapped", .api_version = "v1", .kind = "Endpoints", .code_predicate = true };

const controller = c.windlass_controller{
    .name = "conformance",
    .primary = .{
        .api_version = "conformance.windlass.dev/v1",
        .kind = "Conformance",
        .call_fields = texts(&.{"/spec"}),
        .predicates = ended(c.windlass_predicate, &.{
            .{ .type = c.WINDLASS_PREDICATE_GENERATION },
            .{ .type = c.WINDLASS_PREDICATE_LABELS },
            .{ .type = c.WINDLASS_PREDICATE_FIELDS, .pointers = texts(&.{"/spec/steps"}) },
        }, .{}),
        .indexes = ended(c.windlass_index, &.{.{ .name = "secrets", .pointer = "/spec/secrets" }}, .{}),
    },
    .owns = ended(c.windlass_watch, &.{
        .{
            .api_version = "v1",
            .kind = "ConfigMap",
            .label_selector = "conformance=yes",
            .namespaces = texts(&.{ "prod", "test" }),
            .projection = .{ .type = c.WINDLASS_PROJECTION_FIELDS, .pointers = texts(&.{"/data"}) },
            .indexes = ended(c.windlass_index, &.{.{ .name = "tier", .label = "tier" }}, .{}),
        },
        .{ .api_version = "apps/v1", .kind = "Deployment", .projection = .{ .type = c.WINDLASS_PROJECTION_METADATA } },
    }, .{}),
    .watches = ended(c.windlass_mapped_watch, &.{
        .{ .watch = secrets, .mapping = .{ .type = c.WINDLASS_MAPPING_REFERENCED_BY, .value = "secrets" } },
        .{ .watch = watch("v1", "Service"), .mapping = .{ .type = c.WINDLASS_MAPPING_LABEL, .value = purpose } },
        .{ .watch = watch("v1", "Pod"), .mapping = .{ .type = c.WINDLASS_MAPPING_ANNOTATION, .value = purpose } },
        .{ .watch = watch("v1", "PersistentVolumeClaim"), .mapping = .{ .type = c.WINDLASS_MAPPING_FIELD, .value = "/spec/volumeName" } },
        .{ .watch = watch("v1", "ServiceAccount"), .mapping = .{ .type = c.WINDLASS_MAPPING_SAME_NAME } },
        .{ .watch = watch("v1", "Namespace"), .mapping = .{ .type = c.WINDLASS_MAPPING_ALL } },
        .{ .watch = endpoints, .mapping = .{ .type = c.WINDLASS_MAPPING_MAPPER } },
    }, .{}),
    .options = .{
        .workers = 2,
        .max_retries = 5,
        .backoff = .{ .base_ms = 10, .max_ms = 60000 },
        .resync_ms = 3600000,
        .deadline_ms = 20000,
        .finalizer = true,
        .expectation_timeout = c.WINDLASS_EXPECTATION_RUN,
        .without_saved_calls = true,
    },
};

pub const manifest = c.windlass_manifest{
    .name = "conformance",
    .version = "0.1.0",
    .description = "Does what its primary says, in every language alike.",
    .controllers = ended(c.windlass_controller, &.{controller}, .{}),
    .permissions = ended(c.windlass_permission, &.{
        .{
            .api_groups = texts(&.{""}),
            .resources = texts(&.{"configmaps"}),
            .verbs = texts(&.{ "get", "create", "patch", "delete" }),
            .namespaces = texts(&.{"prod"}),
        },
        .{
            .api_groups = texts(&.{"apps"}),
            .resources = texts(&.{"deployments/scale"}),
            .verbs = texts(&.{"patch"}),
            .names = texts(&.{"web"}),
        },
    }, .{}),
    .metrics = ended([*c]const c.windlass_metric, &.{ &counted, &level, &sizes }, null),
    .http = ended(c.windlass_http_access, &.{
        .{ .scheme = c.WINDLASS_HTTPS, .host = "api.example.com", .port = 8443, .methods = texts(&.{ "GET", "POST" }) },
    }, .{}),
    .config_schema = "{\"type\": \"object\", \"properties\": {\"greeting\": {\"type\": \"string\"}}}",
    .finalizers = texts(&.{"conformance.windlass.dev/old"}),
};
