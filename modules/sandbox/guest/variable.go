package guest

import "io/fs"

// VariableHelper is the Python text, for a sandbox that is not ours, of the
// function portico_variable(answer, names=None). It makes what load_file
// returns a variable; portico_runtime.variable is the same.
func VariableHelper() (string, error) {
	text, err := fs.ReadFile(runtimeFiles, "runtime/portico_runtime/variable.py")
	return string(text), err
}
