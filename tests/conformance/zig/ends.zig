//! The steps that end a call.

const std = @import("std");
const sdk = @import("sdk.zig");
const arguments = @import("arguments.zig");
const c = sdk.c;

/// The error has no details, because the list of failures has them.
pub const Error = error{Failed};

const End = enum { @"requeue-after", @"requeue-backoff", fail, propagate, wrap, raise, spin, grow, recurse };

/// The end of the call by a step. Null if the call continues.
pub fn end(call: []const u8, step: sdk.Json, failures: *c.windlass_failures) Error!?c.windlass_outcome {
    switch (std.meta.stringToEnum(End, call) orelse return null) {
        .@"requeue-after" => return c.windlass_requeue_after_ms(sdk.numberIn(step, "ms").?),
        .@"requeue-backoff" => return c.windlass_requeue_with_backoff(),
        .fail => {
            var list = sdk.each(sdk.get(step, "failures"));
            while (list.next()) |failure| add(failure, failures, sdk.textIn(step, "message").data);
            return error.Failed;
        },
        .propagate => try read(step, failures, null),
        .wrap => try read(step, failures, sdk.textIn(step, "message").data),
        .raise => deeper(sdk.slice(sdk.textIn(step, "message")).?),
        .spin => while (true) std.mem.doNotOptimizeAway(step),
        .grow => while (true) {
            const piece: [*]u8 = @ptrCast(c.malloc(1 << 20) orelse @panic("there is no more memory"));
            @memset(piece[0 .. 1 << 20], 1);
            std.mem.doNotOptimizeAway(piece);
        },
        .recurse => return .{ .requeue_after_ms = recurse(1) },
    }
    return .{};
}

fn add(failure: sdk.Json, failures: *c.windlass_failures, context: ?[*:0]const u8) void {
    const transient = sdk.textIn(failure, "transient");
    const terminal = sdk.textIn(failure, "terminal");
    const after = sdk.numberIn(failure, "afterMs");
    const api = arguments.apiError;
    const made = if (transient.data != null and after != null)
        c.windlass_transient_text_after_ms(after.?, transient)
    else if (transient.data != null)
        c.windlass_transient_text(transient)
    else if (terminal.data != null)
        c.windlass_terminal_text(terminal)
    else
        c.windlass_api(&api(sdk.get(failure, "api")));
    _ = c.windlass_fail(failures, if (context) |before| c.windlass_wrap(made, before) else made);
}

fn read(step: sdk.Json, failures: *c.windlass_failures, context: ?[*:0]const u8) Error!void {
    var object: sdk.Json = null;
    const target = arguments.target(step);
    const failure = c.windlass_cache_get(&target, null, &object);
    if (failure == null) return;
    _ = c.windlass_fail(failures, if (context) |before| c.windlass_wrap(failure, before) else failure);
    return error.Failed;
}

pub noinline fn deeper(message: []const u8) noreturn {
    deepest(message);
}

noinline fn deepest(message: []const u8) noreturn {
    @panic(message);
}

noinline fn recurse(depth: u32) u32 {
    var here = depth + 1;
    std.mem.doNotOptimizeAway(&here);
    return if (here == 0) 0 else recurse(here) +% here;
}
