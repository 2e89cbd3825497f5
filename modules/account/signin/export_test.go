package signin

import (
	"context"
	"sync/atomic"
)

// CountHashes counts, from now on, how many passwords are checked.
func (m *Module) CountHashes() *atomic.Int32 {
	c := &counting{hasher: m.Service.hasher}
	m.Service.hasher = c
	return &c.checked
}

type counting struct {
	hasher
	checked atomic.Int32
}

func (c *counting) Matches(ctx context.Context, hash, password string) (bool, error) {
	c.checked.Add(1)
	return c.hasher.Matches(ctx, hash, password)
}
