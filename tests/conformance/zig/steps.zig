//! The steps that have results.

const std = @import("std");
const sdk = @import("sdk.zig");
const arguments = @import("arguments.zig");
const c = sdk.c;
const Json = sdk.Json;
const value = sdk.value;

/// The outcome of a step.
pub const Answer = union(enum) { ok: Json, failed: Json };

/// As results have it.
pub fn shown(answer: Answer) Json {
    return switch (answer) {
        .ok => |ok| value(.{ .ok = if (ok == null) value(null) else ok }),
        .failed => |failed| value(.{ .@"error" = failed }),
    };
}

/// The number of times that this instance has carried out `state`. Real plugins must not keep such state; the
/// probe shows whether an instance is reused.
var carried_out: u32 = 0;

const Call = enum {
    request, echo, state, language, stdout, stderr, connect, sleep, logger,
    @"cache.get", @"cache.get-many", @"cache.list", @"live.get", @"live.list", @"live.log", @"live.served", @"live.kinds",
    @"writes.create", @"writes.update", @"writes.apply", @"writes.patch", @"writes.delete", @"writes.batch",
    @"writes.delete-collection", @"writes.evict",
    @"owners.claim", @"triggers.list", @"events.emit", @"log.log", @"metrics.add", @"metrics.set", @"metrics.observe",
    @"config.get", @"clock.now", @"language.now", @"random.bytes", @"language.random", @"language.order",
    @"http.fetch", @"conditions.set", @"owner-reference", @"open-file",
};

pub fn carryOut(request: *const c.windlass_request, name: []const u8, step: Json) Answer {
    const call = std.meta.stringToEnum(Call, name) orelse @panic("conformance: there is no such call");
    return switch (call) {
        .@"cache.get", .@"live.get" => get(call == .@"cache.get", step),
        .@"cache.get-many" => getMany(step),
        .@"cache.list" => cacheList(sdk.get(step, "query")),
        .@"live.list" => liveList(sdk.get(step, "query")),
        .@"live.log" => liveLog(sdk.get(step, "query")),
        .@"live.served" => served(sdk.get(step, "kind")),
        .@"live.kinds" => kinds(),
        .@"writes.batch" => batch(step),
        .@"writes.delete-collection" => deleteCollection(step),
        .@"writes.evict" => objectOr(null, c.windlass_writes_evict(&arguments.target(step))),
        .@"writes.create", .@"writes.update", .@"writes.apply", .@"writes.patch", .@"writes.delete" => write(call, step),
        .@"owners.claim" => claim(step),
        .@"http.fetch" => fetch(sdk.get(step, "request")),
        .@"open-file" => openFile(step),
        else => .{ .ok = plain(request, call, step) },
    };
}

/// Steps that cannot fail.
fn plain(request: *const c.windlass_request, call: Call, step: Json) Json {
    switch (call) {
        .request => return value(.{
            .controller = request.controller, .namespace = request.namespace, .name = request.name, .uid = request.uid,
            .deleting = request.deleting, .attempt = request.attempt, .traceId = request.trace_id, .hasObject = request.object != null,
        }),
        .echo => return sdk.get(step, "value"),
        .state => {
            carried_out += 1;
            return value(carried_out);
        },
        .language => return language(),
        .stdout => print(1, step),
        .stderr => print(2, step),
        .connect => return value(.{ .unsupported = true }),
        .sleep => rest(sdk.numberIn(step, "ms").?),
        .@"log.log", .logger => {
            const fields = arguments.pairs(sdk.get(step, "fields"));
            c.windlass_log_fields(level(step), sdk.textIn(step, "message"), fields.ptr, fields.len);
        },
        .@"triggers.list" => return triggers(),
        .@"events.emit" => c.windlass_events_emit(&arguments.event(sdk.get(step, "event"))),
        .@"metrics.add", .@"metrics.set", .@"metrics.observe" => measure(call, step),
        .@"config.get" => return c.windlass_config_get(),
        .@"clock.now" => {
            const now = c.windlass_clock_now();
            return value(.{ .seconds = now.seconds, .nanoseconds = now.nanoseconds });
        },
        .@"language.now" => {
            const now = c.windlass_clock_now();
            return value(@as(u64, now.seconds) * 1000 + now.nanoseconds / 1_000_000);
        },
        .@"random.bytes" => return randomBytes(sdk.numberIn(step, "length").?),
        .@"language.random" => return draw(),
        .@"language.order" => return order(),
        .@"conditions.set" => return conditions(step),
        .@"owner-reference" => return c.windlass_owner_reference(sdk.get(step, "object")),
        else => unreachable,
    }
    return null;
}

