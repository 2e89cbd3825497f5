package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/store"
)

// Apply loads toolset files into the inventory, all or nothing. Whatever was
// there before, a toolset then is what its file says, as if the database had
// been empty. Applying the same files again changes nothing. Toolsets without
// a file stay as they are. The error lists everything that is wrong, as
// file:line: message; it is store.ErrOtherKey where what is stored was sealed
// with another key.
func (s *Service) Apply(ctx context.Context, files []File) (store.Report, error) {
	if err := s.inventory.CheckKey(ctx); err != nil {
		return store.Report{}, err
	}
	items, problems, err := s.check(ctx, files)
	if err != nil || len(problems) > 0 {
		return store.Report{}, errors.Join(joinProblems(problems), err)
	}
	return s.inventory.Store(ctx, specsOf(items))
}

// Load is Apply for a server that starts: a file that is not valid is left out,
// whole, with what is wrong with it; its toolsets stay as they are.
func (s *Service) Load(ctx context.Context, files []File) (store.Report, []Problem, error) {
	items, problems, err := s.check(ctx, files)
	if err != nil {
		return store.Report{}, problems, err
	}
	report, err := s.inventory.Store(ctx, specsOf(valid(items, problems)))
	return report, problems, err
}

// Check says what is wrong with toolset files, by file and line, and changes
// nothing.
func (s *Service) Check(ctx context.Context, files []File) ([]Problem, error) {
	_, problems, err := s.check(ctx, files)
	return problems, err
}

func (s *Service) check(ctx context.Context, files []File) ([]item, []Problem, error) {
	items, problems := s.checkFiles(files)
	wrong, err := s.checkRates(ctx, valid(items, problems))
	problems = append(problems, wrong...)
	sortProblems(problems)
	return items, problems, err
}

// valid are the items of files with which nothing is wrong.
func valid(items []item, problems []Problem) []item {
	return slices.DeleteFunc(slices.Clone(items), func(i item) bool {
		return slices.ContainsFunc(problems, func(p Problem) bool { return p.File == i.file })
	})
}

func specsOf(items []item) []store.Spec {
	specs := make([]store.Spec, len(items))
	for n, i := range items {
		specs[n] = i.Spec
	}
	return specs
}

// checkRates refuses prices that a kind cannot read with today's rates: a call
// would have no price.
func (s *Service) checkRates(ctx context.Context, items []item) ([]Problem, error) {
	var problems []Problem
	readers := map[toolset.Kind]func(text string) (price.List, error){}
	for _, i := range items {
		kind, _ := s.kinds.Offered(i.Type, i.Key)
		pricer, ok := kind.Source.(toolset.Pricer)
		if !ok {
			continue
		}
		if readers[kind.Kind] == nil {
			var err error
			if readers[kind.Kind], err = pricer.PriceReader(ctx); err != nil {
				return nil, err
			}
		}
		if _, err := readers[kind.Kind](string(i.Prices)); err != nil {
			problems = append(problems, Problem{File: i.file, Line: i.line, Message: fmt.Sprintf("toolset %s: %s", i.Key, strings.ReplaceAll(err.Error(), "\n", "; "))})
		}
	}
	return problems, nil
}

// checkFiles reads all files and reports everything that is wrong in them, by
// file and line.
func (s *Service) checkFiles(files []File) ([]item, []Problem) {
	var (
		items    []item
		problems []Problem
		seen     = map[string]string{}
	)
	for _, f := range files {
		if f.Err != nil {
			problems = append(problems, Problem{File: f.Name, Line: 1, Message: "the file cannot be read: " + f.Err.Error()})
			continue
		}
		specs, wrong := decodeFile(f)
		problems = append(problems, wrong...)
		c := &checker{file: f.Name, variables: s.variables, pricer: s.pricer, kinds: s.kinds}
		for _, spec := range specs {
			i := c.check(spec)
			if before, twice := seen[i.Key]; twice && i.Key != "" {
				c.problem(spec.Key.line, "toolset %q is also in %s", i.Key, before)
			}
			seen[i.Key] = fmt.Sprintf("%s:%d", f.Name, spec.Key.line)
			items = append(items, i)
		}
		problems = append(problems, c.problems...)
	}
	return items, problems
}

// joinProblems is all that is wrong, by file and line; nil where nothing is.
func joinProblems(problems []Problem) error {
	sortProblems(problems)
	joined := make([]error, len(problems))
	for i, p := range problems {
		joined[i] = p
	}
	return errors.Join(joined...)
}

func sortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line)
	})
}
