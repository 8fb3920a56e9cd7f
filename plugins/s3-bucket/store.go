package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"windlass.dev/sdk/http/client"
)

// The requests to S3, by AWS' client over the host's HTTP.

// Store is S3 in one region, for one bucket.
type Store struct {
	client *s3.Client
	place  Place
	// owner is the account that must own the bucket. S3 refuses every request if another one does.
	owner *string
}

func newStore(place Place, settings *Settings) *Store {
	transport := client.New()
	// A redirected request has the wrong signature. S3 redirects only to other regions.
	transport.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	options := s3.Options{
		Region: place.region,
		// The name of the bucket is in the path, so that one host name is enough for the policy.
		UsePathStyle: true,
		HTTPClient:   transport,
		// The host retries: the client's waits would not wait in a plugin.
		Retryer:                     aws.NopRetryer{},
		DisableS3ExpressSessionAuth: aws.Bool(true),
		RequestChecksumCalculation:  aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation:  aws.ResponseChecksumValidationWhenRequired,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{
				AccessKeyID: settings.AccessKeyID, SecretAccessKey: settings.SecretAccessKey, SessionToken: settings.SessionToken,
			}, nil
		}),
	}
	if settings.Endpoint != "" {
		options.BaseEndpoint = &settings.Endpoint
	}
	return &Store{s3.New(options), place, &settings.AccountID}
}

// exists reports whether the bucket exists and is of the owner.
func (store *Store) exists(ctx context.Context) (bool, error) {
	_, err := store.client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &store.place.name, ExpectedBucketOwner: store.owner})
	if statusCode(err) == http.StatusNotFound {
		return false, nil
	}
	return err == nil, inContext(err, "look for the bucket")
}

// create creates the bucket, and returns its location. It may be called again after a lost answer: isNew is false if
// the account has the bucket already. In us-east-1, S3 does not say that.
func (store *Store) create(ctx context.Context) (location string, isNew bool, err error) {
	input := &s3.CreateBucketInput{Bucket: &store.place.name}
	// S3 refuses the name of this region, which is the default.
	if store.place.region != "us-east-1" {
		constraint := types.BucketLocationConstraint(store.place.region)
		input.CreateBucketConfiguration = &types.CreateBucketConfiguration{LocationConstraint: constraint}
	}
	output, err := store.client.CreateBucket(ctx, input)
	if owned := (*types.BucketAlreadyOwnedByYou)(nil); errors.As(err, &owned) {
		return "", false, nil
	}
	if err != nil {
		return "", false, inContext(err, "create the bucket")
	}
	return aws.ToString(output.Location), true, nil
}

// delete deletes the bucket, which S3 does only if it is empty.
func (store *Store) delete(ctx context.Context) error {
	_, err := store.client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &store.place.name, ExpectedBucketOwner: store.owner})
	if statusCode(err) == http.StatusNotFound {
		return nil
	}
	return inContext(err, "delete the bucket")
}

// differences compares the bucket with the desired state, and returns the names of the parts that it has changed.
func (store *Store) differences(ctx context.Context, bucket *Bucket, settings *Settings) (changed []string, err error) {
	var failures []error
	for _, part := range []struct {
		name string
		sync func(context.Context) (bool, error)
	}{
		// Public access comes first: the other parts may be slow or fail.
		{"publicAccessBlock", func(ctx context.Context) (bool, error) { return store.syncAccess(ctx, bucket.Spec.PublicAccessBlock) }},
		{"encryption", func(ctx context.Context) (bool, error) { return store.syncEncryption(ctx, bucket.Spec.Encryption) }},
		{"versioning", func(ctx context.Context) (bool, error) { return store.syncVersioning(ctx, bucket.Spec.Versioning) }},
		{"tagging", func(ctx context.Context) (bool, error) { return store.syncTags(ctx, bucket, settings) }},
	} {
		isChanged, err := part.sync(ctx)
		if err != nil {
			failures = append(failures, inContext(err, "set "+part.name))
		} else if isChanged {
			changed = append(changed, part.name)
		}
	}
	return changed, errors.Join(failures...)
}

