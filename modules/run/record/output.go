package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/internal/shorten"
)

// OutputPath is the route of outputs that are read again.
const OutputPath = "/v1/tool/call/output"

// Fit shortens an answer whose data is over the cap, for the record and for
// models. The whole data is kept as an object first: code gets it from there.
func (s *Service) Fit(ctx context.Context, c Call, a Answer) (Answer, error) {
	if len(a.Data) <= s.settings.OutputCap {
		return a, nil
	}
	if err := s.objects.Put(ctx, OutputKey(c.UID, c.CallID), bytes.NewReader(a.Data), "application/json"); err != nil {
		return Answer{}, err
	}
	short, err := shorten.JSON(a.Data, s.settings.OutputCap)
	if err != nil {
		return Answer{}, err
	}
	a.Truncated = &Truncated{Bytes: len(a.Data), Ref: OutputPath + "?toolCallId=" + url.QueryEscape(c.CallID)}
	a.Data = short
	return a, nil
}

// OutputKey names the object with the whole output of a call.
func OutputKey(uid, callID string) string { return fmt.Sprintf("tool-output/%s/%s.json", uid, callID) }

// Whole is the data of an answer that is kept as an object, since its record
// has a shortened one. Who opens it closes it.
type Whole struct {
	Bytes int64
	io.ReadCloser
}

// Stream is the data between two texts.
func (w *Whole) Stream(before, after string) *httpapi.Stream {
	return &httpapi.Stream{
		Size: int64(len(before)+len(after)) + w.Bytes,
		WriteTo: func(to io.Writer) error {
			defer func() { _ = w.Close() }() // it was only read
			if _, err := io.WriteString(to, before); err != nil {
				return err
			}
			if _, err := io.CopyN(to, w, w.Bytes); err != nil {
				return err
			}
			_, err := io.WriteString(to, after)
			return err
		},
	}
}

// Whole opens what a shortened answer was made of; nil for one that is whole.
func (s *Service) Whole(ctx context.Context, a actor.Actor, callID string, of Answer) (*Whole, error) {
	if of.Truncated == nil {
		return nil, nil //nolint:nilnil // nothing is missing
	}
	r, err := s.objects.Get(ctx, OutputKey(a.UID, callID), 0)
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil, errs.New(errs.NotFound, "The whole output of this call is not kept any more.").Do("Make the call again.").With(err)
	}
	if err != nil {
		return nil, errs.New(errs.Unavailable, "The whole output of the call cannot be read now.").
			Do("Ask for it by GET " + of.Truncated.Ref + " later; the call was made and is not to be repeated.").With(err)
	}
	return &Whole{Bytes: int64(of.Truncated.Bytes), ReadCloser: r}, nil
}

// OpenOutput returns the data of a call of the actor's, or, where the record
// has a shortened one, the whole. A key of a program sees the calls of that
// program's run only. It returns ErrMissing, and a Conflict while the call
// executes.
func (s *Service) OpenOutput(ctx context.Context, a actor.Actor, callID, program string) (json.RawMessage, *Whole, error) {
	c, err := s.Call(ctx, a, callID)
	if err == nil && a.Scope == actor.ToolExecute {
		err = s.sees(ctx, a, c, program)
	}
	if err != nil {
		return nil, nil, err
	}
	if !c.Ended() {
		return nil, nil, errs.New(errs.Conflict, "The call is still executing.").Do("Ask again when it has ended.")
	}
	answer, err := c.Answer()
	if err != nil {
		return nil, nil, err
	}
	whole, err := s.Whole(ctx, a, c.CallID, answer)
	return answer.Data, whole, err
}

// maxWhole bounds what Output reads back.
const maxWhole = 64 << 20

// Output returns the whole output of a call in memory.
func (s *Service) Output(ctx context.Context, a actor.Actor, callID string) (json.RawMessage, error) {
	data, whole, err := s.OpenOutput(ctx, a, callID, "")
	if err != nil || whole == nil {
		return data, err
	}
	defer func() { _ = whole.Close() }() // it was only read
	if whole.Bytes > maxWhole {
		return nil, errs.Newf(errs.TooLarge, "The output has %d bytes, more than %d.", whole.Bytes, maxWhole).Do("Read it by GET " + OutputPath + ".")
	}
	data = make(json.RawMessage, whole.Bytes)
	_, err = io.ReadFull(whole, data)
	return data, err
}
