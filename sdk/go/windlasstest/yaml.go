package windlasstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"windlass.dev/sdk"
)

// yaml reads YAML as definitions of kinds use it, so that a plugin's tests need no module for it: blocks and flows,
// quoted, plain and folded texts, comments, and several documents. It refuses other features, such as anchors and tags.
// It joins the lines of a text by spaces, which makes no difference to a definition.
type yaml struct {
	lines []string
	at    int
}

var (
	yamlKey     = regexp.MustCompile("^(\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^']|'')*'|[^\\s\"'\\[\\]{}&*!|>%@#`].*?)\\s*:(?:\\s+(.*))?$")
	yamlQuoted  = regexp.MustCompile(`^(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')`)
	yamlInFlow  = regexp.MustCompile(`^(?:[^,\[\]{}:]|:[^\s,\]}])+`)
	yamlNumber  = regexp.MustCompile(`^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$`)
	yamlComment = regexp.MustCompile(`(?:^|\s+)#.*$`)
)

var errUnfinished = errors.New("it does not end")

// yamlDocuments parses the documents of a text. JSON is YAML, too.
func yamlDocuments(text string) []any {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		return []any{parsed(text)}
	}
	var found []any
	var lines []string
	for number, line := range append(strings.Split(text, "\n"), "---") {
		line = strings.TrimRight(line, " \t\r")
		if line != "---" && !strings.HasPrefix(line, "--- ") {
			lines = append(lines, line)
			continue
		}
		reader := &yaml{lines: lines}
		if _, _, is := reader.peek(); is {
			found = append(found, reader.document())
		}
		// Line numbers count from the beginning of the text, so the lines before this document are empty.
		lines = make([]string, number+1)
	}
	return found
}

func (yaml *yaml) document() any {
	value := yaml.node(0)
	if _, text, is := yaml.peek(); is {
		yaml.at++
		panic(yaml.wrong(text + " does not belong to what is above it"))
	}
	return value
}

// wrong returns an error at the line that was read last.
func (yaml *yaml) wrong(what string) string {
	return fmt.Sprintf("windlasstest: the definitions are not YAML that the test host supports: line %d: %s", yaml.at, what)
}

// peek returns the indentation and the text of the next line that is not empty.
func (yaml *yaml) peek() (indent int, text string, is bool) {
	for ; yaml.at < len(yaml.lines); yaml.at++ {
		line := yaml.lines[yaml.at]
		text = strings.TrimLeft(line, " ")
		if text != "" && text[0] != '#' {
			return len(line) - len(text), text, true
		}
	}
	return 0, "", false
}

// node reads the value that starts at the next line, if that line is indented at least this far.
func (yaml *yaml) node(least int) any {
	indent, text, is := yaml.peek()
	switch {
	case !is || indent < least:
		return nil
	case isItem(text):
		return yaml.list(indent)
	case yamlKey.MatchString(text):
		return yaml.object(indent)
	}
	yaml.at++
	return yaml.value(text, least-1)
}

func isItem(text string) bool { return text == "-" || strings.HasPrefix(text, "- ") }

func (yaml *yaml) list(indent int) []any {
	items := []any{}
	for {
		at, text, is := yaml.peek()
		if !is || at != indent || !isItem(text) {
			return items
		}
		// The text after the dash counts as a line of its own, with its indentation.
		yaml.lines[yaml.at] = strings.Repeat(" ", indent+1) + text[1:]
		items = append(items, yaml.node(indent+1))
	}
}

func (yaml *yaml) object(indent int) windlass.Object {
	object := windlass.Object{}
	for {
		at, text, is := yaml.peek()
		parts := yamlKey.FindStringSubmatch(text)
		if !is || at != indent || isItem(text) || parts == nil {
			return object
		}
		yaml.at++
		object[unquoted(parts[1])] = yaml.field(parts[2], indent)
	}
}

func (yaml *yaml) field(text string, indent int) any {
	if text != "" && text[0] != '#' {
		return yaml.value(text, indent)
	}
	if at, next, is := yaml.peek(); is && at == indent && isItem(next) {
		return yaml.list(indent)
	}
	return yaml.node(indent + 1)
}

