package host

import (
	"encoding/json"
	"reflect"
	"strings"
)

// misfit says how a value does not fit the plugin's type, in JSON's terms. The error of encoding/json names Go types,
// and the struct instead of the path.
type misfit struct {
	text  string
	cause error
}

func (err *misfit) Error() string { return err.text }
func (err *misfit) Unwrap() error { return err.cause }

// placed replaces an error of encoding/json by one that names the value by its path.
func placed(err error) error {
	mismatch, is := err.(*json.UnmarshalTypeError)
	if !is {
		return err
	}
	found, wanted := words[kindOf(mismatch.Value)], words[mismatch.Type.Kind()]
	number, isNumber := strings.CutPrefix(mismatch.Value, "number ")
	if isNumber {
		// The number is out of range for the type.
		found = number
	}
	if isNumber || wanted == "" {
		wanted = mismatch.Type.String()
	}
	text := found + " where " + wanted + " is wanted"
	if mismatch.Field != "" {
		text = "." + mismatch.Field + ": " + text
	}
	return &misfit{text, err}
}

// kindOf converts encoding/json's description of a value to a reflect.Kind.
func kindOf(value string) reflect.Kind {
	switch value[0] {
	case 's':
		return reflect.String
	case 'b':
		return reflect.Bool
	case 'a':
		return reflect.Slice
	case 'o':
		return reflect.Map
	}
	return reflect.Float64
}

const whole = "a whole number"

// words describe a kind. As a table they make a component a kilobyte smaller than as a switch.
var words = [...]string{
	reflect.String: "text", reflect.Bool: "a boolean", reflect.Slice: "a list", reflect.Array: "a list",
	reflect.Map: "an object", reflect.Struct: "an object", reflect.Float32: "a number", reflect.Float64: "a number",
	reflect.Int: whole, reflect.Int8: whole, reflect.Int16: whole, reflect.Int32: whole, reflect.Int64: whole,
	reflect.Uint: whole, reflect.Uint8: whole, reflect.Uint16: whole, reflect.Uint32: whole, reflect.Uint64: whole,
	reflect.UnsafePointer: "",
}
