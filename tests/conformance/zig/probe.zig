//! The probe of the conformance suite in Zig, on the C SDK: carries out the steps in its primary.
//!
//! tests/conformance/README.md lists the steps. A step that cannot be read is a mistake in the suite, and panics.

const std = @import("std");
const sdk = @import("sdk.zig");
const steps = @import("steps.zig");
const ends = @import("ends.zig");
const manifest = @import("manifest.zig");
const c = sdk.c;

comptime {
    _ = @import("mapping.zig");
}

pub const panic = std.debug.FullPanic(sdk.panic);

/// The SDK calls this function.
export fn windlass_plugin_manifest() *const c.windlass_manifest {
    return &manifest.manifest;
}

/// The SDK calls it.
export fn windlass_plugin_reconcile(request: *const c.windlass_request, failures: *c.windlass_failures) c.windlass_outcome {
    return reconcile(request, failures) catch .{};
}

fn reconcile(request: *const c.windlass_request, failures: *c.windlass_failures) ends.Error!c.windlass_outcome {
    if (request.object == null) return .{};
    const results = sdk.array();
    var list = sdk.each(sdk.get(sdk.get(request.object, "spec"), "steps"));
    while (list.next()) |step| {
        const call = sdk.slice(sdk.textIn(step, "call")).?;
        if (try ends.end(call, step, failures)) |outcome| return outcome;
        sdk.add(results, steps.shown(steps.carryOut(request, call, step)));
    }
    const report = sdk.value(.{ .apiVersion = "v1", .kind = "ConfigMap", .metadata = .{ .name = "report" }, .results = results });
    return c.windlass_fail(failures, c.windlass_writes_create(report, null, null));
}