fn level(step: Json) c_uint {
    return arguments.word(sdk.textIn(step, "level"), &.{ "trace", "debug", "info", "warn", "error" }).?;
}

fn objectOr(object: Json, failure: sdk.Failure) Answer {
    return if (failure == null) .{ .ok = object } else .{ .failed = arguments.errorShown(failure) };
}

// --- Reads ---

fn get(is_cache: bool, step: Json) Answer {
    const target = arguments.target(step);
    var object: Json = null;
    const failure = if (is_cache)
        c.windlass_cache_get(&target, arguments.texts(sdk.get(step, "fields")), &object)
    else
        c.windlass_live_get(&target, &.{ .subresource = sdk.textIn(step, "subresource"), .view = viewIn(step) }, &object);
    return objectOr(object, failure);
}

/// The word `metadata`, or an object with the fields.
fn viewIn(of: Json) c.windlass_view {
    if (sdk.is(sdk.textIn(of, "view"), "metadata")) return .{ .metadata_only = true };
    return .{ .fields = arguments.texts(sdk.get(sdk.get(of, "view"), "fields")) };
}

fn results(of: [*c]const c.windlass_result, count: usize) Answer {
    const all = sdk.array();
    for (0..count) |index| sdk.add(all, shown(objectOr(of[index].object, of[index].@"error")));
    return .{ .ok = all };
}

fn getMany(step: Json) Answer {
    const list = sdk.get(step, "targets");
    const targets = sdk.alloc(c.windlass_ref, list.*.count);
    var items = sdk.each(list);
    for (targets) |*target| target.* = arguments.ref(items.next().?);
    return results(c.windlass_cache_get_many(targets.ptr, targets.len, arguments.texts(sdk.get(step, "fields"))), targets.len);
}

fn listOr(list: *const c.windlass_list, failure: sdk.Failure) Answer {
    return objectOr(if (failure == null) c.windlass_json_array(list.items, list.count) else null, failure);
}

fn cacheList(query: Json) Answer {
    const kind = sdk.get(query, "kind");
    const index = sdk.get(query, "index");
    const asked = c.windlass_cache_query{
        .api_version = sdk.textIn(kind, "apiVersion"),
        .kind = sdk.textIn(kind, "kind"),
        .namespace = sdk.textIn(query, "namespace"),
        .label_selector = sdk.textIn(query, "labelSelector"),
        .index = .{ .name = sdk.textIn(index, "index"), .value = sdk.textIn(index, "value") },
        .owned = sdk.truthIn(query, "owned"),
        .fields = arguments.texts(sdk.get(query, "fields")),
        .limit = sdk.numberIn(query, "limit") orelse 0,
        .max_bytes = sdk.numberIn(query, "maxBytes") orelse 0,
        .page_token = sdk.textIn(query, "pageToken"),
    };
    var list: c.windlass_list = .{};
    return listOr(&list, c.windlass_cache_list(&asked, &list));
}

fn liveList(query: Json) Answer {
    const kind = sdk.get(query, "kind");
    const asked = c.windlass_live_query{
        .api_version = sdk.textIn(kind, "apiVersion"),
        .kind = sdk.textIn(kind, "kind"),
        .namespace = sdk.textIn(query, "namespace"),
        .label_selector = sdk.textIn(query, "labelSelector"),
        .field_selector = sdk.textIn(query, "fieldSelector"),
        .view = viewIn(query),
        .limit = sdk.numberIn(query, "limit") orelse 0,
        .page_token = sdk.textIn(query, "pageToken"),
    };
    var list: c.windlass_list = .{};
    return listOr(&list, c.windlass_live_list(&asked, &list));
}

