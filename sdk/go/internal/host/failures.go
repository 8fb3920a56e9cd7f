package host

import (
	"errors"
	"fmt"
	"strings"
)

// Final is an error that is not worth another attempt until something changes.
type Final struct{ Cause error }

func (err *Final) Error() string { return err.Cause.Error() }
func (err *Final) Unwrap() error { return err.Cause }

// Failures is what the host is told of an error: its parts, each with its class. Errors that were joined are told one by one, also
// below an error that wraps their join; what is neither an APIError nor Final is worth another attempt.
func Failures(err error) []Failure {
	if err == nil {
		return nil
	}
	if parts := joined(err); len(parts) > 0 {
		var all []Failure
		for _, part := range parts {
			all = append(all, Failures(part)...)
		}
		return all
	}
	var final *Final
	if errors.As(err, &final) {
		return []Failure{{Terminal: text(err)}}
	}
	var api *APIError
	if errors.As(err, &api) && api != nil {
		told := *api
		// What was said on the way up is for people; the host says itself what was asked of which object.
		if before, after, found := strings.Cut(err.Error(), api.Error()); found {
			told.Message = before + api.Message + after
		}
		return []Failure{{API: &told}}
	}
	return []Failure{{Transient: text(err)}}
}

// joined returns the errors that an error is the sum of. An error that is not worth another attempt is one, whatever it is made of;
// so is one of fmt.Errorf with several %w, which says one thing, and has the class of the first that has one.
func joined(err error) []error {
	for err != nil {
		if _, final := err.(*Final); final || fmt.Sprintf("%T", err) == "*fmt.wrapErrors" {
			return nil
		}
		if sum, is := err.(interface{ Unwrap() []error }); is {
			return sum.Unwrap()
		}
		err = errors.Unwrap(err)
	}
	return nil
}

// text is never empty: a failure without a text would be none.
func text(err error) string {
	if text := err.Error(); text != "" {
		return text
	}
	return fmt.Sprintf("an error of type %T without a text", err)
}
