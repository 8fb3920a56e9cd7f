// Package suites pins the version of cluster-api whose test suites the embedded API server is measured by.
package suites
