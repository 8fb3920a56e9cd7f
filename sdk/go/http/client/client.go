// Package client has the host's HTTP as a client of net/http.
package client

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"windlass.dev/sdk/internal/host"
)

// Error is a request that brought no response.
type Error = host.HTTPError

// New is an http.Client of the standard library over the host. Redirects are followed, each checked anew by the host.
//
// Its errors, a *url.Error each, have the whole URL in their text: if its query holds a secret, log and return what they wrap.
//
// A Timeout, or the deadline of a request's context, is the host's to keep.
func New() *http.Client { return &http.Client{Transport: Transport{}} }

// Transport is the host as a http.RoundTripper.
type Transport struct{}

// RoundTrip sends a request and reads the whole response. Any status is a response; what brought none is an *Error.
func (Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	asked := host.Request{Method: request.Method, URL: request.URL.String()}
	if asked.Method == "" {
		asked.Method = http.MethodGet
	}
	if request.Body != nil {
		defer request.Body.Close()
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		if len(body) > 0 {
			asked.Body, asked.IsText = body, utf8.Valid(body)
		}
	}
	// In an order, so that the same call says the same.
	for _, name := range slices.Sorted(maps.Keys(request.Header)) {
		for _, value := range request.Header[name] {
			asked.Headers = append(asked.Headers, host.Pair{Name: name, Value: value})
		}
	}
	if deadline, has := request.Context().Deadline(); has {
		asked.Timeout = max(time.Until(deadline), time.Millisecond)
	}
	answer, failed := host.Get().Fetch(asked)
	if failed != nil {
		return nil, failed
	}
	header := http.Header{}
	for _, pair := range answer.Headers {
		header.Add(pair.Name, pair.Value)
	}
	return &http.Response{
		Status:        strconv.Itoa(answer.Status) + " " + http.StatusText(answer.Status),
		StatusCode:    answer.Status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(answer.Body)),
		ContentLength: int64(len(answer.Body)),
		Request:       request,
	}, nil
}
