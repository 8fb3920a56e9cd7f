package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// scanned returns the facts about sources, by path.
func scanned(t *testing.T, files map[string]string) output {
	t.Helper()
	all := project{input: input{Module: "example.com/shop", Imports: []string{"os", "k8s.io/client-go/"}}}
	for path, text := range files {
		all.Files = append(all.Files, struct {
			Path string `json:"path"`
			Text string `json:"text"`
		}{path, text})
	}
	slices.SortFunc(all.Files, func(a, b struct {
		Path string `json:"path"`
		Text string `json:"text"`
	}) int {
		return strings.Compare(a.Path, b.Path)
	})
	all.parse()
	if len(all.Broken) == 0 {
		all.scan()
	}
	return all.output
}

const controllerHead = `package controller

import (
	"context"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"k8s.io/kubernetes/pkg/controller"
	"sync"

	shopv1 "example.com/shop/api/v1"
)
`

func watches(of Controller) []string {
	var found []string
	for _, watch := range of.Watches {
		found = append(found, watch.Role+" "+watch.Import+" "+watch.Type)
	}
	return found
}

func TestABuilderMayBeOneChainOrSeveralStatements(t *testing.T) {
	want := []string{"For example.com/shop/api/v1 Shop", "Owns k8s.io/api/apps/v1 Deployment", "Watches k8s.io/api/core/v1 Secret"}
	for _, body := range []string{
		`return ctrl.NewControllerManagedBy(mgr).For(&shopv1.Shop{}).
		Named(prefix + "shop").
		Owns(new(appsv1.Deployment)).
		Watches(&corev1.Secret{}, nil).Complete(r)`,
		`b := builder.ControllerManagedBy(mgr).For(&shopv1.Shop{}).Named("the-shop")
	deployment := &appsv1.Deployment{}
	b.Owns(deployment)
	if true {
		var secret corev1.Secret
		b = b.Watches(&secret, nil)
	}
	return b.Complete(r)`,
	} {
		facts := scanned(t, map[string]string{"internal/controller/a.go": controllerHead + `
const prefix = "the-"
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	` + body + `
}
`})
		if len(facts.Controllers) != 1 {
			t.Fatalf("%s: %d controllers", body, len(facts.Controllers))
		}
		found := facts.Controllers[0]
		if found.Name != "the-shop" || found.Receiver != "Reconciler" || found.Folder != "internal/controller" {
			t.Errorf("%s: %+v", body, found)
		}
		if got := watches(found); !slices.Equal(got, want) {
			t.Errorf("%s: %v", body, got)
		}
	}
}

func TestTwoBuildersInOneFunctionAreTwoControllers(t *testing.T) {
	facts := scanned(t, map[string]string{"a.go": controllerHead + `
func Setup(mgr ctrl.Manager) error {
	_ = ctrl.NewControllerManagedBy(mgr).For(&shopv1.Shop{}).Named(os.Args[0]).Complete(nil)
	return ctrl.NewControllerManagedBy(mgr).For(object).Complete(nil)
}
`})
	if len(facts.Controllers) != 2 || !facts.Controllers[0].Named || facts.Controllers[0].Name != "" {
		t.Fatalf("%+v", facts.Controllers)
	}
	if got := watches(facts.Controllers[1]); !slices.Equal(got, []string{"For  object"}) {
		t.Errorf("%v", got)
	}
}

func TestASetUpIsTakenOverWithWhatTheManagerCanGive(t *testing.T) {
	main := `package main

import (
	"flag"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"example.com/shop/internal/controller"
	utilruntime "example.com/shop/internal/util"
	shopv1 "example.com/shop/api/v1"
)

var scheme = runtime.NewScheme()

func main() {
	image := flag.String("image", "", "")
	manager, _ := ctrl.NewManager(nil, ctrl.Options{})
	_ = shopv1.AddToScheme(scheme)
	reconciler := &controller.ShopReconciler{
		Client: manager.GetClient(), Scheme: scheme, Image: *image, Name: "a",
		Helper: utilruntime.New(manager.GetClient()),
	}
	if err := reconciler.SetupWithManager(manager); err != nil {
		panic(err)
	}
	controller.SetupAll(manager, *image)
	controller.SetupQuiet(manager)
	controller.SetupShopWebhookWithManager(manager)
}
`
	facts := scanned(t, map[string]string{"cmd/main.go": main, "internal/controller/a.go": controllerHead + `
func (r *ShopReconciler) SetupWithManager(mgr ctrl.Manager) error { return SetupIndexes(mgr) }
func SetupQuiet(mgr ctrl.Manager) {}
`})
	var setups []Setup
	for _, setup := range facts.Setups {
		if setup.Folder == "cmd" {
			setups = append(setups, setup)
		}
	}
	if len(setups) != 3 {
		t.Fatalf("%+v", setups)
	}
	want := `(&controller.ShopReconciler{
	Client: mgr.GetClient(),
	Scheme: mgr.GetScheme(),
	Name:   "a",
	Helper: utilruntime2.New(mgr.GetClient()),
}).SetupWithManager(mgr)`
	if first := setups[0]; first.Source != want || first.Returns != "error" || first.Type != "ShopReconciler" {
		t.Errorf("%+v", first)
	}
	if dropped := setups[0].Dropped; len(dropped) != 1 || dropped[0].Field != "Image" || dropped[0].Line != 21 {
		t.Errorf("%+v", dropped)
	}
	if all := setups[1]; all.Source != "" || all.Reason != "image" {
		t.Errorf("%+v", all)
	}
	if quiet := setups[2]; quiet.Source != "controller.SetupQuiet(mgr)" || quiet.Returns != "none" {
		t.Errorf("%+v", quiet)
	}
	if len(facts.Schemes) != 1 || facts.Schemes[0].Import.Path != "example.com/shop/api/v1" {
		t.Errorf("%+v", facts.Schemes)
	}
}

