package oauth

import (
	"context"

	"github.com/portico-run/portico/internal/actor"
)

// RenewAfter refreshes the tokens of a user's as they were before something happened.
func RenewAfter(ctx context.Context, s *Service, a actor.Actor, name string, between func()) (ended bool, err error) {
	of, err := s.kind.Targets.Find(ctx, a, name)
	if err != nil {
		return false, err
	}
	k := key{a.UID, of.ID}
	g, err := s.read(ctx, k)
	if err != nil {
		return false, err
	}
	between()
	g, err = s.renew(ctx, of, k, g)
	return g.ended(s.now()), err
}

// Rows are the tables of this package, as they are written.
func Rows() []any {
	return []any{serverGrant{}, serverFlow{}, toolsetGrant{}, toolsetFlow{}, clientRow{}}
}

type serverGrant struct {
	Row grantRow `gorm:"embedded"`

	ServerPK int64
}

func (serverGrant) TableName() string { return "mcp_credentials" }

type serverFlow struct {
	Row flowRow `gorm:"embedded"`

	ServerPK int64
}

func (serverFlow) TableName() string { return "mcp_authorizations" }

type toolsetGrant struct {
	Row grantRow `gorm:"embedded"`

	ToolsetKey string
}

func (toolsetGrant) TableName() string { return "toolset_grants" }

type toolsetFlow struct {
	Row flowRow `gorm:"embedded"`

	ToolsetKey string
}

func (toolsetFlow) TableName() string { return "toolset_authorizations" }
