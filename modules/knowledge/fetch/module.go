// Package fetch reads pages of the web and files for programs: one page as
// Markdown, the pages of a site for a collection, and files of the caller as
// variables.
package fetch

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/drive"
	"github.com/portico-run/portico/modules/knowledge/read"
	"github.com/portico-run/portico/modules/tool/function"
)

// UserAgent names Portico to the sites that it reads.
const UserAgent = "Portico/1.0 (+https://github.com/portico-run/portico)"

// Client makes requests; networks are what it may reach besides the public
// internet.
type Client interface {
	Do(r *http.Request, networks []netip.Prefix) (*http.Response, error)
}

// Files are those of canvases.
type Files interface {
	Find(ctx context.Context, a actor.Actor, canvasID, name string) (drive.File, error)
	Open(ctx context.Context, a actor.Actor, fileID string) (drive.File, io.ReadSeekCloser, error)
}

// Settings bound what is fetched and loaded.
type Settings struct {
	// MaxBytes is the largest page or file that is fetched, Timeout how long that
	// may take, its conversion included.
	MaxBytes int64
	Timeout  time.Duration
	// Egress are networks beyond the public internet that may be fetched from.
	Egress []netip.Prefix
	// MaxPages is how many pages a sitemap may have.
	MaxPages int
	// Roots are folders that every user's programs may load files from; MaxFile is
	// the largest file that is loaded, in bytes.
	Roots   []string
	MaxFile int64
}

// Deps is what the module needs.
type Deps struct {
	Client   Client
	Sandbox  read.Sandbox
	Files    Files
	Settings Settings
	// Wait waits for so long, or until the context ends; nil does.
	Wait func(ctx context.Context, d time.Duration) error
}

// Module is the wired package.
type Module struct{ Service *Service }

// New wires the module and starts nothing.
func New(d Deps) *Module {
	if d.Wait == nil {
		d.Wait = wait
	}
	return &Module{&Service{client: d.Client, sandbox: d.Sandbox, files: d.Files, settings: d.Settings, wait: d.Wait, working: semaphore.NewWeighted(maxWorking)}}
}

// maxWorking is how many pages and files are in memory at once.
const maxWorking = 8

// Service fetches pages and loads files.
type Service struct {
	client   Client
	sandbox  read.Sandbox
	files    Files
	settings Settings
	wait     func(ctx context.Context, d time.Duration) error
	working  *semaphore.Weighted
}

// Errors of addresses and files; the detail says what to do.
var (
	ErrAddress = errs.New(errs.Invalid, "url is no address that can be fetched.")
	ErrRefused = errs.New(errs.Forbidden, "The address may not be fetched.")
	ErrPath    = errs.New(errs.FileMissing, "path names no file that can be loaded.")
	ErrName    = errs.New(errs.Invalid, "var_name is no name of a variable.")
	ErrContent = errs.New(errs.Invalid, "The file's content is not what its name says.")
	ErrFull    = errs.New(errs.TooLarge, "The file is too large to be loaded.")
	ErrSitemap = errs.New(errs.Invalid, "The sitemap cannot be read.")
)

// Functions are what programs may call.
func (s *Service) Functions() []function.Function {
	return []function.Function{s.fetchURL(), s.loadFile()}
}

// enter waits for a turn. leave must be called after it.
func (s *Service) enter(ctx context.Context) error { return s.working.Acquire(ctx, 1) }

func (s *Service) leave() { s.working.Release(1) }

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
