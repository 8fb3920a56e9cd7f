// Triggers, events, metrics and HTTP.

#include "../windlass_internal.h"

windlass_triggers windlass_triggers_list(void) {
    return windlass_host_triggers();
}

void windlass_events_emit(const windlass_event *event) {
    windlass_host_emit(event);
}

void windlass_events_normal(const char *reason, const char *action, const char *note) {
    windlass_host_emit(&(windlass_event){
        .type = WINDLASS_EVENT_NORMAL, .reason = windlass_text(reason), .action = windlass_text(action), .note = windlass_text(note)});
}

void windlass_events_warning(const char *reason, const char *action, const char *note) {
    windlass_host_emit(&(windlass_event){
        .type = WINDLASS_EVENT_WARNING, .reason = windlass_text(reason), .action = windlass_text(action), .note = windlass_text(note)});
}

static void send(windlass_host_metric what, const windlass_metric *metric, double value, const char *const *labels) {
    size_t count = 0;
    while (metric->labels != NULL && metric->labels[count] != NULL && labels[count] != NULL) {
        count++;
    }
    windlass_field *fields = windlass_alloc_array(count, sizeof *fields);
    for (size_t i = 0; i < count; i++) {
        fields[i] = (windlass_field){windlass_text_of(metric->labels[i]), windlass_text_of(labels[i])};
    }
    windlass_host_metric_value(what, windlass_text_of(metric->name), value, fields, count);
}

void windlass_metrics_add_to(const windlass_metric *counter, double value, const char *const *labels) {
    send(WINDLASS_HOST_ADD, counter, value, labels);
}

void windlass_metrics_set_of(const windlass_metric *gauge, double value, const char *const *labels) {
    send(WINDLASS_HOST_SET, gauge, value, labels);
}

void windlass_metrics_observe_in(const windlass_metric *histogram, double value, const char *const *labels) {
    send(WINDLASS_HOST_OBSERVE, histogram, value, labels);
}

void windlass_metrics_add(windlass_text name, double value, const windlass_field *labels, size_t count) {
    windlass_host_metric_value(WINDLASS_HOST_ADD, name, value, labels, count);
}

void windlass_metrics_set(windlass_text name, double value, const windlass_field *labels, size_t count) {
    windlass_host_metric_value(WINDLASS_HOST_SET, name, value, labels, count);
}

void windlass_metrics_observe(windlass_text name, double value, const windlass_field *labels, size_t count) {
    windlass_host_metric_value(WINDLASS_HOST_OBSERVE, name, value, labels, count);
}

const char *windlass_http_reason_name(windlass_http_reason reason) {
    static const char *const names[] = {
        "not-granted", "invalid-request", "dns", "connect", "tls", "timeout", "too-large", "protocol", "other"};
    return names[reason <= WINDLASS_HTTP_OTHER ? reason : WINDLASS_HTTP_OTHER];
}

bool windlass_http_fetch(const windlass_http_request *request, windlass_http_response *response, windlass_http_error *error) {
    return windlass_host_fetch(request, response, error);
}

const windlass_error *windlass_http_failure(const windlass_http_request *request, const windlass_http_error *error) {
    if (error->reason == WINDLASS_HTTP_NOT_GRANTED) {
        // The error is reported like a denial by the API, so that the host runs the key again
        // when the policy changes.
        return windlass_api(&(windlass_api_error){
            .code = 403,
            .reason = WINDLASS_NOT_GRANTED,
            .status_reason = windlass_text("NotGranted"),
            .message = error->message,
            .verb = windlass_text("fetch"),
            .resource = windlass_text("http"),
        });
    }
    // The message leaves out the query, which is the part most likely to contain secrets.
    size_t length = 0;
    while (length < request->url.length && request->url.data[length] != '?' && request->url.data[length] != '#') {
        length++;
    }
    windlass_buffer text = {0};
    windlass_buffer_add_text(&text, request->method);
    windlass_buffer_add_byte(&text, ' ');
    windlass_buffer_add(&text, request->url.data, length);
    windlass_buffer_add(&text, ": ", 2);
    windlass_buffer_add_text(&text, windlass_text_of(windlass_http_reason_name(error->reason)));
    windlass_buffer_add(&text, ": ", 2);
    windlass_buffer_add_text(&text, error->message);
    windlass_text message = windlass_buffer_text(&text);
    bool is_lasting = error->reason == WINDLASS_HTTP_INVALID_REQUEST;
    return is_lasting ? windlass_terminal_text(message) : windlass_transient_text(message);
}
