// Package file reads toolset files, the YAML in which operators describe
// toolsets, checks them and has them stored.
package file

import (
	"context"

	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/store"
)

// Deps is what the module needs.
type Deps struct {
	Inventory Inventory
	// Variables are what ${NAME} in a file stands for.
	Variables map[string]string
	// Pricer reads price lists.
	Pricer *price.Pricer
	// Kinds are the kinds of toolsets that there are.
	Kinds toolset.Kinds
}

// Inventory keeps what the files say.
type Inventory interface {
	// Store writes toolsets, all or none.
	Store(ctx context.Context, specs []store.Spec) (store.Report, error)
	// CheckKey refuses where what is stored was sealed with another key.
	CheckKey(ctx context.Context) error
}

// New makes the service.
func New(d Deps) *Service {
	return &Service{inventory: d.Inventory, variables: d.Variables, pricer: d.Pricer, kinds: d.Kinds}
}

// Service applies toolset files.
type Service struct {
	inventory Inventory
	variables map[string]string
	pricer    *price.Pricer
	kinds     toolset.Kinds
}
