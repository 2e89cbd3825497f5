package agentsandbox_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/remote"
	"github.com/portico-run/portico/modules/sandbox/remote/agentsandbox"
)

func TestOwnersHaveNodesOfTheirOwnInEveryProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		one, two := c.process(), c.process()
		found := make(chan remote.Node, 2)
		for _, p := range []process{one, two} { // at once: one of them is late to make the claim
			go func() {
				n, err := p.Acquire(t.Context(), "u1")
				if err != nil {
					t.Error(err)
				}
				found <- n
			}()
		}
		first := <-found
		require.Equal(t, first, <-found)
		other := one.begin(c, "u2")
		require.NotEqual(t, first.Nonce, other.Nonce)
		require.NotEqual(t, first.Address, other.Address)

		claims := c.list()
		require.Len(t, claims, 2)
		spec := claims[0].Object["spec"]
		require.Equal(t, map[string]any{
			"warmPoolRef": map[string]any{"name": "warm"},
			"lifecycle": map[string]any{
				"shutdownPolicy": "Delete", "ttlSecondsAfterFinished": int64(0),
				"shutdownTime": c.ends(claims[0]).Format(time.RFC3339),
			},
		}, spec, "anything besides makes a pod from the beginning instead of a warm one")
		require.NotContains(t, claims[0].GetName(), "u1")
	})
}

func TestANodeIsAskedUntilItServesItsOwnerAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		p := c.process()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		n, err := p.Acquire(ctx, "u1")
		require.NoError(t, err)
		c.serve(n.Address, "u2") // another claim has the same pod, and was quicker
		_, err = p.Acquire(ctx, "u1")
		require.ErrorIs(t, err, sandbox.ErrUnavailable)
		require.Contains(t, p.log.String(), "serves another owner")

		c.serve(n.Address, "u1")
		p.begin(c, "u1")
		asked := c.questions()
		p.begin(c, "u1")
		require.Equal(t, asked, c.questions(), "it is known to be u1's")
	})
}

func TestANodeThatServesEverybodyIsToldOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		p := c.process()
		for range 2 {
			n, err := p.Acquire(t.Context(), "u1")
			require.NoError(t, err)
			p.Release(n, false)
		}
		require.Contains(t, p.log.String(), "SANDBOX_NODE_TENANTS=one")
	})
}

func TestOnePodForTwoClaimsServesOneOfThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		p := c.process()
		n, err := p.Acquire(t.Context(), "u1")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		go func() {
			<-time.After(50 * time.Millisecond) // before the controller gives it another pod
			for _, claim := range c.list() {
				if claim.Object["status"] == nil {
					c.set(claim, "True", "DependenciesReady", "10.0.0.1")
				}
			}
		}()
		_, err = p.Acquire(ctx, "u2")
		require.ErrorIs(t, err, sandbox.ErrUnavailable, "%v has both", n)
	})
}

func TestAPodThatWasReplacedIsAnotherNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		p := c.process()
		old := p.begin(c, "u1")
		for range 2 {
			require.Equal(t, old, p.begin(c, "u1"))
		}
		c.end("10.0.0.1")
		p.Release(old, true)
		go func() {
			<-time.After(500 * time.Millisecond)
			c.run("10.0.0.1", remote.Status{Nonce: "another", Capacity: 2, MaxPaused: 1}) // with the same address
		}()
		renewed := p.begin(c, "u1")
		require.Equal(t, remote.Node{Address: "10.0.0.1:5803", Nonce: "another"}, renewed)
		require.Len(t, c.list(), 1)

		// What ended with the old pod neither takes room of the new one nor gives it.
		p.Release(old, true)
		p.Release(old, true)
		for range 2 {
			require.Equal(t, renewed, p.begin(c, "u1"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.Acquire(ctx, "u1")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestANodeThatOnlyBrokeAConnectionKeepsItsPrograms(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		p := c.process()
		n := p.begin(c, "u1")
		p.begin(c, "u1")
		p.begin(c, "u1")
		p.Release(n, true)
		require.Equal(t, n, p.begin(c, "u1"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.Acquire(ctx, "u1")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestWhoFindsNoRoomWaitsForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		p := c.process()
		var n remote.Node
		for range 3 { // two run, one is paused
			n = p.begin(c, "u1")
		}
		begun := time.Now()
		go func() {
			<-time.After(5 * time.Second)
			p.Release(n, false)
		}()
		require.Equal(t, n, p.begin(c, "u1"))
		require.Equal(t, 5*time.Second, time.Since(begun))
	})
}

func TestANodeThatEndsIsWaitedOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		p := c.process()
		n := p.begin(c, "u1")
		c.run("10.0.0.1", remote.Status{Nonce: n.Nonce, Capacity: 2, MaxPaused: 1, Draining: true})
		p.Release(n, true)
		go func() {
			<-time.After(3 * time.Second)
			c.run("10.0.0.1", remote.Status{Nonce: "another", Capacity: 2, MaxPaused: 1})
		}()
		require.Equal(t, "another", p.begin(c, "u1").Nonce)
	})
}

func TestAClaimLivesWhileItIsUsedAndEndsByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		one, two := c.process(), c.process()
		n := one.begin(c, "u1")
		require.Equal(t, n, two.begin(c, "u1"))
		one.Release(n, false)
		<-time.After(2 * time.Hour) // a program of the second process runs
		require.Len(t, c.list(), 1)
		require.Equal(t, n, one.begin(c, "u1"))
		one.Release(n, false)
		two.Release(n, false)

		<-time.After(idle - time.Second)
		require.Len(t, c.list(), 1)
		<-time.After(idle/5 + 2*time.Second)
		require.Empty(t, c.list())
		require.NotEqual(t, n.Nonce, one.begin(c, "u1").Nonce)
	})
}

func TestAPorticoThatDiedLeavesNoClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		p := c.process()
		p.begin(c, "u1")
		require.NoError(t, p.Stop(t.Context()))
		<-time.After(idle + idle/5 + time.Second)
		require.Empty(t, c.list())
	})
}

func TestAClaimThatSomebodyDeletedIsMadeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		p := c.process()
		n := p.begin(c, "u1")
		require.NoError(t, c.claims().Delete(t.Context(), c.list()[0].GetName(), metav1.DeleteOptions{}))
		c.end("10.0.0.1")
		<-time.After(idle) // the lease notices, even if no program does
		require.NotEqual(t, n, p.begin(c, "u1"))
		require.Len(t, c.list(), 1)
	})
}

func TestAClaimThatNeverHasAPodSaysWhy(t *testing.T) {
	t.Parallel()
	for reason, do := range map[string]string{
		"DependenciesNotReady": "kubectl describe",
		"WarmPoolNotFound":     "SANDBOX_CLAIM_POOL",
		"TemplateNotFound":     "sandboxTemplateRef",
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			c.say(nil, reason)
			p := c.process()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := p.Acquire(ctx, "u1")
			require.ErrorIs(t, err, sandbox.ErrUnavailable)
			require.NotErrorIs(t, err, context.DeadlineExceeded, "it would count as cancelled")
			require.Contains(t, p.log.String(), do)
			require.NotContains(t, errs.Message(err), "laim", "the user is not told of the cluster")

			// Once somebody has seen to it, the same claim has a pod.
			c.say(nil, "")
			c.bind(c.list()[0])
			p.begin(c, "u1")
		})
	}
}

