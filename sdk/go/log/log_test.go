package log_test

import (
	"context"
	"errors"
	standard "log"
	"log/slog"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"windlass.dev/sdk/internal/guest"
	"windlass.dev/sdk/log"
	"windlass.dev/sdk/windlasstest"
)

func TestTheStandardLoggerWritesToThePluginsLog(t *testing.T) {
	host := windlasstest.New(t)
	logger := slog.With("a", 1).WithGroup("request").With("method", "GET")
	logger.Warn("slow", "took", 2*time.Second, slog.Group("to", "ip", netip.MustParseAddr("::1"), slog.Group("", "inlined", true)),
		"err", errors.New("oh"), "when", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), "list", []int{1, 2}, slog.Attr{})
	line := host.Lines()[0]
	fields := map[string]string{
		"a": "1", "request.method": "GET", "request.took": "2s", "request.to.ip": "::1", "request.to.inlined": "true",
		"request.err": "oh", "request.when": "2026-01-02T03:04:05Z", "request.list": "[1 2]",
	}
	if line.Level != "warn" || line.Message != "slow" || !reflect.DeepEqual(line.Fields, fields) {
		t.Errorf("%+v", line)
	}
}

func TestEachLevelHasItsOwn(t *testing.T) {
	host := windlasstest.New(t)
	for _, level := range []slog.Level{log.LevelTrace, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError, slog.LevelError + 4} {
		slog.Log(t.Context(), level, "line")
	}
	log.Write(log.Trace, "line", log.Field{Name: "a", Value: "b"})
	standard.Print("line")
	var levels []string
	for _, line := range host.Lines() {
		levels = append(levels, line.Level)
	}
	if wanted := []string{"trace", "debug", "info", "warn", "error", "error", "trace", "info"}; !reflect.DeepEqual(levels, wanted) {
		t.Error(levels)
	}
}

func TestDerivedLoggersDoNotShareFields(t *testing.T) {
	host := windlasstest.New(t)
	logger := slog.With("a", 1)
	one, other := logger.With("b", 2), logger.With("c", 3)
	one.Info("one")
	other.Info("other")
	if lines := host.Lines(); len(lines[0].Fields) != 2 || lines[1].Fields["c"] != "3" || lines[1].Fields["b"] != "" {
		t.Errorf("%+v", lines)
	}
}

// seesTime is a handler of a plugin that can read the time of each record.
type seesTime struct{ slog.Handler }

func (handler seesTime) Handle(ctx context.Context, record slog.Record) error {
	return handler.Handler.Handle(ctx, record)
}

// The host must not take a reading of the clock for a logger's own if the plugin has seen it.
func TestOnlyTheTimeThatNoOtherHandlerSeesIsTheLoggersOwn(t *testing.T) {
	windlasstest.New(t)
	handler := slog.Default().Handler()
	cases := map[string]struct {
		log   func()
		taken int
	}{
		"logger":         {func() { slog.Info("line", "a", 1) }, 1},
		"attributes":     {func() { slog.LogAttrs(t.Context(), slog.LevelInfo, "line") }, 1},
		"derived":        {func() { slog.With("a", 1).WithGroup("b").Warn("line") }, 1},
		"wrapped":        {func() { slog.New(struct{ slog.Handler }{handler}).Info("line") }, 1},
		"own handler":    {func() { slog.New(seesTime{handler}).Info("line") }, 0},
		"several":        {func() { slog.New(slog.NewMultiHandler(handler, handler)).Info("line") }, 0},
		"without logger": {func() { _ = handler.Handle(t.Context(), slog.NewRecord(time.Now(), slog.LevelInfo, "line", 0)) }, 0},
	}
	for name, each := range cases {
		before := guest.TakenLines
		each.log()
		if taken := guest.TakenLines - before; taken != each.taken {
			t.Errorf("%s: %d lines are taken, and not %d", name, taken, each.taken)
		}
	}
}