func TestOptionsOfTheManagerAreKeptWithTheirSources(t *testing.T) {
	facts := scanned(t, map[string]string{"a.go": controllerHead + `
var options = ctrl.Options{Scheme: nil, Cache: ctrl.Other{
	All: true}}
var others = client.Options{Mapper: nil}
`})
	want := []Use{
		{Place{"a.go", 19}, ".", "options", "Scheme", "nil"},
		{Place{"a.go", 19}, ".", "options", "Cache", "ctrl.Other{\n\tAll: true}"},
	}
	if !slices.Equal(facts.Uses, want) {
		t.Errorf("%+v", facts.Uses)
	}
}

func TestUsesAreKeptWithTheirConstantText(t *testing.T) {
	facts := scanned(t, map[string]string{"api/v1/a.go": "package v1\n\nconst Name = \"a\" + end\nconst end = \"/b\"\n", "a.go": controllerHead + `
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get
var cache = map[string]int{}

type ShopReconciler struct {
	client.Client
	seen map[string]bool
}

type Quiet struct {
	locks  *sync.Map
	expect controller.ControllerExpectationsInterface
	names  []string
}

func (q *Quiet) Reconcile() {}

func (r *ShopReconciler) Reconcile(ctx context.Context, mgr ctrl.Manager) {
	_ = os.Getenv("IMAGE")
	go r.run()
	mgr.Add(nil)
	controllerutil.AddFinalizer(nil, shopv1.Name)
	controllerutil.RemoveFinalizer(nil, name())
	_ = &corev1.Secret{}
	_ = &corev1.Secret{}
	var pods corev1.PodList
}
`})
	var uses []string
	for _, use := range facts.Uses {
		uses = append(uses, strings.TrimSpace(use.Import+" "+use.Name+" "+use.Text))
	}
	slices.Sort(uses)
	want := []string{
		"go go", "manager Add", "os Getenv IMAGE",
		"state Quiet.expect", "state Quiet.locks", "state ShopReconciler.seen", "state cache",
	}
	if !slices.Equal(uses, want) {
		t.Errorf("%v", uses)
	}
	if found := facts.Finalizers; len(found) != 2 || found[0].Name != "a/b" || found[1].Name != "" {
		t.Errorf("%+v", found)
	}
	if want := []TypeUse{{".", "k8s.io/api/core/v1", "Secret"}, {".", "k8s.io/api/core/v1", "PodList"}}; !slices.Equal(facts.TypeUses, want) {
		t.Errorf("%+v", facts.TypeUses)
	}
	if len(facts.Markers) != 1 {
		t.Errorf("%+v", facts.Markers)
	}
}

func TestAConstantThatRefersToItselfEnds(t *testing.T) {
	facts := scanned(t, map[string]string{"a.go": controllerHead + `
const a = b
const b = a + "x"
func f() { controllerutil.AddFinalizer(nil, a) }
`})
	if found := facts.Finalizers; len(found) != 1 || found[0].Name != "" {
		t.Errorf("%+v", found)
	}
}

// The program reads standard input and opens no file, so it also must end with an error for broken input.
func TestTheProgramReportsSyntaxErrorsWithTheirLine(t *testing.T) {
	facts := scanned(t, map[string]string{"a.go": "package a\n\nfunc {\n", "b.go": "no Go"})
	if len(facts.Broken) != 2 || facts.Broken[0].Line != 3 || facts.Broken[1].Line != 1 {
		t.Errorf("%+v", facts.Broken)
	}
	if os.Getenv("SCANNER") != "" {
		main()
		return
	}
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), "SCANNER=1")
	command.Stdin = strings.NewReader(`{"module": "a.b/c", "files": [{"path": "a.go", "text": "package a"}]}`)
	printed, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var facts2 output
	if err := json.NewDecoder(bytes.NewReader(printed)).Decode(&facts2); err != nil || len(facts2.Packages) != 1 {
		t.Errorf("%v: %s", err, printed)
	}
}
