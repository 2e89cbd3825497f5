package agentsandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

const (
	group   = "extensions.agents.x-k8s.io"
	version = "v1beta1"
	kind    = "SandboxClaim"
)

//nolint:gochecknoglobals // a name in three parts
var resource = schema.GroupVersionResource{Group: group, Version: version, Resource: "sandboxclaims"}

// claim is what is read of a SandboxClaim.
type claim struct {
	Metadata struct {
		ResourceVersion   string       `json:"resourceVersion"`
		DeletionTimestamp *metav1.Time `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Lifecycle struct {
			ShutdownTime metav1.Time `json:"shutdownTime"`
		} `json:"lifecycle"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
		Sandbox    struct {
			PodIPs []string `json:"podIPs"`
		} `json:"sandbox"`
	} `json:"status"`
}

func read(object *unstructured.Unstructured) (claim, error) {
	var c claim
	text, err := object.MarshalJSON()
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(text, &c)
}

// condition returns a condition of the claim, with the status Unknown where it has
// none.
func (c claim) condition(kind string) metav1.Condition {
	for _, condition := range c.Status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: "NotReconciled", Message: "the controller of agent-sandbox has not looked at it"}
}

// claims are the claims of one pool.
type claims struct {
	api      dynamic.ResourceInterface
	settings Settings
}

// name is the name of an owner's claim, the same in every process. Nobody learns the
// owner of it.
func (c claims) name(owner string) string {
	sum := sha256.Sum256([]byte(c.settings.Pool + "\x00" + owner))
	return "portico-" + hex.EncodeToString(sum[:16])
}

// slack is how much further ahead a claim's end is pushed than it must be, so that
// this need not happen with every program.
func (c claims) slack() time.Duration { return c.settings.Idle / 5 }

// end is when a claim ends that is used now.
func (c claims) end() time.Time {
	return time.Now().Add(c.settings.Idle + c.slack()).UTC().Truncate(time.Second)
}

// ready returns the address of the claim's node, and when the claim ends. It makes
// the claim, pushes its end ahead and waits until it has a node.
func (c claims) ready(ctx context.Context, name string) (address string, until time.Time, err error) {
	object, err := c.hold(ctx, name)
	if err != nil {
		return "", time.Time{}, err
	}
	now, err := read(object)
	if err != nil {
		return "", time.Time{}, err
	}
	if address, err = c.judge(now); address == "" && err == nil {
		address, err = c.wait(ctx, name, &now)
	}
	return address, now.Spec.Lifecycle.ShutdownTime.Time, err
}

// hold returns the claim, made or pushed ahead where that is needed.
func (c claims) hold(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	object, err := c.api.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		object, err = c.api.Create(ctx, c.made(name), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // another process was first
			object, err = c.api.Get(ctx, name, metav1.GetOptions{})
		}
	}
	if err != nil {
		return nil, refused(c.settings, err)
	}
	now, err := read(object)
	if err != nil {
		return nil, err
	}
	if now.Metadata.DeletionTimestamp != nil || time.Until(now.Spec.Lifecycle.ShutdownTime.Time) >= c.settings.Idle {
		return object, nil
	}
	object, err = c.push(ctx, name)
	if err != nil {
		return nil, refused(c.settings, err)
	}
	return object, nil
}

// check asks for a claim that nobody makes: a cluster that knows no such resource, or
// does not let this process ask, says so.
func (c claims) check(ctx context.Context) error {
	const name = "portico-doctor"
	_, err := c.api.Get(ctx, name, metav1.GetOptions{})
	var status apierrors.APIStatus
	if apierrors.IsNotFound(err) && errors.As(err, &status) {
		if details := status.Status().Details; details != nil && details.Name == name && len(details.Causes) == 0 {
			return nil
		}
	}
	if err != nil {
		return refused(c.settings, err)
	}
	return nil
}

// made is a new claim.
func (c claims) made(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/" + version,
		"kind":       kind,
		"metadata": map[string]any{
			"name":   name,
			"labels": map[string]any{"app.kubernetes.io/managed-by": "portico"},
		},
		"spec": map[string]any{
			"warmPoolRef": map[string]any{"name": c.settings.Pool},
			"lifecycle":   c.lifecycle(),
		},
	}}
}

// lifecycle lets the controller delete the claim when nobody pushes its end ahead any
// more, or when its pod has ended for good, as one does that was evicted: no other
// one would come.
func (c claims) lifecycle() map[string]any {
	return map[string]any{
		"shutdownTime":            c.end().Format(time.RFC3339),
		"shutdownPolicy":          "Delete",
		"ttlSecondsAfterFinished": int64(0),
	}
}

// push moves the claim's end ahead.
func (c claims) push(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"lifecycle": c.lifecycle()}})
	if err != nil {
		return nil, err
	}
	return c.api.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
}

// judge returns the address of the claim's node if it has one, nothing while it may
// come, and an error if somebody has to do something first.
func (c claims) judge(now claim) (string, error) {
	ready := now.condition("Ready")
	switch {
	case now.Metadata.DeletionTimestamp != nil:
		return "", nil
	case ready.Status == metav1.ConditionTrue && len(now.Status.Sandbox.PodIPs) > 0:
		return net.JoinHostPort(now.Status.Sandbox.PodIPs[0], strconv.Itoa(c.settings.Port)), nil
	}
	return "", hopeless(c.settings, ready)
}

// wait returns the address of the claim's node as soon as it has one. It says what the
// claim lacks when ctx ends first.
func (c claims) wait(ctx context.Context, name string, now *claim) (string, error) {
	changes, err := c.api.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: now.Metadata.ResourceVersion})
	if err != nil {
		return "", refused(c.settings, err)
	}
	defer changes.Stop()
	for {
		select {
		case change, open := <-changes.ResultChan():
			object, isClaim := change.Object.(*unstructured.Unstructured)
			switch {
			case !open || change.Type == watch.Error || change.Type == watch.Deleted && isClaim && object.GetName() == name:
				return "", interrupted(name) // a claim that is gone is made again
			case !isClaim || object.GetName() != name:
				continue
			}
			if *now, err = read(object); err != nil {
				return "", err
			}
			if address, err := c.judge(*now); address != "" || err != nil {
				return address, err
			}
		case <-ctx.Done():
			return "", notReady(name, now.condition("Ready"))
		}
	}
}
