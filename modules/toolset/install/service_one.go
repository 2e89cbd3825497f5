package install

import (
	"context"
	"errors"
	"slices"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/toolset"
)

// State says what keeps a toolset from working for a user.
type State string

// The states. Available is a toolset that may be installed and needs nothing for
// that.
const (
	Ready        State = "ready"
	Available    State = "available"
	NeedsAccount State = "needs_account"
	NeedsKey     State = "needs_key"
	Off          State = "off"
	Unusable     State = "broken"
)

// One is all that a user may know of a toolset. It never holds a credential.
type One struct {
	Key, Name, Type, Description, Domain string
	State                                State
	// Problem says why the toolset does not work, and what to do.
	Problem string
	// ConnectURL is the page on which a person connects the account that is needed;
	// empty for none.
	ConnectURL string
	Instance   *Instance     // that the user has; nil for none
	Server     *Server       // nil unless it is an MCP server
	Health     *ServerHealth // of that
	Patterns   []Pattern
	Items      []Item
	Tools      []OneTool

	accounts toolset.Accounts
}

// OneTool is a tool of One.
type OneTool struct {
	toolset.ToolDefinition

	Line                 string // how programs call it; empty where they may not
	Function             string // its name as a plain function; empty for none
	ReadOnly, Idempotent *bool  // nil where nobody says it
	// Billed says that calls cost credits: Price, or what varies with the call.
	Billed, Varies bool
	Price          money.Amount
}

// One describes a toolset by its key: one of the inventory, one that the actor
// has, or an MCP server. What is broken is described, too. The error is that of
// toolset.Missing where the key means nothing to the actor.
func (s *Service) One(ctx context.Context, a actor.Actor, key string) (One, error) {
	t, err := s.Tools(ctx, a)
	if err != nil {
		return One{}, err
	}
	one := One{Key: key, Name: key}
	item, offered := t.Definitions[key]
	if offered {
		one.Name, one.Type, one.Domain, one.Description = item.Name, item.Type, item.Domain, described(item.Descriptions)
		one.Patterns, one.Items, one.accounts = item.Patterns, item.Items, item.kind.Accounts
	}
	if ptc.IsBuiltin(key) {
		if !offered {
			return One{}, toolset.Missing(key)
		}
		one.State, one.Type = Ready, "builtin"
		one.Tools = []OneTool{{ToolDefinition: toolset.ToolDefinition{Name: key, Callers: toolset.Callers{Direct: true}}}}
		return one, nil
	}
	if err := s.have(ctx, a, &one, t); err != nil {
		return One{}, err
	}
	if one.Instance == nil && one.Server == nil && !offered {
		return One{}, toolset.Missing(key)
	}
	if err := s.judge(ctx, a, &one); err != nil {
		return One{}, err
	}
	if len(one.Tools) == 0 {
		set := toolset.Definition{Key: key, Name: one.Name}
		for _, m := range item.Methods() {
			whole, err := m.Whole()
			if err != nil {
				return One{}, toolset.Broken(key, err)
			}
			set.Tools = append(set.Tools, whole.Definition())
		}
		s.list(&one, set)
	}
	return one, s.detail(ctx, a, &one, item)
}

// described is the English text, else any.
func described(texts map[string]string) string {
	for _, language := range []string{"en", "zh-CN"} {
		if text := texts[language]; text != "" {
			return text
		}
	}
	return ""
}

// have finds what the actor has under the key: their own first.
func (s *Service) have(ctx context.Context, a actor.Actor, one *One, t Tools) error {
	i := slices.IndexFunc(t.MCP, func(m Server) bool { return m.Name == one.Key && !m.Global })
	installed, err := s.Toolsets(ctx, a)
	if err != nil {
		return err
	}
	for _, instance := range installed {
		if i < 0 && instance.Key == one.Key && (one.Instance == nil || !instance.Global) {
			one.Instance = &instance
		}
	}
	if i < 0 && one.Instance == nil {
		i = slices.IndexFunc(t.MCP, func(m Server) bool { return m.Name == one.Key })
	}
	if i >= 0 {
		server := t.MCP[i]
		one.Server, one.Type, one.Description = &server, "mcp", "Tools of the MCP server "+server.Name+"."
		one.Patterns, one.Items, one.accounts = nil, nil, nil
	}
	if one.Instance != nil {
		one.Name = one.Instance.Name
		if one.Type == "" { // the server offers it no more
			one.Type = one.Instance.AuthType
		}
	}
	return nil
}

