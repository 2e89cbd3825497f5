package tool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/run"
)

// Execute runs one tool for the actor. The answer is as it is recorded: data
// over the output cap is shortened, and Whole has all of it.
//
// A tool that fails is an Answer, not an error: the request worked. Errors
// are requests that could not be taken (malformed, foreign ids, a program
// that has ended, a key used twice) and outages; none of them leaves a record
// that is executing.
func (s *Service) Execute(ctx context.Context, a actor.Actor, req Request) (Answer, error) {
	_, answer, err := s.execute(ctx, a, req)
	return answer, err
}

// ExecuteWhole is Execute for code, which gets all of the data. Where the
// answer has a shortened one, the whole is returned besides; who gets it closes
// it.
func (s *Service) ExecuteWhole(ctx context.Context, a actor.Actor, req Request) (Answer, *Whole, error) {
	call, answer, err := s.execute(ctx, a, req)
	if err != nil {
		return answer, nil, err
	}
	whole, err := s.whole(ctx, call.UID, call.CallID, answer)
	return answer, whole, err
}

func (s *Service) execute(ctx context.Context, a actor.Actor, req Request) (Call, Answer, error) {
	arguments, err := decodeArguments(req)
	if err != nil {
		return Call{}, Answer{}, err
	}
	leave, err := s.limiter.enter(s.Now(), s.limitsOf(a, req.Context))
	if err != nil {
		return Call{}, Answer{}, err
	}
	defer leave()
	call, program, err := s.place(ctx, a, req)
	if err != nil {
		return call, Answer{}, err
	}
	recorded, answer, err := s.begin(ctx, call, req)
	if err != nil || recorded != call.CallID {
		call.CallID = recorded
		return call, answer, err
	}
	s.alive.add(call.CallID)
	defer s.alive.drop(call.CallID)

	ctx, cancel := context.WithTimeout(ctx, s.Settings.Timeout)
	defer cancel()
	ctx, hold := s.large.Open(ctx, a.UID)
	defer hold.Release()
	result := s.perform(ctx, a, call, program, arguments, hold)
	// From here on the caller may be gone: what happened is recorded anyway.
	answer, err = s.settle(context.WithoutCancel(ctx), call, result)
	return call, answer, err
}

// decodeArguments checks the request and reads its arguments; none and null
// are the empty object.
func decodeArguments(req Request) (map[string]any, error) {
	if err := req.validate(); err != nil {
		return nil, err
	}
	arguments := map[string]any{}
	if len(req.Arguments) == 0 || string(req.Arguments) == "null" {
		return arguments, nil
	}
	d := json.NewDecoder(bytes.NewReader(req.Arguments))
	d.UseNumber() // an id of 19 digits must arrive as it was sent
	err := d.Decode(&arguments)
	if err == nil && !utf8.Valid(req.Arguments) {
		err = errors.New("not UTF-8")
	}
	if err == nil {
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("more than one value")
		}
	}
	if err != nil {
		return nil, errs.New(errs.Invalid, "arguments is not a JSON object.").
			Do(`Send the tool's parameters as an object, such as {"city":"Oslo"}.`).With(err)
	}
	return arguments, nil
}

// place checks where the call claims to be made and returns its record.
func (s *Service) place(ctx context.Context, a actor.Actor, req Request) (Call, program, error) {
	c := Call{
		Origin: ids.Standalone, UID: a.UID, ResultID: req.Context.ResultID, CanvasID: req.Context.CanvasID,
		Toolset: req.Toolset, Tool: req.Tool, Status: Executing, CreatedAt: s.Now(),
	}
	if req.Context.Version != nil {
		c.Version = *req.Context.Version
	}
	var p program
	if m := req.Context.model; m != nil {
		c.Origin, p.stepName = ids.Agent, req.Tool
		c.CallID, c.shown = m.CallID, m.Event
	}
	if req.Context.ParentID != "" || a.Scope == actor.ToolExecute {
		parent, by, err := s.caller(ctx, a, req.Context.ParentID)
		if err != nil {
			return c, p, err
		}
		if c.ResultID == "" {
			c.ResultID, c.Version = parent.ResultID, parent.Version
		} else if c.ResultID != parent.ResultID || (req.Context.Version != nil && c.Version != parent.Version) {
			return c, p, ErrResultForeign.Do("The program belongs to another run: send its own run, or leave the header out.")
		}
		c.Version = parent.Version
		c.Origin, c.ParentID = ids.PTC, parent.CallID
		p = by
	}
	c.StepName = p.stepName
	if c.CallID == "" {
		c.CallID = s.Settings.Calls.New(c.Origin)
	}
	if err := s.checkOwnership(ctx, a, &c); err != nil {
		return c, p, err
	}
	input := req.Arguments
	if len(input) == 0 || string(input) == "null" {
		input = json.RawMessage("{}")
	}
	wrapped, err := json.Marshal(map[string]json.RawMessage{"input": input})
	c.Input = wrapped
	return c, p, err
}

