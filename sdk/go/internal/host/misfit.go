package host

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
)

// misfit is a value that does not fit the plugin's type, in the words of JSON: encoding/json names types of Go, and the struct in
// place of the path.
type misfit struct{ *json.UnmarshalTypeError }

func (err misfit) Error() string {
	what, wanted := found(err.Value), wanted(err.Type)
	if number, is := strings.CutPrefix(err.Value, "number "); is {
		// One that the type has no room for.
		what, wanted = number, err.Type.String()
	}
	said := what + " where " + wanted + " is wanted"
	if err.Field == "" {
		return said
	}
	return "." + err.Field + ": " + said
}

func (err misfit) Unwrap() error { return err.UnmarshalTypeError }

// placed is an error of encoding/json that names a value by its path.
func placed(err error) error {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		return misfit{mismatch}
	}
	return err
}

func found(value string) string {
	switch value {
	case "string":
		return "text"
	case "bool":
		return "a boolean"
	case "array":
		return "a list"
	case "object":
		return "an object"
	}
	return "a " + value
}

func wanted(kind reflect.Type) string {
	switch kind.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "a boolean"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	if kind.Kind() >= reflect.Int && kind.Kind() <= reflect.Uintptr {
		return "a whole number"
	}
	return kind.String()
}
