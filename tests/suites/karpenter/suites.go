// Package suites pins the version of Karpenter whose test suites the embedded API server is measured by.
package suites