fn liveLog(query: Json) Answer {
    const asked = c.windlass_log_query{
        .container = sdk.textIn(query, "container"),
        .previous = sdk.truthIn(query, "previous"),
        .tail_lines = sdk.numberIn(query, "tailLines") orelse 0,
        .since_ms = sdk.numberIn(query, "sinceMs") orelse 0,
        .limit_bytes = sdk.numberIn(query, "limitBytes") orelse 0,
    };
    var log: sdk.Text = sdk.none;
    const failure = c.windlass_live_log(&arguments.target(query), &asked, &log);
    return objectOr(if (failure == null) value(log) else null, failure);
}

fn textsShown(texts: [*c]const sdk.Text, count: usize) Json {
    const list = sdk.array();
    for (0..count) |index| sdk.add(list, texts[index]);
    return list;
}

fn served(kind: Json) Answer {
    var found: c.windlass_served_kind = .{};
    const failure = c.windlass_live_served(sdk.textIn(kind, "apiVersion"), sdk.textIn(kind, "kind"), &found);
    if (failure != null or found.resource.data == null) return objectOr(null, failure);
    return .{ .ok = servedShown(found) };
}

fn kinds() Answer {
    var found: c.windlass_listed_kinds = .{};
    const failure = c.windlass_live_kinds(&found);
    const list = sdk.array();
    for (0..found.count) |index| {
        const listed = found.items[index];
        sdk.add(list, .{ .kind = .{ .apiVersion = listed.api_version, .kind = listed.kind }, .served = servedShown(listed.served) });
    }
    return objectOr(list, failure);
}

fn servedShown(found: c.windlass_served_kind) Json {
    return value(.{
        .resource = found.resource,
        .namespaced = found.namespaced,
        .verbs = textsShown(found.verbs, found.verb_count),
        .subresources = textsShown(found.subresources, found.subresource_count),
    });
}

// --- Writes ---

fn writeOptions(step: Json) c.windlass_write_options {
    const options = sdk.get(step, "options");
    const subresource = sdk.get(options, "subresource");
    return .{
        .subresource = .{ .name = sdk.textIn(subresource, "name"), .parent = arguments.optionalRef(sdk.get(subresource, "parent")) },
        .resource_version = sdk.textIn(options, "resourceVersion"),
        .owned = sdk.truthIn(options, "owned"),
        .force = sdk.truthIn(options, "force"),
        .dry_run = sdk.truthIn(options, "dryRun"),
        .field_validation = arguments.word(sdk.textIn(options, "fieldValidation"), &.{ "strict", "warn", "ignore" }) orelse 0,
        .manager_suffix = sdk.textIn(options, "managerSuffix"),
        .fields = arguments.texts(sdk.get(options, "fields")),
    };
}

fn deleteOptions(step: Json) c.windlass_delete_options {
    const options = sdk.get(step, "options");
    return .{
        .resource_version = sdk.textIn(options, "resourceVersion"),
        .propagation = arguments.word(sdk.textIn(options, "propagation"), &.{ "background", "foreground", "orphan" }) orelse 0,
        .has_grace_period = sdk.numberIn(options, "gracePeriodMs") != null,
        .grace_period_ms = sdk.numberIn(options, "gracePeriodMs") orelse 0,
        .dry_run = sdk.truthIn(options, "dryRun"),
    };
}

fn patchType(step: Json) c_uint {
    return arguments.word(sdk.textIn(step, "patchType"), &.{ "merge", "json", "strategic" }) orelse 0;
}

fn write(call: Call, step: Json) Answer {
    const object = sdk.get(step, "object");
    const target = arguments.target(step);
    const options = writeOptions(step);
    var written: Json = null;
    const failure = switch (call) {
        .@"writes.create" => c.windlass_writes_create(object, &options, &written),
        .@"writes.update" => c.windlass_writes_update(object, &options, &written),
        .@"writes.apply" => c.windlass_writes_apply(object, &options, &written),
        .@"writes.patch" => c.windlass_writes_patch(&target, patchType(step), sdk.get(step, "patch"), &options, &written),
        else => c.windlass_writes_delete(&target, &deleteOptions(step), &written),
    };
    return objectOr(written, failure);
}

