package host

import "strings"

// around puts the reported text of an error (inner) into the text of the error that wraps it (outer). The reported text
// replaces outer[start:end], the wrapped error's own text. If start is none, the reported text replaces the same text
// in outer. If outer does not contain it, it follows outer.
func around(outer, inner string, start, end int) string {
	if start < 0 {
		start, end = find(outer, inner)
	}
	switch {
	case start >= 0:
		return outer[:start] + inner + outer[end:]
	case outer == "" || inner == "":
		return outer + inner
	default:
		return outer + ": " + inner
	}
}

// frame finds the part of a joined error's text that contains the texts of all parts, one after another and without
// words in between. If there are no words around them either, it returns the whole text.
func frame(outer string, parts []error) (start, end int) {
	for _, part := range parts {
		if part == nil {
			continue
		}
		from, to := findFrom(end, outer, textOf(part))
		if from < 0 || end > 0 && hasWord(outer[end:from]) {
			return none, none
		}
		if end == 0 {
			start = from
		}
		end = to
	}
	if !hasWord(outer[:start]) && !hasWord(outer[end:]) {
		return 0, len(outer)
	}
	return start, end
}

// none means that a text was not found.
const none = -1

// find finds one text as a separate part of another: at its beginning or end, or separated from the words around it by
// punctuation (by spaces, if it has several words itself), and not inside a name such as "shop-1". Any other occurrence
// counts as a coincidence. If there are several such places, find returns the last one, because context mostly comes
// before an error.
func find(outer, inner string) (start, end int) {
	start = none
	for from, to := findFrom(0, outer, inner); from >= 0; from, to = findFrom(to, outer, inner) {
		start, end = from, to
	}
	return start, end
}

// findFrom finds the first occurrence, at or after an offset, that is a separate part as for find.
func findFrom(end int, outer, inner string) (from, to int) {
	bySpaces := strings.Contains(inner, " ")
	for inner != "" {
		skipped := strings.Index(outer[end:], inner)
		if skipped < 0 {
			break
		}
		start := end + skipped
		end = start + len(inner)
		if isSetOff(outer, start, end, bySpaces) {
			return start, end
		}
	}
	return none, none
}

func isSetOff(outer string, start, end int, bySpaces bool) bool {
	left, right := start, end
	for !bySpaces && left > 0 && outer[left-1] == ' ' {
		left--
	}
	for !bySpaces && right < len(outer) && outer[right] == ' ' {
		right++
	}
	if left == start && left > 0 && isOfName(outer[left-1]) {
		left--
	}
	if right == end && right < len(outer) && isOfName(outer[right]) {
		right++
	}
	return !hasWord(outer[max(left-1, 0):left]) && !hasWord(outer[right:min(right+1, len(outer))])
}

// isOfName reports whether names contain a character, in addition to letters and digits.
func isOfName(letter byte) bool { return strings.IndexByte("-_./", letter) >= 0 }

// hasWord reports whether a text has a letter or a digit. It counts every non-ASCII character as a letter, because
// Unicode's tables would make a larger component. At worst a text is repeated.
func hasWord(text string) bool {
	for _, letter := range []byte(text) {
		if lower := letter | 0x20; letter >= 0x80 || letter >= '0' && letter <= '9' || lower >= 'a' && lower <= 'z' {
			return true
		}
	}
	return false
}
