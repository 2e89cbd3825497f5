package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/connector/mcp/stdio"
	"github.com/portico-run/portico/modules/connector/mcp/wire"
	"github.com/portico-run/portico/modules/connector/oauth"
)

// Codes of failures that calls of MCP tools have besides those of any tool.
const (
	CodeAuthNeeded = upstream.CodeAuthNeeded
	// CodeQuestion says that the server asked something that nobody answers here.
	CodeQuestion = "MCP_QUESTION"
	// CodeChanged says that a tool is not the one that was pinned.
	CodeChanged = "TOOL_CHANGED"
	// CodeTool says that the tool did not do its work, in its own words.
	CodeTool = "TOOL_ERROR"
	// CodeProtocol is an error that the server answered a request with.
	CodeProtocol = "MCP_ERROR"
	// CodeLimit says that a server that is a process ended, and that it had taken
	// as much memory, or as many processes, as it may.
	CodeLimit      = "MCP_LIMIT"
	CodeNotAllowed = "NOT_ALLOWED"
	// codeBroken says that there was a connection, and no answer.
	codeBroken = "CONNECTION_BROKEN"
)

// codeRejected marks a request that the SDK could not send, or that was not
// answered with a message.
const codeRejected = -32005

// said reports whether an error is one that the server answered with.
func said(err error) bool {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && e.Code != codeRejected
}

// explain says why a server cannot be used, in words for the user. It quotes
// nothing that may hold an address or a credential.
func (h *Hub) explain(e *entry, err error) *upstream.Failure {
	name := e.key.name
	if f, ok := errors.AsType[*upstream.Failure](err); ok {
		return f
	}
	if need, ok := errors.AsType[oauth.Needed](err); ok {
		return authNeeded(name, need.URL)
	}
	if _, ok := errors.AsType[wire.UnauthorizedError](err); ok {
		return &upstream.Failure{Code: CodeAuthNeeded, Message: fmt.Sprintf("MCP server %s does not accept the credential that it was sent, or wants one. Set it in the server's settings.", name)}
	}
	said, ok := errors.AsType[*jsonrpc.Error](err)
	ok = ok && said.Code != codeRejected
	switch {
	case errors.Is(err, wire.ErrTooLarge):
		return upstream.TooLarge(-1, h.settings.ResponseCap)
	case ok && said.Code == wire.CodeTooLarge:
		return upstream.TooLarge(-1, h.settings.ResponseCap)
	case ok:
		return &upstream.Failure{Code: CodeProtocol, Message: fmt.Sprintf("MCP server %s answered with the error %d: %s", name, said.Code, e.words(said.Message))}
	case errors.Is(err, stdio.ErrStart):
		return &upstream.Failure{Code: upstream.CodeUnavailable, Message: fmt.Sprintf("The process of MCP server %s does not start.", name)}
	}
	return unreachable(e, err)
}

// explainCall is explain of a call that was sent: what a server does for a call
// that it does not answer, nobody knows.
func (h *Hub) explainCall(e *entry, err error) *upstream.Failure {
	f := h.explain(e, err)
	switch f.Code {
	case codeBroken, upstream.CodeTimeout, upstream.CodeInvalid:
		f.Message += " The call may have had an effect."
	}
	return f
}

// ended reports whether an error is the end of a connection.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, mcp.ErrConnectionClosed) || errors.Is(err, mcp.ErrSessionMissing)
}

// overLimit says that a process ended for what it took; nil where it did not.
func overLimit(name string, p *stdio.Process) *upstream.Failure {
	if p == nil {
		return nil
	}
	reason := ""
	switch p.Exceeded() {
	case stdio.MemoryLimit:
		reason = "took more memory than a server may have"
	case stdio.ProcessLimit:
		reason = "wanted more processes than a server may have"
	default:
		return nil
	}
	return &upstream.Failure{Code: CodeLimit, Message: fmt.Sprintf("MCP server %s ended: it %s (%s). A call that was under way may have had an effect.", name, reason, p.Exceeded())}
}

// unreachable says why there was no answer.
func unreachable(e *entry, err error) *upstream.Failure {
	say := func(code, what string) *upstream.Failure {
		return &upstream.Failure{Code: code, Message: "MCP server " + e.key.name + " " + what}
	}
	if ended(err) {
		return say(codeBroken, "ended the connection before it answered.")
	}
	cause, isRequest := errors.AsType[*url.Error](err)
	if isRequest {
		err = cause.Err
	}
	switch kind := egress.KindOf(err); {
	case kind == egress.Invalid:
		return say(upstream.CodeInvalidRequest, "was sent nothing: its address, or the value of a header, is not valid.")
	case kind == egress.Refused:
		return say("EGRESS_REFUSED", "has an address, or redirects to one, that it may not have.")
	case kind == egress.Unknown:
		return say("HOST_NOT_FOUND", "has a host name that does not resolve.")
	case kind == egress.Dial:
		return say("CONNECTION_FAILED", "does not accept connections.")
	case kind == egress.TLS:
		return say("TLS_FAILED", "has no secure connection: its certificate or protocol is not valid.")
	case kind == egress.Timeout:
		return say(upstream.CodeTimeout, "did not answer in time.")
	case kind == egress.Canceled:
		return &upstream.Failure{Code: "CANCELLED", Message: "The call was cancelled by its caller."}
	case isRequest:
		return say(codeBroken, "ended the connection before its answer was complete.")
	}
	return say(upstream.CodeInvalid, "did not answer as the protocol asks: "+strings.TrimSuffix(e.words(err.Error()), ".")+".")
}

// authNeeded says where a person authorizes Portico.
func authNeeded(name, connect string) *upstream.Failure {
	data, err := json.Marshal(map[string]string{"url": connect})
	if err != nil {
		data = nil
	}
	return &upstream.Failure{Code: CodeAuthNeeded, Message: fmt.Sprintf("MCP server %s needs your authorization: open %s", name, connect), Data: data}
}

// connectURL is where a failure says that a person authorizes Portico.
func connectURL(f *upstream.Failure) string {
	var data struct {
		URL string `json:"url"`
	}
	if json.Unmarshal(f.Data, &data) != nil {
		return ""
	}
	return data.URL
}

// secretsOf are the texts that a server must not give back: the values of its
// headers, those of Authorization that it was sent, and secrets of its environment.
// Most variables are no secrets, and occur in answers: paths, names, levels.
func secretsOf(s server.Server, sent []string) upstream.Secrets {
	var texts []string
	for _, value := range slices.AppendSeq(slices.Clone(sent), maps.Values(s.Headers)) {
		scheme, token, found := strings.Cut(value, " ")
		if found && !strings.Contains(token, " ") && len(scheme) <= len("Bearer") {
			texts = append(texts, token)
		}
		texts = append(texts, value)
	}
	for name, value := range s.Env {
		for _, word := range []string{"KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL"} {
			if strings.Contains(strings.ToUpper(name), word) {
				texts = append(texts, value)
				break
			}
		}
	}
	return upstream.Hide(texts...)
}

// started is why a process did not start, for the log.
func started(err error) string {
	if errors.Is(err, stdio.ErrStart) {
		return err.Error()
	}
	return ""
}

// unknownTool reports whether a server says that it has no such tool.
func unknownTool(err error) bool {
	said, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && said.Code == jsonrpc.CodeInvalidParams
}
