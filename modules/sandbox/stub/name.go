// Package stub turns definitions of tools into functions that programs call.
package stub

import (
	"regexp"
	"slices"
	"strings"

	"github.com/portico-run/portico/modules/sandbox"
)

// Name is the function's name for a tool. LibreChat's client tells models the
// same names, so that the rules are docs/wire/code-interpreter.md#names-of-tools.
// It is empty when nothing is left.
func Name(l sandbox.Language, tool string) string {
	joints, reserved := pythonJoints, pythonReserved
	switch l {
	case sandbox.Bash:
		joints, reserved = bashJoints, bashReserved
	case sandbox.JavaScript, sandbox.TypeScript:
		reserved = javaScriptReserved
	}
	name := joints.ReplaceAllString(tool, "_")
	name = invalid.ReplaceAllString(name, "")
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	if slices.Contains(reserved(), name) {
		name += "_tool"
	}
	return name
}

// What JavaScript's \s matches, which is what the client's rule says.
const space = `\t\n\v\f\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`

var (
	pythonJoints = regexp.MustCompile(`[-` + space + `]`)
	bashJoints   = regexp.MustCompile(`[-.` + space + `]`)
	invalid      = regexp.MustCompile(`[^a-zA-Z0-9_]`)
)

func pythonReserved() []string {
	return strings.Fields(`False None True and as assert async await break class continue def del elif else except
		finally for from global if import in is lambda nonlocal not or pass raise return try while with yield`)
}

func bashReserved() []string {
	return strings.Fields(`if then else elif fi case esac for while until do done in function select time coproc
		declare typeset local readonly export unset`)
}

func javaScriptReserved() []string {
	return strings.Fields(`arguments await break case catch class const continue debugger default delete do else enum
		eval export extends false finally for function if implements import in instanceof interface let new null
		package private protected public return static super switch this throw true try typeof var void while with
		yield`)
}
