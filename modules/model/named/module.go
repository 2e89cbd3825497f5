package named

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/money"
)

// Module lists the models over HTTP, and has users choose one for a key.
type Module struct {
	Set  *Set // nil for none
	Keys Keys
	// Other is another form of the list.
	Other Other
}

// Other is the form of a list for requests with a header.
type Other struct {
	Header string
	// Answer is of the form's type, for the document.
	Answer any
	List   func(w http.ResponseWriter, r *http.Request, a actor.Actor) error
}

// Keys are those of users.
type Keys interface {
	// ChooseModel says which model agents have that are asked with a key and name none.
	ChooseModel(ctx context.Context, a actor.Actor, keyID, model string) error
}

// Register adds the module's route.
func (m Module) Register(api *httpapi.API) {
	op := httpapi.Operation{
		ID: "list-models", Method: http.MethodGet, Path: "/v1/models", Tag: "skill",
		Summary:     "The models that agents can be asked with",
		Description: "The form is that of OpenAI's, without the envelope of the other answers.",
		Runs:        true, Raw: httpapi.Description{Answers: []any{listBody{}}},
	}
	if m.Other.List != nil {
		op.Description += " It is that of Anthropic's for a request with the header " + m.Other.Header + "."
		op.Raw.Answers = append(op.Raw.Answers, m.Other.Answer)
	}
	api.Raw(op, m.list)
	api.Raw(httpapi.Operation{
		ID: "get-model", Method: http.MethodGet, Path: "/v1/models/{model}", Tag: "skill",
		Summary: "One of the models that agents can be asked with", Description: "The form is that of OpenAI's, of errors, too.",
		Raw:  httpapi.Description{Answers: []any{listModel{}}},
		Runs: true, Refusal: refusal, Errors: []errs.Code{errs.NotFound},
	}, m.get)
	httpapi.Register(api, httpapi.Operation{
		ID: "choose-key-model", Method: http.MethodPut, Path: "/v1/auth/cli/api-key/{keyId}/model", Tag: "accounts",
		Summary: "Choose the model of agents that are asked with an API key and name none", Errors: []errs.Code{errs.NotFound},
	}, m.choose)
}

type chooseInput struct {
	KeyID string `path:"keyId" maxLength:"64"`
	Body  struct {
		Model string `json:"model" maxLength:"64" doc:"Its name, of those that GET /v1/models lists; empty for the first" example:"small"`
	}
}

func (m Module) choose(ctx context.Context, who actor.Actor, in *chooseInput) (*httpapi.None, error) {
	if name := in.Body.Model; name != "" && (m.Set == nil || !m.Set.Has(name)) {
		return nil, errs.Newf(errs.Invalid, "There is no model %q.", name).Do("GET /v1/models lists those that there are.")
	}
	return nil, m.Keys.ChooseModel(ctx, who, in.KeyID, in.Body.Model)
}

// listBody has what clients of OpenAI's read, with what else users choose by.
type listBody struct {
	Object string      `json:"object" enum:"list"`
	Data   []listModel `json:"data"`
}

type listModel struct {
	ID      string     `json:"id" doc:"Its name, for the member model of a request" example:"small"`
	Object  string     `json:"object" enum:"model"`
	Created int64      `json:"created" doc:"Always 0: it is not known"`
	OwnedBy string     `json:"owned_by" doc:"Always portico" example:"portico"`
	Default bool       `json:"default" doc:"Whether it answers where no model is named"`
	Context int64      `json:"context" doc:"How many tokens it reads and writes in one request; 0 is not known" example:"128000"`
	Prices  listPrices `json:"prices" doc:"Credits for a million tokens"`
}

type listPrices struct {
	Input   money.Amount `json:"input"`
	Cached  money.Amount `json:"cached" doc:"Input that the provider had in its cache"`
	Written money.Amount `json:"written" doc:"Input that it wrote there"`
	Output  money.Amount `json:"output"`
}

func (m Module) list(w http.ResponseWriter, r *http.Request, a actor.Actor) error {
	if m.Other.List != nil && r.Header.Get(m.Other.Header) != "" {
		return m.Other.List(w, r, a)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(m.all()) // a caller that is gone
	return nil
}

func (m Module) all() listBody {
	body := listBody{Object: "list", Data: []listModel{}}
	if m.Set == nil {
		return body
	}
	for _, name := range m.Set.names {
		body.Data = append(body.Data, m.one(name))
	}
	return body
}

func (m Module) one(name string) listModel {
	one := m.Set.Find(name)
	return listModel{ID: name, Object: "model", OwnedBy: "portico", Default: name == m.Set.first, Context: one.Context, Prices: listPrices(one.Prices)}
}

func (m Module) get(w http.ResponseWriter, r *http.Request, _ actor.Actor) error {
	name := r.PathValue("model")
	if m.Set == nil || !slices.Contains(m.Set.names, name) {
		return errs.Newf(errs.NotFound, "The model '%.64s' does not exist.", name).Do("GET /v1/models lists those that there are.")
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(m.one(name)) // a client that is gone
	return nil
}

// modelFailure is an error as clients of OpenAI's read it.
type modelFailure struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type" example:"invalid_request_error"`
		Param   *string `json:"param" nullable:"true"`
		Code    *string `json:"code" nullable:"true" example:"model_not_found"`
	} `json:"error"`
}

func refusal(e *errs.Error, _ string) any {
	var f modelFailure
	f.Error.Message, f.Error.Type = strings.TrimSpace(e.Message+" "+e.Detail), "invalid_request_error"
	if e.Code.Status() >= http.StatusInternalServerError {
		f.Error.Type = "server_error"
	}
	if e.Code == errs.NotFound {
		param, code := "model", "model_not_found"
		f.Error.Param, f.Error.Code = &param, &code
	}
	return f
}
