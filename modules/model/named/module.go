package named

import (
	"context"
	"net/http"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/money"
)

// Module lists the models over HTTP, and has users choose one for a key.
type Module struct {
	Set  *Set // nil for none
	Keys Keys
}

// Keys are those of users.
type Keys interface {
	// ChooseModel says which model agents have that are asked with a key and name none.
	ChooseModel(ctx context.Context, a actor.Actor, keyID, model string) error
}

// Register adds the module's route.
func (m Module) Register(api *httpapi.API) {
	httpapi.RegisterPlain(api, httpapi.Operation{
		ID: "list-models", Method: http.MethodGet, Path: "/v1/models", Tag: "skill",
		Summary:     "The models that agents can be asked with",
		Description: "The form is that of OpenAI's, without the envelope of the other answers.",
		Runs:        true,
	}, m.list)
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

func (m Module) list(context.Context, actor.Actor, *struct{}) (listBody, error) {
	body := listBody{Object: "list", Data: []listModel{}}
	if m.Set == nil {
		return body, nil
	}
	for _, name := range m.Set.names {
		one := m.Set.Find(name)
		body.Data = append(body.Data, listModel{
			ID: name, Object: "model", OwnedBy: "portico", Default: name == m.Set.first, Context: one.Context, Prices: listPrices(one.Prices),
		})
	}
	return body, nil
}
