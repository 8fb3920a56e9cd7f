// Reads objects, each with the name of its type, and writes what the type has kept.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

func newOf(name string) any {
	switch name {
	case "":
		return nil
	}
	panic(name)
}

func main() {
	file, err := os.Open("objects")
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var line struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			panic(err)
		}
		typed := newOf(line.Type)
		if err := json.Unmarshal(line.Object, typed); err != nil {
			panic(fmt.Sprintf("%v: %s", err, line.Object))
		}
		written, err := json.Marshal(typed)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(written))
	}
	if err := lines.Err(); err != nil {
		panic(err)
	}
}
