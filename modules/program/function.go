package program

import (
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

// Own are functions of the server's own as one more toolset, for the catalogue
// of what a program can call.
func Own(functions []tool.Function) toolset.Definition {
	d := toolset.Definition{Key: ptc.Own, Name: "Portico", Description: "The server's own functions."}
	for _, f := range functions {
		d.Tools = append(d.Tools, toolset.ToolDefinition{
			Name: f.Name, Description: f.Description, InputSchema: f.Schema, Callers: toolset.Callers{Code: true},
		})
	}
	return d
}