func (s *Service) checkOwnership(ctx context.Context, a actor.Actor, c *Call) error {
	h := s.Stores.DB.Read(ctx)
	switch {
	case c.ResultID == "":
		c.ResultID, c.Version = NoResult, 0
	case c.ParentID == "": // a program's run was checked when the program began
		owned, err := s.Stores.Runs.Owns(ctx, h, a.UID, c.ResultID, c.Version)
		if err != nil {
			return err
		}
		if !owned {
			return ErrResultForeign
		}
	}
	if c.CanvasID == "" {
		return nil
	}
	owned, err := s.Stores.Runs.CanvasOwned(ctx, h, a.UID, c.CanvasID)
	if err != nil {
		return err
	}
	if !owned {
		return ErrCanvasForeign
	}
	return nil
}

// begin is the first transaction: the record exists, executing, before
// anything happens upstream. It returns the id of the record: that of another
// call when the request was made before, with the answer it was given.
func (s *Service) begin(ctx context.Context, c Call, req Request) (callID string, answer Answer, err error) {
	hash := requestHash(req)
	if req.IdempotencyKey != "" {
		if callID, answer, err := s.replay(ctx, c.UID, req.IdempotencyKey, hash); err != nil || callID != "" {
			return callID, answer, err
		}
	}
	err = s.Stores.DB.InTx(ctx, func(tx database.Tx) error {
		if c.ParentID != "" {
			parent, err := s.rows.lock(tx, c.UID, c.ParentID)
			if err != nil {
				return err
			}
			if !parent.live(s.Now()) {
				return ErrParentEnded
			}
		}
		if err := s.rows.insert(tx, c, s.claim(req.IdempotencyKey, hash)); err != nil {
			return err
		}
		return s.tell(ctx, tx, c, run.ToolCallStart)
	})
	if req.IdempotencyKey != "" && database.IsDuplicate(err) {
		return s.replay(ctx, c.UID, req.IdempotencyKey, hash)
	}
	return c.CallID, Answer{}, err
}

func (s *Service) claim(key, hash string) claim {
	return claim{idempotencyKey: key, requestHash: hash, owner: s.Settings.Owner, until: s.Now().Add(s.Settings.Lease)}
}

// replay answers a request whose idempotency key was used before, with the id
// of the call that used it; empty for none.
func (s *Service) replay(ctx context.Context, uid, key, hash string) (string, Answer, error) {
	// Read through a transaction: the writer sees its own latest commit.
	var (
		c      Call
		stored string
	)
	err := s.Stores.DB.InTx(ctx, func(tx database.Tx) (err error) {
		c, stored, err = s.rows.byKey(tx.Handle, uid, key)
		return err
	})
	switch {
	case errors.Is(err, ErrMissing):
		return "", Answer{}, nil
	case err != nil:
		return "", Answer{}, err
	case stored != hash:
		return "", Answer{}, ErrKeyReused
	case c.Status == Executing:
		return "", Answer{}, ErrInProgress
	}
	var answer Answer
	if err := json.Unmarshal(c.Output, &answer); err != nil {
		return "", Answer{}, fmt.Errorf("recorded answer of %s: %w", c.CallID, err)
	}
	return c.CallID, answer, nil
}

