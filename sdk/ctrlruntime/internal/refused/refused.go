// Package refused has the errors for calls that a plugin cannot serve. Each names the place of the call in the author's
// code, the reason, and what to do instead.
package refused

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
)

// module is the prefix of this module's functions.
const module = "sigs.k8s.io/controller-runtime"

var all []error

// Call returns the error for a call. The first error also keeps the plugin from being built.
func Call(what, reason, instead string) error {
	err := fmt.Errorf("%s: %s does not work in a Windlass plugin: %s. Instead: %s", caller(), what, reason, instead)
	all = append(all, err)
	return err
}

// All joins the errors of all refused calls so far.
func All() error { return errors.Join(all...) }

// Reset forgets the errors, for tests.
func Reset() { all = nil }

// caller is the file and line of the nearest function outside this module.
func caller() string {
	var counters [32]uintptr
	frames := runtime.CallersFrames(counters[:runtime.Callers(2, counters[:])])
	for {
		frame, more := frames.Next()
		isOurs := strings.HasPrefix(frame.Function, module+"/") || strings.HasPrefix(frame.Function, module+".")
		isTest := strings.HasSuffix(frame.File, "_test.go")
		if frame.File != "" && (!isOurs || isTest) {
			return fmt.Sprintf("%s:%d", frame.File, frame.Line)
		}
		if !more {
			return "unknown place"
		}
	}
}
