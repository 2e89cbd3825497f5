package approval

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/portico-run/portico/internal/database"
)

const (
	// toTell is the kind of topics of approvals that the webhook is to be told of.
	toTell = "approval-webhook"
	// lookEvery is how often approvals are looked at without being woken.
	lookEvery = 5 * time.Second
	// late is how long the process that waits has to notice that time is up.
	late = 15 * time.Second

	maxAttempts  = 8
	firstRetry   = 5 * time.Second
	tellTimeout  = 10 * time.Second
	tellAtOnce   = 20
	maxTellReply = 64 << 10
)

// HeaderSignature holds what proves that this server sent a request:
// "t=<seconds since 1970>,v1=<hexadecimal HMAC-SHA256 of "t.body">".
const HeaderSignature = "X-Portico-Signature"

// look looks after approvals until ctx ends.
func (s *Service) look(ctx context.Context) {
	woken := make(chan struct{}, 1)
	s.deps.Hub.Follow(toTell, func(string) {
		select {
		case woken <- struct{}{}:
		default: // one is waiting to be read
		}
	})
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if err := s.Tend(ctx); err != nil && ctx.Err() == nil {
			s.deps.Logger.ErrorContext(ctx, "approvals are not looked after", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-woken:
		case <-tick.C:
		}
	}
}

// Tend ends approvals that nobody waits for any more, and tells the webhook what is
// due.
func (s *Service) Tend(ctx context.Context) error {
	now := s.deps.Now()
	err := s.deps.DB.InTx(ctx, func(tx database.Tx) error { return s.rows.abandoned(tx, now.Add(-late), now) })
	if err != nil || s.deps.Settings.Webhook == "" {
		return err
	}
	due, err := s.rows.due(s.deps.DB.Read(ctx), now, tellAtOnce)
	if err != nil {
		return err
	}
	for _, row := range due {
		if err := s.tell(ctx, row); err != nil {
			return err
		}
	}
	return nil
}

// tell makes one attempt to tell the webhook. The next one is due before this one is
// made, so that it is made even if this process dies.
func (s *Service) tell(ctx context.Context, row approvalRow) error {
	next := new(s.deps.Now().Add(firstRetry << row.NotifyAttempts))
	if row.NotifyAttempts+1 >= maxAttempts {
		next = nil
	}
	var claimed bool
	err := s.deps.DB.InTx(ctx, func(tx database.Tx) (err error) {
		claimed, err = s.rows.claim(tx, row, next)
		return err
	})
	if err != nil || !claimed {
		return err
	}
	if err := s.post(ctx, row); err != nil {
		s.deps.Logger.WarnContext(ctx, "the webhook of approvals did not take a call", "callId", row.CallID, "attempt", row.NotifyAttempts+1, "error", err)
		return nil
	}
	return s.deps.DB.InTx(ctx, func(tx database.Tx) error { return s.rows.told(tx, row) })
}

// webhookBody is what the webhook is sent.
type webhookBody struct {
	Type     string       `json:"type"`
	Approval approvalBody `json:"approval"`
	Link     string       `json:"link,omitempty"`
}

// anywhere is where the operator's own webhook may be.
func anywhere() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
}

func (s *Service) post(ctx context.Context, row approvalRow) error {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	told := webhookBody{Type: "approval.waiting", Approval: toBody(row.approval())}
	if s.deps.Settings.Console != "" {
		told.Link = s.deps.Settings.Console + "/approvals/" + row.CallID
	}
	body, err := json.Marshal(told)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.deps.Settings.Webhook, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(HeaderSignature, Sign(s.deps.Settings.Secret, s.deps.Now(), body))
	answer, err := s.deps.Client.Do(r, anywhere())
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxTellReply))
	if answer.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("it answered with status %d", answer.StatusCode)
	}
	return nil
}

// Sign is what HeaderSignature says of a body that is sent at a moment.
func Sign(secret string, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(t + ".")) // a hash takes everything
	_, _ = mac.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
