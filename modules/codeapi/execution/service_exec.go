package execution

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/drain"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/sandbox"
)

// ExecRequest is a program to run to its end.
type ExecRequest struct {
	Language string // any of the names that clients use
	Code     string
	Args     []string
	// Session is the session of an earlier program, whose files this one
	// finds; an unknown one is ignored.
	Session string
	Files   []session.FileRef
	Timeout time.Duration
}

// ExecResult is how it ended.
type ExecResult struct {
	Session  string
	Result   sandbox.Result
	Produced session.Produced
}

// settleTimeout bounds each of what is stored after a program has ended, whose
// caller may be gone.
const settleTimeout = time.Minute

// Exec runs a program to its end. A program that fails is a result. Ending
// ctx ends the program.
func (s *Service) Exec(ctx context.Context, a actor.Actor, req ExecRequest) (ExecResult, error) {
	job := sandbox.Job{Owner: a.UID, Args: req.Args}
	err := drain.Admit(ctx)
	if err != nil {
		return ExecResult{}, err
	}
	if job.Language, err = s.language(req.Language); err != nil {
		return ExecResult{}, err
	}
	if job.Timeout, err = s.timeout(req.Timeout); err != nil {
		return ExecResult{}, err
	}
	if job.Code, err = sandbox.PrepareCode(req.Code); err != nil {
		return ExecResult{}, err
	}
	w, err := s.sessions.Workspace(ctx, a, req.Session, req.Files)
	if err != nil {
		return ExecResult{}, err
	}
	job.Inputs, job.Collect = w.Inputs, w.Collect()
	x, err := s.sandbox.Begin(ctx, job)
	if err != nil {
		return ExecResult{}, err
	}
	out := ExecResult{Session: w.Session}
	if out.Result, err = x.Result(); err != nil {
		return ExecResult{}, err
	}
	s.observer.Ended(string(out.Result.Status))
	if out.Result.Status != sandbox.Completed {
		return out, nil // files of a run that failed are not kept
	}
	out.Produced = s.keep(ctx, w, out.Result)
	return out, nil
}

// keep stores the files of a program that completed. The program has run: what
// cannot be stored is said in its answer.
func (s *Service) keep(ctx context.Context, w *session.Workspace, result sandbox.Result) session.Produced {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.keeping)
	defer cancel()
	p := w.Keep(ctx, result)
	if p.Refused != nil && errs.CodeOf(p.Refused) != errs.StorageFull {
		s.logger.ErrorContext(ctx, "the files of a program were not kept", "session", w.Session, "error", p.Refused)
	}
	return p
}

// language reads the names that clients have for languages. It refuses one that
// is not installed, and names those that are.
func (s *Service) language(name string) (sandbox.Language, error) {
	names := map[sandbox.Language][]string{ // first the one that is told
		sandbox.Python:     {"py", "python", "python3"},
		sandbox.Bash:       {"bash", "sh", "shell"},
		sandbox.JavaScript: {"js", "javascript", "node", "nodejs"},
		sandbox.TypeScript: {"ts", "typescript"},
	}
	var installed []string
	for _, l := range s.sandbox.Languages() {
		if slices.Contains(names[l], strings.ToLower(strings.TrimSpace(name))) {
			return l, nil
		}
		installed = append(installed, names[l][0])
	}
	if len(installed) == 0 {
		return "", sandbox.ErrUnavailable
	}
	return "", errs.Newf(errs.Invalid, "Unsupported language: %s", name).Do("Installed: " + strings.Join(installed, ", ") + ".")
}

func (s *Service) timeout(asked time.Duration) (time.Duration, error) {
	if asked == 0 {
		return s.settings.Timeout, nil
	}
	if asked < s.settings.MinTimeout || asked > s.settings.MaxTimeout {
		return 0, errs.Newf(errs.Invalid, "timeout must be from %d to %d milliseconds.",
			s.settings.MinTimeout.Milliseconds(), s.settings.MaxTimeout.Milliseconds())
	}
	return asked, nil
}
