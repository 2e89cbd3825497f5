package file

import (
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/toolset"
)

// CheckContent checks one file alone.
func CheckContent(kinds toolset.Kinds, content []byte) error {
	_, problems := New(Deps{Pricer: price.NewPricer(120 * money.Credit), Kinds: kinds}).checkFiles([]File{{Name: "f", Content: content}})
	return joinProblems(problems)
}
