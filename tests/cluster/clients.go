package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd"
)

// userAgent distinguishes the controllers' requests from a test's in the audit log.
const userAgent = "cluster-controllers"

// clients are the cluster's own clients, with administrator rights and without client-side rate limits.
type clients struct {
	typed    kubernetes.Interface
	metadata metadata.Interface
}

func newClients(kubeconfig string) (*clients, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	cfg.QPS = -1
	cfg.UserAgent = userAgent
	forMetadata, err := metadata.NewForConfig(metadata.ConfigFor(cfg))
	if err != nil {
		return nil, fmt.Errorf("make a metadata client: %w", err)
	}
	cfg.ContentType = runtime.ContentTypeProtobuf
	typed, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &clients{typed: typed, metadata: forMetadata}, nil
}

// waitUntilServing returns when the API server reports that it is ready, and the default namespace exists. The server
// creates the namespace a moment later.
func (c *clients) waitUntilServing(ctx context.Context, failed <-chan error) error {
	ticker := time.NewTicker(25 * time.Millisecond)
	defer ticker.Stop()
	for {
		notYet := c.serving(ctx)
		if notYet == nil {
			return nil
		}
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), notYet)
		case <-ticker.C:
		}
	}
}

func (c *clients) serving(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := c.typed.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return err
	}
	_, err := c.typed.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
	return err
}
