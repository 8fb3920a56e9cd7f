package host

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// Decode decodes a JSON document into a value. Where the value's type leaves the type of a number open, a whole number
// becomes an int64, or a uint64 if it is larger, and any other number a float64. apimachinery does the same.
// encoding/json does not: its whole numbers are not exact above 2⁵³.
func Decode(document string, into any) error {
	decoder := json.NewDecoder(strings.NewReader(document))
	kind := reflect.TypeOf(into)
	if kind == nil || !mayHold(kind) {
		return placed(decoder.Decode(into))
	}
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return placed(err)
	}
	switch into := into.(type) {
	case *map[string]any:
		return values(*into)
	case *any:
		return replace(into)
	}
	return settle(reflect.ValueOf(into))
}

// Copied stores a document that need not be parsed, and reports whether it has. It is nil unless the plugin reads raw
// documents often, because its code makes a plugin larger.
var Copied func(document string, into any) bool

// Expect decodes a document that should fit a type. If it does not fit, the error is terminal, because only a change of
// the document can help.
func Expect(what, document string, into any) error {
	if Copied != nil && Copied(document, into) {
		return nil
	}
	if err := Decode(document, into); err != nil {
		return &Marked{Cause: fmt.Errorf("%s is not as the plugin expects: %w", what, err), Terminal: true}
	}
	return nil
}

// number converts a json.Number to an int64, a uint64 or a float64.
func number(text json.Number) (any, error) {
	if whole, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return whole, nil
	}
	if whole, err := strconv.ParseUint(string(text), 10, 64); err == nil {
		return whole, nil
	}
	return strconv.ParseFloat(string(text), 64)
}

// replace replaces the value if it is a json.Number, and every json.Number inside it.
func replace(value *any) (err error) {
	switch held := (*value).(type) {
	case json.Number:
		*value, err = number(held)
	case map[string]any:
		err = values(held)
	case []any:
		for place := range held {
			if err = replace(&held[place]); err != nil {
				return err
			}
		}
	}
	return err
}

func values(object map[string]any) error {
	for key, value := range object {
		switch value.(type) {
		case string, bool, nil:
			continue
		}
		if err := replace(&value); err != nil {
			return err
		}
		object[key] = value
	}
	return nil
}

var holders sync.Map

// mayHold reports whether a value of a type may contain an untyped number. It assumes so for a recursive type.
func mayHold(kind reflect.Type) bool {
	switch kind.Kind() {
	case reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map, reflect.Struct:
	default:
		return false
	}
	if known, is := holders.Load(kind); is {
		return known.(bool)
	}
	holders.Store(kind, true)
	var may bool
	switch kind.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		may = mayHold(kind.Elem())
	case reflect.Struct:
		for place := 0; place < kind.NumField() && !may; place++ {
			may = filled(kind, place) && mayHold(kind.Field(place).Type)
		}
	}
	holders.Store(kind, may)
	return may
}

// filled reports whether encoding/json fills a field. It fills exported fields, and the exported fields of an embedded
// struct even if the struct's type is not exported.
func filled(of reflect.Type, place int) bool {
	field := of.Field(place)
	kind := field.Type
	if field.Anonymous && kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	return field.IsExported() || field.Anonymous && kind.Kind() == reflect.Struct
}

// settle replaces each json.Number that an interface inside a value contains.
func settle(value reflect.Value) error {
	if !mayHold(value.Type()) {
		return nil
	}
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			return settle(value.Elem())
		}
	case reflect.Interface:
		if value.IsNil() || !value.CanSet() {
			return nil
		}
		held := value.Interface()
		if err := replace(&held); err != nil {
			return err
		}
		value.Set(reflect.ValueOf(held))
	case reflect.Struct:
		for place := range value.NumField() {
			if !filled(value.Type(), place) {
				continue
			}
			if err := settle(value.Field(place)); err != nil {
				return err
			}
		}
	case reflect.Slice, reflect.Array:
		for place := range value.Len() {
			if err := settle(value.Index(place)); err != nil {
				return err
			}
		}
	case reflect.Map:
		for _, key := range value.MapKeys() {
			// The values of a map cannot be changed in place.
			held := reflect.New(value.Type().Elem()).Elem()
			held.Set(value.MapIndex(key))
			if err := settle(held); err != nil {
				return err
			}
			value.SetMapIndex(key, held)
		}
	}
	return nil
}

// Object decodes the document of a read into a T. It returns nil if there is no document.
func Object[T any](read Read) (*T, error) {
	if read.Err != nil {
		return nil, read.Err
	}
	if read.Object == "" {
		return nil, nil
	}
	object := new(T)
	if err := Expect("an object", read.Object, object); err != nil {
		return nil, err
	}
	return object, nil
}

// Pages iterates over a list, starting at a token. It calls read with the token of each page.
func Pages[T any](first string, read func(token string) (Page, *APIError)) func(yield func(*T, error) bool) {
	return func(yield func(*T, error) bool) {
		for token := first; ; {
			page, failed := read(token)
			if failed != nil {
				yield(nil, failed)
				return
			}
			for _, item := range page.Items {
				object, err := Object[T](Read{Object: item})
				if !yield(object, err) || err != nil {
					return
				}
			}
			if token = page.Next; token == "" {
				return
			}
		}
	}
}

// OnePage reads the page at a token.
func OnePage[T any](token string, read func(token string) (Page, *APIError)) ([]*T, string, error) {
	page, failed := read(token)
	if failed != nil {
		return nil, "", failed
	}
	objects := make([]*T, len(page.Items))
	for place, item := range page.Items {
		object, err := Object[T](Read{Object: item})
		if err != nil {
			return nil, "", err
		}
		objects[place] = object
	}
	return objects, page.Next, nil
}
