package main

import (
	"errors"
	"net/http"
	"strings"

	"github.com/aws/smithy-go"
)

// The meaning of S3's errors. Pure: nothing here calls the host or S3.

// problemOf returns the problem that an error is; nil if it is none. passes is true for a failure that passes by
// itself, such as an overloaded server or a lost connection, which the host retries. A joined error may be both.
func problemOf(err error) (problem *Problem, passes bool) {
	if several, are := err.(interface{ Unwrap() []error }); are {
		return joined(several.Unwrap())
	}
	if known := (*Problem)(nil); err == nil || errors.As(err, &known) {
		return known, false
	}
	if invalid := invalidSpec(err); invalid != nil {
		return invalid, false
	}
	var answer smithy.APIError
	status := statusCode(err)
	if !errors.As(err, &answer) || status < 300 || status >= 500 || isPassing(status, answer.ErrorCode()) {
		return nil, true
	}
	return refusal(err, answer, status), false
}

// invalidSpec returns the problem that AWS' client finds in a request, before it sends it; nil if it finds none.
func invalidSpec(err error) *Problem {
	var text string
	if invalid := (smithy.InvalidParamsError{}); errors.As(err, &invalid) {
		text = invalid.Error()
	} else if unwritten := (*smithy.SerializationError)(nil); errors.As(err, &unwritten) {
		text = unwritten.Error()
	} else {
		return nil
	}
	what, _, _ := strings.Cut(err.Error(), ": ")
	return &Problem{terminal, "InvalidSpec", what + ": correct the spec: " + strings.Join(strings.Fields(text), " ")}
}

// refusal returns the problem that a refusal by S3 is.
func refusal(err error, answer smithy.APIError, status int) *Problem {
	problem := &Problem{kind: recoverable, reason: answer.ErrorCode(), message: messageOf(err, answer)}
	switch {
	case answer.ErrorCode() == "BucketAlreadyExists":
		problem.kind, problem.message = terminal, "the name of the bucket is taken by another account: choose another one"
	case answer.ErrorCode() == "BucketNotEmpty":
		problem.message = "the bucket is not empty, so S3 does not delete it: empty it, or set the annotation " + annotationDeletion + ": retain"
	case status == http.StatusMovedPermanently:
		problem.kind, problem.reason = terminal, "OtherRegion"
		problem.message = "the bucket is in another region: set spec.createBucketConfiguration.locationConstraint"
	case isAboutKeys(answer.ErrorCode()):
		problem.message += ": renew the keys in the configuration"
	case answer.ErrorCode() == "TooManyBuckets":
		problem.message = "the account has as many buckets as it may have: delete one, or let AWS raise the quota"
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
func joined(failures []error) (all *Problem, passes bool) {
	for _, failure := range failures {
		problem, isPassing := problemOf(failure)
		passes = passes || isPassing
		switch {
		case problem == nil:
		case all == nil:
			all = problem
		default:
			all.message += "; " + problem.message
			if problem.kind == recoverable {
				all.kind = recoverable
			}
		}
	}
	return all, passes
}

// isAboutKeys reports whether S3 refuses the keys or the token. An answer to HEAD has no body, so its code is only the
// text of its status.
func isAboutKeys(code string) bool {
	switch code {
	case "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "BadRequest":
		return true
	}
	return false
}

// isPassing reports whether S3 asks for another attempt.
func isPassing(status int, code string) bool {
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
