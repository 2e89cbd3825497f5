package program

import (
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/stub"
)

// functions are the functions of the request as the program calls them.
func (r *Request) functions() []sandbox.Stub {
	stubs := make([]sandbox.Stub, len(r.Functions))
	for i, f := range r.Functions {
		stubs[i] = stub.New(r.Language, stub.Tool{Name: f.Name, Toolset: ptc.Own, Description: f.Description, Schema: f.Schema})
	}
	return stubs
}
