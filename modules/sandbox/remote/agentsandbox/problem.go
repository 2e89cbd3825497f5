package agentsandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portico-run/portico/modules/sandbox"
)

// errUnavailable is what the user is told. What is wrong is for the operator, in the
// log.
var errUnavailable = sandbox.ErrUnavailable.Do("Try again in a minute. If that does not help, the server's log says what its operator must do.").After(time.Minute)

// problem is why there is no node, for the operator.
type problem struct {
	what  string
	do    string
	cause error
	// final says that waiting does not help.
	final bool
}

// Error implements error.
func (p *problem) Error() string {
	text := p.what
	if p.cause != nil {
		text += ": " + p.cause.Error()
	}
	return text
}

// Unwrap returns what the cluster or the node said.
func (p *problem) Unwrap() error { return p.cause }

// refused says what it means that the API server did not do something with a claim.
func refused(s Settings, err error) error {
	p := &problem{what: "Kubernetes refuses a SandboxClaim", cause: err, final: true}
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		p.do = "Raise the ResourceQuota of the namespace " + s.Namespace + ", or let fewer users have nodes at once."
	case apierrors.IsForbidden(err):
		p.do = "Let Portico's service account get, watch, create and patch sandboxclaims." + group + " in the namespace " + s.Namespace + ", as the Role in configs/kubernetes does."
	case apierrors.IsUnauthorized(err):
		p.do = "Give the pod its service account's token (automountServiceAccountToken), or make the kubeconfig anew."
	case apierrors.IsNotFound(err):
		p.do = "Install agent-sandbox with its extensions (" + group + "/" + version + "), and create the namespace " + s.Namespace + "."
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		p.do = "Install a version of agent-sandbox that serves " + group + "/" + version + "."
	default:
		p.what, p.final = "Kubernetes does not answer about a SandboxClaim", false
		p.do = "See whether the API server of the cluster can be reached from this process (NetworkPolicy, DNS, its load)."
	}
	return p
}

// hopeless returns an error for a claim that waits for somebody to do something.
func hopeless(s Settings, ready metav1.Condition) error {
	switch ready.Reason {
	case "WarmPoolNotFound":
		return &problem{
			what: "there is no SandboxWarmPool " + s.Pool + " in the namespace " + s.Namespace, final: true,
			do: "Create it, or name another one in SANDBOX_CLAIM_POOL.",
		}
	case "TemplateNotFound":
		return &problem{
			what: "the SandboxWarmPool " + s.Pool + " names no SandboxTemplate that there is", cause: errors.New(ready.Message), final: true,
			do: "Create the template in the namespace " + s.Namespace + ", or correct sandboxTemplateRef of the pool.",
		}
	}
	return nil
}

// notReady is returned for a claim that had no node in time.
func notReady(claim string, ready metav1.Condition) error {
	return &problem{
		what: "a SandboxClaim has no pod that is ready", cause: fmt.Errorf("%s: %s: %s", claim, ready.Reason, ready.Message),
		do: "See: kubectl describe sandboxclaims,sandboxes,pods. The pool may be empty and the cluster full, the image missing, or the clock of this machine wrong.",
	}
}

// interrupted is returned when nothing more is told of a claim: it is gone, or the API
// server ended the connection, as it does now and then.
func interrupted(claim string) error {
	return &problem{
		what: "a SandboxClaim went away while its pod was waited for", cause: errors.New(claim),
		do: "Nothing, if it does not last. Otherwise see who deletes it.",
	}
}

func unreachable(claim, address string, err error) error {
	return &problem{
		what: "a sandbox node does not answer", cause: fmt.Errorf("%s at %s: %w", claim, address, err),
		do: "See whether the pod listens there, and whether its NetworkPolicy lets this process in.",
	}
}

func ending(claim, address string) error {
	return &problem{
		what: "a sandbox node ends", cause: fmt.Errorf("%s at %s", claim, address),
		do: "Nothing, if Kubernetes replaces the pod soon. Otherwise see what deletes it.",
	}
}

// foreign is returned for a node that is bound to another owner: the controller gave
// one pod to two claims, or the address is somebody else's by now.
func foreign(claim, address string) error {
	return &problem{
		what: "a sandbox node serves another owner already", cause: fmt.Errorf("%s at %s", claim, address),
		do: "It is not used. If this lasts, delete the claim: kubectl delete sandboxclaim " + claim,
	}
}

func roomless(claim, address string) error {
	return &problem{
		what: "a sandbox node says that it has no room at all", cause: fmt.Errorf("%s at %s", claim, address),
		do: "Set SANDBOX_MAX_CONCURRENT in the template of the pool to one at least.",
	}
}

// Check says whether the cluster can be asked for nodes, and what to do if it cannot. It
// takes none.
func (n *Nodes) Check(ctx context.Context) error {
	err := n.claims.check(ctx)
	if p, ok := errors.AsType[*problem](err); ok {
		return fmt.Errorf("%w. %s", err, p.do)
	}
	return err
}

// tellAgain is how long a problem is not told of again.
const tellAgain = time.Minute

// explain tells the operator why there is no node, and returns what the user is told.
func (n *Nodes) explain(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	n.tell(ctx, err)
	// As text: that some request took too long is not what the caller's time is about.
	return errUnavailable.With(errors.New(err.Error()))
}

func (n *Nodes) tell(ctx context.Context, err error) {
	what, do := "", "See what the error says."
	if p, ok := errors.AsType[*problem](err); ok {
		what, do = p.what, p.do
	}
	n.mu.Lock()
	again := time.Since(n.told[what]) >= tellAgain
	if again {
		n.told[what] = time.Now()
	}
	n.mu.Unlock()
	if again {
		n.log.ErrorContext(ctx, "there is no sandbox node for a program", "error", err, "do", do)
	}
}
