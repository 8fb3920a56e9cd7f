// Package entry handles the host's calls, for reconcilers and composers alike: it runs a plugin's function, and turns a
// panic into an error.
package entry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	standard "log"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"windlass.dev/sdk/internal/host"
	"windlass.dev/sdk/log"
	"windlass.dev/sdk/manifest"
)

// Ready connects log/slog, and with it package log, to the plugin's log.
func Ready() { slog.SetDefault(slog.New(log.Handler())) }

// Logged connects log/slog like Ready, for a test. It returns a function that restores the previous state.
func Logged() (restore func()) {
	before, output, flags := slog.Default(), standard.Writer(), standard.Flags()
	Ready()
	return func() {
		slog.SetDefault(before)
		standard.SetOutput(output)
		standard.SetFlags(flags)
	}
}

// Describe returns the manifest as a document.
func Describe(of manifest.Manifest) string {
	document, err := json.Marshal(of)
	if err != nil {
		panic("the manifest cannot be written as JSON: " + err.Error())
	}
	return string(document)
}

// Find returns a watch for which the condition is true, or nil.
func Find(of *manifest.Manifest, condition func(*manifest.Watch) bool) *manifest.Watch {
	for place := range of.Controllers {
		controller := &of.Controllers[place]
		if condition(&controller.Primary) {
			return &controller.Primary
		}
		for _, watches := range [...][]manifest.Watch{controller.Owns, controller.Watches} {
			for place := range watches {
				if condition(&watches[place]) {
					return &watches[place]
				}
			}
		}
	}
	return nil
}

// IsMapped reports whether a watch is mapped in this way.
func IsMapped(watch *manifest.Watch, mapping *manifest.Mapping) bool {
	return watch.Mapping != nil && written(watch.Mapping) == written(mapping)
}

// FindHook returns a hook that is mapped in this way, or nil.
func FindHook(of *manifest.Manifest, mapping *manifest.Mapping) *manifest.Hook {
	for _, controller := range of.Controllers {
		for place := range controller.Hooks {
			if hook := &controller.Hooks[place]; hook.Mapping != nil && written(hook.Mapping) == written(mapping) {
				return hook
			}
		}
	}
	return nil
}

func written(mapping *manifest.Mapping) string {
	// The document is JSON already, so there is no error.
	document, _ := mapping.MarshalJSON()
	return string(document)
}

// Run runs a plugin's function with a context that ends with the call, and returns its error for the host. A panic
// becomes an error, and its stack goes to the log: only the call fails, the instance continues.
func Run(function func(ctx context.Context) error) (failures []host.Failure) {
	ctx, cancel := context.WithCancel(context.Background())
	others := runtime.NumGoroutine()
	err := guard(func() error { return function(ctx) })
	cancel()
	settle(others)
	// The error's methods may panic too, for example if they have a nil receiver.
	report := func() error {
		failures = host.Failures(err)
		return nil
	}
	if panicked := guard(report); panicked != nil {
		err = panicked
		report()
	}
	return failures
}

func guard(run func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			text := fmt.Sprint("the plugin panicked: ", cause)
			log.Write(log.Error, text, log.Field{Name: "stack", Value: strings.TrimSpace(string(debug.Stack()))})
			err = errors.New(text)
		}
	}()
	return run()
}

// settle lets the goroutines of a call, whose context has ended, run until they end. Otherwise they would continue in
// another call, about another object.
func settle(others int) {
	for turn := 0; runtime.NumGoroutine() > others; turn++ {
		if turn == 100 {
			left := runtime.NumGoroutine() - others
			log.Write(log.Warn, "the plugin left goroutines behind, which continue in another call: wait for them, or end them "+
				"with the context", log.Field{Name: "goroutines", Value: strconv.Itoa(left)})
			return
		}
		runtime.Gosched()
	}
}
