// The host's functions that both worlds have, called through the bindings. Only reconciler/host.c and composer/host.c
// include this, after their wire.h.

void windlass_host_log(windlass_level level, windlass_text message, const windlass_field *fields, size_t count) {
    wire_text text = lower(message);
    wire_fields wire = lower_fields(fields, count);
    windlass_plugin_log_log((windlass_plugin_log_level_t)level, &text, &wire);
}

windlass_instant windlass_host_now(void) {
    windlass_plugin_clock_instant_t now;
    windlass_plugin_clock_now(&now);
    return (windlass_instant){now.seconds, now.nanoseconds};
}

uint32_t windlass_host_random_u32(void) {
    return windlass_plugin_random_get_u32();
}

void windlass_host_random_bytes(void *bytes, uint32_t length) {
    wire_bytes wire;
    windlass_plugin_random_get_bytes(length, &wire);
    memcpy(bytes, wire.ptr, wire.len < length ? wire.len : length);
}

windlass_text windlass_host_config(void) {
    windlass_plugin_config_json_t wire;
    windlass_plugin_config_get(&wire);
    return lift(wire);
}
