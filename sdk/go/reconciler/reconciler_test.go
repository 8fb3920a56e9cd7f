package reconciler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/host"
	"windlass.dev/sdk/manifest"
	"windlass.dev/sdk/windlasstest"
)

// called registers a function for one call.
func called(t *testing.T, by Func) (windlass.Outcome, []host.Failure) {
	t.Helper()
	reconcile = nil
	Register(manifest.Manifest{}, by)
	defer func() { reconcile = nil }()
	return run(windlass.Request{Name: "a"})
}

func TestOutcomesAndErrorsAreReturned(t *testing.T) {
	windlasstest.New(t)
	outcome, failures := called(t, func(_ context.Context, request windlass.Request) (windlass.Outcome, error) {
		return windlass.RequeueAfter(time.Second), nil
	})
	if outcome.After() != time.Second || failures != nil {
		t.Error(outcome, failures)
	}
	_, failures = called(t, func(context.Context, windlass.Request) (windlass.Outcome, error) {
		return windlass.Done, &windlass.APIError{Reason: windlass.Conflict}
	})
	if len(failures) != 1 || failures[0].API == nil || failures[0].API.Reason != windlass.Conflict {
		t.Error(failures)
	}
	_, failures = called(t, func(context.Context, windlass.Request) (windlass.Outcome, error) {
		return windlass.Done, fmt.Errorf("the shop: %w", windlass.RetryAfter(errors.New("a backup runs"), time.Minute))
	})
	if len(failures) != 1 || failures[0] != (host.Failure{Message: "the shop: a backup runs", RetryAfter: time.Minute}) {
		t.Error(failures)
	}
}

func deepest(text string) { panic(text) }

func TestAPanicFailsTheCallAndIsLogged(t *testing.T) {
	double := windlasstest.New(t)
	_, failures := called(t, func(context.Context, windlass.Request) (windlass.Outcome, error) {
		deepest("oh no")
		return windlass.Done, nil
	})
	if len(failures) != 1 || failures[0].Message != "the plugin panicked: oh no" {
		t.Error(failures)
	}
	if line := double.Lines()[0]; line.Level != "error" || !strings.Contains(line.Fields["stack"], "deepest") {
		t.Error(line)
	}
}

type named struct{ name string }

func (err *named) Error() string { return err.name }

func TestAnErrorWhoseMethodsPanicFailsTheCall(t *testing.T) {
	var none *named
	for _, err := range []error{none, fmt.Errorf("so: %w", none), errors.Join(&named{"one"}, none)} {
		double := windlasstest.New(t)
		_, failures := called(t, func(context.Context, windlass.Request) (windlass.Outcome, error) { return windlass.Done, err })
		if len(failures) != 1 || !strings.HasPrefix(failures[0].Message, "the plugin panicked: runtime error: invalid memory address") {
			t.Error(failures)
		}
		if line := double.Lines()[0]; line.Level != "error" || !strings.Contains(line.Fields["stack"], "(*named).Error") {
			t.Error(line)
		}
	}
}

func TestTheContextEndsWithTheCallAndLeftGoroutinesAreLogged(t *testing.T) {
	double := windlasstest.New(t)
	ended := false
	_, failures := called(t, func(ctx context.Context, _ windlass.Request) (windlass.Outcome, error) {
		go func() { <-ctx.Done(); ended = true }()
		return windlass.Done, nil
	})
	if failures != nil || !ended || len(double.Lines()) != 0 {
		t.Error(failures, ended, double.Lines())
	}
	forever := make(chan int)
	_, _ = called(t, func(context.Context, windlass.Request) (windlass.Outcome, error) {
		go func() { <-forever }()
		return windlass.Done, nil
	})
	if lines := double.Lines(); len(lines) != 1 || lines[0].Level != "warn" || lines[0].Fields["goroutines"] != "1" {
		t.Error(lines)
	}
	close(forever)
}

func TestAPluginRegistersOnce(t *testing.T) {
	for what, by := range map[string]func(){
		"called twice": func() {
			reconcile = nil
			Register(manifest.Manifest{}, func(context.Context, windlass.Request) (windlass.Outcome, error) { return windlass.Done, nil })
			Register(manifest.Manifest{}, nil)
		},
		"nothing is registered": func() { reconcile = nil; run(windlass.Request{}) },
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, what) {
					t.Errorf("%s: %q", what, text)
				}
				reconcile = nil
			}()
			by()
		}()
	}
}

func TestASetupRunsOnceBeforeTheFirstCall(t *testing.T) {
	windlasstest.New(t)
	forget := func() { reconcile, prepare = nil, nil }
	forget()
	t.Cleanup(forget)
	setups := 0
	RegisterSetup(func() manifest.Manifest {
		setups++
		return manifest.Manifest{Name: "shops"}
	}, func(context.Context, windlass.Request) (windlass.Outcome, error) {
		return windlass.RequeueAfter(time.Second), nil
	})
	if setups != 0 {
		t.Error("the set-up runs before the first call")
	}
	for range 2 {
		if outcome, failures := run(windlass.Request{}); outcome.After() != time.Second || failures != nil {
			t.Error(outcome, failures)
		}
		if document := describe(); setups != 1 || !strings.Contains(document, `"name":"shops"`) {
			t.Error(setups, document)
		}
	}
}
