package approval

import (
	"context"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/wake"
)

// Rule is what an operator wants of calls. Each part that is empty means any.
type Rule struct {
	UID     string // whose calls
	KeyID   string // the user's key that makes the call, or began the program
	Toolset string
	Tool    string // only with Toolset
	Level   Level
}

type rule = Rule

// covers reports whether a rule is about a call. A tool of an MCP server may be
// named as the server does, or as Portico does.
func (r rule) covers(q Question) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	tool := is(r.Tool, q.Tool) || q.Tool == r.Toolset+"__"+r.Tool
	return is(r.UID, q.Actor.UID) && is(r.KeyID, q.KeyID) && is(r.Toolset, q.Call.Toolset) && tool
}

// who is the beginning of the sentence that says why a call waits.
func (r rule) who() string {
	of := []string{"The rule of an operator"}
	if r.Toolset != "" {
		of = append(of, "for "+strings.Trim(r.Toolset+"."+r.Tool, "."))
	}
	if r.KeyID != "" {
		of = append(of, "for this API key")
	} else if r.UID != "" {
		of = append(of, "for this user")
	}
	return strings.Join(of, " ")
}

func (s *Service) readRules(ctx context.Context, uid string) ([]rule, error) {
	stored, err := s.rows.rulesOf(s.deps.DB.Read(ctx), uid)
	return rulesOf(stored), err
}

func rulesOf(stored []ruleRow) []rule {
	rules := make([]rule, len(stored))
	for i, r := range stored {
		rules[i] = rule{UID: r.UID, KeyID: r.KeyID, Toolset: r.Toolset, Tool: r.Tool, Level: r.Level}
	}
	return rules
}

// Rules lists all rules. It is for operators.
func (s *Service) Rules(ctx context.Context) ([]Rule, error) {
	stored, err := s.rows.allRules(s.deps.DB.Read(ctx))
	return rulesOf(stored), err
}

// SetRule makes a rule, or changes its level; the empty level takes it away. It is
// for operators.
func (s *Service) SetRule(ctx context.Context, r Rule) error {
	switch {
	case r.Tool != "" && r.Toolset == "":
		return errs.New(errs.Invalid, "A rule for a tool needs its toolset.").Do("Write TOOLSET.TOOL.")
	case r == (Rule{Level: r.Level}):
		return errs.New(errs.Invalid, "A rule needs a toolset, a user or a key.").Do("What is usual for all tools that may write is the setting APPROVAL_DEFAULT.")
	}
	now := s.deps.Now()
	row := ruleRow{UID: r.UID, KeyID: r.KeyID, Toolset: r.Toolset, Tool: r.Tool, Level: r.Level, CreatedAt: now}
	return s.deps.DB.InTx(ctx, func(tx database.Tx) error {
		change := s.rows.saveRule
		if r.Level == "" {
			change = s.rows.deleteRule
		}
		if err := change(tx, row); err != nil {
			return err
		}
		if err := tx.Notify(wake.Topic(rulesChanged, "")); err != nil {
			return err
		}
		detail := map[string]string{"level": string(r.Level), "user": r.UID, "key": r.KeyID}
		subject := strings.Trim(r.Toolset+"."+r.Tool, ".")
		return audit.Write(tx, audit.Change{By: actor.Actor{UID: audit.Operator}, Action: "approval.rule", Subject: subject, Detail: detail}, now)
	})
}

// DecideFor settles anybody's approval, for an operator.
func (s *Service) DecideFor(ctx context.Context, r Ruling) (Approval, error) {
	uid, err := s.rows.owner(s.deps.DB.Read(ctx), r.CallID)
	if err != nil {
		return Approval{}, err
	}
	return s.decide(ctx, actor.Actor{UID: uid}, actor.Actor{UID: audit.Operator}, r)
}

// Find returns anybody's approval, for an operator.
func (s *Service) Find(ctx context.Context, callID string) (Approval, error) {
	uid, err := s.rows.owner(s.deps.DB.Read(ctx), callID)
	if err != nil {
		return Approval{}, err
	}
	return s.Get(ctx, actor.Actor{UID: uid}, callID)
}

// maxListed is how many approvals an operator is shown at once.
const maxListed = 1000

// WaitingOf lists what waits, the oldest first, of a user or, for the empty uid, of
// all. It is for operators.
func (s *Service) WaitingOf(ctx context.Context, uid string) ([]Approval, error) {
	rows, err := s.rows.waitingOf(s.deps.DB.Read(ctx), uid, maxListed)
	list := make([]Approval, len(rows))
	for i, r := range rows {
		list[i] = r.approval()
	}
	return list, err
}
