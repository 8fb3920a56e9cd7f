package host

import "strings"

// around is what was told of an error, in the text of one that wraps it: in its own text's place there, which is none if it has none, or
// where it stands already, or else behind it.
func around(outer, told string, start, end int) string {
	if start < 0 {
		start, end = find(outer, told)
	}
	switch {
	case start >= 0:
		return outer[:start] + told + outer[end:]
	case outer == "" || told == "":
		return outer + told
	default:
		return outer + ": " + told
	}
}

// frame says where the texts of all its parts stand in that of a sum of errors, if they follow one another with no word between them.
// They are all of it if there is no word around them either.
func frame(outer string, parts []error) (start, end int) {
	for _, part := range parts {
		if part == nil {
			continue
		}
		from, to := findFrom(end, outer, said(part))
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

// No place in a text.
const none = -1

// find says where a text stands in another on its own: at its beginning or end, or set off from the words around it by punctuation (by
// spaces, if it has several words itself), and not as a part of a name such as "shop-1". Anywhere else it is by chance. The last such
// place is taken, for what is said around an error mostly stands before it.
func find(outer, inner string) (start, end int) {
	start = none
	for from, to := findFrom(0, outer, inner); from >= 0; from, to = findFrom(to, outer, inner) {
		start, end = from, to
	}
	return start, end
}

// findFrom says where it does so first, from a place on.
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

// isOfName says of what names are made of, beside letters and digits.
func isOfName(letter byte) bool { return strings.IndexByte("-_./", letter) >= 0 }

// hasWord says whether a text has a letter or a digit. What is not ASCII is taken for one: rather is something told twice than not at
// all, and Unicode's tables make a larger component.
func hasWord(text string) bool {
	for _, letter := range []byte(text) {
		if lower := letter | 0x20; letter >= 0x80 || letter >= '0' && letter <= '9' || lower >= 'a' && lower <= 'z' {
			return true
		}
	}
	return false
}
