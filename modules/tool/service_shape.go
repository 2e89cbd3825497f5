package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/schema/jsontree"
)

// lookBack is among how many of a user's newest calls a success is looked for.
const lookBack = 500

// LastShape says what the newest success of a method looked like among the
// actor's last calls: the types in its data, without a value, such as
// "list[{id: int, name: str}] (30 items)". It is empty where there was none.
func (s *Service) LastShape(ctx context.Context, a actor.Actor, toolset, name string) (string, error) {
	c, err := s.rows.lastSuccess(s.Stores.DB.Read(ctx), a.UID, toolset, name, lookBack)
	if errors.Is(err, ErrMissing) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var answer Answer
	if err := json.Unmarshal(c.Output, &answer); err != nil {
		return "", fmt.Errorf("recorded answer of %s: %w", c.CallID, err)
	}
	v, err := jsontree.Parse(answer.Data)
	if err != nil {
		return "", nil //nolint:nilerr // nested too deep to be described
	}
	return shapeOf(v, answer.Truncated == nil), nil
}
