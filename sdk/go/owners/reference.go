package owners

import "windlass.dev/sdk"

// Reference names an object as the controller of another, for metadata.ownerReferences. Where the primary is to be the controller,
// writes.Owned does it.
func Reference(apiVersion, kind string, owner windlass.Metadata) windlass.OwnerReference {
	return windlass.OwnerReference{
		APIVersion: apiVersion, Kind: kind, Name: owner.Name, UID: owner.UID, Controller: true, BlockOwnerDeletion: true,
	}
}