func (store *Store) syncAccess(ctx context.Context, wanted *PublicAccessBlock) (bool, error) {
	if wanted == nil {
		return false, nil
	}
	current := &types.PublicAccessBlockConfiguration{}
	output, err := store.client.GetPublicAccessBlock(ctx, &s3.GetPublicAccessBlockInput{
		Bucket: &store.place.name, ExpectedBucketOwner: store.owner,
	})
	if err != nil && code(err) != "NoSuchPublicAccessBlockConfiguration" {
		return false, err
	}
	if err == nil && output.PublicAccessBlockConfiguration != nil {
		current = output.PublicAccessBlockConfiguration
	}
	next := wanted.over(current)
	if flags(current) == flags(next) {
		return false, nil
	}
	_, err = store.client.PutPublicAccessBlock(ctx, &s3.PutPublicAccessBlockInput{
		Bucket: &store.place.name, ExpectedBucketOwner: store.owner, PublicAccessBlockConfiguration: next,
	})
	return true, err
}

// over returns what S3 has, with the fields that the spec has in their place. S3 takes a field that is not sent for
// false, which would switch a protection off.
func (wanted *PublicAccessBlock) over(current *types.PublicAccessBlockConfiguration) *types.PublicAccessBlockConfiguration {
	chosen := func(wanted, current *bool) *bool {
		if wanted == nil {
			wanted = aws.Bool(aws.ToBool(current))
		}
		return wanted
	}
	return &types.PublicAccessBlockConfiguration{
		BlockPublicAcls:       chosen(wanted.BlockPublicACLs, current.BlockPublicAcls),
		BlockPublicPolicy:     chosen(wanted.BlockPublicPolicy, current.BlockPublicPolicy),
		IgnorePublicAcls:      chosen(wanted.IgnorePublicACLs, current.IgnorePublicAcls),
		RestrictPublicBuckets: chosen(wanted.RestrictPublicBuckets, current.RestrictPublicBuckets),
	}
}

func flags(block *types.PublicAccessBlockConfiguration) [4]bool {
	return [...]bool{
		aws.ToBool(block.BlockPublicAcls), aws.ToBool(block.BlockPublicPolicy),
		aws.ToBool(block.IgnorePublicAcls), aws.ToBool(block.RestrictPublicBuckets),
	}
}

func (store *Store) syncEncryption(ctx context.Context, wanted *Encryption) (bool, error) {
	if wanted == nil {
		return false, nil
	}
	output, err := store.client.GetBucketEncryption(ctx, &s3.GetBucketEncryptionInput{
		Bucket: &store.place.name, ExpectedBucketOwner: store.owner,
	})
	if err != nil && code(err) != "ServerSideEncryptionConfigurationNotFoundError" {
		return false, err
	}
	var current []types.ServerSideEncryptionRule
	if err == nil && output.ServerSideEncryptionConfiguration != nil {
		current = output.ServerSideEncryptionConfiguration.Rules
	}
	if slices.EqualFunc(current, wanted.Rules, sameRule) {
		return false, nil
	}
	var rules []types.ServerSideEncryptionRule
	for place, rule := range wanted.Rules {
		input := rule.input()
		// A bucket key belongs to its algorithm.
		if place < len(current) && rule.BucketKeyEnabled == nil && algorithmOf(current[place]) == algorithmOf(input) {
			input.BucketKeyEnabled = current[place].BucketKeyEnabled
		}
		rules = append(rules, input)
	}
	_, err = store.client.PutBucketEncryption(ctx, &s3.PutBucketEncryptionInput{
		Bucket: &store.place.name, ExpectedBucketOwner: store.owner,
		ServerSideEncryptionConfiguration: &types.ServerSideEncryptionConfiguration{Rules: rules},
	})
	return true, err
}

