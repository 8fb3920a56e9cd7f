package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
)

// groupVersionKind names a kind. In a discovery document it may lack a version; then the group and version of the list
// apply.
type groupVersionKind struct{ Group, Version, Kind string }

// resource is an entry of a metav1.APIResourceList: a resource, or a subresource if its name has a slash.
type resource struct {
	groupVersionKind
	Name, SingularName            string
	StorageVersionHash            string
	Namespaced                    bool
	Verbs, ShortNames, Categories []string
}

// resources writes one line for each resource, in the order of discovery: API version, plural, kind, the schema of the
// kind, scope, singular and verbs. Then follow the storage version hash, short names, categories and subresources, each
// after a word that names it.
func resources(folder string, schemas map[string]any) ([]byte, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	types := typeNames(schemas)
	var table bytes.Buffer
	for _, file := range files {
		var list struct {
			GroupVersion string
			Resources    []resource
		}
		if err := read(file, &list); err != nil {
			return nil, err
		}
		for _, main := range list.Resources {
			if strings.Contains(main.Name, "/") {
				continue
			}
			words := main.words(list.GroupVersion, types)
			for _, other := range list.Resources {
				if name, is := strings.CutPrefix(other.Name, main.Name+"/"); is {
					words = append(words, other.subresource(name, list.GroupVersion, types))
				}
			}
			fmt.Fprintln(&table, strings.Join(words, " "))
		}
	}
	if table.Len() == 0 {
		return nil, fmt.Errorf("%s has no resources", folder)
	}
	return table.Bytes(), nil
}

func (r resource) words(groupVersion string, types map[groupVersionKind]string) []string {
	scope := "Cluster"
	if r.Namespaced {
		scope = "Namespaced"
	}
	words := []string{
		groupVersion, r.Name, r.Kind, types[r.kind(groupVersion)], scope, r.SingularName, strings.Join(r.Verbs, ","),
	}
	if r.StorageVersionHash != "" {
		words = append(words, "hash:"+r.StorageVersionHash)
	}
	for _, name := range r.ShortNames {
		words = append(words, "short:"+name)
	}
	for _, name := range r.Categories {
		words = append(words, "category:"+name)
	}
	return words
}

func (r resource) subresource(name, groupVersion string, types map[groupVersionKind]string) string {
	kind := r.kind(groupVersion)
	version := strings.TrimPrefix(kind.Group+"/"+kind.Version, "/")
	return fmt.Sprintf("sub:%s:%s:%s:%s:%s", name, version, kind.Kind, types[kind], strings.Join(r.Verbs, ","))
}

func (r resource) kind(groupVersion string) groupVersionKind {
	if r.Version != "" {
		return r.groupVersionKind
	}
	group, version, isNamed := strings.Cut(groupVersion, "/")
	if !isNamed {
		group, version = "", groupVersion
	}
	return groupVersionKind{group, version, r.Kind}
}

// typeNames returns the schema of each kind. It leaves out types that serve many kinds, such as DeleteOptions.
func typeNames(schemas map[string]any) map[groupVersionKind]string {
	names := map[groupVersionKind]string{}
	for name, schema := range schemas {
		kinds, _ := schema.(map[string]any)["x-kubernetes-group-version-kind"].([]any)
		if len(kinds) != 1 {
			continue
		}
		kind := kinds[0].(map[string]any)
		names[groupVersionKind{kind["group"].(string), kind["version"].(string), kind["kind"].(string)}] = name
	}
	return names
}
