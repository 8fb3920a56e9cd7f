package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"
)

func TestUntypedNumbersAreExact(t *testing.T) {
	document := `{"whole": 9223372036854775807, "large": 18446744073709551615, "float": 1.5, "exp": 1e3, "list": [-9223372036854775808, [1]], "text": "1", "null": null}`
	wanted := map[string]any{
		"whole": int64(9223372036854775807), "large": uint64(18446744073709551615), "float": 1.5, "exp": 1000.0,
		"list": []any{int64(-9223372036854775808), []any{int64(1)}}, "text": "1", "null": nil,
	}
	var object map[string]any
	var anything any
	for _, into := range []any{&object, &anything} {
		if err := Decode(document, into); err != nil {
			t.Fatal(err)
		}
		if got := reflect.ValueOf(into).Elem().Interface(); !reflect.DeepEqual(got, wanted) {
			t.Errorf("%T: %v", into, got)
		}
	}
	back, err := json.Marshal(object)
	if err != nil || !json.Valid(back) {
		t.Error(string(back), err)
	}
}

func TestNumbersWithinStructsAreExactToo(t *testing.T) {
	type part struct {
		Any    any
		Fixed  int32
		Number json.Number
		Nested map[string]struct{ Any any }
		Maps   []map[string]any
		Next   *part
		When   time.Time
	}
	var value part
	document := `{"Any": {"a": 9007199254740993}, "Fixed": 7, "Number": 1.50, "Nested": {"x": {"Any": [9007199254740993]}},
		"Maps": [{"b": 9007199254740993}, null], "Next": {"Any": 9007199254740993}, "When": "2026-01-01T00:00:00Z"}`
	if err := Decode(document, &value); err != nil {
		t.Fatal(err)
	}
	const exact = int64(9007199254740993)
	wanted := part{
		Any: map[string]any{"a": exact}, Fixed: 7, Number: "1.50", Nested: map[string]struct{ Any any }{"x": {[]any{exact}}},
		Maps: []map[string]any{{"b": exact}, nil}, Next: &part{Any: exact}, When: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	if !reflect.DeepEqual(value, wanted) {
		t.Errorf("%+v", value)
	}
}

func TestAValueOfAnotherTypeIsNamedByItsPath(t *testing.T) {
	type port struct {
		Number int8 `json:"number"`
	}
	type spec struct {
		Message string   `json:"message"`
		Ports   []port   `json:"ports"`
		Labels  struct{} `json:"labels"`
		Open    bool     `json:"open"`
		Weight  float64  `json:"weight"`
		Anyhow  any      `json:"anyhow"`
	}
	for document, said := range map[string]string{
		`{"spec": {"message": 7}}`:                ".spec.message: a number where text is wanted",
		`{"spec": {"message": [true]}}`:           ".spec.message: a list where text is wanted",
		`{"spec": {"ports": "80"}}`:               ".spec.ports: text where a list is wanted",
		`{"spec": {"ports": [{"number": "80"}]}}`: ".spec.ports.number: text where a whole number is wanted",
		`{"spec": {"ports": [{"number": 300}]}}`:  ".spec.ports.number: 300 where int8 is wanted",
		`{"spec": {"labels": true}}`:              ".spec.labels: a boolean where an object is wanted",
		`{"spec": {"open": {}, "anyhow": 1}}`:     ".spec.open: an object where a boolean is wanted",
		`{"spec": {"weight": "1"}}`:               ".spec.weight: text where a number is wanted",
		`7`:                                       "a number where an object is wanted",
	} {
		var object struct {
			Spec spec `json:"spec"`
		}
		err := Decode(document, &object)
		var mismatch *json.UnmarshalTypeError
		if err == nil || err.Error() != said || !errors.As(err, &mismatch) {
			t.Errorf("%s: %v", document, err)
		}
	}
}

type embedded struct {
	Any    any
	hidden any
}

type pointed struct{ List []any }

type objects map[string]any

func TestNumbersWithinEmbeddedStructsAreExactToo(t *testing.T) {
	type whole struct {
		embedded
		*pointed
		// encoding/json does not change these values, so Decode must not change them either.
		objects
		error
	}
	kept := json.Number("1")
	value := whole{
		embedded: embedded{hidden: kept}, pointed: &pointed{}, objects: objects{"a": kept}, error: errors.New("kept"),
	}
	if err := Decode(`{"Any": 9007199254740993, "List": [9007199254740993], "objects": {"a": 2}}`, &value); err != nil {
		t.Fatal(err)
	}
	const exact = int64(9007199254740993)
	wanted := whole{
		embedded: embedded{Any: exact, hidden: kept}, pointed: &pointed{List: []any{exact}}, objects: objects{"a": kept}, error: value.error,
	}
	if !reflect.DeepEqual(value, wanted) {
		t.Errorf("%+v", value)
	}
	// Only the embedded struct contains the number, so Decode must find it by the type.
	var only struct{ embedded }
	if err := Decode(`{"Any": 9007199254740993}`, &only); err != nil || only.Any != exact {
		t.Error(only, err)
	}
}

func TestInvalidUTF8IsReplaced(t *testing.T) {
	for text, wanted := range map[string]string{"": "", "ü \uFFFD": "ü \uFFFD", "a\xffb": "a\uFFFDb", "cut \xc3": "cut \uFFFD"} {
		if got := Cleaned([]string{"", text}); got[1] != wanted {
			t.Errorf("%q becomes %q", text, got)
		}
		other := text
		if Clean(&other, &text); other != wanted || text != wanted {
			t.Errorf("%q and %q, not %q", other, text, wanted)
		}
	}
}

func TestADocumentThatDoesNotFitIsAnError(t *testing.T) {
	var object map[string]any
	for _, document := range []string{`[1]`, `{"a": 1e999}`, `{`, ``} {
		if err := Decode(document, &object); err == nil {
			t.Errorf("%s is taken for %v", document, object)
		}
	}
	if _, err := Object[int](Read{Object: `"text"`}); !errors.As(err, new(*Marked)) {
		t.Error(err)
	}
}

func TestJoinedErrorsAreReportedOneByOneWithTheirClasses(t *testing.T) {
	conflict := &APIError{Code: 409, Reason: Conflict, StatusReason: "Conflict", Message: "changed", Verb: "patch", Resource: "pods"}
	copied := *conflict
	wrapped := copied
	wrapped.Message = "while: changed"
	sentinel := errors.New("sentinel")
	both := copied
	both.Message = "sentinel: changed"
	final := terminal(errors.New("no"))
	for _, each := range []struct {
		err    error
		wanted []Failure
	}{
		{nil, nil},
		{errors.New("oh"), []Failure{{Message: "oh"}}},
		{errors.New(""), []Failure{{Message: "an error of type *errors.errorString without a text"}}},
		{final, []Failure{never("no")}},
		{fmt.Errorf("so: %w", final), []Failure{never("so: no")}},
		{conflict, []Failure{{API: &copied}}},
		{fmt.Errorf("while: %w", conflict), []Failure{{API: &wrapped}}},
		{fmt.Errorf("%w: %w", sentinel, conflict), []Failure{{API: &both}}},
		{errors.Join(conflict, nil, final, sentinel), []Failure{{API: &copied}, never("no"), {Message: "sentinel"}}},
		{&HTTPError{Reason: "dns", Message: "oh"}, []Failure{{Message: "oh (dns)"}}},
		{fmt.Errorf("so: %w", &HTTPError{Reason: "invalid-request", Message: "no"}), []Failure{never("so: no (invalid-request)")}},
		{&HTTPError{Reason: "not-granted", Message: "no"}, []Failure{denied("no")}},
		{fmt.Errorf("so: %w", &HTTPError{Reason: "not-granted", Message: "no"}), []Failure{denied("so: no")}},
		{terminal(errors.Join(errors.New("a"), conflict)), []Failure{never("a\n" + conflict.Error())}},
	} {
		if got := Failures(each.err); !reflect.DeepEqual(got, each.wanted) {
			t.Errorf("%v is reported as %+v", each.err, got)
		}
	}
}

func TestFailuresCanBeJoinedToOneText(t *testing.T) {
	report := Failures(errors.Join(errors.New("one"), fmt.Errorf("while: %w", conflict), terminal(errors.New("no"))))
	if text := Messages(report); text != "one; patch pods: Conflict: while: changed; no" {
		t.Error(text)
	}
	if text := Messages(nil); text != "" {
		t.Error(text)
	}
}

var conflict = &APIError{Reason: Conflict, StatusReason: "Conflict", Message: "changed", Verb: "patch", Resource: "pods"}

// api returns the failure for the error conflict, with this message instead of the error's.
func api(message string) Failure { return failureOf(conflict, message) }

func failureOf(err *APIError, message string) Failure {
	copied := *err
	copied.Message = message
	return Failure{API: &copied}
}

// terminal marks an error as terminal.
func terminal(cause error) *Marked { return &Marked{Cause: cause, Terminal: true} }

func never(message string) Failure { return Failure{Message: message, Terminal: true} }

func denied(message string) Failure {
	return Failure{API: &APIError{
		Code: 403, Reason: NotGranted, StatusReason: "NotGranted", Message: message, Verb: "fetch", Resource: "http",
	}}
}

// silent wraps errors without including their texts.
type silent struct {
	text   string
	causes []error
}

func (err silent) Error() string   { return err.text }
func (err silent) Unwrap() []error { return err.causes }

type settings struct{ error }

func (settings) Error() string     { return "cannot read the settings" }
func (err settings) Unwrap() error { return err.error }

func TestWrappingTextsAreReportedWithoutRepeats(t *testing.T) {
	final, sentinel := terminal(errors.New("no")), errors.New("sentinel")
	both := errors.Join(fmt.Errorf("the one: %w", conflict), errors.Join(final, sentinel))
	for _, each := range []struct {
		err    error
		wanted []Failure
	}{
		{fmt.Errorf("both (%w), as before", both), []Failure{
			api("both (the one: changed), as before"), never("both (no), as before"), {Message: "both (sentinel), as before"},
		}},
		{fmt.Errorf("all: %w", errors.Join(fmt.Errorf("both: %w", both))), []Failure{
			api("all: both: the one: changed"), never("all: both: no"), {Message: "all: both: sentinel"},
		}},
		{silent{"two things", []error{conflict, nil, final}}, []Failure{api("two things: changed"), never("two things: no")}},
		{fmt.Errorf("so: %w", silent{"two things", []error{settings{conflict}, final}}), []Failure{
			api("so: two things: cannot read the settings: changed"), never("so: two things: no"),
		}},
		{silent{"nothing", []error{nil}}, []Failure{{Message: "nothing"}}},
		{settings{conflict}, []Failure{api("cannot read the settings: changed")}},
		{fmt.Errorf("so: %w", settings{fmt.Errorf("the shop: %w", conflict)}), []Failure{api("so: cannot read the settings: the shop: changed")}},
		{fmt.Errorf("so (%s)%w", conflict.Message, settings{conflict}), []Failure{api("so (changed)cannot read the settings: changed")}},
		{settings{fmt.Errorf("%.0w%s", conflict, "as ever: changed")}, []Failure{api("cannot read the settings: as ever: changed")}},
		{settings{sentinel}, []Failure{{Message: "cannot read the settings: sentinel"}}},
		{settings{(*APIError)(nil)}, []Failure{{Message: "cannot read the settings: an error of type *host.APIError without a text"}}},
	} {
		if got := Failures(each.err); !reflect.DeepEqual(got, each.wanted) {
			t.Errorf("%v is reported as %+v", each.err, shown(got))
		}
	}
}

func TestATextCountsAsRepeatedOnlyAsASeparatePart(t *testing.T) {
	for _, each := range []struct{ outer, inner, wanted string }{
		{"cannot read", "no", "cannot read: no"},
		{"cannot read shop", "shop", "cannot read shop: shop"},
		{"shop is closed", "shop", "shop is closed: shop"},
		{"cannot read: shop-1", "shop", "cannot read: shop-1: shop"},
		{"no file a/shop/b", "shop", "no file a/shop/b: shop"},
		{"über", "ber", "über: ber"},
		{"cannot boot: no disk-full-flag", "disk full", "cannot boot: no disk-full-flag: disk full"},
		{"ramdisk full", "disk full", "ramdisk full: disk full"},
		{"no words", " ", "no words:  "},
		{"shop: shop", "shop", "shop: shop"},
		{"cannot read (shop), as before", "shop", "cannot read (shop), as before"},
		{"cannot read “shop”", "shop", "cannot read “shop”: shop"},
		{"cannot read - shop", "shop", "cannot read - shop"},
		{"cannot read: shop.", "shop", "cannot read: shop."},
		{"shop: cannot read", "shop", "shop: cannot read"},
		{"cannot boot because disk full, as ever", "disk full", "cannot boot because disk full, as ever"},
		{"two:\nshop\ntill", "shop", "two:\nshop\ntill"},
		{"shop", "shop", "shop"},
	} {
		got := Failures(one{each.outer, errors.New(each.inner)})
		if wanted := []Failure{{Message: each.wanted}}; !reflect.DeepEqual(got, wanted) {
			t.Errorf("%q around %q is reported as %q", each.outer, each.inner, shown(got))
		}
	}
	// If the text of the wrapped error occurs more than once, the last place counts, because context comes first.
	got := Failures(one{"shop: shop", one{"shop", errors.New("closed")}})
	if wanted := []Failure{{Message: "shop: shop: closed"}}; !reflect.DeepEqual(got, wanted) {
		t.Error(shown(got))
	}
}

// one wraps an error, with a text of its own.
type one struct {
	text  string
	cause error
}

func (err one) Error() string { return err.text }
func (err one) Unwrap() error { return err.cause }

func TestTheTextOfJoinedErrorsIsAddedToEachPart(t *testing.T) {
	final := terminal(errors.New("no"))
	parts := []error{conflict, nil, final}
	for text, wanted := range map[string][]Failure{
		"two things: " + conflict.Error() + "; no":               {api("two things: changed"), never("two things: no")},
		"two things:\n* " + conflict.Error() + "\n* no\nas ever": {api("two things:\n* changed\nas ever"), never("two things:\n* no\nas ever")},
		// The text consists only of the parts.
		"[" + conflict.Error() + ", no]": {api("changed"), never("no")},
		conflict.Error() + "\nno":        {api("changed"), never("no")},
		// Words between the parts may be about either part, so each failure repeats the whole text.
		"the one: " + conflict.Error() + "; the other: no": {
			api("the one: changed; the other: no"), never("the one: " + conflict.Error() + "; the other: no"),
		},
		"first: no":          {api("first: no: changed"), never("first: no")},
		"cannot do two":      {api("cannot do two: changed"), never("cannot do two: no")},
		"no: it has changed": {api("no: it has changed: changed"), never("no: it has changed")},
	} {
		if got := Failures(silent{text, parts}); !reflect.DeepEqual(got, wanted) {
			t.Errorf("%q is reported as %q", text, shown(got))
		}
	}
}

// multi and aggregate join errors like hashicorp/go-multierror and apimachinery.
type multi struct{ causes []error }

func (err *multi) Error() string {
	return fmt.Sprintf("%d errors occurred: %v", len(err.causes), err.causes)
}
func (err *multi) WrappedErrors() []error { return err.causes }
func (err *multi) Unwrap() error          { return asking{one{err.causes[0].Error(), err.causes[0]}} }

type aggregate []error

func (err aggregate) Error() string   { return fmt.Sprint([]error(err)) }
func (err aggregate) Errors() []error { return err }

func TestJoinedErrorsOfLibrariesAreReportedPartByPart(t *testing.T) {
	parts := []error{conflict, one{"the port", terminal(errors.New("no"))}}
	for _, each := range []struct {
		err    error
		wanted []Failure
	}{
		{&multi{parts}, []Failure{api("2 errors occurred: [changed]"), never("2 errors occurred: [the port: no]")}},
		{aggregate(parts), []Failure{api("changed"), never("the port: no")}},
		{fmt.Errorf("so: %w", aggregate(parts)), []Failure{api("so: changed"), never("so: the port: no")}},
		{aggregate{}, []Failure{{Message: "[]"}}},
	} {
		if got := Failures(each.err); !reflect.DeepEqual(got, each.wanted) {
			t.Errorf("%v is reported as %q", each.err, shown(got))
		}
	}
}

// If each join produced its text, a few hundred errors would need gigabytes, and this test would take hours.
func TestErrorsJoinedInALoopAreReportedInLinearTime(t *testing.T) {
	var errs error
	var wanted, around []Failure
	for number := range 5_000 {
		message := fmt.Sprintf("object %d: no such thing", number)
		errs = errors.Join(errs, errors.New(message))
		wanted = append(wanted, Failure{Message: message})
		around = append(around, Failure{Message: "some failed: " + message})
	}
	if got := Failures(errs); !reflect.DeepEqual(got, wanted) {
		t.Error(len(got), "failures")
	}
	if got := Failures(fmt.Errorf("some failed: %w", errs)); !reflect.DeepEqual(got, around) {
		t.Error(len(got), "failures")
	}
	if got := Failures(fmt.Errorf("%w: %w", errs, terminal(errors.New("no")))); len(got) != 1 || !got[0].Terminal {
		t.Error(len(got), "failures")
	}
}

// translated wraps another package's error. Its As method returns the equivalent error of this SDK.
type translated struct {
	one
	as error
}

func (err translated) As(target any) bool {
	switch target := target.(type) {
	case **APIError:
		*target, _ = err.as.(*APIError)
		return *target != nil
	case **Marked:
		*target, _ = err.as.(*Marked)
		return *target != nil
	}
	return false
}

// asking wraps an error. Its As method asks the wrapped error.
type asking struct{ one }

func (err asking) As(target any) bool { return errors.As(err.cause, target) }

func TestAsDecidesTheClassOfAnError(t *testing.T) {
	busy := &APIError{Reason: TooManyRequests, StatusReason: "TooManyRequests", Message: "busy", RetryAfter: time.Second}
	status, final := errors.New("status 429"), terminal(errors.New("no"))
	for _, each := range []struct {
		err    error
		wanted []Failure
	}{
		{translated{one{"quota: status 429", status}, busy}, []Failure{failureOf(busy, "quota: status 429: busy")}},
		{translated{one{"quota", status}, busy}, []Failure{failureOf(busy, "quota: status 429: busy")}},
		{fmt.Errorf("so: %w", translated{one{"quota", status}, busy}), []Failure{failureOf(busy, "so: quota: status 429: busy")}},
		{translated{one{"quota", conflict}, busy}, []Failure{failureOf(busy, "quota: "+conflict.Error()+": busy")}},
		{translated{one{"quota", final}, busy}, []Failure{failureOf(busy, "quota: no: busy")}},
		{translated{one{"quota", conflict}, final}, []Failure{never("quota: " + conflict.Error())}},
		{translated{one{"quota", conflict}, nil}, []Failure{api("quota: changed")}},
		{translated{one{"quota", nil}, busy}, []Failure{failureOf(busy, "quota: busy")}},
		{asking{one{"both", errors.Join(one{"the shop", conflict}, final)}}, []Failure{api("both: the shop: changed"), never("both: no")}},
	} {
		if got := Failures(each.err); !reflect.DeepEqual(got, each.wanted) {
			t.Errorf("%v is reported as %q", each.err, shown(got))
		}
	}
}

func TestAWrappedErrorKeepsItsDelay(t *testing.T) {
	delayed, sentinel := &Marked{Cause: errors.New("a backup runs"), RetryAfter: time.Minute}, errors.New("sentinel")
	later := func(message string) Failure { return Failure{Message: message, RetryAfter: time.Minute} }
	for _, each := range []struct {
		err    error
		wanted []Failure
	}{
		{delayed, []Failure{later("a backup runs")}},
		{fmt.Errorf("the shop: %w", delayed), []Failure{later("the shop: a backup runs")}},
		{errors.Join(conflict, delayed), []Failure{api("changed"), later("a backup runs")}},
		{fmt.Errorf("both: %w", errors.Join(delayed, sentinel)), []Failure{later("both: a backup runs"), {Message: "both: sentinel"}}},
		{silent{"two things", []error{delayed, terminal(sentinel)}}, []Failure{later("two things: a backup runs"), never("two things: sentinel")}},
		{fmt.Errorf("%w: %w", sentinel, delayed), []Failure{later("sentinel: a backup runs")}},
		{translated{one{"quota", sentinel}, delayed}, []Failure{later("quota: sentinel")}},
		// A mark replaces the class of the error that it marks, even if that error is a mark too.
		{&Marked{Cause: conflict, RetryAfter: time.Minute}, []Failure{later(conflict.Error())}},
		{&Marked{Cause: terminal(sentinel), RetryAfter: time.Minute}, []Failure{later("sentinel")}},
		{terminal(delayed), []Failure{never("a backup runs")}},
	} {
		if got := Failures(each.err); !reflect.DeepEqual(got, each.wanted) {
			t.Errorf("%v is reported as %+v", each.err, got)
		}
	}
}

func TestTheFirstClassOfAJoinedErrorCounts(t *testing.T) {
	sentinel, final := errors.New("sentinel"), terminal(errors.New("no"))
	malformed := &HTTPError{Reason: "invalid-request", Message: "odd"}
	for _, each := range []struct {
		err   error
		isAPI bool
	}{
		{fmt.Errorf("%w: %w: %w", sentinel, conflict, final), true},
		{fmt.Errorf("%w: %w: %w", sentinel, final, conflict), false},
		{fmt.Errorf("%w: %w", one{"so", conflict}, malformed), true},
		{fmt.Errorf("%w: %w", one{"so", malformed}, conflict), false},
		{fmt.Errorf("%w: %w", errors.Join(sentinel, conflict, final), final), true},
		{fmt.Errorf("%w: %w", aggregate{sentinel, fmt.Errorf("%w: %w", final, conflict)}, conflict), false},
		{fmt.Errorf("%w: %w", sentinel, terminal(conflict)), false},
		{fmt.Errorf("%w: %w", translated{one{"quota", final}, conflict}, final), true},
	} {
		got := Failures(each.err)
		if len(got) != 1 || (got[0].API != nil) != each.isAPI || got[0].Terminal == each.isAPI {
			t.Errorf("%v is reported as %+v", each.err, got)
		}
	}
}

func shown(failures []Failure) (all []string) {
	for _, failure := range failures {
		if failure.API != nil {
			failure.Message = "api " + failure.API.Message
		}
		all = append(all, failure.Message)
	}
	return all
}

func TestEveryReasonHasItsName(t *testing.T) {
	seen := map[string]bool{}
	for reason := NotFound; reason <= Other; reason++ {
		seen[reason.String()] = true
	}
	if len(seen) != len(reasons) || (Other+1).String() != "other" {
		t.Error(seen)
	}
}

func TestAListEndsAtItsLastPageOrAnError(t *testing.T) {
	pages := map[string]Page{"": {Items: []string{"1", "2"}, Next: "x"}, "x": {Items: []string{"3"}, Next: "y"}}
	read := func(token string) (Page, *APIError) {
		if page, has := pages[token]; has {
			return page, nil
		}
		return Page{}, &APIError{Reason: Expired}
	}
	var all []int
	var last error
	for number, err := range Pages[int]("", read) {
		if err != nil {
			last = err
			continue
		}
		all = append(all, *number)
	}
	var api *APIError
	if !reflect.DeepEqual(all, []int{1, 2, 3}) || !errors.As(last, &api) || api.Reason != Expired {
		t.Error(all, last)
	}
	for range Pages[int]("", read) {
		break
	}
	if page, next, err := OnePage[int]("x", read); err != nil || next != "y" || len(page) != 1 {
		t.Error(page, next, err)
	}
}
