package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// tokens are what a user has at a server, as they are sealed.
type tokens struct {
	Access  string `json:"access"`
	Refresh string `json:"refresh,omitempty"`
	Client  client `json:"client"`
	// Endpoint is where they are refreshed, Revocation where they end; empty for
	// nowhere.
	Endpoint   string `json:"endpoint"`
	Revocation string `json:"revocation,omitempty"`
}

// issued is the answer of a token endpoint.
type issued struct {
	Access  string      `json:"access_token"`
	Type    string      `json:"token_type"`
	Refresh string      `json:"refresh_token"`
	Scope   *string     `json:"scope"`
	Expires json.Number `json:"expires_in"`
}

// errRefused is an error that an authorization server answered with.
type errRefused struct{ Code, Description string }

func (e errRefused) Error() string {
	return strings.TrimSuffix("the authorization server answered "+e.Code+": "+e.Description, ": ")
}

// answered reads the error of an answer. It quotes no more than a line.
func answered(status int, body []byte) error {
	var e struct {
		Code        string `json:"error"`
		Description string `json:"error_description"`
	}
	if json.Unmarshal(body, &e) != nil || e.Code == "" {
		return errStatus{status}
	}
	const most = 200
	return errRefused{line(e.Code, most), line(e.Description, most)}
}

// line is the beginning of a text without anything that is not printed.
func line(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most])
	}
	return text
}

// request asks a token endpoint.
func (s *Service) request(ctx context.Context, p place, endpoint string, c client, form url.Values) (issued, error) {
	status, body, err := s.post(ctx, p, endpoint, c, form)
	if err != nil {
		return issued{}, err
	}
	if status != http.StatusOK {
		return issued{}, answered(status, body)
	}
	var got issued
	if err := json.Unmarshal(body, &got); err != nil {
		return issued{}, fmt.Errorf("the answer of the token endpoint: %w", err)
	}
	if refused, ok := errors.AsType[errRefused](answered(status, body)); ok && got.Access == "" { // some answer so with 200
		return issued{}, refused
	}
	if got.Access == "" || !strings.EqualFold(got.Type, "Bearer") {
		return issued{}, fmt.Errorf("the token endpoint gave no bearer token but the type %q", line(got.Type, 40))
	}
	return got, nil
}

// post sends a form as a client.
func (s *Service) post(ctx context.Context, p place, endpoint string, c client, form url.Values) (status int, body []byte, err error) {
	switch c.Method {
	case methodPost:
		form.Set("client_id", c.ID)
		form.Set("client_secret", c.Secret)
	case methodBasic:
	default:
		form.Set("client_id", c.ID)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if c.Method == methodBasic { // the standard wants both in the form's encoding
		r.SetBasicAuth(url.QueryEscape(c.ID), url.QueryEscape(c.Secret))
	}
	return s.do(ctx, p, r)
}

// expiry is until when a token is good; nil where nobody says.
func (i issued) expiry(now time.Time) *time.Time {
	seconds, err := i.Expires.Int64()
	if err != nil || seconds <= 0 {
		return nil
	}
	const longest = 10 * 365 * 24 * 3600
	return new(now.Add(time.Duration(min(seconds, longest)) * time.Second))
}

// scopes are what was granted: what was asked for, where the answer does not say.
func (i issued) scopes(asked []string) []string {
	if i.Scope == nil {
		return asked
	}
	return strings.Fields(*i.Scope)
}
