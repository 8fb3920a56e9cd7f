package main

import (
	"fmt"
	"slices"
	"strings"
)

// Where a bucket is, what may be done to it, and its default tags. Pure: nothing here calls the host or S3.

// Settings is the plugin's configuration.
type Settings struct {
	Region    string `json:"region"`
	AccountID string `json:"accountID"`
	// Endpoint is the URL of a store that is compatible with S3; empty: that of AWS in the bucket's region.
	Endpoint        string   `json:"endpoint"`
	AccessKeyID     string   `json:"accessKeyID"`
	SecretAccessKey string   `json:"secretAccessKey"`
	SessionToken    string   `json:"sessionToken"`
	DeletionPolicy  string   `json:"deletionPolicy"`
	ResourceTags    []string `json:"resourceTags"`
	// ResyncSeconds is the time after which a bucket is compared again; zero: resyncDefault.
	ResyncSeconds int64 `json:"resyncSeconds"`
}

// configSchema is the schema of Settings.
const configSchema = `{
	"type": "object",
	"required": ["region", "accountID", "accessKeyID", "secretAccessKey"],
	"additionalProperties": false,
	"properties": {
		"region": {"type": "string", "pattern": "^[a-z0-9-]+$"},
		"accountID": {"type": "string", "pattern": "^[0-9]{12}$"},
		"endpoint": {"type": "string", "pattern": "^https?://"},
		"accessKeyID": {"type": "string", "minLength": 1},
		"secretAccessKey": {"type": "string", "minLength": 1},
		"sessionToken": {"type": "string"},
		"deletionPolicy": {"type": "string", "enum": ["delete", "retain"]},
		"resourceTags": {"type": "array", "items": {"type": "string", "pattern": "^[^=]+="}},
		"resyncSeconds": {"type": "integer", "minimum": 60, "maximum": 2000000}
	}
}`

// resourceTagsDefault are the default tags of the ACK controllers.
var resourceTagsDefault = []string{
	"services.k8s.aws/controller-version=%CONTROLLER_SERVICE%-%CONTROLLER_VERSION%",
	"services.k8s.aws/namespace=%K8S_NAMESPACE%",
}

// Policy says what may be done to a bucket.
type Policy struct {
	// retains is true if the bucket stays when the Bucket is deleted.
	retains bool
	// adopts is true if an existing bucket is taken over, and creates if a missing one is created.
	adopts, creates bool
	// readOnly is true if the plugin may change nothing in S3.
	readOnly bool
}

// policyOf returns the policy of a Bucket. A value that it does not know is an error, since a guess could delete a bucket.
func policyOf(bucket *Bucket, namespace map[string]string, settings *Settings) (policy Policy, err error) {
	annotations := bucket.Metadata.Annotations
	switch value := first(annotations[annotationDeletion], namespace[namespaceAnnDeletion], settings.DeletionPolicy, "delete"); value {
	case "delete":
	case "retain":
		policy.retains = true
	default:
		return policy, fmt.Errorf("the deletion policy %q is unknown: use delete or retain", value)
	}
	switch value := annotations[annotationAdoption]; value {
	case "":
		policy.creates = true
	case "adopt":
		policy.adopts = true
	case "adopt-or-create":
		policy.adopts, policy.creates = true, true
	default:
		return policy, fmt.Errorf("the adoption policy %q is unknown: use adopt or adopt-or-create", value)
	}
	switch value := annotations[annotationReadOnly]; value {
	case "", "false":
	case "true":
		policy = Policy{retains: true, adopts: true, readOnly: true}
	default:
		return policy, fmt.Errorf("the annotation %s is %q: use true or false", annotationReadOnly, value)
	}
	return policy, nil
}

// Place is a bucket's name and region.
type Place struct{ name, region string }