fn deleteCollection(step: Json) Answer {
    const given = sdk.get(step, "collection");
    const kind = sdk.get(given, "kind");
    const collection = c.windlass_collection{
        .api_version = sdk.textIn(kind, "apiVersion"),
        .kind = sdk.textIn(kind, "kind"),
        .namespace = sdk.textIn(given, "namespace"),
        .label_selector = sdk.textIn(given, "labelSelector"),
        .field_selector = sdk.textIn(given, "fieldSelector"),
        .all = sdk.truthIn(given, "all"),
    };
    var deleted: c.windlass_deleted = .{};
    const failure = c.windlass_writes_delete_collection(&collection, &deleteOptions(step), &deleted);
    if (failure != null or !deleted.is_known) return objectOr(null, failure);
    const all = sdk.array();
    for (0..deleted.count) |index| sdk.add(all, arguments.refShown(deleted.objects[index]));
    return .{ .ok = all };
}

fn batch(step: Json) Answer {
    const list = sdk.get(step, "operations");
    const operations = sdk.alloc(c.windlass_operation, list.*.count);
    var items = sdk.each(list);
    for (operations) |*operation| {
        const item = items.next().?;
        const op = arguments.word(sdk.textIn(item, "op"), &.{ "create", "update", "patch", "apply", "delete" }).?;
        operation.* = .{
            .type = op,
            .object = sdk.get(item, if (op == c.WINDLASS_PATCH) "patch" else "object"),
            .target = arguments.target(item),
            .patch_type = patchType(item),
            .options = writeOptions(item),
            .delete_options = deleteOptions(item),
        };
    }
    return results(c.windlass_writes_batch(operations.ptr, operations.len), operations.len);
}

// --- The other imports ---

fn claim(step: Json) Answer {
    const kind = sdk.get(step, "kind");
    var claimed: c.windlass_claimed = .{};
    var failures: c.windlass_failures = .{};
    if (c.windlass_owners_claim(sdk.textIn(kind, "apiVersion"), sdk.textIn(kind, "kind"), sdk.textIn(step, "labelSelector"), &claimed, &failures)) {
        const adopted, const released = .{ sdk.array(), sdk.array() };
        for (0..claimed.adopted_count) |index| sdk.add(adopted, arguments.refShown(claimed.adopted[index]));
        for (0..claimed.released_count) |index| sdk.add(released, arguments.refShown(claimed.released[index]));
        return .{ .ok = value(.{ .adopted = adopted, .released = released }) };
    }
    const errors = sdk.array();
    for (0..failures.count) |index| sdk.add(errors, arguments.errorShown(failures.errors[index]));
    return .{ .failed = value(.{ .errors = errors }) };
}

fn triggers() Json {
    const told = c.windlass_triggers_list();
    const list = sdk.array();
    for (0..told.count) |index| {
        const trigger = told.items[index];
        const object = if (trigger.has_object) arguments.refShown(trigger.object) else value(null);
        sdk.add(list, value(.{ .reason = trigger.reason, .watch = trigger.watch, .object = object }));
    }
    return list;
}

fn measure(call: Call, step: Json) void {
    var number: f64 = 0;
    _ = c.windlass_json_read_double(sdk.get(step, "value"), &number);
    const name = sdk.textIn(step, "name");
    const labels = arguments.pairs(sdk.get(step, "labels"));
    switch (call) {
        .@"metrics.add" => c.windlass_metrics_add(name, number, labels.ptr, labels.len),
        .@"metrics.set" => c.windlass_metrics_set(name, number, labels.ptr, labels.len),
        else => c.windlass_metrics_observe(name, number, labels.ptr, labels.len),
    }
}

