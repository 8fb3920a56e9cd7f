// Package entry is where the host's calls arrive, for reconcilers and composers alike: what runs a plugin's function, and what is
// made of a panic in it.
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

// Ready has log/slog, and with it package log, write to the plugin's log.
func Ready() { slog.SetDefault(slog.New(log.Handler())) }

// Logged does it for a test, and returns what ends it.
func Logged() (restore func()) {
	before, output, flags := slog.Default(), standard.Writer(), standard.Flags()
	Ready()
	return func() {
		slog.SetDefault(before)
		standard.SetOutput(output)
		standard.SetFlags(flags)
	}
}

// Describe is the manifest as a document.
func Describe(of manifest.Manifest) string {
	document, err := json.Marshal(of)
	if err != nil {
		panic("the manifest cannot be written as JSON: " + err.Error())
	}
	return string(document)
}

// MappedBy is a watch that the manifest maps so; nil: there is none.
func MappedBy(of *manifest.Manifest, mapping *manifest.Mapping) *manifest.Watch {
	for controller := range of.Controllers {
		watches := of.Controllers[controller].Watches
		for place := range watches {
			if watch := &watches[place]; watch.Mapping != nil && written(watch.Mapping) == written(mapping) {
				return watch
			}
		}
	}
	return nil
}

func written(mapping *manifest.Mapping) string {
	// It is JSON already: there is no error.
	document, _ := mapping.MarshalJSON()
	return string(document)
}

// Run runs a plugin's function with a context that ends with the call, and returns what is to be told of its error. A panic is an
// error, whose stack is in the log: the instance goes on, only the call has failed.
func Run(function func(ctx context.Context) error) (failures []host.Failure) {
	ctx, cancel := context.WithCancel(context.Background())
	others := runtime.NumGoroutine()
	err := guard(func() error { return function(ctx) })
	cancel()
	settle(others)
	// Its own methods may panic as well, such as those of a nil pointer.
	tell := func() error {
		failures = host.Failures(err)
		return nil
	}
	if panicked := guard(tell); panicked != nil {
		err = panicked
		tell()
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

// settle gives goroutines that the context has ended the time to end. What runs on would do so in another call, about another
// object.
func settle(others int) {
	for turn := 0; runtime.NumGoroutine() > others; turn++ {
		if turn == 100 {
			left := runtime.NumGoroutine() - others
			log.Write(log.Warn, "the plugin left goroutines behind, which go on in another call: wait for them, or have them end "+
				"with the context", log.Field{Name: "goroutines", Value: strconv.Itoa(left)})
			return
		}
		runtime.Gosched()
	}
}
