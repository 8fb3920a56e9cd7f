// A plugin on the bare interface. It contains the part of the code of `wit-bindgen go` that it needs.
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

// handed is the memory for the host's data. It is not allocated by Go, because an allocation may run the garbage
// collector, which reads the clock, and cabi_realloc must not call an import.
var (
	handed [1 << 17]uint64
	used   uint32
	// kept is the end of the adapter's part, which stays in use.
	kept uint32
)

// By now the runtime has started, and with it the adapter.
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

// text is a text in the form of the canonical ABI.
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
	// The record has more fields, which are not used here.
}

type applyArguments struct {
	object               text
	subresource          [19]uint32
	resourceVersion      optionalText
	owned, force, dryRun bool
	fieldValidation      uint8
	managerSuffix        optionalText
}

// apiError is an API error in the raw layout of the ABI. The plugin never looks inside, and copies it into its failure.
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

// reconciled has either the time after which to run again, or the address and the number of the failures.
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
	// The host's data has been read. Only the texts of an error are still needed; they stay until the next call.
	used = kept
	return unsafe.Pointer(&answer)
}

func main() {}
