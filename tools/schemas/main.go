// Command schemas makes the embedded API server's data from the answers of a real API server.
//
//	schemas DOCUMENTS OUT
//
// DOCUMENTS has the answers of a server: resources/*.json (discovery, in its order), v3/*.json (OpenAPI v3),
// tables/*.json (lists as Tables) and version.json. OUT gets version.txt, resources.txt, types.gz, descriptions.gz and
// columns.gz. tools/build-schemas calls it.
//
// Three facts about a field come from the Go types, because no document has them: the name of its type (which messages
// contain), whether absent and zero differ, and whether zero is written.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: schemas DOCUMENTS OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "schemas:", err)
		os.Exit(1)
	}
}

func run(documents, out string) error {
	schemas, err := collect(filepath.Join(documents, "v3"))
	if err != nil {
		return err
	}
	table, err := resources(filepath.Join(documents, "resources"), schemas)
	if err != nil {
		return err
	}
	facts := goFacts()
	described := map[string]any{}
	for name, schema := range schemas {
		described[name] = takeDescriptions(schema)
		annotate(schema, facts[name])
	}
	tables, err := columns(filepath.Join(documents, "tables"))
	if err != nil {
		return err
	}
	var version struct{ GitVersion string }
	if err := read(filepath.Join(documents, "version.json"), &version); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(out, "version.txt"), []byte(version.GitVersion+"\n"), 0o644),
		os.WriteFile(filepath.Join(out, "resources.txt"), table, 0o644),
		write(filepath.Join(out, "types.gz"), schemas),
		write(filepath.Join(out, "descriptions.gz"), described),
		write(filepath.Join(out, "columns.gz"), tables),
	)
}

// columns returns the column definitions of each resource, by the name of its file.
func columns(folder string) (map[string]any, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	found := map[string]any{}
	for _, file := range files {
		var table struct{ ColumnDefinitions []any }
		if err := read(file, &table); err != nil {
			return nil, err
		}
		found[strings.TrimSuffix(filepath.Base(file), ".json")] = table.ColumnDefinitions
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no tables", folder)
	}
	return found, nil
}

// collect reads the schemas of all documents. A schema may be in several documents, which differ only in the list of
// kinds that the type may appear in. The longest list is the complete one.
func collect(folder string) (map[string]any, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	found, size := map[string]any{}, map[string]int{}
	for _, file := range files {
		var document struct {
			Components struct {
				Schemas map[string]json.RawMessage
			}
		}
		if err := read(file, &document); err != nil {
			return nil, err
		}
		for name, text := range document.Components.Schemas {
			if len(text) <= size[name] {
				continue
			}
			var schema any
			if err := json.Unmarshal(text, &schema); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", file, name, err)
			}
			found[name], size[name] = schema, len(text)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no schemas", folder)
	}
	return found, nil
}

// takeDescriptions removes the descriptions of a schema and of its fields, and returns them by field name. The schema's
// own description has the empty name.
func takeDescriptions(schema any) map[string]string {
	taken := map[string]string{}
	take := func(name string, schema any) {
		fields, isMap := schema.(map[string]any)
		if text, isText := fields["description"].(string); isMap && isText {
			taken[name] = text
			delete(fields, "description")
		}
	}
	take("", schema)
	for name, property := range properties(schema) {
		take(name, property)
	}
	return taken
}

// annotate adds the facts from Go to each field of a schema.
func annotate(schema any, facts map[string]string) {
	for name, property := range properties(schema) {
		if fact, known := facts[name]; known {
			property.(map[string]any)["x-go"] = fact
		}
	}
}

func properties(schema any) map[string]any {
	fields, _ := schema.(map[string]any)
	found, _ := fields["properties"].(map[string]any)
	return found
}

// write writes one line for each entry, with its name and its JSON, so that a reader finds an entry without parsing the
// other entries.
func write(file string, entries map[string]any) error {
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		fmt.Fprintf(&text, "%s ", name)
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(entries[name]); err != nil {
			return err
		}
	}
	var packed bytes.Buffer
	packer, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := packer.Write(text.Bytes()); err != nil {
		return err
	}
	if err := packer.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, packed.Bytes(), 0o644)
}

func read(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