// value reads a value that starts with a text and continues in the lines that are indented further than its parent.
func (yaml *yaml) value(text string, parent int) any {
	switch text[0] {
	case '|', '>':
		return yaml.block(text, parent)
	case '&', '*', '!', '%', '@', '`':
		panic(yaml.wrong("the test host does not support anchors, aliases and tags: " + text))
	case '"', '\'', '[', '{':
		return yaml.flow(text)
	}
	text = yamlComment.ReplaceAllString(text, "")
	for {
		indent, more, is := yaml.peek()
		if !is || indent <= parent {
			return scalar(text)
		}
		text += " " + more
		yaml.at++
	}
}

// block reads a text of several lines.
func (yaml *yaml) block(header string, parent int) string {
	var lines []string
	depth := -1
	for ; yaml.at < len(yaml.lines); yaml.at++ {
		line := yaml.lines[yaml.at]
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if line != "" && indent <= parent {
			break
		}
		if line != "" && (depth < 0 || indent < depth) {
			depth = indent
		}
		lines = append(lines, line)
	}
	for place, line := range lines {
		lines[place] = line[min(max(depth, 0), len(line)):]
	}
	separator := "\n"
	if header[0] == '>' {
		separator = " "
	}
	text := strings.TrimRight(strings.Join(lines, separator), " \n")
	if !strings.Contains(header, "-") {
		text += "\n"
	}
	return text
}

// flow reads a value in brackets, braces or quotes.
func (yaml *yaml) flow(text string) any {
	for {
		value, rest, err := flow(text)
		rest = yamlComment.ReplaceAllString(rest, "")
		switch {
		case err == nil && strings.TrimSpace(rest) == "":
			return value
		case err == nil:
			panic(yaml.wrong("there is more text after the value: " + rest))
		case !errors.Is(err, errUnfinished) || yaml.at == len(yaml.lines):
			panic(yaml.wrong(err.Error() + ": " + text))
		}
		text += " " + strings.TrimSpace(yaml.lines[yaml.at])
		yaml.at++
	}
}

// flow reads the value at the start of a text, and returns the rest.
func flow(text string) (value any, rest string, err error) {
	text = strings.TrimLeft(text, " ")
	if text == "" {
		return nil, "", errUnfinished
	}
	switch text[0] {
	case '[':
		return flowList(text[1:])
	case '{':
		return flowObject(text[1:])
	case '"', '\'':
		quoted := yamlQuoted.FindString(text)
		if quoted == "" {
			return nil, "", errUnfinished
		}
		return unquoted(quoted), text[len(quoted):], nil
	}
	plain := yamlInFlow.FindString(text)
	if plain == "" {
		return nil, "", fmt.Errorf("a value is missing before %s", text)
	}
	return scalar(strings.TrimSpace(plain)), text[len(plain):], nil
}

func flowList(text string) (any, string, error) {
	items := []any{}
	for {
		text = strings.TrimLeft(text, " ,")
		if rest, is := strings.CutPrefix(text, "]"); is {
			return items, rest, nil
		}
		item, rest, err := flow(text)
		if err != nil {
			return nil, "", err
		}
		items, text = append(items, item), rest
	}
}

func flowObject(text string) (any, string, error) {
	object := windlass.Object{}
	for {
		text = strings.TrimLeft(text, " ,")
		if rest, is := strings.CutPrefix(text, "}"); is {
			return object, rest, nil
		}
		key, rest, err := flow(text)
		if err != nil {
			return nil, "", err
		}
		rest = strings.TrimLeft(rest, " ")
		if rest == "" {
			return nil, "", errUnfinished
		}
		if rest[0] != ':' {
			return nil, "", fmt.Errorf("the key %v has no value", key)
		}
		value, rest, err := flow(rest[1:])
		if err != nil {
			return nil, "", err
		}
		object[fmt.Sprint(key)], text = value, rest
	}
}

// unquoted removes the quotes of a key or a text, if it has any.
func unquoted(text string) string {
	switch text[0] {
	case '\'':
		return strings.ReplaceAll(text[1:len(text)-1], "''", "'")
	case '"':
		var plain string
		if err := json.Unmarshal([]byte(text), &plain); err != nil {
			panic(fmt.Sprintf("windlasstest: %s: %v", text, err))
		}
		return plain
	}
	return text
}

// scalar converts a plain text to its value.
func scalar(text string) any {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return nil
	case "true", "True", "TRUE":
		return true
	case "false", "False", "FALSE":
		return false
	}
	if !yamlNumber.MatchString(text) {
		return text
	}
	if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
		return whole
	}
	if number, err := strconv.ParseFloat(text, 64); err == nil {
		return number
	}
	return text
}
