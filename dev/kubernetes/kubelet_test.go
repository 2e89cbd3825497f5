//go:build kubernetes

package kubernetes_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
)

func pods() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
}

func sandboxes() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxes"}
}

func claims() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "extensions.agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxclaims"}
}

func pools() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "extensions.agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxwarmpools"}
}

// start starts what a pod is, at an address of this machine, and returns when it is
// ready. It returns what stops it; kill is set where nobody is told before.
type start func(ctx context.Context, ip string) (stop func(kill bool), err error)

// kubelet does for pods what a kubelet does: it starts and stops them and says how they
// are. It also takes away what belonged to an object that is gone, which is another
// controller's work.
type kubelet struct {
	t      *testing.T
	api    dynamic.Interface
	start  start
	cancel context.CancelFunc
	done   chan struct{}
	work   sync.WaitGroup

	mu      sync.Mutex
	count   int
	running map[string]*pod // by uid
}

type pod struct {
	name, ip string
	stop     func(kill bool)
	gone     bool // before it was started
}

// startKubelet starts a kubelet, which ends with the test.
func startKubelet(t *testing.T, api dynamic.Interface, s start) *kubelet {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	k := &kubelet{t: t, api: api, start: s, cancel: cancel, done: make(chan struct{}), running: map[string]*pod{}}
	go func() {
		defer close(k.done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			if err := k.look(ctx); err != nil && ctx.Err() == nil {
				t.Logf("kubelet: %v", err)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		k.cancel()
		<-k.done
		k.work.Wait()
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, p := range k.running {
			p.stop(true)
		}
	})
	return k
}

// look looks at all pods once.
func (k *kubelet) look(ctx context.Context) error {
	list, err := k.api.Resource(pods()).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		object := &list.Items[i]
		k.mu.Lock()
		p := k.running[string(object.GetUID())]
		k.mu.Unlock()
		switch {
		case object.GetDeletionTimestamp() != nil:
			err = k.end(ctx, object, p)
		case p == nil:
			k.begin(ctx, object)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return k.collect(ctx, list.Items)
}

// begin starts a pod in the background; it says that it is ready when it is.
func (k *kubelet) begin(ctx context.Context, object *unstructured.Unstructured) {
	k.mu.Lock()
	k.count++
	p := &pod{name: object.GetName(), ip: fmt.Sprintf("127.77.0.%d", k.count), stop: func(bool) {}}
	k.running[string(object.GetUID())] = p
	k.mu.Unlock()
	k.work.Go(func() {
		stop, err := k.start(ctx, p.ip)
		if err == nil {
			k.mu.Lock()
			gone := p.gone
			p.stop = stop
			k.mu.Unlock()
			if gone {
				stop(true)
				return
			}
			err = k.say(ctx, p.name, "Running", "True", p.ip)
		}
		if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
			k.t.Errorf("kubelet: start %s: %v", p.name, err)
		}
	})
}

// say says how a pod is.
func (k *kubelet) say(ctx context.Context, name, phase, ready, ip string) error {
	api := k.api.Resource(pods()).Namespace(namespace)
	now := time.Now().UTC().Format(time.RFC3339)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the controller changes pods, too
		object, err := api.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		object.Object["status"] = map[string]any{
			"phase": phase, "podIP": ip, "podIPs": []any{map[string]any{"ip": ip}}, "startTime": now,
			"conditions": []any{
				map[string]any{"type": "Ready", "status": ready, "lastTransitionTime": now},
				map[string]any{"type": "PodScheduled", "status": "True", "lastTransitionTime": now},
			},
		}
		_, err = api.UpdateStatus(ctx, object, metav1.UpdateOptions{})
		return err
	})
}

// end stops a pod that is being deleted, and says that it is gone.
func (k *kubelet) end(ctx context.Context, object *unstructured.Unstructured, p *pod) error {
	if p == nil { // it never began
		return k.forget(ctx, object.GetName())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if p.gone {
		return nil
	}
	p.gone = true
	stop := p.stop
	k.work.Go(func() {
		stop(false)
		if err := k.forget(ctx, object.GetName()); err == nil {
			k.mu.Lock()
			defer k.mu.Unlock()
			delete(k.running, string(object.GetUID()))
		}
	})
	return nil
}

// forget says that a pod is gone.
func (k *kubelet) forget(ctx context.Context, name string) error {
	at := int64(0)
	return k.api.Resource(pods()).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &at})
}

// collect deletes what belonged to an object that is gone.
func (k *kubelet) collect(ctx context.Context, all []unstructured.Unstructured) error {
	list, err := k.api.Resource(sandboxes()).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, object := range append(all, list.Items...) {
		for _, owner := range object.GetOwnerReferences() {
			resources := map[string]schema.GroupVersionResource{"Sandbox": sandboxes(), "SandboxClaim": claims(), "SandboxWarmPool": pools()}
			kind, known := resources[owner.Kind]
			if !known || object.GetDeletionTimestamp() != nil {
				continue
			}
			above, err := k.api.Resource(kind).Namespace(namespace).Get(ctx, owner.Name, metav1.GetOptions{})
			if err == nil && above.GetUID() == owner.UID || err != nil && !apierrors.IsNotFound(err) {
				continue
			}
			of := sandboxes()
			if object.GetKind() == "Pod" {
				of = pods()
			}
			if err := k.api.Resource(of).Namespace(namespace).Delete(ctx, object.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}

// crash ends the process of the pod at an address as a crash does. The controller is
// told that the pod is gone at once: nobody was told before.
func (k *kubelet) crash(ip string) {
	k.t.Helper()
	crashed := k.at(ip)
	crashed.stop(true)
	require.NoError(k.t, k.forget(k.t.Context(), crashed.name))
}

// remove deletes the pod at an address, as a machine does that is emptied.
func (k *kubelet) remove(ip string) {
	k.t.Helper()
	require.NoError(k.t, k.api.Resource(pods()).Namespace(namespace).Delete(k.t.Context(), k.at(ip).name, metav1.DeleteOptions{}))
}

// at returns the pod at an address.
func (k *kubelet) at(ip string) *pod {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.running {
		if p.ip == ip {
			return p
		}
	}
	require.Fail(k.t, "there is no pod", ip)
	return nil
}

// evict ends the pod at an address as a machine does that has no memory left: the pod
// stays, as one that failed.
func (k *kubelet) evict(ip string) {
	k.t.Helper()
	evicted := k.at(ip)
	evicted.stop(true)
	require.NoError(k.t, k.say(k.t.Context(), evicted.name, "Failed", "False", ip))
}
