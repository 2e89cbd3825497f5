package run

import (
	"context"
	"fmt"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/money"
)

// Totals are what the calls of one version of a run add up to. Programs are no
// calls: they are counted by what they call.
type Totals struct {
	Calls   int64
	Running int64
	Waiting int64
	Failed  int64
	// Credits are what was charged for the run: calls and answers of models.
	Credits money.Amount
	// ResultBytes are those of the results of calls that programs made, and
	// ProgramBytes those of the results of the programs.
	ResultBytes, ProgramBytes int64
}

// bytesOfToken is how many bytes of a result are about one token of o200k_base.
// Counting the tokens themselves would take longer than many calls do.
const bytesOfToken = 4

// Tokens estimates how many tokens of o200k_base so many bytes of a result are.
func Tokens(bytes int64) int64 { return (bytes + bytesOfToken - 1) / bytesOfToken }

// Totals sums up the calls of runs of the actor's, at most those of a page. A run
// without calls and charges has zeros.
func (s *Service) Totals(ctx context.Context, a actor.Actor, runs []Ref) (map[Ref]Totals, error) {
	totals := make(map[Ref]Totals, len(runs))
	if len(runs) == 0 {
		return totals, nil
	}
	h := s.db.Read(ctx)
	rows, err := s.repo.totals(h, a.UID, runs)
	if err != nil {
		return nil, fmt.Errorf("sum up the calls of runs: %w", err)
	}
	for _, r := range rows {
		totals[Ref{a.UID, r.ResultID, r.Version}] = Totals{
			Calls: r.Calls, Running: r.Running, Waiting: r.Waiting, Failed: r.Failed, ResultBytes: r.ResultBytes, ProgramBytes: r.ProgramBytes,
		}
	}
	costs, err := s.repo.costs(h, a.UID, runs)
	if err != nil {
		return nil, fmt.Errorf("sum up the costs of runs: %w", err)
	}
	for _, c := range costs {
		of := Ref{a.UID, c.ActionResultID, c.Version}
		t := totals[of]
		t.Credits = c.Credits
		totals[of] = t
	}
	return totals, nil
}

// TotalsBody is Totals as answers have it.
type TotalsBody struct {
	Calls         int64  `json:"calls" doc:"Calls of tools, without the programs themselves"`
	Running       int64  `json:"running"`
	Waiting       int64  `json:"waiting" doc:"Calls that wait for somebody to allow them"`
	Failed        int64  `json:"failed"`
	Credits       string `json:"credits" doc:"What was charged for the run: calls and answers of models" example:"0.02"`
	ResultTokens  int64  `json:"resultTokens" doc:"About how many tokens the results of calls have that programs made: a quarter of their bytes"`
	ProgramTokens int64  `json:"programTokens" doc:"About how many tokens the programs gave back: a quarter of the bytes that they printed"`
	KeptOut       int64  `json:"keptOut" doc:"resultTokens without programTokens, at least 0: an estimate of what programs kept out of the model's context"`
}

// NewTotalsBody shows totals.
func NewTotalsBody(t Totals) *TotalsBody {
	b := TotalsBody{
		Calls: t.Calls, Running: t.Running, Waiting: t.Waiting, Failed: t.Failed, Credits: t.Credits.String(),
		ResultTokens: Tokens(t.ResultBytes), ProgramTokens: Tokens(t.ProgramBytes),
	}
	b.KeptOut = max(b.ResultTokens-b.ProgramTokens, 0)
	return &b
}
