// Package file reads toolset files, the YAML in which operators describe
// toolsets, checks them and has them stored.
package file

import (
	"context"

	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/toolset"
)

// Deps is what the module needs.
type Deps struct {
	Inventory Inventory
	// Variables are what ${NAME} in a file stands for.
	Variables map[string]string
	// Pricer reads price lists, Rates what providers take.
	Pricer *price.Pricer
	Rates  toolset.Rates
	// Coded are the keys of toolsets whose tools are part of the server.
	Coded []string
}

// Inventory keeps what the files say.
type Inventory interface {
	// Store writes toolsets, all or none.
	Store(ctx context.Context, specs []toolset.Spec) (toolset.Report, error)
	// CheckKey refuses where what is stored was sealed with another key.
	CheckKey(ctx context.Context) error
}

// New makes the service.
func New(d Deps) *Service {
	return &Service{inventory: d.Inventory, variables: d.Variables, pricer: d.Pricer, rates: d.Rates, coded: d.Coded}
}

// Service applies toolset files.
type Service struct {
	inventory Inventory
	variables map[string]string
	pricer    *price.Pricer
	rates     toolset.Rates
	coded     []string
}
