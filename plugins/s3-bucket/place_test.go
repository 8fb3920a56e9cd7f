package main

import (
	"testing"

	"windlass.dev/sdk"
)

func TestTheRegionIsTheMostSpecificOne(t *testing.T) {
	settings := &Settings{Region: "us-east-1"}
	bucket := &Bucket{}
	region := func(namespace map[string]string) string {
		place, err := placeOf(bucket, namespace, settings)
		if err != nil {
			return err.Error()
		}
		return place.region
	}
	equal(t, "the configuration", region(nil), "us-east-1")
	namespace := map[string]string{namespaceAnnRegion: "us-west-1"}
	equal(t, "the namespace", region(namespace), "us-west-1")
	bucket.Metadata.Annotations = map[string]string{annotationRegion: "us-west-2"}
	equal(t, "the annotation", region(namespace), "us-west-2")
	bucket.Spec.CreateBucketConfiguration = &CreateBucket{"EU"}
	equal(t, "the spec", region(namespace), "eu-west-1")
	bucket.Status.Resource = &Resource{ARN: "arn:aws:s3:::", Region: "eu-north-1"}
	equal(t, "a move", region(namespace), "a bucket cannot be moved: it is in the region eu-north-1, and eu-west-1 is wanted")
	bucket.Spec.CreateBucketConfiguration, bucket.Metadata.Annotations = nil, nil
	equal(t, "a new default", region(namespace), "eu-north-1")
}

func TestARNsHaveThePartitionOfTheRegion(t *testing.T) {
	for region, wanted := range map[string]string{
		"eu-west-1": "arn:aws:s3:::b", "cn-north-1": "arn:aws-cn:s3:::b", "us-gov-west-1": "arn:aws-us-gov:s3:::b",
	} {
		equal(t, region, Place{"b", region}.arn(), wanted)
	}
}

func TestTagsOfOthersStayUnlessTheSpecHasTags(t *testing.T) {
	current := []Tag{{"aws:cloudformation:stack-id", "1"}, {"cost", "2"}, {"team", "old"}}
	settings := &Settings{ResourceTags: []string{"by=%K8S_NAMESPACE%/%K8S_RESOURCE_NAME%", "team=default"}}
	bucket := &Bucket{Metadata: windlass.Metadata{Name: "files", Namespace: "prod"}}
	equal(t, "without", wantedTags(bucket, settings, current), "[{aws:cloudformation:stack-id 1} {by prod/files} {cost 2} {team default}]")
	bucket.Spec.Tagging = &Tagging{[]Tag{{"team", "shop"}}}
	equal(t, "with", wantedTags(bucket, settings, current), "[{aws:cloudformation:stack-id 1} {by prod/files} {team shop}]")
	bucket.Spec.Tagging = &Tagging{}
	equal(t, "with no set", len(wantedTags(bucket, settings, current)), 4)
	bucket.Spec.Tagging = &Tagging{[]Tag{}}
	equal(t, "with an empty set", len(wantedTags(bucket, settings, current)), 3)
	equal(t, "none", len(wantedTags(&Bucket{}, &Settings{ResourceTags: []string{}}, nil)), 0)
}

func TestUnknownPoliciesAreErrors(t *testing.T) {
	for _, annotations := range []map[string]string{
		{annotationDeletion: "Delete"}, {annotationAdoption: "yes"}, {annotationReadOnly: "1"},
	} {
		bucket := &Bucket{Metadata: windlass.Metadata{Annotations: annotations}}
		if policy, err := policyOf(bucket, nil, &Settings{}); err == nil {
			t.Errorf("%v is %+v", annotations, policy)
		}
	}
}
