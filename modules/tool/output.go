package tool

import (
	"bytes"
	"context"
	"fmt"
	"net/url"

	"github.com/portico-run/portico/modules/internal/shorten"
)

// fit shortens an answer whose data is over the cap. The whole data is kept
// as an object first, so that nothing is lost when shortening follows.
func (s *Service) fit(ctx context.Context, c Call, a Answer) (Answer, error) {
	if len(a.Data) <= s.Settings.OutputCap {
		return a, nil
	}
	if err := s.Stores.Objects.Put(ctx, wholeKey(c), bytes.NewReader(a.Data), "application/json"); err != nil {
		return Answer{}, err
	}
	short, err := shorten.JSON(a.Data, s.Settings.OutputCap)
	if err != nil {
		return Answer{}, err
	}
	a.Truncated = &Truncated{Bytes: len(a.Data), Ref: "/v1/tool/call/output?toolCallId=" + url.QueryEscape(c.CallID)}
	a.Data = short
	return a, nil
}

// wholeKey names the object with the whole output of a call.
func wholeKey(c Call) string { return fmt.Sprintf("tool-output/%s/%s.json", c.UID, c.CallID) }
