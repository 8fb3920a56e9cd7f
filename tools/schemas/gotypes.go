package main

import (
	"reflect"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// goFacts returns one letter and the name of the Go type for each field, by the type's OpenAPI name and the field's name.
// The letter has these meanings:
//
//	p: a pointer, so absent and zero differ
//	o: left out when it is zero
//	w: written even when it is zero
//	n: a pointer, written even when it is nil
func goFacts() map[string]map[string]string {
	known := runtime.NewScheme()
	for _, register := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme,
	} {
		if err := register(known); err != nil {
			panic(err) // Only a programming error in those packages.
		}
	}
	facts := map[string]map[string]string{}
	for _, t := range known.AllKnownTypes() {
		visit(t, facts)
	}
	return facts
}

func visit(t reflect.Type, facts map[string]map[string]string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		visit(t.Elem(), facts)
	case reflect.Struct:
		name := openAPIName(t)
		if _, seen := facts[name]; seen || !isKubernetes(t) {
			return
		}
		facts[name] = map[string]string{}
		visitFields(t, facts[name], facts)
	}
}

func visitFields(t reflect.Type, own map[string]string, facts map[string]map[string]string) {
	for index := range t.NumField() {
		field := t.Field(index)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		inline := name == "" && (field.Anonymous || strings.Contains(options, "inline"))
		switch {
		case inline && field.Type.Kind() == reflect.Struct:
			visitFields(field.Type, own, facts)
		case name != "" && name != "-":
			own[name] = fact(field.Type, options)
			visit(field.Type, facts)
		}
	}
}

func fact(t reflect.Type, options string) string {
	omitsZero := strings.Contains(options, "omitzero")
	omitsEmpty := strings.Contains(options, "omitempty")
	isPointer := t.Kind() == reflect.Pointer
	if isPointer {
		t = t.Elem()
	}
	letter := "w"
	switch {
	case isPointer && (omitsEmpty || omitsZero):
		letter = "p"
	case isPointer:
		letter = "n"
	case omitsZero, omitsEmpty && t.Kind() != reflect.Struct:
		letter = "o"
	}
	return letter + " " + t.String()
}

// openAPIName returns the name of a type's schema. Newer types have a method for it; the name of an older type comes
// from its package.
func openAPIName(t reflect.Type) string {
	type namer interface{ OpenAPIModelName() string }
	if named, is := reflect.New(t).Interface().(namer); is {
		return named.OpenAPIModelName()
	}
	host, rest, _ := strings.Cut(t.PkgPath(), "/")
	parts := strings.Split(host, ".")
	for left, right := 0, len(parts)-1; left < right; left, right = left+1, right-1 {
		parts[left], parts[right] = parts[right], parts[left]
	}
	return strings.Join(parts, ".") + "." + strings.ReplaceAll(rest, "/", ".") + "." + t.Name()
}

func isKubernetes(t reflect.Type) bool { return strings.HasPrefix(t.PkgPath(), "k8s.io/") }
