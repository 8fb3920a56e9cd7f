package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/netip"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const kubeletWorkers = 4

// fakeKubelet replaces the kubelet of every node. It reports that each Pod runs and is ready, and finishes the deletion
// of a Pod that waits for its node. No node exists, and no container is started.
type fakeKubelet struct {
	client kubernetes.Interface
	pods   corelisters.PodLister
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]
}

func newFakeKubelet(_ context.Context, env *environment) (controller, error) {
	informer := env.informers.Core().V1().Pods()
	k := &fakeKubelet{
		client: env.typed,
		pods:   informer.Lister(),
		queue:  workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]()),
	}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    k.enqueue,
		UpdateFunc: func(_, pod any) { k.enqueue(pod) },
	})
	return controller{run: k.run}, err
}

func (k *fakeKubelet) enqueue(object any) {
	if pod, ok := object.(*v1.Pod); ok {
		k.queue.Add(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}
}

func (k *fakeKubelet) run(ctx context.Context) {
	defer k.queue.ShutDown()
	for range kubeletWorkers {
		go wait.UntilWithContext(ctx, k.work, time.Second)
	}
	<-ctx.Done()
}

func (k *fakeKubelet) work(ctx context.Context) {
	for {
		key, shutdown := k.queue.Get()
		if shutdown {
			return
		}
		if err := k.sync(ctx, key); err == nil {
			k.queue.Forget(key)
		} else if ctx.Err() == nil {
			utilruntime.HandleErrorWithContext(ctx, err, "Fake kubelet", "pod", key)
			k.queue.AddRateLimited(key)
		}
		k.queue.Done(key)
	}
}

func (k *fakeKubelet) sync(ctx context.Context, key types.NamespacedName) error {
	pod, err := k.pods.Pods(key.Namespace).Get(key.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case pod.DeletionTimestamp != nil && *pod.DeletionGracePeriodSeconds > 0:
		err = k.client.CoreV1().Pods(key.Namespace).Delete(ctx, key.Name, *metav1.NewDeleteOptions(0))
	case pod.DeletionTimestamp == nil && pod.Status.Phase != v1.PodRunning:
		err = k.markRunning(ctx, pod)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (k *fakeKubelet) markRunning(ctx context.Context, pod *v1.Pod) error {
	now := metav1.Now()
	isTrue := func(condition v1.PodConditionType) v1.PodCondition {
		return v1.PodCondition{Type: condition, Status: v1.ConditionTrue, LastTransitionTime: now}
	}
	address := podAddress(pod.UID).String()
	status := v1.PodStatus{
		Phase:             v1.PodRunning,
		StartTime:         &now,
		PodIP:             address,
		PodIPs:            []v1.PodIP{{IP: address}},
		Conditions:        []v1.PodCondition{isTrue(v1.PodInitialized), isTrue(v1.ContainersReady), isTrue(v1.PodReady)},
		ContainerStatuses: make([]v1.ContainerStatus, 0, len(pod.Spec.Containers)),
	}
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, v1.ContainerStatus{
			Name:  container.Name,
			Image: container.Image,
			Ready: true,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now}},
		})
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return fmt.Errorf("encode the status: %w", err)
	}
	_, err = k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// podAddress returns the address of a Pod. It is the same after a restart. Two Pods rarely have the same address: an
// EndpointSlice lists an address only once.
func podAddress(uid types.UID) netip.Addr {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(uid)) // a hash never fails
	sum := hash.Sum32()
	return netip.AddrFrom4([4]byte{10, 128 | byte(sum>>16), byte(sum >> 8), byte(sum)})
}
