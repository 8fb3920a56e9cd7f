package host

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// around is what was told of an error, in the text of one that wraps it.
func around(outer, inner, told string) string {
	before, after, is := cut(outer, inner)
	if !is {
		before, after, is = cut(outer, told)
	}
	switch {
	case is:
		return before + told + after
	case outer == "":
		return told
	case told == "":
		return outer
	default:
		return outer + ": " + told
	}
}

// cut is the text of an error before and after that of one that it wraps, if it says it.
func cut(outer, inner string) (before, after string, is bool) {
	start, end, is := find(outer, inner)
	return outer[:start], outer[end:], is
}

// frame is what a sum of errors says before and after their texts, if these follow one another with no word between them. It is
// nothing if it has no word either.
func frame(outer string, texts []string) (before, after string, is bool) {
	before = outer
	for place := len(texts) - 1; place >= 0; place-- {
		start, end, is := find(before, texts[place])
		last := place == len(texts)-1
		if !is || !last && strings.ContainsFunc(before[end:], isOfWord) {
			return outer, "", false
		}
		if last {
			after = before[end:]
		}
		before = before[:start]
	}
	if !strings.ContainsFunc(before+after, isOfWord) {
		return "", "", true
	}
	return before, after, true
}

// find says where a text stands in another on its own: at its beginning or end, or set off from the words around it by punctuation (by
// spaces, if it has several words itself), and not as a part of a name such as "shop-1". Anywhere else it is by chance. The last such
// place is taken, for what is said around an error mostly stands before it.
func find(outer, inner string) (start, end int, is bool) {
	before := outer
	alone := strings.Trim(inner, " ")
	spaces := " "
	if strings.Contains(alone, " ") {
		spaces = ""
	}
	for alone != "" {
		start = strings.LastIndex(before, inner)
		if start < 0 {
			break
		}
		before, end = before[:start], start+len(inner)
		if isSetOff(before, outer[end:], spaces) {
			return start, end, true
		}
	}
	return len(outer), len(outer), false
}

// What names are made of, beside letters and digits.
const ofNames = "-_./"

// isSetOff looks beyond what sets nothing off.
func isSetOff(before, after, nothing string) bool {
	left, right := strings.TrimRight(before, nothing), strings.TrimLeft(after, nothing)
	if left == before {
		left = strings.TrimRight(left, ofNames)
	}
	if right == after {
		right = strings.TrimLeft(right, ofNames)
	}
	last, _ := utf8.DecodeLastRuneInString(left)
	first, _ := utf8.DecodeRuneInString(right)
	return !isOfWord(last) && !isOfWord(first)
}

func isOfWord(letter rune) bool { return unicode.IsLetter(letter) || unicode.IsDigit(letter) }
