package main

import (
	"errors"
	"net/http"
	"strings"

	"github.com/aws/smithy-go"
)

// The meaning of S3's errors. Pure: nothing here calls the host or S3.

// problemOf returns the problem that an error is; nil for a failure that passes by itself, such as an overloaded server
// or a lost connection, which the host retries.
func problemOf(err error) *Problem {
	if several, are := err.(interface{ Unwrap() []error }); are {
		return joined(several.Unwrap())
	}
	if known := (*Problem)(nil); errors.As(err, &known) {
		return known
	}
	var answer smithy.APIError
	status := statusCode(err)
	if !errors.As(err, &answer) || status < 300 || status >= 500 || passes(status, answer.ErrorCode()) {
		return nil
	}
	problem := &Problem{kind: recoverable, reason: answer.ErrorCode(), message: messageOf(err, answer)}
	switch {
	case answer.ErrorCode() == "BucketAlreadyExists":
		problem.kind, problem.message = terminal, "the name of the bucket is taken by another account: choose another one"
	case answer.ErrorCode() == "BucketNotEmpty":
		problem.message = "the bucket is not empty, so S3 does not delete it: empty it, or set the annotation " + annotationDeletion + ": retain"
	case status == http.StatusMovedPermanently:
		problem.kind, problem.reason = terminal, "OtherRegion"
		problem.message = "the bucket is in another region: set spec.createBucketConfiguration.locationConstraint"
	case status == http.StatusForbidden:
		// Rights may change without a change of the Bucket.
	case status == http.StatusNotFound, status == http.StatusConflict:
		// Another client is changing the bucket.
	default:
		problem.kind = terminal
	}
	return problem
}

// joined returns the problem of several errors. If one of them passes by itself, all are retried.
func joined(failures []error) *Problem {
	var all *Problem
	for _, failure := range failures {
		problem := problemOf(failure)
		switch {
		case problem == nil:
			return nil
		case all == nil:
			all = problem
		default:
			all.message += "; " + problem.message
			if problem.kind == recoverable {
				all.kind = recoverable
			}
		}
	}
	return all
}

// passes reports whether S3 asks for another attempt.
func passes(status int, code string) bool {
	switch code {
	case "OperationAborted", "RequestTimeout", "SlowDown", "RequestTimeTooSkewed":
		return true
	}
	return status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// messageOf returns the text of an error without the ids of its request, so that it is the same after a retry.
func messageOf(err error, answer smithy.APIError) string {
	what, _, _ := strings.Cut(err.Error(), ": ")
	message := answer.ErrorMessage()
	if message == "" || message == answer.ErrorCode() {
		return what + ": " + answer.ErrorCode()
	}
	return what + ": " + answer.ErrorCode() + ": " + message
}
