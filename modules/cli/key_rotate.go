package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
	"github.com/portico-run/portico/modules/toolset/sealed"
)

// sealedBody is what was found in a column of sealed values.
type sealedBody struct {
	Table    string `json:"table"`
	Column   string `json:"column"`
	Current  int64  `json:"current"`
	Resealed int64  `json:"resealed"`
	Old      int64  `json:"old"`
	Unknown  int64  `json:"unknown"`
}

func (c *cli) keyRotate() *cobra.Command {
	var check bool
	s := shell.Spec{
		Use: "rotate", Short: "Seal with ENCRYPTION_KEY what is sealed with a key of ENCRYPTION_KEYS_OLD; servers may run meanwhile",
		Example: "portico key rotate\nportico key rotate --check", JSON: true,
	}
	cmd := c.Command(s, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			work := a.Sealed.Rotate
			if check {
				work = a.Sealed.Check
			}
			reports, err := work(ctx)
			bodies := make([]sealedBody, len(reports))
			for i, r := range reports {
				bodies[i] = sealedBody{r.Table, r.Name, r.Current, r.Resealed, r.Old, r.Unknown}
			}
			shown := c.Answer(bodies, c.Table("TABLE | COLUMN | KEY | RESEALED | OLD KEY | NO KEY", func(w io.Writer) {
				for _, b := range bodies {
					fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\n", b.Table, b.Column, b.Current, b.Resealed, b.Old, b.Unknown)
				}
			}))
			return errors.Join(err, shown, left(reports))
		})
	})
	cmd.Flags().BoolVar(&check, "check", false, "only count; fails while an old key is needed")
	return cmd
}

// left is the error about what ENCRYPTION_KEY does not open.
func left(reports []sealed.Report) error {
	var problems []error
	for _, r := range reports {
		if r.Unknown > 0 {
			problems = append(problems, fmt.Errorf("%s.%s has %d values that no key opens; name their key in ENCRYPTION_KEYS_OLD", r.Table, r.Name, r.Unknown))
		}
		if r.Old > 0 {
			problems = append(problems, fmt.Errorf("%s.%s has %d values that an old key seals; run: portico key rotate", r.Table, r.Name, r.Old))
		}
	}
	return errors.Join(problems...)
}
