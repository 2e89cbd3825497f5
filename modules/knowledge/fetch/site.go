package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/knowledge/read"
)

// Validators are what a site said of a page when it was fetched.
type Validators struct{ ETag, LastModified string }

// Known says what was fetched before.
type Known interface {
	// Validators are those of a page; the zero value where it is not known.
	Validators(ctx context.Context, address string) (Validators, error)
}

// Fetched is one page of a site.
type Fetched struct {
	URL string
	// Unchanged is set for a page that is as it is known; it has no Document.
	Unchanged  bool
	Validators Validators
	Document   read.Document
	// Err is why a page was left out.
	Err error
}

// Reasons to leave a page out.
var (
	errHost   = errs.New(errs.Invalid, "The page is on another host than the sitemap.")
	errRobots = errs.New(errs.Forbidden, "The robots.txt of the site does not allow programs to read the page.")
)

// atOnce is how many pages of one site are fetched at once.
const atOnce = 2

// Document reads what is at an address as a document. known may be the zero
// value. Errors are those of Markdown.
func (s *Service) Document(ctx context.Context, address string, known Validators) (Fetched, error) {
	u, err := parse(address)
	if err != nil {
		return Fetched{}, err
	}
	f := s.page(ctx, u, known, nil)
	return f, f.Err
}

// Site reads the pages that a sitemap lists, and gives each to use, in no
// order, one after the other. It follows robots.txt, stays on the sitemap's host, and
// asks for what is known only if it has changed. An error of use ends it; what
// is wrong with one page is in Fetched. Nothing is fetched where the sitemap has
// more pages than may be fetched.
func (s *Service) Site(ctx context.Context, sitemap string, known Known, use func(Fetched) error) error {
	at, err := parse(sitemap)
	if err != nil {
		return err
	}
	rules, err := s.robots(ctx, at)
	if err != nil {
		return err
	}
	pages, err := s.pages(ctx, at, func(page string, why error) error { return use(Fetched{URL: page, Err: why}) })
	if err != nil {
		return err
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for n, page := range pages {
		if n > 0 && rules.delay > 0 && s.wait(ctx, rules.delay) != nil {
			break
		}
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			validators, err := known.Validators(ctx, page.String())
			if err != nil {
				return err
			}
			f := Fetched{URL: page.String(), Err: errRobots}
			if rules.allows(page.RequestURI()) {
				f = s.page(ctx, page, validators, &rules)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			mu.Lock()
			defer mu.Unlock()
			return use(f)
		})
	}
	ended := context.Cause(ctx) // before Wait ends it itself
	if err := group.Wait(); err != nil {
		return err
	}
	return ended
}

// page fetches one page. rules are those of its site, where it was not asked for
// by itself.
func (s *Service) page(ctx context.Context, u *url.URL, known Validators, rules *robots) Fetched {
	f := Fetched{URL: u.String()}
	if f.Err = s.enter(ctx); f.Err != nil {
		return f
	}
	defer s.leave()
	within, cancel := context.WithTimeout(ctx, s.settings.Timeout)
	defer cancel()
	headers := http.Header{}
	if known.ETag != "" {
		headers.Set("If-None-Match", known.ETag)
	}
	if known.LastModified != "" {
		headers.Set("If-Modified-Since", known.LastModified)
	}
	a, err := s.get(within, u, headers)
	switch {
	case err != nil:
		f.Err = err
		return f
	case !a.Modified:
		f.Unchanged, f.Validators = true, known
		return f
	case rules != nil && a.URL.Host != u.Host:
		f.Err = errHost.Do("It leads to another host.")
		return f
	case rules != nil && !rules.allows(a.URL.RequestURI()):
		f.Err = errRobots
		return f
	}
	f.Validators = Validators{a.Header.Get("ETag"), a.Header.Get("Last-Modified")}
	f.Document, f.Err = s.reader("").Read(within, a.source())
	f.Document.Source = f.URL
	if errors.Is(f.Err, context.DeadlineExceeded) {
		f.Err = s.failure(ctx, u, f.Err)
	}
	return f
}

// robots asks a site for its rules. Where it has none, everything is allowed;
// where it does not say, nothing is.
func (s *Service) robots(ctx context.Context, site *url.URL) (robots, error) {
	within, cancel := context.WithTimeout(ctx, s.settings.Timeout)
	defer cancel()
	a, err := s.get(within, &url.URL{Scheme: site.Scheme, Host: site.Host, Path: "/robots.txt"}, nil)
	if a.Status >= http.StatusBadRequest && a.Status < http.StatusInternalServerError && a.Status != http.StatusTooManyRequests {
		return robots{}, nil
	}
	if failed, ok := errors.AsType[*upstream.Failure](err); ok {
		return robots{}, &upstream.Failure{Code: failed.Code, Message: fmt.Sprintf("The robots.txt of %s could not be read, so that nothing is: %s", site.Host, failed.Message)}
	}
	if err != nil {
		return robots{}, err
	}
	return parseRobots(string(a.Body)), nil
}
