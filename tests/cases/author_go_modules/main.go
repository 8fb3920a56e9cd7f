package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"

	"windlass.dev/sdk"
	"windlass.dev/sdk/manifest"
	"windlass.dev/sdk/reconciler"
	"windlass.dev/sdk/writes"
)

func init() {
	reconciler.Register(manifest.Manifest{
		Name: "shop", Version: "0.1.0",
		Controllers: []manifest.Controller{{
			Name:    "shop",
			Primary: manifest.Watch{APIVersion: "v1", Kind: "Secret"},
			Owns:    []manifest.Watch{{APIVersion: "v1", Kind: "ConfigMap"}},
		}},
	}, reconcile)
}

func main() {}

func reconcile(_ context.Context, request windlass.Request) (windlass.Outcome, error) {
	var shop corev1.Secret
	if exists, err := request.Object(&shop); err != nil || !exists || request.Deleting {
		return windlass.Done, err
	}
	hello := corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "hello", Namespace: shop.Namespace},
		Data:       map[string]string{"message": message(&shop)},
	}
	_, err := writes.Apply(hello, writes.Owned(), writes.Force())
	return windlass.Done, err
}

// message uses the parts of the Kubernetes modules that a plugin has in another form.
func message(shop *corev1.Secret) string {
	kinds, _, err := scheme.Scheme.ObjectKinds(&appsv1.Deployment{})
	if err != nil {
		return err.Error()
	}
	tries := 0
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		tries++
		return apierrors.NewConflict(appsv1.Resource("deployments"), shop.Name, nil)
	})
	owner := corev1.ObjectReference{Kind: shop.Kind, Name: shop.Name}
	return fmt.Sprintf("%s, batch: %t, %d tries, %d, %s",
		kinds[0], scheme.Scheme.IsGroupRegistered("batch"), tries, err.(apierrors.APIStatus).Status().Code, owner.String())
}
