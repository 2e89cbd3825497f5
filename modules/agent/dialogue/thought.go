package dialogue

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/model/named"
)

// tokenPrefix begins the tokens of thoughts, and nothing that a provider writes.
const tokenPrefix = "portico1."

// carried is an item of a model's as a client keeps it: nothing in it is secret, and
// only its writer can read more of it than the client.
type carried struct {
	Model  string     `json:"m"` // that wrote it
	Item   model.Item `json:"i"`
	Covers bool       `json:"c,omitempty"` // its words and calls are in it
}

func carry(c carried) (string, error) {
	text, err := json.Marshal(c)
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(text), err
}

func restore(token string) (items []model.Item, covers, ok bool) {
	payload, ours := strings.CutPrefix(token, tokenPrefix)
	text, err := base64.RawURLEncoding.DecodeString(payload)
	var c carried
	if !ours || err != nil || json.Unmarshal(text, &c) != nil || len(c.Item) == 0 {
		return nil, false, false
	}
	if c.Model != "" {
		items = append(items, named.Marker(c.Model))
	}
	return append(items, c.Item), c.Covers, true
}

// parts are what a client is shown of an item of a model's. Calls are left to the
// caller.
func parts(writer string, raw model.Item) (shown []Part, calls []model.Call, err error) {
	p := model.Parse(raw)
	if !model.Plain(raw) {
		token, err := carry(carried{Model: writer, Item: raw, Covers: p.Text != "" || len(p.Calls) > 0})
		if err != nil {
			return nil, nil, err
		}
		shown = append(shown, Thought{Text: p.Thought, Token: token})
	}
	if p.Text != "" {
		shown = append(shown, Text{Text: p.Text})
	}
	return shown, p.Calls, nil
}
