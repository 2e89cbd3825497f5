package agent

import (
	"context"
	"net/http"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/run/stream"
)

type startedBody struct {
	ResultID string `json:"resultId"`
	Version  int    `json:"version"`
}

func (m *Module) invoke(ctx context.Context, who actor.Actor, in *invokeInput) (startedBody, error) {
	req, err := in.Body.request()
	if err != nil {
		return startedBody{}, err
	}
	r, err := m.Service.Invoke(ctx, who, req)
	return startedBody{r.ResultID, r.Version}, err
}

func (m *Module) streamInvoke(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	var body invokeBody
	if err := httpapi.ReadJSON(r, &body); err != nil {
		return err
	}
	req, err := body.request()
	if err != nil {
		return err
	}
	started, err := m.Service.Invoke(r.Context(), who, req)
	if err != nil {
		return err
	}
	return m.Service.deps.Records.Streams.Watch(w, r, who, stream.From{ResultID: started.ResultID, Version: &started.Version})
}

type abortInput struct {
	Body struct {
		ResultID string `json:"resultId" minLength:"1" maxLength:"64" doc:"The run"`
		Version  *int   `json:"version,omitempty" minimum:"0" doc:"Which execution; the newest when left out"`
	}
}

type abortedBody struct {
	Aborted bool `json:"aborted" doc:"False when it had ended before"`
}

func (m *Module) abort(ctx context.Context, who actor.Actor, in *abortInput) (abortedBody, error) {
	aborted, err := m.Service.Abort(ctx, who, in.Body.ResultID, in.Body.Version)
	return abortedBody{aborted}, err
}
