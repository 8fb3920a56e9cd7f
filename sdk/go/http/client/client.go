// Package client wraps the host's HTTP in a net/http client.
package client

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"windlass.dev/sdk/internal/guest"
	"windlass.dev/sdk/internal/host"
)

// Error is a request that got no response.
type Error = host.HTTPError

// Client is the standard library's client over the host. It follows redirects, and the host checks each one. The host
// enforces a Timeout, or the deadline of a request's context.
//
// Its errors, each a *url.Error, contain only scheme, host and path, because the rest of a URL may contain secrets. If
// a library takes only an http.Client, pass the embedded one: its errors contain the whole URL, so log and return only
// the errors that they wrap.
type Client struct{ http.Client }

// New is a client.
func New() *Client { return &Client{http.Client{Transport: Transport{}}} }

// Do sends a request.
func (client *Client) Do(request *http.Request) (*http.Response, error) {
	return hidden(client.Client.Do(request))
}

// Get sends a GET request.
func (client *Client) Get(url string) (*http.Response, error) { return hidden(client.Client.Get(url)) }

// Head sends a HEAD request.
func (client *Client) Head(url string) (*http.Response, error) {
	return hidden(client.Client.Head(url))
}

// Post sends a POST request.
func (client *Client) Post(url, contentType string, body io.Reader) (*http.Response, error) {
	return hidden(client.Client.Post(url, contentType, body))
}

// PostForm sends a POST request with a form in its body.
func (client *Client) PostForm(url string, form url.Values) (*http.Response, error) {
	return hidden(client.Client.PostForm(url, form))
}

func hidden(response *http.Response, err error) (*http.Response, error) {
	if failed, is := err.(*url.Error); is {
		failed.URL = public(failed.URL)
	}
	return response, err
}

// public returns the scheme, host and path of a URL. The text may be an invalid URL, and the error may be about that.
func public(whole string) string {
	shown, _, _ := strings.Cut(whole, "#")
	shown, _, _ = strings.Cut(shown, "?")
	if scheme, rest, has := strings.Cut(shown, "://"); has {
		authority, path, hasPath := strings.Cut(rest, "/")
		shown = scheme + "://" + authority[strings.LastIndexByte(authority, '@')+1:]
		if hasPath {
			shown += "/" + path
		}
	}
	return shown
}

// Transport is the host as an http.RoundTripper.
type Transport struct{}

// RoundTrip sends a request and reads the whole response. Any status is a response; a request without a response is an
// *Error.
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
	// The names are sorted, so that the same call sends the same request.
	for _, name := range slices.Sorted(maps.Keys(request.Header)) {
		for _, value := range request.Header[name] {
			asked.Headers = append(asked.Headers, host.Pair{Name: name, Value: value})
		}
	}
	if deadline, has := request.Context().Deadline(); has {
		asked.Timeout = max(time.Until(deadline), time.Millisecond)
	}
	answer, failed := guest.Host().Fetch(asked)
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
