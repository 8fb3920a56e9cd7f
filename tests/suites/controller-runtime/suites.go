// Package suites pins the versions of controller-runtime whose test suites the embedded API server is measured by.
// tools/build-suites builds them from the Go module proxy; host/apiserver/tests/suites.rs runs them.
package suites
