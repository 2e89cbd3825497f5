package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/modules/catalogue/signature"
	"github.com/portico-run/portico/modules/cli/shell"
)

// tools holds the commands about how tools are shown to models.
func (c *cli) tools() *cobra.Command {
	var dir string
	measure := c.Command(shell.Spec{Use: "measure", Short: "Count what tools cost in a prompt, as definitions and as lines", Example: "portico tools measure --corpus answers"}, func(*cobra.Command, []string) error {
		servers, err := signature.ReadCorpus(dir)
		if err != nil {
			return err
		}
		total, err := signature.NewCounter().Total(servers)
		if err != nil {
			return err
		}
		err = c.Table("SERVER | TOOLS | SCHEMAS | SIGNATURES | SAVED | DEFINITIONS | LINES | SAVED", func(w io.Writer) {
			for _, m := range append(total.Servers, total.All) {
				fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.1f %%\t%d\t%d\t%.1f %%\n",
					m.Server, m.Tools, m.Schemas, m.Signatures, 100*m.SignaturesSaved(), m.Definitions, m.Lines, 100*m.LinesSaved())
			}
		})()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.Stdout, "\nOn average, over the servers with five tools or more, signatures save %.1f %% and lines %.1f %%. Tokens of o200k_base.\n",
			100*total.Average(5, signature.Measurement.SignaturesSaved), 100*total.Average(5, signature.Measurement.LinesSaved))
		return err
	})
	measure.Flags().StringVar(&dir, "corpus", "", "folder of answers to tools/list, one JSON file for each server")
	shell.Required(measure, "corpus")
	return c.Group("tools", "See tools as models see them", measure)
}