// judge finds the state, and the tools of what works.
func (s *Service) judge(ctx context.Context, a actor.Actor, one *One) error {
	switch {
	case one.Server != nil && !one.Server.Enabled, one.Instance != nil && !one.Instance.Enabled:
		one.State = Off
		return nil
	case one.accounts != nil:
		keys, err := one.accounts.Connected(ctx, a.UID)
		if err != nil {
			return err
		}
		if !slices.Contains(keys, one.Key) {
			one.State, one.Problem, one.ConnectURL = NeedsAccount, one.accounts.HowTo(one.Key), one.accounts.ConnectURL(one.Key)
			return nil
		}
	}
	if one.Instance == nil && one.Server == nil {
		one.State = Available
		if len(one.Patterns) > 0 && !slices.ContainsFunc(one.Patterns, func(p Pattern) bool { return p.Type == toolset.AuthConfigBased }) {
			one.State = NeedsKey
		}
		return nil
	}
	return s.export(ctx, a, one)
}

// export takes the tools of what the actor has, or why that does not work.
func (s *Service) export(ctx context.Context, a actor.Actor, one *One) error {
	sets, failures, err := s.toolsets.Export(ctx, a, []string{one.Key})
	if err != nil {
		return err
	}
	if one.Server != nil { // as it does after it was asked
		health, err := s.details.Health(ctx, a, one.Key)
		if err != nil {
			return err
		}
		one.Health = &health
	}
	for _, f := range failures {
		one.State, one.Problem = Unusable, said(f.Problem)
		if one.Health != nil && one.Health.ConnectURL != "" {
			one.State = NeedsAccount
		}
	}
	for _, set := range sets {
		one.State = Ready
		s.list(one, set)
	}
	return nil
}

func (s *Service) list(one *One, set toolset.Definition) {
	lines := s.details.Lines(set)
	for _, d := range set.Tools {
		one.Tools = append(one.Tools, OneTool{ToolDefinition: d, Line: lines[d.Name]})
	}
}

// said is the public part of an error: what is wrong, and what to do.
func said(err error) string {
	text := errs.Message(err)
	if e, ok := errors.AsType[*errs.Error](err); ok && e.Detail != "" {
		text += " " + e.Detail
	}
	return text
}

// detail adds what is known of each tool elsewhere.
func (s *Service) detail(ctx context.Context, a actor.Actor, one *One, item InventoryItem) error {
	marks, err := s.details.Marks(ctx, one.Key)
	if err != nil {
		return err
	}
	var meant toolset.Toolset
	if one.State == Ready {
		if meant, err = s.toolsets.Identify(ctx, a, one.Key); err != nil {
			return err
		}
	}
	for i := range one.Tools {
		t := &one.Tools[i]
		if one.Server != nil {
			if t.ReadOnly, t.Idempotent, err = s.details.Hints(ctx, a, one.Key, t.Name); err != nil {
				return err
			}
		}
		t.fromMethods(item.Methods())
		for _, m := range marks {
			if m.Tool == t.Name {
				t.Function, t.ReadOnly, t.Idempotent = m.Name, &m.ReadOnly, &m.Idempotent
			}
		}
		if meant.Global {
			t.Price, t.Varies, t.Billed = meant.Prices.Listed(t.Name)
		}
	}
	return nil
}

// fromMethods takes what a toolset file says of the tool.
func (t *OneTool) fromMethods(methods []toolset.Method) {
	i := slices.IndexFunc(methods, func(m toolset.Method) bool { return m.Name == t.Name })
	if i < 0 || methods[i].HTTPMethod == "" {
		return
	}
	m := methods[i]
	reads := m.Reads()
	again := reads || m.Adapter.Idempotent
	t.ReadOnly, t.Idempotent = &reads, &again
}