// requestHash tells two requests under one idempotency key apart.
func requestHash(req Request) string {
	h := sha256.New()
	version := ""
	if v := req.Context.Version; v != nil {
		version = strconv.Itoa(*v)
	}
	for _, part := range []string{
		req.Toolset, req.Tool, string(req.Arguments), req.Context.ParentID, req.Context.ResultID, version, req.Context.CanvasID,
	} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil))
}

// tell appends the call's event to its run, if it has one, and writes the
// call's message: with its start, and again with its end. A run that has ended
// takes no more of both; the record says what happened.
func (s *Service) tell(ctx context.Context, tx database.Tx, c Call, t run.EventType) error {
	if !c.InRun() {
		return nil
	}
	meta, err := json.Marshal(c.meta())
	if err != nil {
		return fmt.Errorf("encode the message of %s: %w", c.CallID, err)
	}
	e := run.NewEvent{Type: t, CallID: c.CallID}
	if t == run.ToolCallStart {
		e.Message = &run.NewMessage{MessageID: ids.MessageOf(c.CallID), Event: c.shown, Type: run.Tool, CallMeta: meta, CallID: c.CallID}
	} else {
		// Before the event, which holds the run's row until the end.
		change := run.MessageChange{MessageID: ids.MessageOf(c.CallID), CallMeta: meta}
		if err := s.Stores.Runs.ChangeMessage(ctx, tx, c.UID, c.ResultID, c.Version, change); err != nil {
			return err
		}
	}
	_, err = s.Stores.Runs.Append(ctx, tx, c.UID, c.ResultID, c.Version, e)
	if errors.Is(err, run.ErrEnded) {
		return nil
	}
	return err
}

// result is a performed call before it is recorded.
type result struct {
	answer Answer
	price  money.Amount
	global bool
}

// settleTimeout bounds the final record; the caller is waiting or gone.
const settleTimeout = 15 * time.Second

// settle is the second transaction: the final record, the usage row, the
// balance and the event are committed together, or nothing is and the lease
// runs out.
func (s *Service) settle(ctx context.Context, c Call, r result) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	answer, err := s.fit(ctx, c, r.answer)
	if err != nil {
		return Answer{}, fmt.Errorf("store the output of %s: %w", c.CallID, err)
	}
	if c.Output, err = json.Marshal(answer); err != nil {
		return Answer{}, fmt.Errorf("encode the answer of %s: %w", c.CallID, err)
	}
	c.Status, c.Error = Completed, ""
	event := run.ToolCallEnd
	if answer.Status != Success {
		c.Status, c.Error, event = Failed, answer.Error, run.ToolCallError
	}
	err = s.Stores.DB.InTx(ctx, func(tx database.Tx) error {
		c.UpdatedAt = s.Now()
		if err := s.rows.finish(tx, c, c.UpdatedAt); err != nil {
			return err
		}
		if c.Status == Completed {
			if err := s.charge(ctx, tx, c, r); err != nil {
				return err
			}
		}
		return s.tell(ctx, tx, c, event)
	})
	if errors.Is(err, ErrMissing) {
		// The lease ran out and the call was given up meanwhile.
		return interrupted(), nil
	}
	if err != nil {
		return Answer{}, errs.New(errs.Unavailable, "The outcome of the call could not be recorded; it was not billed.").
			Do("Ask again with the same Idempotency-Key; the call may have had an effect.").With(err)
	}
	return answer, nil
}

func (s *Service) charge(ctx context.Context, tx database.Tx, c Call, r result) error {
	_, err := s.Billing.Charge(ctx, tx, chargeOf(c, r.global, r.price))
	return err
}

func chargeOf(c Call, global bool, price money.Amount) billing.Charge {
	charge := billing.Charge{
		CallID: c.CallID, UID: c.UID, Version: c.Version, Toolset: c.Toolset, Tool: c.Tool, Global: global, Price: price,
	}
	if c.InRun() {
		charge.ResultID = c.ResultID
	}
	return charge
}

func interrupted() Answer {
	return Answer{Status: errorStatus, Error: interruptedMessage, ErrorCode: CodeInterrupted}
}
