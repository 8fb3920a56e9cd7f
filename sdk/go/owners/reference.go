package owners

import "windlass.dev/sdk"

// Reference names an object as the controller of another, for metadata.ownerReferences. If the primary should be the
// controller, use writes.Owned.
func Reference(apiVersion, kind string, owner windlass.Metadata) windlass.OwnerReference {
	return windlass.OwnerReference{
		APIVersion: apiVersion, Kind: kind, Name: owner.Name, UID: owner.UID, Controller: true, BlockOwnerDeletion: true,
	}
}
