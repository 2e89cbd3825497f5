package pages

import (
	"cmp"
	"slices"
	"strings"
)

// offered is a toolset as the inventory describes it.
type offered struct {
	Key, Type       string
	Builtin         bool
	LabelDict       map[string]string
	DescriptionDict map[string]string
	RequiresAuth    bool
	Tools           []struct {
		Name            string
		DescriptionDict map[string]string
	}
}

// owned is a toolset that the person has, or that needs an account.
type owned struct {
	Key, Name, Description string
	Authorized             bool
	Toolset                *struct {
		Toolset *struct{ IsGlobal, Enabled bool }
	}
}

// server is an MCP server.
type server struct {
	Name, State, Reason, Transport string
	Enabled, IsGlobal              bool
}

// Types of toolsets that the pages treat by themselves.
const (
	typeBuiltin = "builtin"
	typeMCP     = "mcp"
	typeOAuth   = "oauth"
)

// card is one toolset in the list.
type card struct {
	Key, Name, Description, Type, State, Reason string
	Shared                                      bool
	Tools                                       int
	Matches                                     []string // tools that the search found
}

type toolsetsView struct {
	Query   string
	Cards   []card
	All     int
	Servers part[[]server]
}

func (p *Pages) toolsets(v *Visit) (Answer, error) {
	var inventory []offered
	if err := v.get("/v1/tool/inventory/list", nil, &inventory); err != nil {
		return Answer{}, err
	}
	var have []owned
	if err := v.get("/v1/tool/user/list", nil, &have); err != nil {
		return Answer{}, err
	}
	view := toolsetsView{Query: strings.TrimSpace(v.R.URL.Query().Get("q")), Servers: load[[]server](v, "/v1/mcp/servers", nil)}
	cards := cardsOf(inventory, have, view.Servers.Data)
	view.All = len(cards)
	for _, c := range cards {
		if c.found(view.Query, inventory) {
			view.Cards = append(view.Cards, c)
		}
	}
	return Answer{Title: "Toolsets", Template: "toolsets", Data: view}, nil
}

// cardsOf joins what there is with what the person has: first what can be used.
func cardsOf(inventory []offered, have []owned, servers []server) []card {
	by := map[string]owned{}
	for _, o := range have {
		by[o.Key] = o
	}
	var cards []card
	for _, item := range inventory {
		c := card{
			Key: item.Key, Name: cmp.Or(item.LabelDict["en"], item.Key), Description: item.DescriptionDict["en"], Type: item.Type, Tools: len(item.Tools),
			State: stateKey,
		}
		mine, has := by[item.Key]
		switch {
		case has && !mine.Authorized:
			c.State = stateAccount
		case has || item.Builtin:
			c.State = stateReady
		case !item.RequiresAuth:
			c.State = stateAvailable
		}
		if has && mine.Toolset != nil && mine.Toolset.Toolset != nil {
			c.Shared = mine.Toolset.Toolset.IsGlobal
		}
		cards = append(cards, c)
	}
	for _, s := range servers {
		cards = append(cards, card{Key: s.Name, Name: s.Name, Type: typeMCP, State: s.state(), Reason: s.Reason, Shared: s.IsGlobal})
	}
	// The server's own tools come last: nobody has to set them up.
	builtin := func(c card) int { return map[bool]int{true: 1}[c.Type == typeBuiltin] }
	order := []string{stateReady, stateBroken, stateAccount, stateKey, stateAvailable, stateOff}
	slices.SortStableFunc(cards, func(a, b card) int {
		return cmp.Or(cmp.Compare(builtin(a), builtin(b)), cmp.Compare(slices.Index(order, a.State), slices.Index(order, b.State)), strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)))
	})
	return cards
}

// state is how an MCP server does, in the words of toolsets.
func (s server) state() string {
	switch {
	case !s.Enabled:
		return stateOff
	case s.State == "auth_needed":
		return stateAccount
	case s.State == "degraded":
		return stateBroken
	}
	return stateReady
}

// found reports whether a toolset has the words of a search, and notes which of
// its tools have them.
func (c *card) found(query string, inventory []offered) bool {
	if query == "" {
		return true
	}
	has := func(texts ...string) bool {
		all := strings.ToLower(strings.Join(texts, " "))
		for word := range strings.FieldsSeq(strings.ToLower(query)) {
			if !strings.Contains(all, word) {
				return false
			}
		}
		return true
	}
	for _, item := range inventory {
		if item.Key != c.Key || c.Type == typeMCP {
			continue
		}
		for _, tool := range item.Tools {
			if has(tool.Name, tool.DescriptionDict["en"]) {
				c.Matches = append(c.Matches, tool.Name)
			}
		}
	}
	return len(c.Matches) > 0 || has(c.Key, c.Name, c.Description)
}
