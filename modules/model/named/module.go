package named

import (
	"context"
	"net/http"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/money"
)

// Module lists the models over HTTP.
type Module struct {
	Set *Set // nil for none
}

// Register adds the module's route.
func (m Module) Register(api *httpapi.API) {
	httpapi.RegisterPlain(api, httpapi.Operation{
		ID: "list-models", Method: http.MethodGet, Path: "/v1/models", Tag: "skill",
		Summary:     "The models that agents can be asked with",
		Description: "The form is that of OpenAI's, without the envelope of the other answers.",
		Runs:        true,
	}, m.list)
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
