// Package owners claims existing objects by their labels.
package owners

import (
	"errors"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/guest"
)

// Claimed is the result of a claim.
type Claimed struct {
	// Adopted are the objects that the primary controls from now on.
	Adopted []windlass.Ref
	// Released are the objects that it no longer controls.
	Released []windlass.Ref
}

// Claim makes the primary the controller of all matching objects of its namespace that have no controller, and releases
// objects that it controls and that no longer match. It does not touch objects of other controllers. It attempts all
// changes and joins the errors. Afterwards cache.List with Owned finds the objects.
//
// The selector must not be empty. A declared watch of the kind must have no selectors, because they would hide the
// objects to release.
func Claim(kind windlass.Kind, labelSelector string) (Claimed, error) {
	adopted, released, failed := guest.Host().Claim(kind, labelSelector)
	errs := make([]error, len(failed))
	for place, err := range failed {
		errs[place] = err
	}
	return Claimed{Adopted: adopted, Released: released}, errors.Join(errs...)
}
