package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/budget"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/connector/mcp/wire"
)

// Call is a call of a tool.
type Call struct {
	// Tool is the name that the server uses.
	Tool      string
	Arguments json.RawMessage
	// Report takes sentences about a call that takes long; nil where nobody
	// watches.
	Report func(ctx context.Context, text string)
	// Ask asks a person what the server asks in the middle of the call; nil where
	// nobody can be asked.
	Ask func(ctx context.Context, q Question) (Reply, error)
}

// call is one that is in flight.
type call struct {
	Call

	ctx     context.Context //nolint:containedctx // of the reports and questions, which others make
	silence silence
	entry   *entry

	answering sync.Mutex     // held while a person is asked
	questions sync.WaitGroup // that are being answered

	mu       sync.Mutex
	reported time.Time
	question string // that nobody answered
	asked    int
	done     bool
}

// reportEvery is how often the progress of one call is shown at most.
const reportEvery = 500 * time.Millisecond

// errSilent ends a call whose server says nothing any more.
var errSilent = errors.New("the server is silent")

// Call makes one call. What the server did wrong is an *upstream.Failure. A call
// is sent once: nobody knows what one that failed has done; one that ends in a
// question is sent again with the answer, as the protocol has it. It ends with ctx, or
// when the server is silent for longer than it may be; progress is no silence, and
// nor is a person who thinks.
func (h *Hub) Call(ctx context.Context, a actor.Actor, s server.Server, c Call) (Answer, error) {
	e := h.entry(a, s)
	defer e.begin(h.deps.Now)()
	conn, err := h.connect(ctx, e)
	if err != nil {
		return Answer{}, h.explain(e, err)
	}
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	one := &call{Call: c, ctx: within, entry: e}
	one.silence.begin(h.settings.Call, func() { cancel(errSilent) })
	defer one.silence.end()
	params := &mcp.CallToolParams{Name: c.Tool, Arguments: c.Arguments}
	leave := conn.enter(one, params)
	defer leave()
	within, forgotten := wire.Watch(within)
	got, err := one.make(within, conn, params)
	late := errors.Is(context.Cause(within), errSilent)
	cancel(nil) // of questions that the server does not wait for
	question := one.end()
	switch {
	case err != nil && late:
		return Answer{}, &upstream.Failure{Code: upstream.CodeTimeout, Message: fmt.Sprintf("MCP server %s did not answer within %s. The call was cancelled; it may have had an effect.", s.Name, h.settings.Call)}
	case question != "" && (said(err) || err == nil && (got.IsError || got.NeedsInput())): // else the server went on without an answer
		return Answer{}, asked(s.Name, question, one)
	case err != nil:
		if unknownTool(err) {
			h.changed(e)
		}
		if f := overLimit(s.Name, conn.process); f != nil && ended(err) {
			return Answer{}, f
		}
		if forgotten.Load() {
			return Answer{}, &upstream.Failure{Code: codeBroken, Message: fmt.Sprintf("MCP server %s does not know the connection any more, and has not begun the call. The next call makes another connection.", s.Name)}
		}
		return Answer{}, h.explainCall(e, err)
	case got.NeedsInput():
		return Answer{}, asked(s.Name, one.inputs(got), one)
	}
	e.works(h.deps.Now())
	return h.answer(ctx, conn, got)
}

// answer reads a result.
func (h *Hub) answer(ctx context.Context, conn *session, got *mcp.CallToolResult) (Answer, error) {
	out, size, err := read(got)
	if err != nil {
		return Answer{}, &upstream.Failure{Code: upstream.CodeInvalid, Message: "The server's answer cannot be read: " + err.Error() + "."}
	}
	if len(out.links) > 0 {
		size += int(h.settings.ResponseCap) // nobody knows what is behind them
	}
	if size > wire.Large {
		if err := budget.Take(ctx, int64(size)); err != nil {
			return Answer{}, err
		}
	}
	conn.resolve(ctx, &out, h.settings.ResponseCap, h.settings.Call)
	secrets := conn.entry.secrets()
	out.redact(secrets)
	if got.IsError {
		return Answer{}, out.failure(secrets)
	}
	return out, nil
}

// enter lets the connection know of a call, so that progress and questions find
// it.
func (s *session) enter(c *call, params *mcp.CallToolParams) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	token := "call-" + strconv.Itoa(s.next)
	params.SetProgressToken(token)
	s.calls[token] = c
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calls, token)
	}
}

// progress shows how a call goes.
func (s *session) progress(p *mcp.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	s.mu.Lock()
	c := s.calls[token]
	s.mu.Unlock()
	if c == nil {
		return // it has ended already
	}
	c.silence.extend()
	text := strings.TrimSpace(c.entry.words(p.Message))
	if p.Total > 0 {
		text = strings.TrimSpace(fmt.Sprintf("%g of %g %s", p.Progress, p.Total, text))
	} else if text == "" {
		text = fmt.Sprintf("%g", p.Progress)
	}
	c.report(text, false)
}

// report shows a sentence, unless one was shown a moment ago.
func (c *call) report(text string, always bool) {
	c.mu.Lock()
	now := time.Now()
	show := c.Report != nil && !c.done && (always || now.Sub(c.reported) >= reportEvery)
	if show {
		c.reported = now
	}
	c.mu.Unlock()
	if show {
		c.Report(c.ctx, text)
	}
}

// end returns what the server asked meanwhile and nobody answered.
func (c *call) end() (question string) {
	c.mu.Lock()
	c.done = true
	c.mu.Unlock()
	c.questions.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.question
}
