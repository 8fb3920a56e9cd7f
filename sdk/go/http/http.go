// Package http sends requests to hosts that the manifest asks for and the operator grants.
//
// It is small. Package windlass.dev/sdk/http/client has a client of net/http over it, for libraries that want one; it makes a
// component six mebibytes larger, and its build slower.
package http

import (
	"time"
	"unicode/utf8"

	"windlass.dev/sdk/internal/guest"
	"windlass.dev/sdk/internal/host"
)

// Request is what to send.
type Request struct {
	// Method is GET by default.
	Method string
	URL    string
	// Headers may have a name more than once.
	Headers []Header
	// Text is a body in UTF-8, Body any other. At most one of them is set; a Text that is not UTF-8 goes as the bytes that it is.
	Text string
	Body []byte
	// Timeout is for the whole exchange; zero: the host's limit.
	Timeout time.Duration
}

// Header is a name and a value.
type Header = host.Pair

// Response is the whole response. Names of headers are in lower case.
type Response = host.Response

// Error is a request that got no response. Returned from a reconcile, it is retried after a backoff. There are two exceptions.
// A Reason of "invalid-request" is a terminal failure, as a malformed request stays so. One of "not-granted" is an APIError of
// the class NotGranted: the key runs again when the policy changes.
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
			return Response{}, &Error{Reason: "invalid-request", Message: "a request has a Text and a Body"}
		}
		asked.Body, asked.IsText = []byte(request.Text), utf8.ValidString(request.Text)
	}
	response, failed := guest.Host().Fetch(asked)
	if failed != nil {
		return Response{}, failed
	}
	return response, nil
}
