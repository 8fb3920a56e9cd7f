//! The probe's own mapper: each state of a changed object lists the primaries that the change concerns, and says
//! whether the change counts.

const sdk = @import("sdk.zig");
const arguments = @import("arguments.zig");
const ends = @import("ends.zig");
const c = sdk.c;

/// The SDK calls these functions.
export const windlass_plugin_mapper = c.windlass_mapper{ .map = map, .matches = matches };

fn map(change: [*c]const c.windlass_change, targets: [*c]c.windlass_targets, failures: [*c]c.windlass_failures) callconv(.c) void {
    for ([_]sdk.Json{ change.*.old, change.*.new }) |state| {
        const spec = sdk.get(state, "spec");
        const fail = sdk.textIn(spec, "fail");
        if (fail.data != null) _ = c.windlass_fail(failures, c.windlass_transient_text(fail));
        if (sdk.slice(sdk.textIn(spec, "raise"))) |message| ends.deeper(message);
        var list = sdk.each(sdk.get(spec, "targets"));
        while (list.next()) |target| add(targets, target);
        if (sdk.get(spec, "target") != null) addRead(targets, spec, failures);
        if (sdk.truthIn(spec, "tellWatch")) c.windlass_map_indexed(targets, "watch", change.*.watch);
    }
}

fn matches(change: [*c]const c.windlass_change, failures: [*c]c.windlass_failures) callconv(.c) bool {
    var counts = true;
    for ([_]sdk.Json{ change.*.old, change.*.new }) |state| {
        if (state == null) continue;
        const spec = sdk.get(state, "spec");
        const fail = sdk.textIn(spec, "failMatches");
        if (fail.data != null) _ = c.windlass_fail(failures, c.windlass_transient_text(fail));
        if (sdk.slice(sdk.textIn(spec, "raiseMatches"))) |message| ends.deeper(message);
        const watch = sdk.textIn(spec, "matches");
        counts = watch.data == null or c.windlass_text_equal(watch, change.*.watch);
    }
    return counts;
}

fn add(targets: [*c]c.windlass_targets, target: sdk.Json) void {
    const index = sdk.textIn(target, "index");
    if (index.data != null) {
        c.windlass_map_indexed(targets, index.data, sdk.textIn(target, "value"));
    } else {
        c.windlass_map_primary(targets, sdk.textIn(target, "namespace"), sdk.textIn(target, "name"));
    }
}

/// Adds the primary that a cached object names, if the object exists.
fn addRead(targets: [*c]c.windlass_targets, spec: sdk.Json, failures: [*c]c.windlass_failures) void {
    var object: sdk.Json = null;
    const target = arguments.target(spec);
    const failure = c.windlass_cache_get(&target, null, &object);
    if (failure != null) {
        _ = c.windlass_fail(failures, failure);
    } else if (object != null) {
        c.windlass_map_primary(targets, sdk.text("prod"), sdk.textIn(sdk.get(object, "data"), "primary"));
    }
}

// The exports. In C, the macro WINDLASS_MAPPER defines them.

export fn @"windlass:plugin/mapper@0.3.0#map"(
    controller: [*c]u8,
    controller_length: usize,
    watch: [*c]u8,
    watch_length: usize,
    changes: [*c]u8,
    count: usize,
) [*c]u8 {
    return c.__wasm_export_exports_windlass_plugin_mapper_map(controller, controller_length, watch, watch_length, changes, count);
}

export fn @"cabi_post_windlass:plugin/mapper@0.3.0#map"(answer: [*c]u8) void {
    c.__wasm_export_exports_windlass_plugin_mapper_map_post_return(answer);
}

export fn @"windlass:plugin/mapper@0.3.0#matches"(
    controller: [*c]u8,
    controller_length: usize,
    watch: [*c]u8,
    watch_length: usize,
    changes: [*c]u8,
    count: usize,
) [*c]u8 {
    return c.__wasm_export_exports_windlass_plugin_mapper_matches(controller, controller_length, watch, watch_length, changes, count);
}

export fn @"cabi_post_windlass:plugin/mapper@0.3.0#matches"(answer: [*c]u8) void {
    c.__wasm_export_exports_windlass_plugin_mapper_matches_post_return(answer);
}
