//! A thin layer of Zig over the C SDK: texts become slices, errors become Zig errors, and Zig literals become values.

const std = @import("std");
pub const c = @import("c");

pub const Json = [*c]c.windlass_json;
pub const Text = c.windlass_text;

/// The SDK's error, which is the reason when a function of this file returns `error.Failed`.
pub const Failure = [*c]const c.windlass_error;

pub fn text(bytes: []const u8) Text {
    return .{ .data = bytes.ptr, .length = bytes.len };
}

pub const none = Text{ .data = null, .length = 0 };

/// Converts a text of the SDK to a slice. Null if there is no text.
pub fn slice(of: Text) ?[]const u8 {
    return if (of.data == null) null else of.data[0..of.length];
}

pub fn is(of: Text, other: []const u8) bool {
    const known = slice(of) orelse return false;
    return std.mem.eql(u8, known, other);
}

/// Converts to a JSON value: a slice, a number, a boolean, null, a text or a value of the SDK, or a struct, whose
/// fields become members.
pub fn value(of: anytype) Json {
    const T = @TypeOf(of);
    if (T == Json) return of;
    if (T == Text) return c.windlass_json_string(of);
    if (T == bool) return c.windlass_bool(of);
    switch (@typeInfo(T)) {
        .null => return c.windlass_null(),
        .int, .comptime_int => return c.windlass_int(@intCast(of)),
        .optional => return if (of) |some| value(some) else c.windlass_null(),
        .@"struct" => return object(of),
        .pointer => |pointer| if (pointer.size == .c)
            return c.windlass_json_string(c.windlass_text_of(of))
        else
            return c.windlass_json_string(text(of)),
        else => @compileError("there is no JSON for " ++ @typeName(T)),
    }
}

fn object(of: anytype) Json {
    const made = c.windlass_json_object(null, 0);
    inline for (comptime std.meta.fieldNames(@TypeOf(of))) |name| {
        _ = c.windlass_json_set_text(made, text(name), value(@field(of, name)));
    }
    return made;
}

pub fn array() Json {
    return c.windlass_json_array(null, 0);
}

pub fn add(to: Json, of: anytype) void {
    _ = c.windlass_json_add(to, value(of));
}

/// Iterates over the elements of an array or the members of an object.
pub const Each = struct {
    at: Json,

    pub fn next(walk: *Each) ?Json {
        if (walk.at == null) return null;
        defer walk.at = walk.at.*.next;
        return walk.at;
    }
};

pub fn each(of: Json) Each {
    return .{ .at = if (of == null) null else of.*.first };
}

pub fn get(of: Json, name: []const u8) Json {
    return c.windlass_json_get_text(of, text(name));
}

pub fn textIn(of: Json, name: []const u8) Text {
    const found = get(of, name);
    return if (found != null and found.*.type == c.WINDLASS_JSON_STRING) found.*.text else none;
}

pub fn isNull(of: Json) bool {
    return of == null or of.*.type == c.WINDLASS_JSON_NULL;
}

pub fn truthIn(of: Json, name: []const u8) bool {
    const found = get(of, name);
    return found != null and found.*.type == c.WINDLASS_JSON_BOOL and found.*.boolean;
}

pub fn numberIn(of: Json, name: []const u8) ?u32 {
    var number: u64 = undefined;
    return if (c.windlass_json_read_uint(get(of, name), &number)) @truncate(number) else null;
}

/// Memory of the call.
pub fn alloc(comptime T: type, count: usize) []T {
    const memory: [*]T = @ptrCast(@alignCast(c.windlass_alloc_array(count, @sizeOf(T)).?));
    return memory[0..count];
}

/// The handler of Zig's panics: it logs an error and ends the call.
pub fn panic(message: []const u8, _: ?usize) noreturn {
    const copy = c.windlass_text_copy(text(message));
    c.windlass_panic_at("zig", 0, "panic", copy.data);
}
