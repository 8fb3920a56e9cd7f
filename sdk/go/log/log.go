// Package log writes to the plugin's log. The host adds the plugin, the controller, the object and the trace.
//
// Plugins mostly use log/slog, whose default logger in a plugin is this package's Handler.
package log

import (
	"context"
	"log/slog"
	"runtime"
	"time"

	"windlass.dev/sdk/internal/guest"
	"windlass.dev/sdk/internal/host"
)

// Level is the importance of a line.
type Level uint8

// The levels.
const (
	// Trace is every detail.
	Trace Level = iota
	// Debug is for finding faults.
	Debug
	// Info is for actions.
	Info
	// Warn is for something that needs attention.
	Warn
	// Error is for a failure.
	Error
)

// LevelTrace is the log/slog level that becomes Trace.
const LevelTrace = slog.LevelDebug - 4

// Field is a name and a value of a line.
type Field = host.Pair

// Write writes a line.
func Write(level Level, message string, fields ...Field) {
	guest.Host().Log(int(min(level, Error)), message, fields)
}

// Handler forwards the records of log/slog: the level, the message and the attributes. An attribute's name includes its
// groups, as in "request.method". Every level is enabled, because the host decides which levels are shown.
func Handler() slog.Handler { return handler{} }

type handler struct {
	// group is the prefix of the names of further attributes. It is empty or ends with a dot.
	group  string
	fields []Field
}

func (handler) Enabled(context.Context, slog.Level) bool {
	// A slog.Logger asks this, reads the clock, and calls Handle.
	guest.LineBegins()
	return true
}

func (handler handler) WithGroup(name string) slog.Handler {
	if name != "" {
		handler.group += name + "."
	}
	return handler
}

func (handler handler) WithAttrs(attributes []slog.Attr) slog.Handler {
	// The fields are copied, because other handlers may append to the same slice.
	fields := append([]Field(nil), handler.fields...)
	for _, attribute := range attributes {
		fields = add(fields, handler.group, attribute)
	}
	handler.fields = fields
	return handler
}

func (handler handler) Handle(_ context.Context, record slog.Record) error {
	if isHandedByLogger() {
		guest.LineTaken()
	}
	fields := append(make([]Field, 0, len(handler.fields)+record.NumAttrs()), handler.fields...)
	record.Attrs(func(attribute slog.Attr) bool {
		fields = add(fields, handler.group, attribute)
		return true
	})
	Write(levelOf(record.Level), record.Message, fields...)
	return nil
}

// isHandedByLogger reports whether log/slog itself has handed the record to Handle, so that the plugin has not seen the
// record's time. Other handlers see it before they hand the record on.
func isHandedByLogger() bool {
	// The caller of the caller of this function.
	var callers [1]uintptr
	if runtime.Callers(3, callers[:]) == 0 {
		return false
	}
	frame, _ := runtime.CallersFrames(callers[:]).Next()
	switch frame.Function {
	case "log/slog.(*Logger).log", "log/slog.(*Logger).logAttrs", "log/slog.(*handlerWriter).Write":
		return true
	}
	return false
}

func levelOf(level slog.Level) Level {
	switch {
	case level < slog.LevelDebug:
		return Trace
	case level < slog.LevelInfo:
		return Debug
	case level < slog.LevelWarn:
		return Info
	case level < slog.LevelError:
		return Warn
	}
	return Error
}

func add(fields []Field, group string, attribute slog.Attr) []Field {
	value := attribute.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		// A group without a name is inlined, as slog requires.
		if attribute.Key != "" {
			group += attribute.Key + "."
		}
		for _, part := range value.Group() {
			fields = add(fields, group, part)
		}
		return fields
	}
	if attribute.Equal(slog.Attr{}) {
		return fields
	}
	return append(fields, Field{Name: group + attribute.Key, Value: text(value)})
}

func text(value slog.Value) string {
	if value.Kind() == slog.KindTime {
		return value.Time().Format(time.RFC3339Nano)
	}
	return value.String()
}
