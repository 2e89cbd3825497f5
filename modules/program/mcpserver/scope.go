package mcpserver

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/program/mcpserver/wire"
)

// everything is a right that no key with scopes has, and no token that only reads.
const everything actor.Rights = 0

// may refuses what other routes refuse a key with scopes. Every key that gets here may
// run programs.
func (u user) may(right actor.Rights) error {
	if u.who.Scope == actor.MCPRead && right != actor.Read {
		return errReading
	}
	if u.who.Rights == 0 || u.who.Rights&right != 0 {
		return nil
	}
	return errs.Newf(errs.Forbidden, "This key has the scopes %s only.", u.who.Rights).Do("Use a key without scopes: it may do everything.")
}

var errReading = errs.New(errs.Forbidden, "This token has the scope mcp:read only.").Do("Ask for one with the scope mcp, which includes it.")

// lacks refuses an app whose token may only read what changes something, and tells it
// which scope the operation takes, so that it can ask its user for that.
func (m *Module) lacks(w http.ResponseWriter, who actor.Actor, in wire.Message) error {
	if who.Scope != actor.MCPRead || in.Method != "tools/call" {
		return nil
	}
	var p struct {
		Name      string `json:"name"`
		Arguments struct {
			Canvas string `json:"canvas"`
		} `json:"arguments"`
	}
	_ = json.Unmarshal(in.Params, &p) // what cannot be read calls no tool
	if p.Name != runTool(false).Name && p.Arguments.Canvas == "" {
		return nil
	}
	w.Header().Set("WWW-Authenticate", strings.Replace(m.deps.Settings.Challenge, "Bearer ", `Bearer error="insufficient_scope", `, 1))
	return errReading
}
