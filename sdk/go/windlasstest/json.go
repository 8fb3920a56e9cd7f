package windlasstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"windlass.dev/sdk"
)

// text encodes a value as a document.
func text(value any) string {
	document, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("windlasstest: %v is not JSON: %v", value, err))
	}
	return string(document)
}

// parsed decodes a document into maps and lists.
func parsed(document string) any {
	var value any
	if err := windlass.Decode([]byte(document), &value); err != nil {
		panic(fmt.Sprintf("windlasstest: %s: %v", document, err))
	}
	return value
}

// plain copies a value as maps and lists.
func plain(value any) any { return parsed(text(value)) }

// metadata returns an object's metadata, and adds it if it is missing.
func metadata(object windlass.Object) windlass.Object {
	meta, is := object["metadata"].(windlass.Object)
	if !is {
		meta = windlass.Object{}
		object["metadata"] = meta
	}
	return meta
}

// controller is the owner that controls an object, or nil.
func controller(object windlass.Object) windlass.Object {
	owners, _ := metadata(object)["ownerReferences"].([]any)
	for _, owner := range owners {
		if owner, is := owner.(windlass.Object); is && owner["controller"] == true {
			return owner
		}
	}
	return nil
}

func refOf(object windlass.Object) windlass.Ref {
	field := func(of windlass.Object, name string) string { text, _ := of[name].(string); return text }
	meta := metadata(object)
	return windlass.Ref{
		APIVersion: field(object, "apiVersion"), Kind: field(object, "kind"), Namespace: field(meta, "namespace"), Name: field(meta, "name"),
	}
}

// key is the reference under which an object is stored.
func key(ref windlass.Ref) windlass.Ref {
	ref.UID = ""
	return ref
}

// merged returns a value with fields merged over it: objects field by field, other values as a whole. As in a merge
// patch, null removes a field if nullRemoves is set.
func merged(value, over any, nullRemoves bool) any {
	fields, is := over.(windlass.Object)
	if !is {
		return over
	}
	all := windlass.Object{}
	if object, is := value.(windlass.Object); is && object != nil {
		all = plain(object).(windlass.Object)
	}
	for name, field := range fields {
		if field == nil && nullRemoves {
			delete(all, name)
			continue
		}
		all[name] = merged(all[name], field, nullRemoves)
	}
	return all
}

// patched applies the steps of a JSON patch.
func patched(object windlass.Object, steps []any) (windlass.Object, error) {
	var root any = object
	for _, step := range steps {
		step := step.(windlass.Object)
		path, _ := step["path"].(string)
		from, _ := step["from"].(string)
		value := step["value"]
		var err error
		switch step["op"] {
		case "test":
			var found any
			if found, err = at(root, path); err == nil && !reflect.DeepEqual(found, value) {
				err = fmt.Errorf("the test of %s failed", path)
			}
		case "add":
			err = edit(&root, path, &value, true)
		case "replace":
			err = edit(&root, path, &value, false)
		case "remove":
			err = edit(&root, path, nil, false)
		case "copy", "move":
			if value, err = at(root, from); err == nil && step["op"] == "move" {
				err = edit(&root, from, nil, false)
			}
			if err == nil {
				value = plain(value)
				err = edit(&root, path, &value, true)
			}
		default:
			err = fmt.Errorf("a JSON patch has no operation %v", step["op"])
		}
		if err != nil {
			return nil, err
		}
	}
	return root.(windlass.Object), nil
}

var errNotThere = errors.New("there is nothing at the path")

func split(path string) []string {
	parts := strings.Split(path, "/")[1:]
	for place, part := range parts {
		parts[place] = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
	}
	return parts
}

func at(value any, path string) (any, error) {
	if path == "" {
		return value, nil
	}
	for _, part := range split(path) {
		switch of := value.(type) {
		case windlass.Object:
			field, has := of[part]
			if !has {
				return nil, fmt.Errorf("%w %s", errNotThere, path)
			}
			value = field
		case []any:
			place, err := strconv.Atoi(part)
			if err != nil || place < 0 || place >= len(of) {
				return nil, fmt.Errorf("%w %s", errNotThere, path)
			}
			value = of[place]
		default:
			return nil, fmt.Errorf("%w %s", errNotThere, path)
		}
	}
	return value, nil
}

// edit sets the value at a path (inserts into a list for "add"), or removes it if the value is nil.
func edit(root *any, path string, value *any, adds bool) error {
	if path == "" {
		*root = *value
		return nil
	}
	cut := strings.LastIndex(path, "/")
	parent, err := at(*root, path[:cut])
	if err != nil {
		return err
	}
	last := split(path[cut:])[0]
	switch of := parent.(type) {
	case windlass.Object:
		if _, has := of[last]; !has && !adds {
			return fmt.Errorf("%w %s", errNotThere, path)
		}
		if value == nil {
			delete(of, last)
		} else {
			of[last] = *value
		}
		return nil
	case []any:
		place, err := strconv.Atoi(last)
		if last == "-" && adds {
			place, err = len(of), nil
		}
		if err != nil || place < 0 || place > len(of) || place == len(of) && !adds {
			return fmt.Errorf("%w %s", errNotThere, path)
		}
		var list any
		switch {
		case value == nil:
			list = append(append([]any{}, of[:place]...), of[place+1:]...)
		case adds:
			list = append(append(append([]any{}, of[:place]...), *value), of[place:]...)
		default:
			of[place] = *value
			return nil
		}
		return edit(root, path[:cut], &list, false)
	}
	return fmt.Errorf("%w %s", errNotThere, path)
}

// projected returns an object's identity and the values at some pointers. Without pointers it returns the whole object.
func projected(object windlass.Object, fields []string) windlass.Object {
	if fields == nil {
		return object
	}
	part := windlass.Object{"apiVersion": object["apiVersion"], "kind": object["kind"]}
	identity := windlass.Object{}
	for _, name := range []string{"name", "namespace", "uid"} {
		if value, has := metadata(object)[name]; has {
			identity[name] = value
		}
	}
	part["metadata"] = identity
	for _, pointer := range fields {
		value, err := at(object, pointer)
		if err != nil {
			continue
		}
		parts := split(pointer)
		var nested any = value
		for place := len(parts) - 1; place >= 0; place-- {
			nested = windlass.Object{parts[place]: nested}
		}
		part = merged(part, nested, false).(windlass.Object)
	}
	return part
}
