package peer

import (
	"context"
	"math/rand/v2"
)

// Lighter returns the less loaded one of two other processes, taken at random, that
// begin programs; empty where there is none. Two are enough: where everybody took the
// least loaded one of all, all would take the same one.
func (s *Service) Lighter(ctx context.Context) (string, error) {
	nodes, err := s.deps.Nodes.Live(ctx)
	if err != nil {
		return "", err
	}
	var others []Node
	for _, n := range nodes {
		if n.ID != s.deps.Self && n.Address != "" && !n.Draining && n.Capacity > 0 {
			others = append(others, n)
		}
	}
	rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] }) //nolint:gosec // it is no secret
	switch {
	case len(others) == 0:
		return "", nil
	case len(others) > 1 && others[1].load() < others[0].load():
		return others[1].ID, nil
	}
	return others[0].ID, nil
}

// load is how many programs there are for each that may run.
func (n Node) load() float64 { return float64(n.Running+n.Queued) / float64(n.Capacity) }
