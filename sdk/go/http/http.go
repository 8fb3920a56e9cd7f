// Package http sends requests to hosts that the manifest asks for and the operator grants.
//
// For libraries that need a net/http client, package windlass.dev/sdk/http/client wraps this package in one. It makes a
// component six mebibytes larger, and its build slower.
package http

import (
	"time"
	"unicode/utf8"

	"windlass.dev/sdk/internal/guest"
	"windlass.dev/sdk/internal/host"
)

// Request is an HTTP request.
type Request struct {
	// Method is GET by default.
	Method string
	URL    string
	// Headers may contain a name more than once.
	Headers []Header
	// Text is a UTF-8 body, and Body is any other body. Set at most one of them. A Text that is not UTF-8 is sent byte
	// by byte, like a Body.
	Text string
	Body []byte
	// Timeout limits the whole exchange; zero means the host's limit.
	Timeout time.Duration
}

// Header is a name and a value.
type Header = host.Pair

// Response is the whole response. Names of headers are in lower case.
type Response = host.Response

// Error is a request that got no response. A reconcile that returns it is retried after a backoff, with two exceptions.
// The Reason "invalid-request" is a terminal failure, as a malformed request stays malformed. The Reason "not-granted"
// becomes an APIError of the class NotGranted: the key runs again when the policy changes.
type Error = host.HTTPError

// Fetch sends a request and reads the whole response. Any status is a response, not an error. Redirects are not followed.
func Fetch(request Request) (Response, error) {
	method := request.Method
	if method == "" {
		method = "GET"
	}
	asked := host.Request{
		Method: method, URL: request.URL, Headers: request.Headers, Body: request.Body, Timeout: request.Timeout,
	}
	if request.Text != "" {
		if request.Body != nil {
			return Response{}, &Error{Reason: "invalid-request", Message: "a request has a Text and a Body: set only one of them"}
		}
		asked.Body, asked.IsText = []byte(request.Text), utf8.ValidString(request.Text)
	}
	response, failed := guest.Host().Fetch(asked)
	if failed != nil {
		return Response{}, failed
	}
	return response, nil
}
