package hub

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/internal/upstream"
)

// refusal is what a server hears that asks something.
const refusal = "Portico was not told to answer questions of servers."

// decline answers what servers ask a client. What they ask a person is noted for
// the call that it is about.
func (s *session) decline(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		switch method {
		case "elicitation/create":
			if asks, ok := r.GetParams().(*mcp.ElicitParams); ok {
				s.question(elicited(asks))
			}
		case "sampling/createMessage", "roots/list":
		default:
			return next(ctx, method, r)
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: refusal}
	}
}

// question notes what the server asks. The protocol does not say which call it
// is about, unless there is only one: then that one fails. Others are told.
func (s *session) question(text string) {
	s.mu.Lock()
	calls := slices.Collect(maps.Values(s.calls))
	s.mu.Unlock()
	for _, c := range calls {
		if len(calls) == 1 {
			c.mu.Lock()
			c.question = text
			c.mu.Unlock()
			continue
		}
		c.report("The server asks something, of this call or of another one: "+text, true)
	}
}

// elicited puts a question into words.
func elicited(p *mcp.ElicitParams) string {
	text := p.Message
	if p.URL != "" {
		text += " (" + p.URL + ")"
	}
	return upstream.Limit(strings.TrimSpace(text), upstream.MaxReason)
}

// inputs are the questions of a result that is none yet.
func inputs(got *mcp.CallToolResult) string {
	var texts []string
	for _, id := range slices.Sorted(maps.Keys(got.InputRequests)) {
		switch asks := got.InputRequests[id].(type) {
		case *mcp.ElicitParams:
			texts = append(texts, elicited(asks))
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
	return &upstream.Failure{Code: CodeQuestion, Message: text + ". Nobody is there to answer, so that the call was not finished. Give what it asks for as arguments, if the tool takes them."}
}
