package manifest

import "encoding/json"

// Where is a condition on an object that the host evaluates: see Watch.Where.
type Where struct{ document []byte }

// MarshalJSON writes the condition as an object.
func (where Where) MarshalJSON() ([]byte, error) { return choice{where.document}.MarshalJSON() }

// WhereSubject is the annotation or field of a Where.
type WhereSubject struct{ name, value string }

// Annotation is a condition's subject: the annotation with this key. Annotations are texts.
func Annotation(key string) WhereSubject { return WhereSubject{"annotation", key} }

// Field is a condition's subject: the values at this JSON pointer, such as "/spec/type". A "*" stands for each element
// of a list; then one matching value is enough.
func Field(pointer string) WhereSubject { return WhereSubject{"field", pointer} }

// Is holds if the subject is this text, number or boolean.
func (subject WhereSubject) Is(value any) Where { return subject.where("is", value) }

// In holds if the subject is one of these values.
func (subject WhereSubject) In(values ...any) Where { return subject.where("in", values) }

// NotIn holds if the subject is absent, or differs from each of these values.
func (subject WhereSubject) NotIn(values ...any) Where { return subject.where("notIn", values) }

// Exists holds if the subject has a value other than null.
func (subject WhereSubject) Exists() Where { return subject.where("exists", true) }

// Absent holds if the subject has no value, or is null.
func (subject WhereSubject) Absent() Where { return subject.where("exists", false) }

// AnyOf holds if at least one of the conditions holds. The conditions must not be results of AnyOf.
func AnyOf(conditions ...Where) Where { return whereOf(map[string]any{"any": conditions}) }

func (subject WhereSubject) where(test string, wanted any) Where {
	return whereOf(map[string]any{subject.name: subject.value, test: wanted})
}

func whereOf(members map[string]any) Where {
	document, err := json.Marshal(members)
	if err != nil {
		panic("a value of a condition is a text, a number or a boolean: " + err.Error())
	}
	return Where{document}
}
