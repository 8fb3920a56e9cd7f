package windlasstest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"windlass.dev/sdk"
)

// definitions are the schemas of the kinds that a test defines.
type definitions map[windlass.Kind]windlass.Object

// Define defines kinds by CustomResourceDefinitions in YAML, usually those of crd.yaml:
//
//	//go:embed crd.yaml
//	var crd string
//	…
//	host.Define(crd)
//
// From now on objects of these kinds get their defaults, and a write of an invalid object fails with windlass.Invalid,
// with the paths in its message. An unknown field is invalid, as for an API server with strict field validation; a
// write with writes.Warn or writes.Ignore keeps it. Define does not check pattern, format, allOf and similar keywords,
// list types, and rules in CEL. It panics if the text has no definition.
func (host *Host) Define(yaml string) {
	host.mutex.Lock()
	defer host.mutex.Unlock()
	found := false
	for _, document := range yamlDocuments(yaml) {
		spec := child(document, "spec")
		versions, _ := spec["versions"].([]any)
		for _, version := range versions {
			name, _ := version.(windlass.Object)["name"].(string)
			group, _ := spec["group"].(string)
			kind, _ := child(spec, "names")["kind"].(string)
			schema := child(child(version, "schema"), "openAPIV3Schema")
			defined := windlass.Kind{APIVersion: group + "/" + name, Kind: kind}
			host.definitions[defined], host.clusterScoped[defined] = schema, spec["scope"] == "Cluster"
			found = true
		}
	}
	if !found {
		panic("windlasstest: Define has found no CustomResourceDefinition with versions in:\n" + yaml)
	}
}

// child returns a field that is an object; empty if it is missing.
func child(of any, name string) windlass.Object {
	object, _ := of.(windlass.Object)
	field, _ := object[name].(windlass.Object)
	return field
}

func (definitions definitions) schema(object windlass.Object) windlass.Object {
	ref := refOf(object)
	return definitions[windlass.Kind{APIVersion: ref.APIVersion, Kind: ref.Kind}]
}

// misfits returns the errors of an object, as an API server reports them. For a write to the status, it returns only
// the errors of the status.
func (definitions definitions) misfits(object windlass.Object, subresource string, refusesUnknown bool) []string {
	judge := judge{refusesUnknown: refusesUnknown}
	if schema := definitions.schema(object); schema != nil {
		judge.value(schema, object, "")
	}
	if subresource == "status" {
		judge.found = slices.DeleteFunc(judge.found, func(text string) bool { return !strings.HasPrefix(text, ".status") })
	}
	return judge.found
}

// fill fills in defaults. A null in a field that is not nullable counts as absent.
func fill(schema windlass.Object, value any) {
	switch value := value.(type) {
	case windlass.Object:
		properties := child(schema, "properties")
		for name := range properties {
			property := child(properties, name)
			if field, has := value[name]; has && field == nil && property["nullable"] != true {
				delete(value, name)
			}
			if _, has := value[name]; !has && property["default"] != nil {
				value[name] = plain(property["default"])
			}
		}
		for name, field := range value {
			if property, is := properties[name].(windlass.Object); is {
				fill(property, field)
			} else {
				fill(child(schema, "additionalProperties"), field)
			}
		}
	case []any:
		for _, item := range value {
			fill(child(schema, "items"), item)
		}
	}
}

// judge collects the errors of an object.
type judge struct {
	refusesUnknown bool
	found          []string
}

func (judge *judge) say(path, format string, values ...any) {
	judge.found = append(judge.found, path+": "+fmt.Sprintf(format, values...))
}

