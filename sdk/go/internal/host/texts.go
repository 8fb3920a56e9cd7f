package host

import "strings"

// around puts the reported text of an error into the text of the error that wraps it: in place of the error's own text;
// if the wrapping text does not contain that, or contains the reported text already, unchanged or after it.
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

// frame finds the texts of all parts in the text of joined errors, if they follow one another without words in between.
// Without words around them either, they are the whole text.
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

// find finds one text as a separate part of another: at its beginning or end, or separated from the words around it by
// punctuation (by spaces, if it has several words itself), and not as a part of a name such as "shop-1". Anywhere else
// it occurs by chance. The last such place counts, because context mostly comes before an error.
func find(outer, inner string) (start, end int) {
	start = none
	for from, to := findFrom(0, outer, inner); from >= 0; from, to = findFrom(to, outer, inner) {
		start, end = from, to
	}
	return start, end
}

// findFrom finds the first such place from an offset on.
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

// isOfName reports whether a character is one of names, beside letters and digits.
func isOfName(letter byte) bool { return strings.IndexByte("-_./", letter) >= 0 }

// hasWord reports whether a text has a letter or a digit. Non-ASCII characters count as letters: a repeated text is
// better than a missing one, and Unicode's tables make a larger component.
func hasWord(text string) bool {
	for _, letter := range []byte(text) {
		if lower := letter | 0x20; letter >= 0x80 || letter >= '0' && letter <= '9' || lower >= 'a' && lower <= 'z' {
			return true
		}
	}
	return false
}
