package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Which sources concern a workload. Pure: nothing here calls the host.

// Rules are what the annotations of a workload say about its sources.
type Rules struct {
	auto    map[Kind]bool
	search  map[Kind]bool
	reload  map[Kind]names
	exclude map[Kind][]string
	// mistakes are the names that cannot be read.
	mistakes []string
}

func rulesOf(workload *Workload, settings *Settings) Rules {
	rules := Rules{
		auto: map[Kind]bool{}, search: map[Kind]bool{}, reload: map[Kind]names{}, exclude: map[Kind][]string{},
	}
	for _, kind := range kinds {
		if settings.ignores(kind) {
			continue
		}
		keys, chosen := kind.annotations(), workload.choosing(kind)
		// Any value of either annotation, even one that cannot be read, opts out of autoReloadAll.
		says := chosen[auto] != "" || chosen[keys.auto] != ""
		rules.auto[kind] = isTrue(chosen[auto]) || isTrue(chosen[keys.auto]) || settings.AutoReloadAll && !says
		rules.search[kind] = chosen[search] == "true"
		list, mistakes := namesIn(chosen[keys.reload])
		rules.reload[kind] = list
		for _, mistake := range mistakes {
			rules.mistakes = append(rules.mistakes, fmt.Sprintf("%s has %s", keys.reload, mistake))
		}
		for name := range strings.SplitSeq(workload.Metadata.Annotations[keys.exclude], ",") {
			rules.exclude[kind] = append(rules.exclude[kind], strings.TrimSpace(name))
		}
	}
	return rules
}

// isTrue reads a boolean as the original does: `True`, `t` and `1` are true, too.
func isTrue(text string) bool {
	value, err := strconv.ParseBool(text)
	return err == nil && value
}

// concern reports whether a change of a source reloads the workload. A source that does not exist is nil: then
// wasSeen, which reports whether the workload has been started with it, decides what its annotations would.
func (rules *Rules) concern(ref Ref, source *Source, isUsed, wasSeen bool) bool {
	switch {
	case slices.Contains(rules.exclude[ref.kind], ref.name):
		return false
	case source != nil && source.Metadata.Annotations[ignore] == "true":
		return false
	case rules.reload[ref.kind].fit(ref.name):
		return true
	case isUsed && rules.auto[ref.kind]:
		return true
	case source == nil:
		return isUsed && rules.search[ref.kind] && wasSeen
	default:
		return isUsed && rules.search[ref.kind] && source.Metadata.Annotations[match] == "true"
	}
}

// candidates returns the names of the sources of a kind that may concern the workload, except those that only a pattern
// fits.
func (rules *Rules) candidates(kind Kind, used refs, before Seen) map[string]bool {
	candidates := map[string]bool{}
	for ref := range used {
		if ref.kind == kind {
			candidates[ref.name] = true
		}
	}
	for _, ref := range before.refs() {
		if ref.kind == kind {
			candidates[ref.name] = true
		}
	}
	for _, it := range rules.reload[kind] {
		if it.pattern == nil {
			candidates[it.name] = true
		}
	}
	return candidates
}

// isEmpty reports whether no source can concern the workload.
func (rules *Rules) isEmpty() bool {
	concerns := func(kind Kind) bool { return rules.auto[kind] || rules.search[kind] || len(rules.reload[kind]) > 0 }
	return !slices.ContainsFunc(kinds, concerns)
}

// names is a list of names and of patterns.
type names []nameOrPattern

type nameOrPattern struct {
	name string
	// pattern is nil if name is the name of an object.
	pattern *regexp.Regexp
}

// namesIn reads a list that is separated by commas. It returns what can be read, and the mistakes. As in the original,
// the ends of a pattern bind closer than its `|`: `app|db` fits names that begin with `app` or end with `db`.
func namesIn(text string) (list names, mistakes []string) {
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if !isPattern(part) {
			list = append(list, nameOrPattern{name: part})
			continue
		}
		pattern, err := regexp.Compile("^" + part + "$")
		if err != nil {
			mistakes = append(mistakes, fmt.Sprintf("%q, which is neither a name nor a regular expression", part))
			continue
		}
		list = append(list, nameOrPattern{part, pattern})
	}
	return list, mistakes
}

// isPattern reports whether a text is no name of an object. A name with a dot is taken for a name, although it would be
// a pattern too: the dot would fit itself.
func isPattern(text string) bool {
	return strings.ContainsFunc(text, func(letter rune) bool {
		return (letter < 'a' || letter > 'z') && (letter < '0' || letter > '9') && letter != '-' && letter != '.'
	})
}

func (list names) fit(name string) bool {
	return slices.ContainsFunc(list, func(it nameOrPattern) bool {
		return it.name == name || it.pattern != nil && it.pattern.MatchString(name)
	})
}

// hasPattern reports whether the objects that the list names are known only from a list of all objects.
func (list names) hasPattern() bool {
	return slices.ContainsFunc(list, func(it nameOrPattern) bool { return it.pattern != nil })
}
