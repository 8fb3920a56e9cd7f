package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"windlass.dev/sdk"
	"windlass.dev/sdk/windlasstest"
)

func equal(t *testing.T, what string, got, wanted any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		t.Errorf("%s:\n got    %v\n wanted %v", what, got, wanted)
	}
}

// called calls the plugin, and returns the requests and the reasons of Events.
func called(t *testing.T, host *windlasstest.Host, s3 *fakeS3) (string, windlass.Outcome) {
	t.Helper()
	s3.asked = nil
	host.Forget()
	outcome, err := host.Reconcile(reconcile, target)
	if err != nil {
		t.Fatal(err)
	}
	all := s3.asked
	for _, event := range host.Events() {
		all = append(all, event.Reason)
	}
	return strings.Join(all, ", "), outcome
}

// conditions returns the conditions of the Bucket, such as "ACK.ResourceSynced True InSync".
func conditions(host *windlasstest.Host) string {
	var all []string
	for _, condition := range windlasstest.Read[Bucket](host, target).Status.Conditions {
		all = append(all, condition.Type+" "+condition.Status+" "+condition.Reason)
	}
	return strings.Join(all, ", ")
}

func TestABucketIsCreatedWithAllParts(t *testing.T) {
	host, s3 := started(t)
	definition, err := os.ReadFile("crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	host.Define(string(definition))
	put(host, nil, windlass.Object{
		"tagging":    windlass.Object{"tagSet": []any{windlass.Object{"key": "team", "value": "shop"}}},
		"versioning": windlass.Object{"status": "Enabled"},
		"encryption": windlass.Object{"rules": []any{windlass.Object{
			"applyServerSideEncryptionByDefault": windlass.Object{"sseAlgorithm": "aws:kms", "kmsMasterKeyID": "k"}, "bucketKeyEnabled": true,
		}}},
		"publicAccessBlock": windlass.Object{"blockPublicACLs": true, "restrictPublicBuckets": true},
	})
	all, outcome := called(t, host, s3)
	equal(t, "the call", all, "HEAD shop-files, PUT shop-files, GET shop-files?publicAccessBlock, PUT shop-files?publicAccessBlock, "+
		"GET shop-files?encryption, PUT shop-files?encryption, GET shop-files?versioning, PUT shop-files?versioning, "+
		"GET shop-files?tagging, PUT shop-files?tagging, Created, Updated")
	equal(t, "the next comparison", outcome.After(), 10*time.Hour)
	equal(t, "the tags", s3.tags(t, "shop-files"), "services.k8s.aws/controller-version=s3-0.1.0, services.k8s.aws/namespace=prod, team=shop")
	if created := s3.buckets["shop-files"]["created"]; !strings.Contains(created, "<LocationConstraint>eu-central-1<") {
		t.Error(created)
	}
	equal(t, "the host", s3.headers["host"], "s3.eu-central-1.amazonaws.com")
	equal(t, "the owner", s3.headers["x-amz-expected-bucket-owner"], "123456789012")
	if !strings.Contains(s3.headers["authorization"], "/eu-central-1/s3/aws4_request, SignedHeaders=") {
		t.Error(s3.headers)
	}
	equal(t, "the conditions", conditions(host), "ACK.ResourceSynced True InSync")
	status := windlasstest.Read[Bucket](host, target).Status
	equal(t, "the resource", *status.Resource, Resource{"arn:aws:s3:::shop-files", "123456789012", "eu-central-1"})
	equal(t, "the location", status.Location, "/shop-files")

	again, _ := called(t, host, s3)
	equal(t, "the second call", again, "HEAD shop-files, GET shop-files?publicAccessBlock, GET shop-files?encryption, "+
		"GET shop-files?versioning, GET shop-files?tagging")
	equal(t, "its writes", len(host.Writes()), 0)
}

func TestDriftIsMended(t *testing.T) {
	host, s3 := started(t)
	put(host, nil, windlass.Object{"versioning": windlass.Object{"status": "Enabled"}})
	called(t, host, s3)
	s3.buckets["shop-files"]["versioning"] = "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>"
	s3.buckets["shop-files"]["tagging"] = ""
	all, _ := called(t, host, s3)
	equal(t, "the call", all, "HEAD shop-files, GET shop-files?versioning, PUT shop-files?versioning, GET shop-files?tagging, "+
		"PUT shop-files?tagging, Updated")
	delete(s3.buckets, "shop-files")
	all, _ = called(t, host, s3)
	equal(t, "without the bucket", strings.Contains(all, "PUT shop-files, "), true)
}

func TestAnExistingBucketNeedsAnAdoption(t *testing.T) {
	host, s3 := started(t)
	s3.buckets["shop-files"] = map[string]string{}
	put(host, nil, windlass.Object{})
	all, _ := called(t, host, s3)
	equal(t, "the call", all, "HEAD shop-files, AlreadyExists")
	equal(t, "the conditions", conditions(host), "ACK.ResourceSynced False AlreadyExists, ACK.Terminal True AlreadyExists")
	began(host, nil)
	all, _ = called(t, host, s3)
	equal(t, "the deletion", all, "")

	put(host, windlass.Object{annotationAdoption: "adopt"}, windlass.Object{})
	all, _ = called(t, host, s3)
	equal(t, "the adoption", all, "HEAD shop-files, GET shop-files?tagging, PUT shop-files?tagging, Updated")
	equal(t, "the finalizers", windlasstest.Read[Bucket](host, target).Metadata.Finalizers, []string{finalizer})
}

func TestAnAdoptionAloneCreatesNothing(t *testing.T) {
	host, s3 := started(t)
	put(host, windlass.Object{annotationAdoption: "adopt"}, windlass.Object{})
	all, _ := called(t, host, s3)
	equal(t, "the call", all, "HEAD shop-files, NotFound")
	put(host, windlass.Object{annotationAdoption: "adopt-or-create"}, windlass.Object{})
	all, _ = called(t, host, s3)
	equal(t, "with adopt-or-create", strings.HasPrefix(all, "HEAD shop-files, PUT shop-files, "), true)
}

func TestAReadOnlyBucketIsOnlyRead(t *testing.T) {
	host, s3 := started(t)
	s3.buckets["shop-files"] = map[string]string{}
	put(host, windlass.Object{annotationReadOnly: "true"}, windlass.Object{"versioning": windlass.Object{"status": "Enabled"}})
	all, _ := called(t, host, s3)
	equal(t, "the call", all, "HEAD shop-files")
	equal(t, "the conditions", conditions(host), "ACK.ResourceSynced True InSync")
}

func TestABucketOfOthersIsNeitherUsedNorDeleted(t *testing.T) {
	host, s3 := started(t)
	// It appears between the look and the creation.
	put(host, nil, windlass.Object{})
	s3.fails["PUT shop-files"] = "409 BucketAlreadyExists"
	all, _ := called(t, host, s3)
	equal(t, "the call", all, "HEAD shop-files, PUT shop-files, BucketAlreadyExists")
	equal(t, "the finalizers", len(windlasstest.Read[Bucket](host, target).Metadata.Finalizers), 0)
	s3.buckets["shop-files"] = map[string]string{"owner": "another"}
	all, outcome := called(t, host, s3)
	equal(t, "the next call", all, "HEAD shop-files, Forbidden")
	equal(t, "its outcome", outcome.BacksOff(), true)
	// An answer to the creation may have been lost.
	mark(host)
	began(host, nil)
	all, _ = called(t, host, s3)
	equal(t, "the deletion", all, "DELETE shop-files")
	equal(t, "the bucket", len(s3.buckets), 1)
	equal(t, "whether the Bucket is gone", host.Object(target) == nil, true)
}

func TestALostAnswerToTheCreationIsNotAnAdoption(t *testing.T) {
	host, s3 := started(t)
	put(host, nil, windlass.Object{})
	s3.lose = "PUT shop-files"
	if _, err := host.Reconcile(reconcile, target); err == nil {
		t.Fatal("the call succeeds")
	}
	equal(t, "the conditions", conditions(host), "")
	all, _ := called(t, host, s3)
	equal(t, "the next call", all, "HEAD shop-files, GET shop-files?tagging, PUT shop-files?tagging, Updated")
}

func TestARefusedCreationIsNoAdoptionLater(t *testing.T) {
	for _, refusal := range []string{"403 AccessDenied", "400 TooManyBuckets", "400 InvalidBucketName"} {
		host, s3 := started(t)
		put(host, nil, windlass.Object{"versioning": windlass.Object{"status": "Enabled"}})
		s3.fails["PUT shop-files"] = refusal
		called(t, host, s3)
		equal(t, refusal+", the finalizers", len(windlasstest.Read[Bucket](host, target).Metadata.Finalizers), 0)
		// Another tool creates the bucket.
		delete(s3.fails, "PUT shop-files")
		s3.buckets["shop-files"] = map[string]string{}
		all, _ := called(t, host, s3)
		equal(t, refusal+", the next call", all, "HEAD shop-files, AlreadyExists")
		began(host, nil)
		called(t, host, s3)
		equal(t, refusal+", the buckets after the deletion", len(s3.buckets), 1)
	}
}

func TestAManagedBucketStaysManagedIfItCannotBeCreatedAgain(t *testing.T) {
	host, s3 := started(t)
	put(host, nil, windlass.Object{})
	called(t, host, s3)
	delete(s3.buckets, "shop-files")
	s3.fails["PUT shop-files"] = "403 AccessDenied"
	called(t, host, s3)
	equal(t, "the finalizers", windlasstest.Read[Bucket](host, target).Metadata.Finalizers, []string{finalizer})
}

func TestACreationThatAnotherClientHasWonIsNoCreation(t *testing.T) {
	host, s3 := started(t)
	put(host, nil, windlass.Object{})
	s3.fails["PUT shop-files"] = "409 BucketAlreadyOwnedByYou"
	all, _ := called(t, host, s3)
	equal(t, "the call", all, "HEAD shop-files, PUT shop-files, AlreadyExists")
	equal(t, "the finalizers", len(windlasstest.Read[Bucket](host, target).Metadata.Finalizers), 0)
	// An earlier call may have created it.
	mark(host)
	all, _ = called(t, host, s3)
	equal(t, "after a lost answer", strings.HasPrefix(all, "HEAD shop-files, PUT shop-files, GET"), true)
	equal(t, "the Event", strings.Contains(all, "Created"), false)
}

func TestABucketWaitsForItsNamespaceToBeKnown(t *testing.T) {
	host, s3 := started(t)
	host.Remove(windlass.Ref{APIVersion: "v1", Kind: "Namespace", Name: "prod"})
	put(host, nil, windlass.Object{})
	all, outcome := called(t, host, s3)
	equal(t, "the call", fmt.Sprint(all, outcome.BacksOff(), len(host.Writes())), "true 0")
	mark(host)
	began(host, nil)
	all, outcome = called(t, host, s3)
	equal(t, "the deletion", fmt.Sprint(all, outcome.BacksOff(), len(host.Writes())), "true 0")
	namespace := windlass.Object{"name": "prod", "annotations": windlass.Object{namespaceAnnDeletion: "retain"}}
	host.Put(windlass.Object{"apiVersion": "v1", "kind": "Namespace", "metadata": namespace})
	all, _ = called(t, host, s3)
	equal(t, "with the namespace", fmt.Sprint(all, host.Object(target) == nil), "true")
}

func TestFieldsThatTheSpecLacksKeepTheirProtection(t *testing.T) {
	const whole = `<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>true</IgnorePublicAcls>` +
		`<BlockPublicPolicy>true</BlockPublicPolicy><RestrictPublicBuckets>true</RestrictPublicBuckets></PublicAccessBlockConfiguration>`
	for name, test := range map[string]struct {
		wanted windlass.Object
		off    string
	}{
		"nothing":           {windlass.Object{}, ""},
		"one on":            {windlass.Object{"blockPublicACLs": true}, ""},
		"one off on demand": {windlass.Object{"blockPublicPolicy": false}, "<BlockPublicPolicy>false<"},
	} {
		host, s3 := started(t)
		put(host, nil, windlass.Object{"publicAccessBlock": test.wanted})
		called(t, host, s3)
		s3.buckets["shop-files"]["publicAccessBlock"] = whole
		called(t, host, s3)
		found := s3.buckets["shop-files"]["publicAccessBlock"]
		equal(t, name, strings.Count(found, ">false<"), strings.Count(test.off, ">false<"))
		equal(t, name+", which is off", strings.Contains(found, test.off), true)
	}
}

func TestABucketKeyStaysUnlessTheSpecHasIt(t *testing.T) {
	const keyed = `<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms</SSEAlgorithm>` +
		`<KMSMasterKeyID>old</KMSMasterKeyID></ApplyServerSideEncryptionByDefault><BucketKeyEnabled>true</BucketKeyEnabled></Rule></ServerSideEncryptionConfiguration>`
	for name, test := range map[string]struct{ rule, wanted string }{
		"as it is":          {`{"sseAlgorithm": "aws:kms", "kmsMasterKeyID": "old"}`, ">true</BucketKeyEnabled>"},
		"another key":       {`{"sseAlgorithm": "aws:kms", "kmsMasterKeyID": "new"}`, ">true</BucketKeyEnabled>"},
		"another algorithm": {`{"sseAlgorithm": "AES256"}`, "<SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule>"},
	} {
		host, s3 := started(t)
		var rule windlass.Object
		if err := json.Unmarshal([]byte(test.rule), &rule); err != nil {
			t.Fatal(err)
		}
		put(host, nil, windlass.Object{"encryption": windlass.Object{"rules": []any{windlass.Object{"applyServerSideEncryptionByDefault": rule}}}})
		called(t, host, s3)
		s3.buckets["shop-files"]["encryption"] = keyed
		called(t, host, s3)
		found := s3.buckets["shop-files"]["encryption"]
		equal(t, name+": "+found, strings.Contains(found, test.wanted), true)
	}
}

func TestMistakesInTheSpecAreTerminal(t *testing.T) {
	for wanted, spec := range map[string]windlass.Object{
		"ServerSideEncryptionConfiguration.Rules": {"encryption": windlass.Object{}},
		"SSEAlgorithm": {"encryption": windlass.Object{"rules": []any{windlass.Object{
			"applyServerSideEncryptionByDefault": windlass.Object{"kmsMasterKeyID": "k"},
		}}}},
	} {
		host, s3 := started(t)
		put(host, nil, spec)
		_, outcome := called(t, host, s3)
		equal(t, wanted, conditions(host), "ACK.ResourceSynced False InvalidSpec, ACK.Terminal True InvalidSpec")
		equal(t, wanted+", the next call", outcome.After(), resyncDefault)
		message := windlasstest.Read[Bucket](host, target).Status.Conditions[1].Message
		isClear := strings.HasPrefix(message, "set encryption: correct the spec: ") && strings.Contains(message, wanted) && !strings.Contains(message, "\n")
		equal(t, message, isClear, true)
	}
	host, s3 := started(t)
	put(host, nil, windlass.Object{})
	bucket := host.Object(target)
	bucket["spec"].(windlass.Object)["name"] = ""
	host.Put(bucket)
	called(t, host, s3)
	equal(t, "no name", conditions(host), "ACK.ResourceSynced False InvalidSpec, ACK.Terminal True InvalidSpec")
	mark(host)
	began(host, nil)
	all, _ := called(t, host, s3)
	equal(t, "its deletion", fmt.Sprint(all, host.Object(target) == nil), "true")
}

func TestAProblemIsReportedBesideAFailureThatPasses(t *testing.T) {
	host, s3 := started(t)
	put(host, nil, windlass.Object{"versioning": windlass.Object{"status": "Enabled"}})
	s3.fails["PUT shop-files?versioning"] = "503 SlowDown"
	s3.fails["PUT shop-files?tagging"] = "403 AccessDenied"
	if _, err := host.Reconcile(reconcile, target); err == nil {
		t.Error("the call is not retried")
	}
	equal(t, "the conditions", conditions(host), "ACK.ResourceSynced False AccessDenied, ACK.Recoverable True AccessDenied")
}

func TestExpiredKeysAreRecoverable(t *testing.T) {
	for failure, reason := range map[string]string{
		"400 BadRequest": "BadRequest", "400 ExpiredToken": "BadRequest", "403 InvalidAccessKeyId": "Forbidden",
	} {
		host, s3 := started(t)
		put(host, nil, windlass.Object{})
		// The answer to HEAD has no body.
		s3.fails["HEAD shop-files"] = failure
		_, outcome := called(t, host, s3)
		equal(t, failure, conditions(host), "ACK.ResourceSynced False "+reason+", ACK.Recoverable True "+reason)
		equal(t, failure+", its outcome", outcome.BacksOff(), true)
	}
}

func TestADeletionWaitsUntilTheBucketIsEmpty(t *testing.T) {
	host, s3 := started(t)
	put(host, nil, windlass.Object{})
	called(t, host, s3)
	s3.buckets["shop-files"]["objects"] = "some"
	began(host, nil)
	all, outcome := called(t, host, s3)
	equal(t, "the call", all, "DELETE shop-files, BucketNotEmpty")
	equal(t, "its outcome", outcome.BacksOff(), true)
	all, _ = called(t, host, s3)
	equal(t, "the second call", all, "DELETE shop-files")
	equal(t, "its writes", len(host.Writes()), 0)
	s3.buckets["shop-files"]["objects"] = ""
	called(t, host, s3)
	equal(t, "the buckets", len(s3.buckets), 0)
}

func TestARetainedBucketStays(t *testing.T) {
	for name, annotations := range map[string][2]windlass.Object{
		"of the Bucket":    {{annotationDeletion: "retain"}, nil},
		"of the namespace": {nil, {namespaceAnnDeletion: "retain"}},
	} {
		host, s3 := started(t)
		host.Put(windlass.Object{"apiVersion": "v1", "kind": "Namespace", "metadata": windlass.Object{"name": "prod", "annotations": annotations[1]}})
		put(host, annotations[0], windlass.Object{})
		called(t, host, s3)
		began(host, annotations[0])
		all, _ := called(t, host, s3)
		equal(t, name, all, "")
		equal(t, name+", the buckets", len(s3.buckets), 1)
		equal(t, name+", whether the Bucket is gone", host.Object(target) == nil, true)
	}
}

func TestAnUnknownDeletionPolicyDeletesNothing(t *testing.T) {
	host, s3 := started(t)
	put(host, nil, windlass.Object{})
	called(t, host, s3)
	began(host, windlass.Object{annotationDeletion: "retian"})
	all, _ := called(t, host, s3)
	equal(t, "the call", all, "UnknownPolicy")
	equal(t, "the buckets", len(s3.buckets), 1)
}

func TestARenamedOrMovedBucketIsLeftAlone(t *testing.T) {
	host, s3 := started(t)
	put(host, nil, windlass.Object{})
	called(t, host, s3)
	bucket := host.Object(target)
	bucket["spec"].(windlass.Object)["name"] = "other"
	host.Put(bucket)
	all, _ := called(t, host, s3)
	equal(t, "a new name", all, "Immutable")
	began(host, nil)
	all, _ = called(t, host, s3)
	equal(t, "the deletion", all, "DELETE shop-files")
}

func TestErrorsAreRetriedOrReported(t *testing.T) {
	for failure, wanted := range map[string]string{
		"503 SlowDown":          "error",
		"500 InternalError":     "error",
		"409 OperationAborted":  "error",
		"400 ExpiredToken":      "ACK.ResourceSynced False ExpiredToken, ACK.Recoverable True ExpiredToken",
		"403 AccessDenied":      "ACK.ResourceSynced False AccessDenied, ACK.Recoverable True AccessDenied",
		"400 InvalidTag":        "ACK.ResourceSynced False InvalidTag, ACK.Terminal True InvalidTag",
		"400 InvalidBucketName": "ACK.ResourceSynced False InvalidBucketName, ACK.Terminal True InvalidBucketName",
	} {
		host, s3 := started(t)
		put(host, nil, windlass.Object{})
		s3.fails["PUT shop-files?tagging"] = failure
		_, err := host.Reconcile(reconcile, target)
		found := conditions(host)
		if err != nil {
			found = "error"
		}
		equal(t, failure, found, wanted)
		equal(t, failure+", the resource", windlasstest.Read[Bucket](host, target).Status.Resource != nil, true)
	}
}

func TestARepeatedProblemIsReportedOnce(t *testing.T) {
	host, s3 := started(t)
	put(host, nil, windlass.Object{})
	s3.fails["PUT shop-files?tagging"] = "403 AccessDenied"
	called(t, host, s3)
	all, _ := called(t, host, s3)
	equal(t, "the second call", all, "HEAD shop-files, GET shop-files?tagging, PUT shop-files?tagging")
	equal(t, "its writes", len(host.Writes()), 0)
	message := windlasstest.Read[Bucket](host, target).Status.Conditions[1].Message
	equal(t, "the message", message, "set tagging: AccessDenied: it says AccessDenied")
}

func TestADeniedRequestWaitsForThePolicy(t *testing.T) {
	host, _ := started(t)
	host.HTTP = nil
	put(host, nil, windlass.Object{})
	if _, err := host.Reconcile(reconcile, target); !windlass.Is(err, windlass.NotGranted) {
		t.Error(err)
	}
}

func TestAnotherEndpointIsUsed(t *testing.T) {
	host, s3 := started(t)
	host.Configure(windlass.Object{
		"region": "us-east-1", "accountID": "123456789012", "accessKeyID": "a", "secretAccessKey": "s", "endpoint": "http://127.0.0.1:9000",
	})
	put(host, nil, windlass.Object{})
	called(t, host, s3)
	equal(t, "the host", s3.headers["host"], "127.0.0.1:9000")
	equal(t, "the body of the creation", s3.buckets["shop-files"]["created"], "")
}

func TestABucketThatIsOnlyReadIsNoRival(t *testing.T) {
	host, s3 := started(t)
	// It is older than the Bucket that is to manage.
	host.Put(windlass.Object{
		"apiVersion": apiVersion, "kind": kind, "spec": windlass.Object{"name": "shop-files"},
		"metadata": windlass.Object{
			"name": "reader", "namespace": "prod", "creationTimestamp": "2025-01-01T00:00:00Z", "annotations": windlass.Object{annotationReadOnly: "true"},
		},
	})
	reader := windlass.Ref{APIVersion: apiVersion, Kind: kind, Namespace: "prod", Name: "reader"}
	put(host, nil, windlass.Object{})
	all, _ := called(t, host, s3)
	equal(t, "the manager", strings.HasPrefix(all, "HEAD shop-files, PUT shop-files, "), true)
	if _, err := host.Reconcile(reconcile, reader); err != nil {
		t.Fatal(err)
	}
	status := windlasstest.Read[Bucket](host, reader).Status
	equal(t, "the reader", fmt.Sprint(status.Conditions[0].Reason, " ", status.Resource != nil), "InSync true")
}

func TestOneOfTwoBucketsOfANameManagesIt(t *testing.T) {
	host, s3 := started(t)
	put(host, nil, windlass.Object{})
	second := windlass.Ref{APIVersion: apiVersion, Kind: kind, Namespace: "prod", Name: "copy"}
	copied := windlass.Object{
		"apiVersion": apiVersion, "kind": kind, "spec": windlass.Object{"name": "shop-files"},
		"metadata": windlass.Object{"name": "copy", "namespace": "prod", "creationTimestamp": "2026-01-02T00:00:00Z"},
	}
	host.Put(copied)
	called(t, host, s3)
	s3.asked = nil
	outcome, err := host.Reconcile(reconcile, second)
	equal(t, "the second", fmt.Sprint(err, outcome.BacksOff(), s3.asked), "<nil> true []")
	found := windlasstest.Read[Bucket](host, second)
	equal(t, "its condition", found.Status.Conditions[1].Message, "the bucket shop-files is managed by the Bucket prod/files")

	// The ACK controller may have marked both.
	copied = host.Object(second)
	metadata := copied["metadata"].(windlass.Object)
	metadata["finalizers"], metadata["deletionTimestamp"] = []any{finalizer}, "2026-01-03T00:00:00Z"
	host.Put(copied)
	if _, err := host.Reconcile(reconcile, second); err != nil {
		t.Fatal(err)
	}
	equal(t, "its deletion", fmt.Sprint(s3.asked, len(s3.buckets), host.Object(second) == nil), "[] 1 true")
}
