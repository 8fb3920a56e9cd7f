package labels

import (
	"encoding/json"
	"testing"
)

func TestEveryRequirementIsInTheText(t *testing.T) {
	for document, wanted := range map[string]string{
		`{}`: "",
		`{"matchLabels": {"b": "2", "a": "1"}, "matchExpressions": [
			{"key": "tier", "operator": "In", "values": ["b", "a", "b"]}, {"key": "zone", "operator": "NotIn", "values": ["x"]},
			{"key": "team", "operator": "Exists"}, {"key": "canary", "operator": "DoesNotExist"}]}`: "a=1,b=2,tier in (a,b),zone notin (x),team,!canary",
		`{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}`: "a Gt (1)",
	} {
		var selector Selector
		if err := json.Unmarshal([]byte(document), &selector); err != nil {
			t.Fatal(err)
		}
		if got := selector.String(); got != wanted {
			t.Errorf("%s: %s", document, got)
		}
	}
}
