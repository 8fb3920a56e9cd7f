//! The arguments of steps and the form of results, with WIT's names in
//! camelCase.

const std = @import("std");
const sdk = @import("sdk.zig");
const c = sdk.c;
const Json = sdk.Json;

pub fn ref(of: Json) c.windlass_ref {
    return .{
        .api_version = sdk.textIn(of, "apiVersion"),
        .kind = sdk.textIn(of, "kind"),
        .namespace = sdk.textIn(of, "namespace"),
        .name = sdk.textIn(of, "name"),
        .uid = sdk.textIn(of, "uid"),
    };
}

/// The target that a step names.
pub fn target(step: Json) c.windlass_ref {
    return ref(sdk.get(step, "target"));
}

pub fn optionalRef(of: Json) [*c]const c.windlass_ref {
    if (sdk.isNull(of)) return null;
    const kept = sdk.alloc(c.windlass_ref, 1);
    kept[0] = ref(of);
    return kept.ptr;
}

/// A list of texts that ends with null. Returns null if there is no list.
pub fn texts(of: Json) [*c]const [*c]const u8 {
    if (sdk.isNull(of)) return null;
    const list = sdk.alloc([*c]const u8, of.*.count + 1);
    var items = sdk.each(of);
    var index: usize = 0;
    while (items.next()) |item| : (index += 1) list[index] = item.*.text.data;
    return list.ptr;
}

pub fn pairs(of: Json) []c.windlass_field {
    const list = sdk.alloc(c.windlass_field, if (of == null) 0 else of.*.count);
    var items = sdk.each(of);
    var index: usize = 0;
    while (items.next()) |pair| : (index += 1) {
        list[index] = .{ .name = pair.*.first.*.text, .value = pair.*.last.*.text };
    }
    return list;
}

/// The index of a text in a list of words. Null if it is not in the list.
pub fn word(of: sdk.Text, words: []const []const u8) ?c_uint {
    for (words, 0..) |known, index| {
        if (sdk.is(of, known)) return @intCast(index);
    }
    return null;
}

pub fn event(of: Json) c.windlass_event {
    return .{
        .type = word(sdk.textIn(of, "eventType"), &.{ "normal", "warning" }).?,
        .reason = sdk.textIn(of, "reason"),
        .action = sdk.textIn(of, "action"),
        .note = sdk.textIn(of, "note"),
        .regarding = optionalRef(sdk.get(of, "regarding")),
        .related = optionalRef(sdk.get(of, "related")),
    };
}

fn reason(of: Json) c.windlass_reason {
    for (0..c.WINDLASS_OTHER + 1) |known| {
        if (c.windlass_text_is(sdk.textIn(of, "reason"), c.windlass_reason_name(@intCast(known)))) return @intCast(known);
    }
    @panic("conformance: there is no such reason");
}

pub fn apiError(of: Json) c.windlass_api_error {
    const object = sdk.get(of, "object");
    return .{
        .code = @intCast(sdk.numberIn(of, "code") orelse 0),
        .reason = reason(of),
        .status_reason = sdk.textIn(of, "statusReason"),
        .message = sdk.textIn(of, "message"),
        .has_retry_after = !sdk.isNull(sdk.get(of, "retryAfterMs")),
        .retry_after_ms = sdk.numberIn(of, "retryAfterMs") orelse 0,
        .verb = sdk.textIn(of, "verb"),
        .resource = sdk.textIn(of, "resource"),
        .has_object = !sdk.isNull(object),
        .object = ref(object),
    };
}

pub fn refShown(of: c.windlass_ref) Json {
    return sdk.value(.{ .apiVersion = of.api_version, .kind = of.kind, .namespace = of.namespace, .name = of.name, .uid = of.uid });
}

pub fn errorShown(of: sdk.Failure) Json {
    const failure = of.*;
    if (failure.kind != c.WINDLASS_ERROR_API) return sdk.value(.{ .message = failure.message });
    const api = failure.api;
    return sdk.value(.{
        .code = api.code,
        .reason = c.windlass_reason_name(api.reason),
        .statusReason = api.status_reason,
        .message = api.message,
        .retryAfterMs = if (api.has_retry_after) @as(?u32, api.retry_after_ms) else null,
        .verb = api.verb,
        .resource = api.resource,
        .object = if (api.has_object) refShown(api.object) else sdk.value(null),
    });
}
