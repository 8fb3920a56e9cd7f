// A plugin against the bare interface: what `wit-bindgen go` would write is written out, as far as it is used.
package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"
)

const manifest = `{"apiVersion":"windlass.dev/v1alpha1","kind":"PluginManifest","name":"stock-go","version":"0.1.0","controllers":[
{"name":"stock","primary":{"apiVersion":"apps.kubedojo.io/v1beta1","kind":"WebApp"},"owns":[{"apiVersion":"v1","kind":"ConfigMap"}]}]}`

// Where the host puts what it hands over. It is no memory of Go's: what is allocated there may run the garbage collector,
// which reads the clock, and nothing may be imported within cabi_realloc.
var (
	handed [1 << 17]uint64
	used   uint32
	// Up to here it is the adapter's, for good.
	kept uint32
)

// Until now the runtime has begun, and the adapter with it.
func init() { kept = used }

//go:wasmexport cabi_realloc
func allocate(old unsafe.Pointer, oldSize, align, size uint32) unsafe.Pointer {
	at := (used + align - 1) &^ (align - 1)
	used = at + size
	if old != nil || used > uint32(unsafe.Sizeof(handed)) {
		panic("more than there is room for")
	}
	return unsafe.Add(unsafe.Pointer(&handed), at)
}

// A text as the canonical ABI has it.
type text struct{ at, length uint32 }

func textOf(it string) text {
	return text{uint32(uintptr(unsafe.Pointer(unsafe.StringData(it)))), uint32(len(it))}
}

func (it text) String() string {
	return unsafe.String((*byte)(unsafe.Pointer(uintptr(it.at))), it.length)
}

type optionalText struct {
	isSome uint8
	value  text
}

type request struct {
	controller         text
	cluster, namespace optionalText
	name               text
	// More follows, which is not used here.
}

type applyArguments struct {
	object               text
	subresource          [19]uint32
	resourceVersion      optionalText
	owned, force, dryRun bool
	fieldValidation      uint8
	managerSuffix        optionalText
}

// An error of the API, which a failure passes on as it came.
type apiError [27]uint32

type applied struct {
	failed bool
	error  apiError
}

type failure struct {
	message      text
	isOfAPI      bool
	api          apiError
	terminal     bool
	retryAfterMs [2]uint32
}

// Either the time after which to be called again, or where the failures are and how many.
type reconciled struct {
	failed bool
	value  [2]uint32
}

var (
	description = textOf(manifest)
	answer      reconciled
	failures    [1]failure
)

//go:wasmimport windlass:plugin/writes@0.2.0 apply
func apply(arguments, result unsafe.Pointer)

//go:wasmexport windlass:plugin/reconciler@0.2.0#describe
func describe() unsafe.Pointer { return unsafe.Pointer(&description) }

//go:wasmexport windlass:plugin/reconciler@0.2.0#reconcile
func reconcile(it unsafe.Pointer) unsafe.Pointer {
	request := (*request)(it)
	name, namespace := request.name.String(), request.namespace.value.String()
	file, said := "opened", "opened"
	if opened, err := os.Open("/etc/hostname"); err != nil {
		file, said = "refused", err.Error()
	} else {
		opened.Close()
	}
	var drawn [4]byte
	rand.Read(drawn[:])
	fmt.Printf("for %s at %d drew %x, and /etc/hostname: %s\n", name, time.Now().Unix(), drawn, said)
	child, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name + "-stock-go", "namespace": namespace},
		"data":     map[string]any{"file": file},
	})
	if err != nil {
		panic(err)
	}
	result := new(applied)
	object := string(child)
	apply(unsafe.Pointer(&applyArguments{object: textOf(object), owned: true}), unsafe.Pointer(result))
	runtime.KeepAlive(object)
	answer = reconciled{failed: result.failed}
	if result.failed {
		failures[0] = failure{isOfAPI: true, api: result.error}
		answer.value = [2]uint32{uint32(uintptr(unsafe.Pointer(&failures))), 1}
	}
	// What was handed over is read, but for the words of an error, which stay until the next call.
	used = kept
	return unsafe.Pointer(&answer)
}

func main() {}
