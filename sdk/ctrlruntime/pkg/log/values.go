package log

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/go-logr/logr"
	sdk "windlass.dev/sdk/log"
)

// appended returns a copy of the fields with further ones.
func appended(fields []sdk.Field, keysAndValues []any) []sdk.Field {
	all := append(make([]sdk.Field, 0, len(fields)+len(keysAndValues)/2+2), fields...)
	for place := 0; place < len(keysAndValues); place += 2 {
		field := sdk.Field{Name: fmt.Sprint(keysAndValues[place]), Value: "(no value)"}
		if place+1 < len(keysAndValues) {
			field.Value = text(keysAndValues[place+1])
		}
		all = append(all, field)
	}
	return all
}

// object is the part of an object that a log shows.
type object interface {
	GetName() string
	GetNamespace() string
}

func text(value any) (shown string) {
	defer func() {
		// A method of a nil pointer may panic.
		if cause := recover(); cause != nil {
			shown = fmt.Sprint("(panic: ", cause, ")")
		}
	}()
	switch value := value.(type) {
	case error:
		return value.Error()
	case object:
		// This case must come before Stringer, because the String of an API
		// type is the whole object.
		if value.GetNamespace() == "" {
			return value.GetName()
		}
		return value.GetNamespace() + "/" + value.GetName()
	case fmt.Stringer:
		return value.String()
	case logr.Marshaler:
		return text(value.MarshalLog())
	}
	if kind := reflect.ValueOf(value).Kind(); kind <= reflect.Float64 || kind == reflect.String {
		// Nil, or a scalar.
		return fmt.Sprint(value)
	}
	if document, err := json.Marshal(value); err == nil {
		return string(document)
	}
	return fmt.Sprintf("%+v", value)
}
