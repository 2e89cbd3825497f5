package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/connector/mcp/hub"
	"github.com/portico-run/portico/modules/connector/mcp/hubtest"
	"github.com/portico-run/portico/modules/connector/mcp/server"
)

// asks makes a call whose questions are answered.
func (f *fixture) asks(s server.Server, tool string, answer func(ctx context.Context, q hub.Question) (hub.Reply, error)) (string, *upstream.Failure) {
	f.t.Helper()
	got, err := f.Call(f.t.Context(), anna(), s, hub.Call{Tool: tool, Arguments: json.RawMessage(`{}`), Ask: answer})
	if err != nil {
		failure := &upstream.Failure{}
		require.ErrorAs(f.t, err, &failure)
		return "", failure
	}
	return string(got.Data), nil
}

// A person sees the question as the server asks it, and the server hears what the
// person did.
func TestQuestionsAreAnswered(t *testing.T) {
	testenv.Slow(t, "questions that keep calls waiting")
	t.Parallel()
	everywhere(t, func(t *testing.T, s server.Server) {
		f := open(t, func(s *hub.Settings) { s.Call = 2 * time.Second })
		for want, reply := range map[string]hub.Reply{
			`{"action":"accept","content":{"yes":true}}`: {Action: hub.Accept, Content: json.RawMessage(`{"yes":true}`)},
			`{"action":"decline"}`:                       {Action: hub.Decline},
			`{"action":"cancel"}`:                        {Action: hub.Cancel},
		} {
			got, failure := f.asks(s, "ask", func(ctx context.Context, q hub.Question) (hub.Reply, error) {
				require.Equal(t, "test", q.Server)
				require.Equal(t, "Really delete all?", q.Message)
				require.JSONEq(t, `{"type":"object","properties":{"yes":{"type":"boolean"}}}`, string(q.Schema))
				if reply.Action == hub.Cancel { // longer than the server may be silent
					select {
					case <-time.After(3 * time.Second):
					case <-ctx.Done():
						t.Error("the time of the call passed")
					}
				}
				return reply, nil
			})
			require.Nil(t, failure)
			require.Equal(t, want, got)
		}
		_, failure := f.asks(s, "ask", func(context.Context, hub.Question) (hub.Reply, error) {
			return hub.Reply{}, errs.New(errs.RateLimited, "Too many of your calls wait.")
		})
		require.NotNil(t, failure)
		require.Contains(t, []string{hub.CodeQuestion, hub.CodeTool}, failure.Code)
	})
}

// A server may ask several times in one call, and not for ever.
func TestQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	for name, legacy := range map[string]bool{"modern": false, "legacy": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, of := open(t, nil), hubtest.New()
			more := func(n int) *mcp.ElicitParams {
				return &mcp.ElicitParams{Message: fmt.Sprintf("Question %d?", n), RequestedSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)}
			}
			of.Add("nosy", anyObject, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if legacy {
					for n := range 7 {
						if _, err := r.Session.Elicit(ctx, more(n)); err != nil {
							return nil, err
						}
					}
					return hubtest.Words("never"), nil
				}
				return &mcp.CallToolResult{RequestState: r.Params.RequestState + "x", InputRequests: mcp.InputRequestMap{"q": more(len(r.Params.RequestState))}}, nil
			})
			handler := of.Handler()
			if legacy {
				handler = of.Legacy()
			}
			var asked []string
			_, failure := f.asks(hubtest.Listen(t, "test", handler), "nosy", func(_ context.Context, q hub.Question) (hub.Reply, error) {
				asked = append(asked, q.Message)
				return hub.Reply{Action: hub.Accept, Content: json.RawMessage(`{"n":1}`)}, nil
			})
			require.NotNil(t, failure)
			require.Equal(t, "Question 0? Question 1? Question 2? Question 3? Question 4?", strings.Join(asked, " "))
			require.Contains(t, failure.Message, "Question 5?")
		})
	}
}

// A server may have an answer of its own where nobody gives one.
func TestAServerMayGoOnWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	f, of := open(t, nil), hubtest.New()
	of.Add("order", anyObject, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Which colour?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)})
		require.Error(t, err)
		return hubtest.Words("made order 7 in white"), nil
	})
	got, failure := f.call(hubtest.Listen(t, "test", of.Legacy()), "order", `{}`)
	require.Nil(t, failure, "%v", failure)
	require.Equal(t, `"made order 7 in white"`, string(got.Data))
}

// Who asks and goes away takes the question along.
func TestAServerThatAsksAndDies(t *testing.T) {
	t.Parallel()
	f, of := open(t, nil), hubtest.New()
	began := make(chan struct{})
	of.Add("gone", anyObject, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		go func() {
			_, _ = r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Still there?", RequestedSchema: json.RawMessage(`{"type":"object"}`)})
		}() // nobody waits for it
		<-began
		return nil, errors.New("the server has gone")
	})
	var ended error
	_, failure := f.asks(hubtest.Listen(t, "test", of.Legacy()), "gone", func(ctx context.Context, _ hub.Question) (hub.Reply, error) {
		close(began)
		select {
		case <-ctx.Done():
			ended = ctx.Err()
		case <-time.After(20 * time.Second):
		}
		return hub.Reply{Action: hub.Cancel}, nil
	})
	require.NotNil(t, failure)
	require.ErrorIs(t, ended, context.Canceled, "and the call has not ended before")
}

// A question over a session with several calls is nobody's.
func TestAQuestionOfWhichCall(t *testing.T) {
	t.Parallel()
	f, of := open(t, nil), hubtest.New()
	both := make(chan struct{}, 2)
	begun := make(chan struct{})
	var asked sync.WaitGroup
	asked.Add(2)
	of.Add("confirm", anyObject, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		both <- struct{}{}
		select {
		case <-begun:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		_, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Which?", RequestedSchema: json.RawMessage(`{"type":"object"}`)})
		asked.Done() // the one that ends first leaves the other alone
		asked.Wait()
		if err != nil {
			return nil, err
		}
		return hubtest.Words("answered"), nil
	})
	s := hubtest.Listen(t, "test", of.Legacy())
	f.names(s) // one connection for both
	failures := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := f.Call(t.Context(), anna(), s, hub.Call{Tool: "confirm", Arguments: json.RawMessage(`{}`), Ask: func(context.Context, hub.Question) (hub.Reply, error) {
				t.Error("asked for one of two")
				return hub.Reply{Action: hub.Accept}, nil
			}})
			failures <- err
		}()
	}
	<-both
	<-both
	close(begun)
	require.Error(t, <-failures)
	require.Error(t, <-failures)
}
