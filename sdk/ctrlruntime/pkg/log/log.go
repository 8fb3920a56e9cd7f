// Package log has the logger of reconcilers. It writes to the plugin's log, unless SetLogger sets another. The host
// adds the plugin, the controller, the object and the trace to each line.
package log

import (
	"context"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/internal/setup"
	sdk "windlass.dev/sdk/log"
)

// Log is the root logger.
var Log = logr.New(&delegate{})

// SetLogger sets the logger of Log, and of all loggers that were made from it.
func SetLogger(l logr.Logger) { root = l.GetSink() }

// FromContext returns the logger of a call, with further values.
func FromContext(ctx context.Context, keysAndValues ...any) logr.Logger {
	logger := Log
	if ctx != nil {
		if own, err := logr.FromContext(ctx); err == nil {
			logger = own
		}
	}
	return logger.WithValues(keysAndValues...)
}

// IntoContext returns a context with this logger.
func IntoContext(ctx context.Context, log logr.Logger) context.Context {
	return logr.NewContext(ctx, log)
}

// Plugin returns a logger that writes to the plugin's log.
func Plugin() logr.Logger { return logr.New(&sink{}) }

// NullLogSink discards everything.
type NullLogSink struct{}

var _ logr.LogSink = NullLogSink{}

func (NullLogSink) Init(logr.RuntimeInfo)              {}
func (NullLogSink) Enabled(int) bool                   { return false }
func (NullLogSink) Info(int, string, ...any)           {}
func (NullLogSink) Error(error, string, ...any)        {}
func (log NullLogSink) WithName(string) logr.LogSink   { return log }
func (log NullLogSink) WithValues(...any) logr.LogSink { return log }

// sink writes to the plugin's log.
type sink struct {
	name   string
	fields []sdk.Field
}

// Init is for sinks that look for the caller, which the plugin's log does not show.
func (*sink) Init(logr.RuntimeInfo) {}

// Enabled is true for every level: the host decides which are shown.
func (*sink) Enabled(int) bool { return true }

func (s *sink) Info(level int, message string, keysAndValues ...any) {
	levels := [...]sdk.Level{sdk.Info, sdk.Debug, sdk.Trace}
	s.write(levels[min(max(level, 0), len(levels)-1)], message, keysAndValues)
}

func (s *sink) Error(err error, message string, keysAndValues ...any) {
	if err != nil {
		keysAndValues = append(keysAndValues[:len(keysAndValues):len(keysAndValues)], "error", err)
	}
	s.write(sdk.Error, message, keysAndValues)
}

func (s *sink) write(level sdk.Level, message string, keysAndValues []any) {
	fields := appended(s.fields, keysAndValues)
	if setup.IsRunning() {
		report(level, message, fields)
		return
	}
	if s.name != "" {
		fields = append(fields, sdk.Field{Name: "logger", Value: s.name})
	}
	sdk.Write(level, message, fields...)
}

// report discards the log lines of the set-up, because the set-up runs in each instance. A line with an error ends the
// instance, because a main gives up after an error. A build then shows the error.
func report(level sdk.Level, message string, fields []sdk.Field) {
	if level < sdk.Error {
		return
	}
	for _, field := range fields {
		message += ", " + field.Name + ": " + field.Value
	}
	setup.Fail("the set-up has logged an error: " + message)
}

func (s *sink) WithValues(keysAndValues ...any) logr.LogSink {
	return &sink{s.name, appended(s.fields, keysAndValues)}
}

func (s *sink) WithName(name string) logr.LogSink {
	if s.name != "" {
		name = s.name + "." + name
	}
	return &sink{name, s.fields}
}