// input returns a rule as S3 expects it.
func (rule EncryptionRule) input() types.ServerSideEncryptionRule {
	input := types.ServerSideEncryptionRule{BucketKeyEnabled: rule.BucketKeyEnabled}
	if rule.Default != nil {
		input.ApplyServerSideEncryptionByDefault = &types.ServerSideEncryptionByDefault{
			SSEAlgorithm: types.ServerSideEncryption(rule.Default.Algorithm),
		}
		if rule.Default.KeyID != "" {
			input.ApplyServerSideEncryptionByDefault.KMSMasterKeyID = &rule.Default.KeyID
		}
	}
	return input
}

func sameRule(current types.ServerSideEncryptionRule, wanted EncryptionRule) bool {
	var found, desired DefaultEncryption
	if by := current.ApplyServerSideEncryptionByDefault; by != nil {
		found = DefaultEncryption{string(by.SSEAlgorithm), aws.ToString(by.KMSMasterKeyID)}
	}
	if wanted.Default != nil {
		desired = *wanted.Default
	}
	sameKey := wanted.BucketKeyEnabled == nil || aws.ToBool(current.BucketKeyEnabled) == *wanted.BucketKeyEnabled
	return found == desired && sameKey
}

func algorithmOf(rule types.ServerSideEncryptionRule) types.ServerSideEncryption {
	if rule.ApplyServerSideEncryptionByDefault == nil {
		return ""
	}
	return rule.ApplyServerSideEncryptionByDefault.SSEAlgorithm
}

func (store *Store) syncVersioning(ctx context.Context, wanted *Versioning) (bool, error) {
	if wanted == nil {
		return false, nil
	}
	output, err := store.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{
		Bucket: &store.place.name, ExpectedBucketOwner: store.owner,
	})
	if err != nil || string(output.Status) == wanted.Status {
		return false, err
	}
	_, err = store.client.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{
		Bucket: &store.place.name, ExpectedBucketOwner: store.owner,
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatus(wanted.Status)},
	})
	return true, err
}

func (store *Store) syncTags(ctx context.Context, bucket *Bucket, settings *Settings) (bool, error) {
	output, err := store.client.GetBucketTagging(ctx, &s3.GetBucketTaggingInput{
		Bucket: &store.place.name, ExpectedBucketOwner: store.owner,
	})
	if err != nil && code(err) != "NoSuchTagSet" {
		return false, err
	}
	tags := map[string]string{}
	if err == nil {
		for _, tag := range output.TagSet {
			tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
		}
	}
	current := sortedTags(tags)
	wanted := wantedTags(bucket, settings, current)
	if slices.Equal(current, wanted) {
		return false, nil
	}
	if len(wanted) == 0 {
		_, err := store.client.DeleteBucketTagging(ctx, &s3.DeleteBucketTaggingInput{
			Bucket: &store.place.name, ExpectedBucketOwner: store.owner,
		})
		return true, err
	}
	var set []types.Tag
	for _, tag := range wanted {
		set = append(set, types.Tag{Key: &tag.Key, Value: &tag.Value})
	}
	_, err = store.client.PutBucketTagging(ctx, &s3.PutBucketTaggingInput{
		Bucket: &store.place.name, ExpectedBucketOwner: store.owner, Tagging: &types.Tagging{TagSet: set},
	})
	return true, err
}

func inContext(err error, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// statusCode returns the HTTP status of an error, or zero.
func statusCode(err error) int {
	if response := (*smithyhttp.ResponseError)(nil); errors.As(err, &response) {
		return response.HTTPStatusCode()
	}
	return 0
}

// code returns S3's error code, or "".
func code(err error) string {
	var answer smithy.APIError
	if errors.As(err, &answer) {
		return answer.ErrorCode()
	}
	return ""
}