fn fetch(given: Json) Answer {
    const headers = arguments.pairs(sdk.get(given, "headers"));
    const body = sdk.get(given, "body");
    const bytes = sdk.get(body, "bytes");
    var asked = c.windlass_http_request{
        .method = sdk.textIn(given, "method"),
        .url = sdk.textIn(given, "url"),
        .headers = headers.ptr,
        .header_count = headers.len,
        .body = sdk.textIn(body, "text"),
        .timeout_ms = sdk.numberIn(given, "timeoutMs") orelse 0,
    };
    if (bytes != null) {
        const copy = sdk.alloc(u8, bytes.*.count);
        var items = sdk.each(bytes);
        for (copy) |*byte| byte.* = @intCast(c.windlass_json_int_at(items.next().?, "", 0));
        asked.body = sdk.text(copy);
        asked.is_bytes = true;
    }
    var response: c.windlass_http_response = .{};
    var failure: c.windlass_http_error = .{};
    if (!c.windlass_http_fetch(&asked, &response, &failure)) {
        return .{ .failed = value(.{ .reason = c.windlass_http_reason_name(failure.reason), .message = failure.message }) };
    }
    return .{ .ok = value(.{ .status = response.status, .headers = headersShown(&response), .body = bodyShown(&response) }) };
}

fn headersShown(response: *const c.windlass_http_response) Json {
    const list = sdk.array();
    for (0..response.header_count) |index| {
        const pair = sdk.array();
        sdk.add(pair, response.headers[index].name);
        sdk.add(pair, response.headers[index].value);
        sdk.add(list, pair);
    }
    return list;
}

fn bodyShown(response: *const c.windlass_http_response) Json {
    if (!response.is_bytes) return value(.{ .text = response.body });
    const list = sdk.array();
    for (sdk.slice(response.body).?) |byte| sdk.add(list, byte);
    return value(.{ .bytes = list });
}

fn conditions(step: Json) Json {
    const list = sdk.get(step, "conditions");
    const condition = c.windlass_condition{
        .type = sdk.textIn(step, "type"),
        .status = arguments.word(sdk.textIn(step, "status"), &.{ "False", "True", "Unknown" }).?,
        .reason = sdk.textIn(step, "reason"),
        .message = sdk.textIn(step, "message"),
        .observed_generation = c.windlass_json_int_at(step, "/generation", 0),
    };
    c.windlass_conditions_set(list, &condition, c.windlass_clock_now);
    return list;
}

// --- The steps about the language ---

fn print(stream: c_int, step: Json) void {
    const out = if (stream == 1) c.stdout else c.stderr;
    const bytes = sdk.slice(sdk.textIn(step, "text")).?;
    _ = c.fwrite(bytes.ptr, 1, bytes.len, out);
}

fn openFile(step: Json) Answer {
    const file = c.fopen(sdk.textIn(step, "path").data, "r");
    if (file != null) return .{ .ok = value(true) };
    return .{ .failed = value(.{ .message = "the file cannot be opened" }) };
}

fn rest(milliseconds: u32) void {
    const time = c.struct_timespec{ .tv_sec = milliseconds / 1000, .tv_nsec = @intCast(milliseconds % 1000 * 1_000_000) };
    _ = c.nanosleep(&time, null);
}

fn randomBytes(length: u32) Json {
    var bytes: [64]u8 = undefined;
    c.windlass_random_bytes(&bytes, length);
    const list = sdk.array();
    for (bytes[0..length]) |byte| sdk.add(list, byte);
    return list;
}

/// Zig's generators need a seed, which the host provides.
fn draw() Json {
    var generator = std.Random.DefaultPrng.init(c.windlass_random_u32());
    const list = sdk.array();
    for (0..8) |_| sdk.add(list, generator.random().uintLessThan(u32, 1000));
    return list;
}

fn order() Json {
    var names: [50][]const u8 = undefined;
    for (&names, 0..) |*name, index| name.* = std.mem.span(c.windlass_concat_all(&[_][*c]const u8{ "k", c.windlass_decimal(@intCast(49 - index)) }, 2));
    std.mem.sort([]const u8, &names, {}, struct {
        fn less(_: void, one: []const u8, other: []const u8) bool {
            return std.mem.lessThan(u8, one, other);
        }
    }.less);
    const list = sdk.array();
    for (names) |name| sdk.add(list, name);
    return list;
}

fn language() Json {
    const memory: ?*anyopaque = c.calloc(1, 100);
    defer c.free(memory);
    var buffer: [16]u8 = undefined;
    const printed = std.fmt.bufPrint(&buffer, "{d:.2}|{x}", .{ 1.0 / 3.0, 255 }) catch "";
    return value(.{ .formats = std.mem.eql(u8, printed, "0.33|ff"), .memory = memory != null });
}
