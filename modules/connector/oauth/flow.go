package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/ids"
)

// flowLife is how long a user may take.
const flowLife = 10 * time.Minute

// flow is what is remembered of an authorization that was begun. The issuer is
// known before the user leaves for it, so that the answer of another one is not
// taken for its.
type flow struct {
	Server   string `json:"server"`
	ID       string `json:"id"`
	Redirect string `json:"redirect"`
	Issuer   string `json:"issuer"`
	// Fixed says that the issuer is not known: answers are told apart by where they
	// come.
	Fixed    bool     `json:"fixed,omitempty"`
	Names    bool     `json:"namesItself,omitempty"`
	Verifier string   `json:"verifier"`
	Resource string   `json:"resource"`
	Scopes   []string `json:"scopes,omitempty"`
	Tokens   tokens   `json:"tokens"`
	// Expires and Granted come with the answer.
	Expires *time.Time `json:"expires,omitempty"`
	Granted []string   `json:"granted,omitempty"`
}

// Begun is a flow that was begun.
type Begun struct {
	// URL is where the user's browser goes.
	URL string
	// Browser is the value of a cookie, by which the browser that began it is
	// known when it comes back.
	Browser string
	Expires time.Time
}

// Connect begins the authorization of this server for the actor at a target.
// One that the actor began before for the same target ends.
func (s *Service) Connect(ctx context.Context, a actor.Actor, name string) (Begun, error) {
	of, err := s.kind.Targets.Find(ctx, a, name)
	if err != nil {
		return Begun{}, err
	}
	if !of.OAuth {
		return Begun{}, errs.Newf(errs.Invalid, "No authorization is needed for %s %s.", s.kind.Noun, name)
	}
	f, m, err := s.prepare(ctx, a, of)
	if err != nil {
		if _, ok := errors.AsType[*errs.Error](err); ok {
			return Begun{}, err
		}
		return Begun{}, s.unavailable(name, err)
	}
	state, browser := random(), random()
	target, err := url.Parse(m.AuthorizationEndpoint)
	if err != nil {
		return Begun{}, err
	}
	q := target.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": f.Tokens.Client.ID, "redirect_uri": s.redirectURI(of), "state": state,
		"code_challenge": oauth2.S256ChallengeFromVerifier(f.Verifier), "code_challenge_method": "S256",
	} {
		q.Set(name, value)
	}
	if !of.fixed() {
		q.Set("resource", f.Resource)
	}
	if len(f.Scopes) > 0 {
		q.Set("scope", strings.Join(f.Scopes, " "))
	}
	target.RawQuery = q.Encode()
	sealed, err := s.seal(f)
	if err != nil {
		return Begun{}, err
	}
	row := flowRow{State: hashed(state), UID: a.UID, Browser: hashed(browser), Flow: sealed, ExpiresAt: s.now().Add(flowLife)}
	err = s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.purge(tx, s.callback(), s.now()); err != nil {
			return err
		}
		if err := s.rows.insertFlow(tx, of.ID, row); err != nil {
			return err
		}
		return audit.Write(tx, audit.Change{By: a, Action: s.kind.Action + ".connect", Subject: name, Detail: map[string]string{"issuer": f.Issuer}}, s.now())
	})
	return Begun{URL: target.String(), Browser: browser, Expires: row.ExpiresAt}, err
}

// prepare finds out where and as which client a user authorizes this server, and
// for what.
func (s *Service) prepare(ctx context.Context, a actor.Actor, of Target) (flow, authority, error) {
	r, m, err := s.discover(ctx, of)
	if err != nil {
		return flow{}, m, err
	}
	as, err := s.clientFor(ctx, of, m)
	if err != nil {
		return flow{}, m, err
	}
	before, err := s.read(ctx, key{a.UID, of.ID})
	if err != nil {
		return flow{}, m, err
	}
	scopes := of.Scopes
	if len(scopes) == 0 {
		scopes = r.Scopes
	}
	// What a call was refused for is asked for together with what was granted.
	if before.row.Issuer == "" || before.row.Issuer == m.Issuer {
		scopes = union(union(scopes, strings.Fields(before.row.Scopes)), strings.Fields(before.row.Wanted))
	}
	if len(scopes) > 0 && slices.Contains(m.Scopes, "offline_access") {
		scopes = union(scopes, []string{"offline_access"}) // a refresh token
	}
	return flow{
		Server: of.Name, ID: fmt.Sprint(of.ID), Redirect: s.redirectURI(of), Fixed: of.fixed(), Issuer: m.Issuer, Names: m.NamesItself, Verifier: oauth2.GenerateVerifier(), Resource: r.ID, Scopes: scopes,
		Tokens: tokens{Client: as, Endpoint: m.TokenEndpoint, Revocation: m.RevocationEndpoint},
	}, m, nil
}

