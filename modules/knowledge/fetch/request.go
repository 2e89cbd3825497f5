package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/upstream"
)

// answer is what came from an address.
type answer struct {
	URL      *url.URL // after redirects
	Status   int
	Header   http.Header
	Body     []byte
	MIME     string // as it was declared
	Modified bool   // false for 304
}

// accepted are the types that are asked for: what needs no conversion is as
// welcome as a page.
const accepted = "text/html,application/xhtml+xml,text/markdown;q=0.9,application/pdf;q=0.8,text/plain;q=0.8,application/json;q=0.8,*/*;q=0.1"

// parse checks an address that a caller gave.
func parse(address string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(address))
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return nil, ErrAddress.Do("Give a whole address, such as https://example.com/page.")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, ErrAddress.Do("Only http and https are fetched, and not " + upstream.Limit(u.Scheme, 40) + ".")
	case u.User != nil:
		return nil, ErrAddress.Do("It holds a user name. Pages that need a sign-in are not fetched; use a toolset for them.")
	}
	u.Fragment = ""
	return u, nil
}

// get asks an address. known, where it is not empty, is what is known of it from
// before, as headers.
func (s *Service) get(ctx context.Context, u *url.URL, known http.Header) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return answer{}, ErrAddress.Do("Give a whole address, such as https://example.com/page.").With(err)
	}
	r.Header.Set("User-Agent", UserAgent)
	r.Header.Set("Accept", accepted)
	maps.Copy(r.Header, known)
	resp, err := s.client.Do(r, s.settings.Egress)
	if err != nil {
		return answer{}, s.failure(ctx, u, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	a := answer{URL: resp.Request.URL, Status: resp.StatusCode, Header: resp.Header, MIME: resp.Header.Get("Content-Type"), Modified: resp.StatusCode != http.StatusNotModified}
	if resp.StatusCode == http.StatusNotModified {
		return a, nil
	}
	if resp.StatusCode != http.StatusOK {
		return a, &upstream.Failure{Code: upstream.CodeOf(resp.StatusCode), Message: fmt.Sprintf("%s answered with status %d %s.%s", u.Host, resp.StatusCode, http.StatusText(resp.StatusCode), advice(resp.StatusCode))}
	}
	a.Body, err = s.body(resp)
	if err != nil {
		return a, s.failure(ctx, u, err)
	}
	return a, nil
}

// body is all of an answer, within the bound.
func (s *Service) body(resp *http.Response) ([]byte, error) {
	limit := s.settings.MaxBytes
	if resp.ContentLength > limit {
		return nil, s.tooLarge()
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err == nil && int64(len(b)) > limit {
		return nil, s.tooLarge()
	}
	return b, err
}

func (s *Service) tooLarge() error {
	return &upstream.Failure{Code: upstream.CodeTooLarge, Message: fmt.Sprintf("The page has more than %d bytes, the most that is fetched (FETCH_MAX_BYTES). Nothing of it is returned.", s.settings.MaxBytes)}
}

func advice(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return " The page is not for everybody, or not for programs."
	case http.StatusNotFound, http.StatusGone:
		return " Check the address."
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return " Try again later."
	}
	return ""
}

// failure says why there is no answer, in words that name no other address
// than the one that was given.
func (s *Service) failure(ctx context.Context, u *url.URL, err error) error {
	if failed, ok := errors.AsType[*upstream.Failure](err); ok {
		return failed
	}
	timedOut := &upstream.Failure{Code: upstream.CodeTimeout, Message: fmt.Sprintf("%s did not answer within %s (FETCH_TIMEOUT).", u.Host, s.settings.Timeout)}
	switch egress.KindOf(err) {
	case egress.Refused:
		if errors.Is(err, egress.ErrRefused) { // its words are for everybody
			return ErrRefused.Do("It leads where nothing is fetched: " + err.Error() + ".").With(err)
		}
		return ErrRefused.Do("Only public addresses of the internet are fetched. The operator can open other networks with FETCH_EGRESS.").With(err)
	case egress.Canceled:
		return context.Cause(ctx)
	case egress.Timeout:
		return timedOut
	case egress.Unknown:
		return &upstream.Failure{Code: upstream.CodeUnavailable, Message: "There is no host " + u.Hostname() + ". Check the address."}
	case egress.TLS:
		return &upstream.Failure{Code: upstream.CodeUnavailable, Message: u.Host + " offers no secure connection that can be trusted."}
	}
	return &upstream.Failure{Code: upstream.CodeUnavailable, Message: u.Host + " did not answer, or broke the connection off."}
}
