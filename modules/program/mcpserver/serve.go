package mcpserver

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/program/mcpserver/kept"
	"github.com/portico-run/portico/modules/program/mcpserver/wire"
)

// serve answers one request.
func (m *Module) serve(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	var in wire.Message
	if err := httpapi.ReadJSON(r, &in); err != nil {
		return err
	}
	if err := in.Check(); err != nil {
		return err
	}
	if err := m.lacks(w, who, in); err != nil {
		return err
	}
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	if accept := r.Header.Get("Accept"); accept == "" || strings.Contains(accept, "*/*") {
		r.Header.Set("Accept", "application/json, text/event-stream")
	}
	r.ContentLength = int64(len(body))
	r.Body = io.NopCloser(bytes.NewReader(body))
	refusal := &wire.Refusal{ResponseWriter: w, NoSession: kept.ErrNoSession}
	kept.Bring(refusal, r, who, func(w http.ResponseWriter, r *http.Request) { err = m.route(w, r, who, in) }) //nolint:contextcheck // a session outlives its first request
	if err != nil {
		return err
	}
	return refusal.Error()
}

var errNoQuestion = wire.ErrNoMessage.Do("Its member method is a text. Answers are taken in the session in which the question was asked.")

// route answers a request in its session, where it has one. Everything else has a
// handle, so that any process can answer: clients of the newer era, those that cannot
// ask a person, and credentials that may not decide have no sessions.
func (m *Module) route(w http.ResponseWriter, r *http.Request, who actor.Actor, in wire.Message) error {
	older := r.Header.Get(versionHeader) < wire.FirstAsking
	switch {
	case older && r.Header.Get(kept.Header) != "":
		if err := wire.Acceptable(r); err != nil {
			return err
		}
		return m.Kept.Continue(w, r, who)
	case in.Method == "":
		return errNoQuestion
	case older && m.deps.Settings.Sessions && in.AsksPeople() && (user{who: who}).may(everything) == nil && !m.Kept.Stops():
		if err := wire.Acceptable(r); err != nil {
			return err
		}
		return m.Kept.Open(w, r, who)
	}
	m.Kept.Serve(w, r, who)
	return nil
}

const versionHeader = "Mcp-Protocol-Version"

type endSessionInput struct {
	Session string `header:"Mcp-Session-Id" required:"true" minLength:"1" maxLength:"64" example:"K7QF2XV5N3ZJ4T6WYB2DHMPRSA"`
}

// end ends a session.
func (m *Module) end(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	if err := m.Kept.End(r.Header.Get(kept.Header), who); err != nil {
		return err
	}
	return httpapi.Write[*httpapi.None](w, nil)
}
