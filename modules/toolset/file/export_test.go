package file

import (
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing/price"
)

// CheckContent checks one file alone.
func CheckContent(content []byte) error {
	_, problems := New(Deps{Pricer: price.NewPricer(120 * money.Credit), Coded: []string{"jina"}}).checkFiles([]File{{Name: "f", Content: content}})
	return joinProblems(problems)
}
