// Package suites pins the version of Flux's runtime library whose test suites the embedded API server is measured by.
package suites
