package main

import (
	"windlass.dev/sdk"
)

// The kind Bucket of the ACK controller for S3, as far as this plugin uses it.

const (
	apiVersion = "s3.services.k8s.aws/v1alpha1"
	kind       = "Bucket"
	// finalizer marks a Bucket whose bucket the plugin has created or adopted, or is about to.
	finalizer = "finalizers.s3.services.k8s.aws/Bucket"
)

// Annotations of a Bucket, and two of its namespace.
const (
	annotationDeletion   = "services.k8s.aws/deletion-policy"
	annotationAdoption   = "services.k8s.aws/adoption-policy"
	annotationReadOnly   = "services.k8s.aws/read-only"
	annotationRegion     = "services.k8s.aws/region"
	namespaceAnnDeletion = "s3.services.k8s.aws/deletion-policy"
	namespaceAnnRegion   = "services.k8s.aws/default-region"
)

// Bucket is a bucket in S3.
type Bucket struct {
	Metadata windlass.Metadata `json:"metadata"`
	Spec     Spec              `json:"spec"`
	Status   Status            `json:"status"`
}

// Spec is the desired state. A part that is nil is left as it is.
type Spec struct {
	Name                      string             `json:"name"`
	CreateBucketConfiguration *CreateBucket      `json:"createBucketConfiguration"`
	Tagging                   *Tagging           `json:"tagging"`
	Versioning                *Versioning        `json:"versioning"`
	Encryption                *Encryption        `json:"encryption"`
	PublicAccessBlock         *PublicAccessBlock `json:"publicAccessBlock"`
}

// CreateBucket says where the bucket is created.
type CreateBucket struct {
	LocationConstraint string `json:"locationConstraint"`
}

// Tagging has the tags of the bucket. If TagSet is nil, the tags stay.
type Tagging struct {
	TagSet []Tag `json:"tagSet"`
}

// Tag is a key with a value.
type Tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Versioning is Enabled or Suspended.
type Versioning struct {
	Status string `json:"status"`
}

// Encryption has the default encryption of new objects.
type Encryption struct {
	Rules []EncryptionRule `json:"rules"`
}

// EncryptionRule is a rule of the default encryption. If BucketKeyEnabled is nil, S3's value stays.
type EncryptionRule struct {
	Default          *DefaultEncryption `json:"applyServerSideEncryptionByDefault"`
	BucketKeyEnabled *bool              `json:"bucketKeyEnabled"`
}

// DefaultEncryption is an algorithm and its key.
type DefaultEncryption struct {
	Algorithm string `json:"sseAlgorithm"`
	KeyID     string `json:"kmsMasterKeyID"`
}

// PublicAccessBlock limits public access. A field that is nil stays as it is in S3.
type PublicAccessBlock struct {
	BlockPublicACLs       *bool `json:"blockPublicACLs"`
	BlockPublicPolicy     *bool `json:"blockPublicPolicy"`
	IgnorePublicACLs      *bool `json:"ignorePublicACLs"`
	RestrictPublicBuckets *bool `json:"restrictPublicBuckets"`
}

// Status is the observed state.
type Status struct {
	Resource   *Resource   `json:"ackResourceMetadata,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
	// Location is what S3 answered to the creation.
	Location string `json:"location,omitempty"`
}

// Resource identifies a bucket that the plugin manages.
type Resource struct {
	ARN            string `json:"arn,omitempty"`
	OwnerAccountID string `json:"ownerAccountID"`
	Region         string `json:"region"`
}

// Condition is a condition of the ACK controllers, which has no generation.
type Condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
	Reason             string `json:"reason,omitempty"`
	Message            string `json:"message,omitempty"`
}
