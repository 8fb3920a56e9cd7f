package main

import (
	"encoding/xml"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"windlass.dev/sdk"
	"windlass.dev/sdk/cache"
	"windlass.dev/sdk/http"
	"windlass.dev/sdk/windlasstest"
)

// fakeS3 is a small S3: it keeps buckets, and returns their parts as they were put.
type fakeS3 struct {
	// buckets have the bodies of their parts by name, such as "tagging". An entry "owner" is another account.
	buckets map[string]map[string]string
	// asked are the requests, such as "PUT prod?tagging", and headers those of the last one.
	asked   []string
	headers map[string]string
	// fails are the answers to coming requests, such as "503 SlowDown", by request.
	fails map[string]string
	// lose is a request that is carried out, but whose answer is lost.
	lose string
}

func (s3 *fakeS3) serve(request http.Request) (http.Response, error) {
	target, err := url.Parse(request.URL)
	if err != nil {
		return http.Response{}, err
	}
	s3.headers = map[string]string{"host": target.Host}
	for _, header := range request.Headers {
		s3.headers[strings.ToLower(header.Name)] = header.Value
	}
	part, _, _ := strings.Cut(target.RawQuery, "&")
	name := strings.Trim(target.Path, "/")
	asked := request.Method + " " + name
	if part = strings.TrimSuffix(part, "="); part != "" {
		asked += "?" + part
	}
	s3.asked = append(s3.asked, asked)
	if failure, has := s3.fails[asked]; has {
		failed := answer(failure)
		if request.Method == "HEAD" {
			failed.Body = nil
		}
		return failed, nil
	}
	response := s3.carryOut(request, name, part)
	if request.Method == "HEAD" {
		response.Body = nil
	}
	if s3.lose == asked {
		s3.lose = ""
		return http.Response{}, &http.Error{Reason: "timeout", Message: "the answer is lost"}
	}
	return response, nil
}

func (s3 *fakeS3) carryOut(request http.Request, name, part string) http.Response {
	bucket, exists := s3.buckets[name]
	missing := map[string]string{
		"tagging": "404 NoSuchTagSet", "publicAccessBlock": "404 NoSuchPublicAccessBlockConfiguration", "versioning": "200 VersioningConfiguration",
	}
	switch {
	case exists && bucket["owner"] != "":
		if request.Method == "PUT" && part == "" {
			return answer("409 BucketAlreadyExists")
		}
		return answer("403 AccessDenied")
	case request.Method == "PUT" && part == "" && exists:
		return answer("409 BucketAlreadyOwnedByYou")
	case request.Method == "PUT" && part == "":
		s3.buckets[name] = map[string]string{"encryption": aes, "created": request.Text}
		return http.Response{Status: 200, Headers: []http.Header{{Name: "location", Value: "/" + name}}}
	case !exists:
		return answer("404 NoSuchBucket")
	case request.Method == "DELETE" && part == "" && bucket["objects"] != "":
		return answer("409 BucketNotEmpty")
	case request.Method == "DELETE" && part == "":
		delete(s3.buckets, name)
		return http.Response{Status: 204}
	case request.Method == "PUT":
		bucket[part] = request.Text
		return http.Response{Status: 200}
	case request.Method == "HEAD":
		return http.Response{Status: 200}
	case bucket[part] == "":
		return answer(missing[part])
	}
	return http.Response{Status: 200, Body: []byte(bucket[part])}
}

// aes is the encryption that each bucket has.
const aes = `<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm>` +
	`</ApplyServerSideEncryptionByDefault><BucketKeyEnabled>false</BucketKeyEnabled></Rule></ServerSideEncryptionConfiguration>`

// answer returns an answer such as "403 AccessDenied", or an empty document such as "200 VersioningConfiguration".
func answer(text string) http.Response {
	var status int
	var code string
	if _, err := fmt.Sscan(text, &status, &code); err != nil {
		panic(err)
	}
	body := "<Error><Code>" + code + "</Code><Message>it says " + code + "</Message><RequestId>r</RequestId></Error>"
	if status == 200 {
		body = "<" + code + "/>"
	}
	return http.Response{Status: status, Headers: []http.Header{{Name: "content-type", Value: "application/xml"}}, Body: []byte(body)}
}

// tags returns the tags of a bucket as "key=value, …".
func (s3 *fakeS3) tags(t *testing.T, name string) string {
	t.Helper()
	var tagging struct {
		Tags []Tag `xml:"TagSet>Tag"`
	}
	if err := xml.Unmarshal([]byte(s3.buckets[name]["tagging"]), &tagging); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, tag := range tagging.Tags {
		all = append(all, tag.Key+"="+tag.Value)
	}
	return strings.Join(all, ", ")
}

// target is the Bucket of the tests.
var target = windlass.Ref{APIVersion: apiVersion, Kind: kind, Namespace: "prod", Name: "files"}

// started returns a host with a configuration and an empty S3.
func started(t *testing.T) (*windlasstest.Host, *fakeS3) {
	t.Helper()
	host := windlasstest.New(t)
	bucketsNamed = func(string) cache.Query { return cache.Query{} }
	s3 := &fakeS3{buckets: map[string]map[string]string{}, fails: map[string]string{}}
	host.HTTP = s3.serve
	host.Configure(windlass.Object{
		"region": "eu-central-1", "accountID": "123456789012", "accessKeyID": "AKIDEXAMPLE", "secretAccessKey": "the-secret-key",
	})
	host.Put(windlass.Object{"apiVersion": "v1", "kind": "Namespace", "metadata": windlass.Object{"name": "prod"}})
	return host, s3
}

// put stores the Bucket of the tests.
func put(host *windlasstest.Host, annotations, spec windlass.Object) {
	spec["name"] = "shop-files"
	host.Put(windlass.Object{
		"apiVersion": apiVersion, "kind": kind, "spec": spec,
		"metadata": windlass.Object{
			"name": "files", "namespace": "prod", "annotations": annotations, "creationTimestamp": "2026-01-01T00:00:00Z",
		},
	})
}

// mark adds the finalizer to the Bucket of the tests.
func mark(host *windlasstest.Host) {
	bucket := host.Object(target)
	bucket["metadata"].(windlass.Object)["finalizers"] = []any{finalizer}
	host.Put(bucket)
}

// began marks the Bucket of the tests as being deleted.
func began(host *windlasstest.Host, annotations windlass.Object) {
	bucket := host.Object(target)
	metadata := bucket["metadata"].(windlass.Object)
	metadata["deletionTimestamp"], metadata["annotations"] = "2026-01-01T00:00:00Z", annotations
	host.Put(bucket)
}
