package net

import (
	"errors"
	"io"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// JoinPreservingTrailingSlash joins the elements of a path. The result ends with a slash if the last element that is
// not empty does.
func JoinPreservingTrailingSlash(elem ...string) string {
	joined := path.Join(elem...)
	for i := len(elem) - 1; i >= 0; i-- {
		if elem[i] == "" {
			continue
		}
		if strings.HasSuffix(elem[i], "/") && !strings.HasSuffix(joined, "/") {
			joined += "/"
		}
		break
	}
	return joined
}

// IsTimeout says whether the error, or one that it wraps, is a timeout of the network.
func IsTimeout(err error) bool {
	var timeout interface {
		error
		Timeout() bool
		Temporary() bool
	}
	return errors.As(err, &timeout) && timeout.Timeout()
}

// IsProbableEOF says whether the error is probably the end of a connection.
func IsProbableEOF(err error) bool {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	switch {
	case err == nil:
		return false
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return true
	}
	text := err.Error()
	return text == "http: can't write HTTP request on broken connection" || strings.Contains(text, "connection reset by peer")
}

// FormatURL returns a URL. An IPv6 address as host gets brackets.
func FormatURL(scheme string, host string, port int, path string) *url.URL {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return &url.URL{Scheme: scheme, Host: host + ":" + strconv.Itoa(port), Path: path}
}