func (judge *judge) value(schema windlass.Object, value any, path string) {
	if value == nil && schema["nullable"] == true {
		return
	}
	if found, wanted := typeOf(value), wantedTypes(schema); len(wanted) > 0 && !slices.Contains(wanted, found) &&
		!(found == "a whole number" && wanted[0] == "a number") {
		judge.say(path, "%s where %s is wanted", found, strings.Join(wanted, " or "))
		return
	}
	if allowed, is := schema["enum"].([]any); is && !slices.ContainsFunc(allowed, func(one any) bool { return text(one) == text(value) }) {
		var all []string
		for _, one := range allowed {
			all = append(all, text(one))
		}
		judge.say(path, "%s is not one of %s", text(value), strings.Join(all, ", "))
	}
	switch value := value.(type) {
	case string:
		judge.size(schema, "Length", utf8.RuneCountInString(value), path)
	case windlass.Object:
		judge.size(schema, "Properties", len(value), path)
		judge.fields(schema, value, path)
	case []any:
		judge.size(schema, "Items", len(value), path)
		for place, item := range value {
			judge.value(child(schema, "items"), item, fmt.Sprintf("%s[%d]", path, place))
		}
	default:
		if number, is := float(value); is {
			judge.number(schema, number, path)
		}
	}
}

func (judge *judge) fields(schema, fields windlass.Object, path string) {
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, has := fields[fmt.Sprint(name)]; !has {
			judge.say(fmt.Sprintf("%s.%v", path, name), "is required")
		}
	}
	isResource := path == "" || schema["x-kubernetes-embedded-resource"] == true
	knowsAll := schema["additionalProperties"] == true || schema["x-kubernetes-preserve-unknown-fields"] == true
	properties, others := child(schema, "properties"), child(schema, "additionalProperties")
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		property, known := properties[name].(windlass.Object)
		at := path + "." + name
		switch {
		case isResource && (name == "apiVersion" || name == "kind" || name == "metadata"):
		case known:
			judge.value(property, fields[name], at)
		case others != nil:
			judge.value(others, fields[name], at)
		case !knowsAll && judge.refusesUnknown:
			judge.say(at, "there is no such field")
		}
	}
}

func (judge *judge) number(schema windlass.Object, number float64, path string) {
	if least, is := float(schema["minimum"]); is && (number < least || number == least && schema["exclusiveMinimum"] == true) {
		judge.say(path, "%v is too small for the minimum %v", number, least)
	}
	if most, is := float(schema["maximum"]); is && (number > most || number == most && schema["exclusiveMaximum"] == true) {
		judge.say(path, "%v is too large for the maximum %v", number, most)
	}
}

// size checks the limits whose keywords end in keyword, such as minLength and maxLength.
func (judge *judge) size(schema windlass.Object, keyword string, size int, path string) {
	least, hasLeast := float(schema["min"+keyword])
	most, hasMost := float(schema["max"+keyword])
	if hasLeast && float64(size) < least {
		judge.say(path, "its size is %d, and min%s is %v", size, keyword, least)
	}
	if hasMost && float64(size) > most {
		judge.say(path, "its size is %d, and max%s is %v", size, keyword, most)
	}
}

// float converts a number of any type.
func float(value any) (number float64, is bool) {
	switch value := value.(type) {
	case int64:
		return float64(value), true
	case uint64:
		return float64(value), true
	case float64:
		return value, true
	}
	return 0, false
}

var typeNames = map[string]string{
	"boolean": "a boolean", "integer": "a whole number", "number": "a number", "string": "text", "array": "a list", "object": "an object",
}

// wantedTypes are the types that a schema allows; empty if it allows any.
func wantedTypes(schema windlass.Object) []string {
	if schema["x-kubernetes-int-or-string"] == true {
		return []string{"a whole number", "text"}
	}
	if name, is := schema["type"].(string); is {
		return []string{typeNames[name]}
	}
	return nil
}

func typeOf(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "text"
	case []any:
		return "a list"
	case windlass.Object:
		return "an object"
	default:
		// JSON does not distinguish 1.0 from 1.
		if number, _ := float(value); number == float64(int64(number)) {
			return "a whole number"
		}
		return "a number"
	}
}
