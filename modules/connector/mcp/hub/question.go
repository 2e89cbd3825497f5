package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/upstream"
)

// refusal is what a server hears that asks something.
const refusal = "Portico was not told to answer questions of servers."

// Question is what a server asks a person in the middle of a call. The words are the
// server's, and may say anything.
type Question struct {
	// Server is the name of who asks.
	Server  string          `json:"-"`
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"schema,omitempty"`
	URL     string          `json:"url,omitempty"`
}

// Reply is what a person answered.
type Reply struct {
	Action  Action
	Content json.RawMessage // an object; nil for none
}

// Action is what a person did about a question.
type Action string

// The actions, in the words of the protocol.
const (
	Accept  Action = "accept"
	Decline Action = "decline"
	Cancel  Action = "cancel"
)

// asks answers what servers ask a client. What they ask a person is asked where it is
// known which call it is about, and noted for the call otherwise.
func (s *session) asks(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		switch method {
		case "elicitation/create":
			asks, ok := r.GetParams().(*mcp.ElicitParams)
			if !ok {
				break
			}
			if c := s.only(); c != nil {
				if reply := c.answer(asks); reply != nil {
					return reply, nil
				}
				break
			}
			s.tell(asks)
		case "sampling/createMessage", "roots/list":
		default:
			return next(ctx, method, r)
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: refusal}
	}
}

// only is the one call that is in flight; nil where there are several. The protocol
// does not say which of them a question is about.
func (s *session) only() *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) != 1 {
		return nil
	}
	for _, c := range s.calls {
		return c
	}
	return nil
}

// tell says in all calls that the server asks something.
func (s *session) tell(p *mcp.ElicitParams) {
	s.mu.Lock()
	calls := slices.Collect(maps.Values(s.calls))
	s.mu.Unlock()
	for _, c := range calls {
		c.report("The server asks something, of this call or of another one: "+c.elicited(p), true)
	}
}

// maxQuestions is how much a server may ask in one call.
const maxQuestions = 5

// answer asks a person what the server asks. It returns nil where nobody was asked;
// the question is noted then.
func (c *call) answer(p *mcp.ElicitParams) *mcp.ElicitResult {
	if !c.mayAsk() {
		c.unanswered(p, "")
		return nil
	}
	defer c.questions.Done()
	c.answering.Lock()
	defer c.answering.Unlock()
	q, err := c.read(p)
	if err != nil {
		c.unanswered(p, err.Error())
		return nil
	}
	resume := c.silence.pause()
	reply, err := c.Ask(c.ctx, q)
	resume()
	out := &mcp.ElicitResult{Action: string(reply.Action)}
	if err == nil && len(reply.Content) > 0 {
		err = json.Unmarshal(reply.Content, &out.Content)
	}
	if err != nil {
		c.unanswered(p, errs.Message(err))
		return nil
	}
	return out
}

// mayAsk counts a question, unless nobody can be asked any more.
func (c *call) mayAsk() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Ask == nil || c.done || c.asked == maxQuestions {
		return false
	}
	c.asked++
	c.questions.Add(1)
	return true
}

// read is a question as a person is shown it, without what only the server and this
// process know.
func (c *call) read(p *mcp.ElicitParams) (Question, error) {
	q := Question{Message: p.Message, URL: p.URL}
	if p.RequestedSchema != nil {
		text, err := json.Marshal(p.RequestedSchema)
		if err != nil {
			return q, err
		}
		q.Schema = text
	}
	text, err := json.Marshal(q)
	if err != nil {
		return q, err
	}
	err = json.Unmarshal(c.entry.secrets().Redact(text), &q)
	q.Server = c.entry.key.name
	return q, err
}

// unanswered notes a question that nobody was asked, and why not.
func (c *call) unanswered(p *mcp.ElicitParams, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.question = c.elicited(p)
	if why != "" {
		c.question += " (" + why + ")"
	}
}

// make sends a call, and again with the answers where it ends in questions that people
// answered.
func (c *call) make(ctx context.Context, conn *session, params *mcp.CallToolParams) (*mcp.CallToolResult, error) {
	for {
		got, err := conn.CallTool(ctx, params)
		if err != nil || !got.NeedsInput() || len(got.InputRequests) == 0 {
			return got, err
		}
		answers := mcp.InputResponseMap{}
		for _, id := range slices.Sorted(maps.Keys(got.InputRequests)) {
			asks, ok := got.InputRequests[id].(*mcp.ElicitParams)
			if !ok {
				return got, nil
			}
			reply := c.answer(asks)
			if reply == nil {
				return got, nil
			}
			answers[id] = reply
		}
		params.InputResponses, params.RequestState = answers, got.RequestState
	}
}

// silence ends a call whose server says nothing for too long.
type silence struct {
	mu    sync.Mutex
	timer *time.Timer
	most  time.Duration
	held  bool
}

func (s *silence) begin(most time.Duration, over func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most, s.timer = most, time.AfterFunc(most, over)
}

func (s *silence) end() { s.timer.Stop() }

// extend begins to count anew.
func (s *silence) extend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held {
		s.timer.Reset(s.most)
	}
}

// pause counts nothing until resume.
func (s *silence) pause() (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = true
	s.timer.Stop()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held = false
		s.timer.Reset(s.most)
	}
}

// elicited puts a question into words.
func (c *call) elicited(p *mcp.ElicitParams) string {
	text := p.Message
	if p.URL != "" {
		text += " (" + p.URL + ")"
	}
	return c.entry.words(strings.TrimSpace(text))
}

// inputs are the questions of a result that is none yet.
func (c *call) inputs(got *mcp.CallToolResult) string {
	var texts []string
	for _, id := range slices.Sorted(maps.Keys(got.InputRequests)) {
		switch asks := got.InputRequests[id].(type) {
		case *mcp.ElicitParams:
			texts = append(texts, c.elicited(asks))
		default:
			texts = append(texts, fmt.Sprintf("(%T)", asks))
		}
	}
	if len(texts) == 0 {
		return "to be asked again later"
	}
	return strings.Join(texts, "; ")
}

// asked is the failure of a call that ends in a question.
func asked(name, question string, c *call) *upstream.Failure {
	text := fmt.Sprintf("MCP server %s asks: %s", name, question)
	if c.Report != nil {
		c.Report(c.ctx, text)
	}
	return &upstream.Failure{Code: CodeQuestion, Message: text + ". No person could be asked, so that the call was not finished. Give what it asks for as arguments, if the tool takes them."}
}