func TestWhatTheClusterRefusesIsToldOnceWithWhatToDo(t *testing.T) {
	t.Parallel()
	group := resource().GroupResource()
	for do, refusal := range map[string]error{
		"get, watch, create and patch": apierrors.NewForbidden(group, "x", errors.New("User cannot create resource")),
		"ResourceQuota":                apierrors.NewForbidden(group, "x", errors.New("exceeded quota: few")),
		"automountServiceAccountToken": apierrors.NewUnauthorized("no token"),
		"Install agent-sandbox":        apierrors.NewGenericServerResponse(404, "get", group, "", "", 0, true),
		"a version of agent-sandbox":   apierrors.NewBadRequest("unknown field"),
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			c.say(refusal, "")
			p := c.process()
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			for range 10 {
				_, err := p.Acquire(ctx, "u1")
				require.ErrorIs(t, err, sandbox.ErrUnavailable)
			}
			require.Zero(t, time.Since(begun), "waiting would not help")
			require.Contains(t, p.log.String(), do)
			require.Equal(t, 1, countLines(p.log.String()))
		})
	}
}

func countLines(text string) (n int) {
	for _, r := range text {
		if r == '\n' {
			n++
		}
	}
	return n
}

func TestNodesThatAreKnownOutlastTheAPIServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		p := c.process()
		n := p.begin(c, "u1")
		p.Release(n, false)
		n = p.begin(c, "u1")
		p.Release(n, false)
		c.say(errors.New("connection refused"), "")
		<-time.After(5 * time.Minute)
		require.Equal(t, n, p.begin(c, "u1"))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := p.Acquire(ctx, "u2")
		require.ErrorIs(t, err, sandbox.ErrUnavailable)
		require.Contains(t, p.log.String(), "API server")

		// It comes back: the program that still runs keeps its claim.
		<-time.After(5 * time.Minute)
		c.say(nil, "")
		<-time.After(time.Hour)
		require.Len(t, c.list(), 1)
		p.begin(c, "u2")
	})
}

func TestANodeWhoseClaimCouldEndAnyMomentTakesNoProgram(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		p := c.process()
		p.begin(c, "u1")
		p.begin(c, "u1")
		c.say(errors.New("connection refused"), "")
		<-time.After(idle)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := p.Acquire(ctx, "u1")
		require.ErrorIs(t, err, sandbox.ErrUnavailable)
	})
}

func TestWhoeverLeavesWaitsNoLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.say(nil, "DependenciesNotReady")
		p := c.process()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-time.After(time.Second)
			cancel()
		}()
		_, err := p.Acquire(ctx, "u1")
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, p.log.String())
	})
}

func TestTheDoctorSaysWhetherTheClusterCanBeAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		p := c.process()
		require.NoError(t, p.Check(t.Context()))
		c.say(apierrors.NewForbidden(resource().GroupResource(), "x", errors.New("User cannot get resource")), "")
		require.ErrorContains(t, p.Check(t.Context()), "get, watch, create and patch")
		c.say(apierrors.NewGenericServerResponse(404, "get", resource().GroupResource(), "", "", 0, true), "")
		require.ErrorContains(t, p.Check(t.Context()), "Install agent-sandbox")
		require.Empty(t, c.list(), "nothing is claimed")
	})
}

// The others run in a bubble, where nothing comes over a network.
func TestANodeIsAskedOverItsConnection(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"nonce":"n1","capacity":1,"owner":"` + remote.OwnerHash("u1") + `"}`))
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	_, text, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)

	c := newCluster(t)
	c.say(nil, "DependenciesNotReady")
	client := remote.NewClient(remote.ClientConfig{})
	t.Cleanup(client.Close)
	n := agentsandbox.New(agentsandbox.Settings{Namespace: namespace, Pool: "warm", Port: port, Idle: idle}, c, client, slog.New(slog.DiscardHandler))
	answers := make(chan remote.Node, 1)
	go func() {
		node, err := n.Acquire(t.Context(), "u1")
		if err == nil {
			answers <- node
		}
	}()
	require.Eventually(t, func() bool { return len(c.list()) == 1 }, 10*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		c.set(c.list()[0], "True", "DependenciesReady", "127.0.0.1")
		return len(answers) == 1
	}, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, remote.Node{Address: server.Listener.Addr().String(), Nonce: "n1"}, <-answers)
}
