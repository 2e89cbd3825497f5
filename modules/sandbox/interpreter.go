package sandbox

// Interpreter is the Code of a job that runs cells, one after the other with
// the same names, until its gateway has none any more. The job must have a
// Gateway, which answers CellPath.
const Interpreter = "from portico_runtime import repl\nrepl.serve(globals())\n"

// Cell is a piece of Python for an interpreter.
type Cell struct {
	Code string `json:"code"`
	// Timeout is the limit of the cell, in seconds. Its variables outlive it.
	Timeout float64 `json:"timeout"`
	// Stubs replace those of the cells before, unless they are nil.
	Stubs []Stub `json:"stubs"`
	// Files are written to WorkDir first.
	Files []CellFile `json:"files"`
}

// CellFile is a file on its way in or out.
type CellFile struct {
	Path    string `json:"path"`
	Content []byte `json:"content"`
}

// Report is what became of a cell. It comes from the program's side, so that
// nothing in it is to be believed more than what a program prints.
type Report struct {
	Status string `json:"status"` // completed, failed, timed_out or exited
	Exit   int    `json:"exit"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	// Files are those that the cell wrote or changed; Dropped counts those that
	// were too large or not readable.
	Files   []CellFile `json:"files"`
	Dropped int        `json:"dropped"`
	// Missing are the files of the cell that could not be written.
	Missing []string `json:"missing"`
}