// placeOf returns where the bucket of a Bucket is. A bucket can neither be renamed nor moved, so a change is an error.
// New defaults of the namespace and of the configuration are only for new buckets.
func placeOf(bucket *Bucket, namespace map[string]string, settings *Settings) (Place, error) {
	wanted := bucket.region()
	known, has := bucket.place()
	switch {
	case !has:
		return Place{bucket.Spec.Name, first(wanted, namespace[namespaceAnnRegion], settings.Region)}, nil
	case bucket.Spec.Name != known.name:
		return known, fmt.Errorf("a bucket cannot be renamed: it is %s, and spec.name is %s", known.name, bucket.Spec.Name)
	case wanted != "" && wanted != known.region:
		return known, fmt.Errorf("a bucket cannot be moved: it is in the region %s, and %s is wanted", known.region, wanted)
	}
	return known, nil
}

// place returns the place of the managed bucket. It is in the status only after S3 has confirmed it.
func (bucket *Bucket) place() (place Place, has bool) {
	if bucket.Status.Resource == nil || bucket.Status.Resource.ARN == "" {
		return place, false
	}
	parts := strings.Split(bucket.Status.Resource.ARN, ":")
	return Place{parts[len(parts)-1], bucket.Status.Resource.Region}, true
}

// region returns the region that a Bucket itself asks for; "" if none.
func (bucket *Bucket) region() string {
	var constraint string
	if bucket.Spec.CreateBucketConfiguration != nil {
		constraint = bucket.Spec.CreateBucketConfiguration.LocationConstraint
	}
	if constraint == "EU" {
		constraint = "eu-west-1" // Its old name.
	}
	return first(constraint, bucket.Metadata.Annotations[annotationRegion])
}

// isReadOnly reports whether the plugin may change nothing in S3 for a Bucket.
func (bucket *Bucket) isReadOnly() bool {
	return bucket.Metadata.Annotations[annotationReadOnly] == "true"
}

// comesBefore reports whether this Bucket and not the other one manages the bucket that both name: the managed one, or
// else the older one. A Bucket that is only read manages nothing.
func (bucket *Bucket) comesBefore(other *Bucket) bool {
	one, another := bucket.Metadata, other.Metadata
	switch {
	case one.UID == another.UID, bucket.isReadOnly():
		return false
	case bucket.isManaged() != other.isManaged():
		return bucket.isManaged()
	case one.CreationTimestamp != another.CreationTimestamp:
		return one.CreationTimestamp < another.CreationTimestamp
	}
	return one.UID < another.UID
}

func (place Place) arn() string {
	partition := "aws"
	switch {
	case strings.HasPrefix(place.region, "cn-"):
		partition = "aws-cn"
	case strings.HasPrefix(place.region, "us-gov-"):
		partition = "aws-us-gov"
	}
	return "arn:" + partition + ":s3:::" + place.name
}

// wantedTags returns the tags that the bucket should have, sorted by key. Without spec.tagging.tagSet, all other tags
// stay; with it, only AWS' tags stay, which clients cannot change.
func wantedTags(bucket *Bucket, settings *Settings, current []Tag) []Tag {
	tags := map[string]string{}
	isWhole := bucket.Spec.Tagging != nil && bucket.Spec.Tagging.TagSet != nil
	for _, tag := range current {
		if !isWhole || strings.HasPrefix(tag.Key, "aws:") {
			tags[tag.Key] = tag.Value
		}
	}
	templates := settings.ResourceTags
	if templates == nil {
		templates = resourceTagsDefault
	}
	variables := strings.NewReplacer(
		"%CONTROLLER_SERVICE%", "s3", "%CONTROLLER_VERSION%", version,
		"%K8S_NAMESPACE%", bucket.Metadata.Namespace, "%K8S_RESOURCE_NAME%", bucket.Metadata.Name,
	)
	for _, template := range templates {
		key, value, _ := strings.Cut(template, "=")
		tags[key] = variables.Replace(value)
	}
	if bucket.Spec.Tagging != nil {
		for _, tag := range bucket.Spec.Tagging.TagSet {
			tags[tag.Key] = tag.Value
		}
	}
	return sortedTags(tags)
}

func sortedTags(tags map[string]string) []Tag {
	var sorted []Tag
	for key, value := range tags {
		sorted = append(sorted, Tag{key, value})
	}
	slices.SortFunc(sorted, func(a, b Tag) int { return strings.Compare(a.Key, b.Key) })
	return sorted
}

func first(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}
