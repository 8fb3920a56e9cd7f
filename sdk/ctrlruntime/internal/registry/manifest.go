package registry

import (
	"errors"
	"fmt"
	"path"
	"runtime/debug"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/internal/kinds"
	"sigs.k8s.io/controller-runtime/internal/refused"
	"sigs.k8s.io/controller-runtime/internal/watching"
	"windlass.dev/sdk/manifest"
)

// complete makes the manifest from the set-up.
func complete() (manifest.Manifest, error) {
	if err := refused.All(); err != nil {
		return manifest.Manifest{}, err
	}
	if len(current.controllers) == 0 {
		return manifest.Manifest{}, errors.New("the set-up added no controller to the manager")
	}
	made := current.description
	if made.Name == "" {
		made.Name = nameOfProgram()
	}
	if made.Version == "" {
		made.Version = "0.1.0"
	}
	if made.Config == nil {
		made.Config = current.settings.schema()
	}
	if made.Finalizers == nil {
		// Only the reconcilers' code determines which finalizers they add and remove.
		made.Finalizers = []string{"*"}
	}
	for _, controller := range current.controllers {
		described, err := controller.manifest()
		if err != nil {
			return manifest.Manifest{}, fmt.Errorf("controller %s: %w", controller.Name, err)
		}
		made.Controllers = append(made.Controllers, described)
	}
	return made, addReads(made.Controllers)
}

// nameOfProgram is the last element of the main module's path, without a version.
func nameOfProgram() string {
	info, is := debug.ReadBuildInfo()
	if !is {
		return ""
	}
	name := path.Base(info.Main.Path)
	if strings.HasPrefix(name, "v") && strings.Trim(name[1:], "0123456789") == "" {
		name = path.Base(path.Dir(info.Main.Path))
	}
	return label(name)
}

func (controller *Controller) manifest() (described manifest.Controller, err error) {
	controller.label, controller.coded = label(controller.Name), map[string]*coded{}
	if err := controller.choosePrimary(); err != nil {
		return described, err
	}
	primary, err := kindOf(controller.Scheme, controller.Primary.Object)
	if err != nil {
		return described, err
	}
	options := controller.Options
	options.Resync = current.resync
	options.WithoutStatus = options.WithoutStatus || !mayWriteStatus(primary)
	described = manifest.Controller{Name: controller.label, Options: &options}
	if described.Primary, err = controller.watch(controller.Primary, nil); err != nil {
		return described, err
	}
	// The reconciler receives the name alone, and reads the object itself.
	described.Primary.CallFields = []string{}
	for _, owned := range controller.Owns {
		watch, err := controller.watch(owned, nil)
		if err != nil {
			return described, err
		}
		described.Owns = append(described.Owns, watch)
	}
	for _, watched := range controller.Watches {
		watch, err := controller.watch(watched, mappingOf(watched, primary.GroupKind()))
		if err != nil {
			return described, err
		}
		described.Watches = append(described.Watches, watch)
	}
	return described, nil
}

var errNoPrimary = errors.New("no kind is reconciled: the host calls a reconciler with the names of objects of one kind. " +
	"Name the kind by For, or by a watch with handler.EnqueueRequestForObject")

// choosePrimary makes the first watch whose requests have the name of the object the primary, if there was no For.
func (controller *Controller) choosePrimary() error {
	for place, watch := range controller.Watches {
		if controller.Primary == nil && watch.Mapping != nil && watch.Mapping.SameName {
			controller.Primary = watch
			controller.Watches = slices.Delete(controller.Watches, place, place+1)
			break
		}
	}
	if controller.Primary == nil {
		return errNoPrimary
	}
	return nil
}

// mappingOf returns the mapping of a watch in the manifest: that of its handler, or the plugin's own mapper.
func mappingOf(watch *watching.Watch, primary schema.GroupKind) *manifest.Mapping {
	switch mapping := watch.Mapping; {
	case mapping == nil:
	case mapping.SameName:
		return manifest.ToSameName()
	case mapping.Owner == primary && mapping.OnlyController:
		return manifest.ToOwner()
	case mapping.Owner == primary:
		return manifest.ToAnyOwner()
	}
	return manifest.ToMapped()
}

// watch describes a watch, whose mapping is nil if it is a primary or owned.
func (controller *Controller) watch(of *watching.Watch, mapping *manifest.Mapping) (manifest.Watch, error) {
	kind, err := kindOf(controller.Scheme, of.Object)
	if err != nil {
		return manifest.Watch{}, err
	}
	watch := restricted(kind, of.OnlyMetadata)
	watch.Mapping, watch.CodePredicate = mapping, of.Judge != nil
	if of.Updates != nil {
		watch.Predicates = of.Updates.Watch()
	}
	if watch.CodePredicate || isMapped(mapping) {
		watch.Name = fmt.Sprintf("%s-%d", label(kind.Kind), len(controller.coded))
		controller.coded[watch.Name] = &coded{of, kind}
	}
	return watch, nil
}

func isMapped(mapping *manifest.Mapping) bool {
	if mapping == nil {
		return false
	}
	own, _ := mapping.MarshalJSON()
	mapped, _ := manifest.ToMapped().MarshalJSON()
	return string(own) == string(mapped)
}

// restricted returns a watch of a kind, within the manager's restrictions of caches.
func restricted(kind schema.GroupVersionKind, onlyMetadata bool) manifest.Watch {
	scope, has := current.scopes[kind.GroupKind()]
	if !has {
		scope = current.scopes[schema.GroupKind{}]
	}
	watch := manifest.Watch{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, LabelSelector: scope.LabelSelector, FieldSelector: scope.FieldSelector,
	}
	if has || !withoutNamespace[kind.GroupKind()] {
		watch.Namespaces = scope.Namespaces
	}
	amount := kinds.Whole
	if onlyMetadata {
		watch.Projection, amount = manifest.MetadataOnly(), kinds.Metadata
	}
	kinds.Cache(kind, amount)
	return watch
}

// withoutNamespace are built-in kinds to which the manager's default namespaces do not apply.
var withoutNamespace = map[schema.GroupKind]bool{
	{Kind: "Namespace"}: true, {Kind: "Node"}: true, {Kind: "PersistentVolume"}: true,
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:         true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:  true,
	{Group: "storage.k8s.io", Kind: "StorageClass"}:                   true,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:               true,
	{Group: "networking.k8s.io", Kind: "IngressClass"}:                true,
}

// mayWriteStatus reports whether a permission lets the plugin write the status of a kind. Without any description it
// may.
func mayWriteStatus(kind schema.GroupVersionKind) bool {
	if !current.isDescribed || current.description.Permissions == nil {
		return true
	}
	return permitted(kind, "/status", "update") || permitted(kind, "/status", "patch")
}
