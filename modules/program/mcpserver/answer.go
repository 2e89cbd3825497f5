package mcpserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/sandbox"
)

// maxText is how many characters of a text come at once: what clients show a model
// whole.
const maxText = 20_000

// Statuses of a program as models are told them.
const (
	completed = "completed"
	running   = "running"
	paused    = "paused"
	timedOut  = "timeout"
	failed    = "error"
)

// execution is what run_code and resume_code answer.
type execution struct {
	Status    string     `json:"status" jsonschema:"completed, running, paused, timeout or error"`
	Execution string     `json:"execution" jsonschema:"For resume_code; empty where no program began"`
	Stdout    string     `json:"stdout" jsonschema:"What it printed, or the part of it that truncated says"`
	Stderr    string     `json:"stderr,omitempty"`
	Error     string     `json:"error,omitempty" jsonschema:"Why it did not complete"`
	Calls     []call     `json:"calls" jsonschema:"The calls of tools it made, at most the last 100"`
	CallsMade int        `json:"calls_made"`
	Pending   []pending  `json:"pending,omitempty" jsonschema:"Calls that wait for a person; tell your user"`
	Truncated *truncated `json:"truncated,omitempty" jsonschema:"Set where stdout is not all that it printed"`
	Warnings  []string   `json:"warnings,omitempty"`
	// Run and Canvas are what it belongs to; Files are what it left.
	Run    string `json:"run,omitempty" jsonschema:"The resource of its run"`
	Canvas string `json:"canvas,omitempty" jsonschema:"Whose files it has; give it to other programs"`
	Files  []file `json:"files,omitempty" jsonschema:"Files that it left, to be read as resources"`
}

type file struct {
	URI  string `json:"uri"`
	Name string `json:"name"`
	Type string `json:"type"`
	Size int64  `json:"size"`
}

type call struct {
	N      int    `json:"n"`
	Tool   string `json:"tool"`
	MS     int64  `json:"ms"`
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
}

type pending struct {
	Call string `json:"call"`
	Tool string `json:"tool"`
	URL  string `json:"url,omitempty" jsonschema:"Where a person decides"`
}

// truncated says which part of a text is there.
type truncated struct {
	From  int `json:"from" jsonschema:"The first character that is there"`
	Total int `json:"total" jsonschema:"How many characters there are"`
	Next  int `json:"next,omitempty" jsonschema:"The offset of resume_code that reads on; absent at the end"`
	// Lost is what nobody can read.
	Lost int64 `json:"lost,omitempty" jsonschema:"Bytes that the program printed beyond the server's limit, which are gone"`
}

// maxCalls is how many calls of a program are listed.
const maxCalls = 100

// tell is a program as a model sees it.
func (m *Module) tell(st program.State, offset int) execution {
	e := execution{
		Status: running, Execution: st.CallID, Calls: []call{}, CallsMade: len(st.ToolCalls), Warnings: st.Warnings,
		Run: runs + url.PathEscape(st.ResultID), Canvas: st.CanvasID,
	}
	for _, f := range st.Files {
		e.Files = append(e.Files, file{URI: files + url.PathEscape(f.FileID), Name: f.Name, Type: f.Type, Size: f.Size})
	}
	for n, c := range st.ToolCalls {
		if c.Status == record.Waiting {
			e.Pending = append(e.Pending, pending{Call: c.CallID, Tool: c.ToolName, URL: m.decision(c.CallID)})
		}
		if n >= len(st.ToolCalls)-maxCalls {
			e.Calls = append(e.Calls, call{N: n + 1, Tool: c.ToolName, MS: c.DurationMS, Status: string(c.Status), Error: c.Error})
		}
	}
	if !st.Ended {
		if len(e.Pending) > 0 {
			e.Status = paused
		}
		return e
	}
	switch st.Status {
	case sandbox.Completed:
		e.Status = completed
	case sandbox.TimedOut:
		e.Status = timedOut
	default:
		e.Status = failed
	}
	e.Stdout, e.Truncated = part(st.Stdout, offset)
	if e.Status != completed {
		e.Error = st.Why
		e.Stderr = tail(st.Stderr)
	}
	if st.Lost > 0 {
		if e.Truncated == nil {
			e.Truncated = &truncated{Total: utf8.RuneCountInString(st.Stdout)}
		}
		e.Truncated.Lost = st.Lost
	}
	return e
}

// decision is where a person decides about a call; empty for nowhere.
func (m *Module) decision(callID string) string {
	if m.deps.Settings.Console == "" {
		return ""
	}
	return m.deps.Settings.Console + "/approvals/" + url.PathEscape(callID)
}

// part is at most maxText characters of a text from an offset on.
func part(text string, offset int) (string, *truncated) {
	total := utf8.RuneCountInString(text)
	offset = min(max(offset, 0), total)
	if offset == 0 && total <= maxText {
		return text, nil
	}
	letters := []rune(text)
	end := min(offset+maxText, total)
	t := &truncated{From: offset, Total: total}
	if end < total {
		t.Next = end
	}
	return string(letters[offset:end]), t
}

// tail is the end of a text, where a traceback says what went wrong.
func tail(text string) string {
	const most = 4000
	letters := []rune(text)
	if len(letters) <= most {
		return text
	}
	return fmt.Sprintf("[%d characters before]\n%s", len(letters)-most, string(letters[len(letters)-most:]))
}

// result is an answer in both forms: the value, and the same as text for clients that
// show models text only; the files that the program left are links besides.
func result(e execution) (*mcp.CallToolResult, execution, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, e, err
	}
	r := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}, IsError: e.Status == failed || e.Status == timedOut}
	for _, f := range e.Files {
		r.Content = append(r.Content, &mcp.ResourceLink{URI: f.URI, Name: f.Name, MIMEType: f.Type, Size: &f.Size})
	}
	return r, e, nil
}

// broken is the answer where there is no program to tell of.
func broken(err error) (*mcp.CallToolResult, execution, error) { return lost("", err) }

// lost is the answer where nothing can be told of a program but its handle.
func lost(callID string, err error) (*mcp.CallToolResult, execution, error) {
	return result(execution{Status: failed, Execution: callID, Error: strings.TrimSpace(errs.Message(err) + " " + advice(err)), Calls: []call{}})
}

// said is an answer that is a text alone.
func said(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// advice is what an error says to do.
func advice(err error) string {
	if e, ok := errors.AsType[*errs.Error](err); ok {
		return e.Detail
	}
	return ""
}

// refused is an error as a result: the model reads it and does something else.
func refused(err error) *mcp.CallToolResult {
	text := errs.Message(err)
	r := said(strings.TrimSpace(text + " " + advice(err)))
	r.IsError = true
	return r
}

// public is an error as the client of a resource sees it.
func public(err error) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: strings.TrimSpace(errs.Message(err) + " " + advice(err))}
}