// discover finds the authorization server of a target.
func (s *Service) discover(ctx context.Context, of Target) (resource, authority, error) {
	if of.fixed() {
		m := authority{Issuer: of.Endpoints.Token, AuthorizationEndpoint: of.Endpoints.Authorization, TokenEndpoint: of.Endpoints.Token}
		p := placeOf(of)
		return resource{ID: of.URL, Issuer: m.Issuer}, m, errors.Join(p.check("authorization endpoint", m.AuthorizationEndpoint), p.check("token endpoint", m.TokenEndpoint))
	}
	c, err := s.probe(ctx, of)
	if err != nil {
		return resource{}, authority{}, err
	}
	r, err := s.resource(ctx, of, c)
	if err != nil {
		return r, authority{}, err
	}
	m, err := s.authority(ctx, placeOf(of), r.Issuer)
	return r, m, err
}

// Answer is what an authorization server sends a browser back with.
type Answer struct {
	// Name is that of the target, where the address has it to which the browser was
	// sent back.
	Name string

	State, Code, Issuer, Error, Description string
}

// Outcome is what became of a flow.
type Outcome struct {
	Name string
	// Code is what the user sends to complete the flow; empty where it is complete.
	Code string
}

var errNoFlow = errs.New(errs.NotFound, "There is no such authorization, or it was begun more than ten minutes ago.").Do("Begin again.")

// Callback takes the answer of an authorization server. browser is the value of
// the cookie; another browser than the one that began the flow completes nothing.
func (s *Service) Callback(ctx context.Context, in Answer, browser string) (Outcome, error) {
	row, err := s.rows.flow(s.db.Read(ctx), hashed(in.State), s.now())
	if errors.Is(err, database.ErrNotFound) {
		return Outcome{}, errNoFlow
	}
	if err != nil {
		return Outcome{}, err
	}
	known := subtle.ConstantTimeCompare([]byte(hashed(browser)), []byte(row.Browser)) == 1
	var f flow
	if err := s.open(row.Flow, &f); err != nil {
		return Outcome{}, err
	}
	a := actor.Actor{UID: row.UID, Scope: actor.Full}
	of, err := s.kind.Targets.Find(ctx, a, f.Server)
	if err != nil {
		return Outcome{}, err
	}
	if fmt.Sprint(of.ID) != f.ID || f.Redirect != s.redirectURI(Target{Name: in.Name}) {
		return Outcome{}, errNoFlow
	}
	// Whatever comes of it, a state is good for one answer.
	if err := s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.take(tx, row) }); err != nil {
		return Outcome{}, errNoFlow.With(err)
	}
	if err := f.accepts(in); err != nil {
		return Outcome{}, err
	}
	if err := s.exchange(ctx, of, &f, in.Code); err != nil {
		return Outcome{}, s.unavailable(of.Name, err)
	}
	if known {
		return Outcome{Name: of.Name}, s.keep(ctx, a, of.ID, f)
	}
	code := confirmation()
	row.PK, row.Code, row.Attempts = 0, hashed(code), 0
	if row.Flow, err = s.seal(f); err != nil {
		return Outcome{}, err
	}
	err = s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.insertFlow(tx, of.ID, row) })
	return Outcome{Name: of.Name, Code: code}, err
}

// accepts refuses an answer that is none, or that another issuer gave.
func (f flow) accepts(in Answer) error {
	switch {
	case !f.Fixed && in.Issuer != "" && in.Issuer != f.Issuer, in.Issuer == "" && f.Names:
		return errs.New(errs.Forbidden, "The answer does not come from the authorization server that was asked.").Do("Begin again; tell the operator if it stays.").
			With(fmt.Errorf("issuer %q, expected %q", in.Issuer, f.Issuer))
	case in.Error != "":
		const most = 200
		return errs.Newf(errs.Forbidden, "The authorization was not given: %s.", strings.TrimSuffix(line(strings.TrimSpace(in.Error+" "+in.Description), most), ".")).Do("Begin again to give it.")
	case in.Code == "":
		return errs.New(errs.Invalid, "The answer of the authorization server has no code.").Do("Begin again.")
	}
	return nil
}

