package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Which sources concern a workload. Pure: nothing here calls the host.

// Rules are what the annotations of a workload say about its sources.
type Rules struct {
	auto    map[Kind]bool
	search  bool
	reload  map[Kind]names
	exclude map[Kind]names
	// mistakes are the names that cannot be read.
	mistakes []string
}

func rulesOf(workload *Workload, settings *Settings) Rules {
	rules := Rules{auto: map[Kind]bool{}, reload: map[Kind]names{}, exclude: map[Kind]names{}}
	rules.search = workload.annotation(search) == "true"
	everything := workload.annotation(auto)
	for _, kind := range kinds {
		if settings.ignores(kind) {
			continue
		}
		keys := kind.annotations()
		rules.auto[kind] = everything == "true" || workload.annotation(keys.auto) == "true" ||
			settings.AutoReloadAll && everything != "false"
		rules.reload[kind] = rules.names(keys.reload, workload)
		rules.exclude[kind] = rules.names(keys.exclude, workload)
	}
	return rules
}

// names reads a list of names, and collects its mistakes.
func (rules *Rules) names(key string, workload *Workload) names {
	list, mistakes := namesIn(workload.annotation(key))
	for _, mistake := range mistakes {
		rules.mistakes = append(rules.mistakes, fmt.Sprintf("%s has %s", key, mistake))
	}
	return list
}

// concern reports whether a change of a source reloads the workload. A source that does not exist is nil: then
// wasSeen, which reports whether the workload has been started with it, decides what its annotations would.
func (rules *Rules) concern(ref Ref, source *Source, isUsed, wasSeen bool) bool {
	switch {
	case rules.exclude[ref.kind].fit(ref.name):
		return false
	case source != nil && source.Metadata.Annotations[ignore] == "true":
		return false
	case rules.reload[ref.kind].fit(ref.name):
		return true
	case isUsed && rules.auto[ref.kind]:
		return true
	case source == nil:
		return isUsed && rules.search && wasSeen
	default:
		return isUsed && rules.search && source.Metadata.Annotations[match] == "true"
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
	concerns := func(kind Kind) bool { return rules.auto[kind] || len(rules.reload[kind]) > 0 }
	return !rules.search && !slices.ContainsFunc(kinds, concerns)
}

// names is a list of names and of patterns for whole names.
type names []nameOrPattern

type nameOrPattern struct {
	name string
	// pattern is nil if name is the name of an object.
	pattern *regexp.Regexp
}

// namesIn reads a list that is separated by commas. It returns what can be read, and the mistakes.
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
		pattern, err := regexp.Compile("^(?:" + part + ")$")
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
