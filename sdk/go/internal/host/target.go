package host

// Target selects primaries that a change concerns: one by its key, or all with a value in an index.
type Target struct {
	// Namespace and Name are the key of one primary. Namespace is empty for a cluster-scoped primary.
	Namespace, Name string
	// Index and Value name an index of the primary, and a value in it. If Index is empty, the key selects the primary.
	Index, Value string
}

func (target Target) String() string {
	switch {
	case target.Index != "":
		return target.Index + ": " + target.Value
	case target.Namespace != "":
		return target.Namespace + "/" + target.Name
	}
	return target.Name
}
