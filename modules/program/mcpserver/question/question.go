// Package question is how an MCP client asks the person in front of it about a call that
// waits.
package question

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/modules/tool/approval"
)

// Ways are the ways in which a client asks the person in front of it.
type Ways struct{ Form, Page bool }

// Any reports whether there is one.
func (w Ways) Any() bool { return w.Form || w.Page }

// WaysOf are those that a client says it has.
func WaysOf(can *mcp.ClientCapabilities) Ways {
	if can == nil || can.Elicitation == nil {
		return Ways{}
	}
	e := can.Elicitation
	return Ways{Form: e.Form != nil || e.URL == nil, Page: e.URL != nil}
}

// maxShown is how many characters a client shows a person whole.
const maxShown = 2000

// About asks about one call; nil where this client cannot ask it whole. The page is
// where a person decides about it; empty for nowhere.
func About(a approval.Approval, can Ways, page string) *mcp.ElicitParams {
	message := about(a)
	if a.Question != nil {
		message = fmt.Sprintf("%s, called as %s, asks: %s", a.Question.From, a.Tool, a.Question.Message)
	}
	switch {
	case can.Form && len([]rune(message)) <= maxShown && (a.Question == nil || a.Question.URL == ""):
		return &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: form(a)}
	case can.Page && page != "":
		return &mcp.ElicitParams{Mode: "url", Message: "A call of " + a.Tool + " waits for your decision.", URL: page, ElicitationID: a.CallID}
	}
	return nil
}

// about says everything that a person needs to decide about a call.
func about(a approval.Approval) string {
	var b strings.Builder
	fmt.Fprintf(&b, "A program wants to call %s of %s", a.Tool, a.Toolset)
	for _, part := range [][2]string{{" at ", a.Host}, {", for ", a.Price}} {
		if part[1] != "" {
			b.WriteString(part[0] + part[1])
		}
	}
	if a.Price != "" {
		b.WriteString(" credits")
	}
	fmt.Fprintf(&b, ".\nArguments: %s", a.Arguments)
	if a.Reason != "" {
		fmt.Fprintf(&b, "\nWhy you are asked: %s", a.Reason)
	}
	return b.String()
}

// form is the schema of an answer.
func form(a approval.Approval) any {
	if a.Question != nil {
		if len(a.Question.Schema) > 0 {
			return a.Question.Schema
		}
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return json.RawMessage(`{"type":"object","properties":{` +
		`"decision":{"type":"string","title":"Decision","description":"allow: this call; allow_always: this call, and later ones with the same arguments; refuse: none","enum":["allow","allow_always","refuse"]},` +
		`"reason":{"type":"string","title":"Reason","description":"Why it is refused; the program is told","maxLength":1000}},"required":["decision"]}`)
}