// exchange turns a code into tokens.
func (s *Service) exchange(ctx context.Context, of Target, f *flow, code string) error {
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {f.Redirect}, "code_verifier": {f.Verifier}}
	if !of.fixed() {
		form.Set("resource", f.Resource)
	}
	got, err := s.request(ctx, placeOf(of), f.Tokens.Endpoint, f.Tokens.Client, form)
	// Documents of APIs do not say how a client shows its secret.
	if refused, ok := errors.AsType[errRefused](err); ok && refused.Code == "invalid_client" && of.fixed() && f.Tokens.Client.Method == methodBasic {
		f.Tokens.Client.Method = methodPost
		got, err = s.request(ctx, placeOf(of), f.Tokens.Endpoint, f.Tokens.Client, form)
	}
	if refused, ok := errors.AsType[errRefused](err); ok && refused.Code == "invalid_client" && f.Tokens.Client.Registered {
		forgotten := s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.forgetClient(tx, f.Issuer, s.callback()) })
		return errors.Join(err, forgotten)
	}
	if err != nil {
		return err
	}
	f.Tokens.Access, f.Tokens.Refresh, f.Verifier = got.Access, got.Refresh, ""
	f.Expires, f.Granted = got.expiry(s.now()), got.scopes(f.Scopes)
	return nil
}

// keep stores the tokens of a flow that is complete.
func (s *Service) keep(ctx context.Context, a actor.Actor, of any, f flow) error {
	sealed, err := s.seal(f.Tokens)
	if err != nil {
		return err
	}
	return s.db.InTx(ctx, func(tx database.Tx) error {
		row := grantRow{
			UID: a.UID, Version: ids.New("mc"), Tokens: &sealed, Issuer: f.Issuer, Resource: f.Resource, Scopes: strings.Join(f.Granted, " "),
			ExpiresAt: f.Expires, UpdatedAt: s.now(),
		}
		if err := s.rows.saveGrant(tx, of, row); err != nil {
			return err
		}
		if f.Tokens.Client.Registered {
			if err := s.remember(tx, f.Issuer, f.Tokens.Client); err != nil {
				return err
			}
		}
		return audit.Write(tx, audit.Change{By: a, Action: s.kind.Action + ".connected", Subject: f.Server, Detail: map[string]string{"issuer": f.Issuer, "scopes": row.Scopes}}, s.now())
	})
}

// maxAttempts is how often a user may send a wrong code.
const maxAttempts = 5

// Confirm completes a flow that another browser than the one that began it came
// back from, with the code that the page showed.
func (s *Service) Confirm(ctx context.Context, a actor.Actor, name, code string) error {
	of, err := s.kind.Targets.Find(ctx, a, name)
	if err != nil {
		return err
	}
	var row flowRow
	err = s.db.InTx(ctx, func(tx database.Tx) (err error) {
		row, err = s.rows.waiting(tx, key{a.UID, of.ID}, s.now())
		return err
	})
	if errors.Is(err, database.ErrNotFound) {
		return errNoFlow
	}
	if err != nil {
		return err
	}
	right := subtle.ConstantTimeCompare([]byte(hashed(plainCode(code))), []byte(row.Code)) == 1
	if !right && row.Attempts+1 < maxAttempts {
		return errs.New(errs.Invalid, "The code is not the one that the page shows.").Do("Send it as it stands there.")
	}
	if err := s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.take(tx, row) }); err != nil {
		return errNoFlow.With(err)
	}
	if !right {
		return errs.New(errs.Forbidden, "The code was wrong too often; the authorization has ended.").Do("Begin again.")
	}
	var f flow
	if err := s.open(row.Flow, &f); err != nil {
		return err
	}
	return s.keep(ctx, a, of.ID, f)
}

func random() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// hashed is how the database knows a secret.
func hashed(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// confirmation is a code that a person copies: letters and digits that are not
// mistaken for each other. Its hyphen is for reading.
func confirmation() string {
	const letters, length = "BCDFGHJKMNPQRSTVWXYZ23456789", 8
	b := make([]byte, length)
	for i := range b {
		n, _ := rand.Int(rand.Reader, big.NewInt(int64(len(letters)))) // never fails
		b[i] = letters[n.Int64()]
	}
	return string(b)
}

// plainCode is a code as it was made.
func plainCode(text string) string {
	return strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(text))
}
