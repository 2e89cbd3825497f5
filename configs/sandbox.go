package configs

import "time"

// Drivers of the sandbox.
const (
	ForkServer = "forkserver"
	Bubblewrap = "bubblewrap"
	GVisor     = "gvisor"
	Remote     = "remote"
)

// Sandbox is where programs run, and the limits of one execution.
type Sandbox struct {
	S3Lib  S3Lib  `key:"s3lib"`
	Nodes  Nodes  `key:"nodes"`
	Claims Claims `key:"claims"`
	// Root is the Python root file system; empty for the default place.
	Root string `key:"root" env:"SANDBOX_ROOT"`
	// RunDir is the parent of the directories of running sandboxes; empty for
	// the system's temporary directory.
	RunDir string `key:"runDir" env:"SANDBOX_RUN_DIR"`
	// Driver is "forkserver", "bubblewrap", "gvisor" or "remote".
	Driver string `key:"driver" env:"SANDBOX_DRIVER"`
	// Runsc is the path of gVisor's runsc; empty to find it in PATH.
	Runsc string `key:"runsc" env:"SANDBOX_RUNSC"`
	// Preload are Python modules that interpreters import before a program
	// comes; empty for the driver's own choice.
	Preload []string `key:"preload" env:"SANDBOX_PRELOAD"`
	// Isolation is the level below which a production server does not start:
	// none, namespaces or kernel; see package isolation.
	Isolation string `key:"isolation" env:"SANDBOX_ISOLATION"`
	// Pool is how many idle interpreters are kept warm, at least. MaxPool is
	// how many when there is demand; 0 follows from the memory of the machine.
	// What a burst added is gone some seconds after it.
	Pool    int `key:"pool" env:"SANDBOX_POOL"`
	MaxPool int `key:"maxPool" env:"SANDBOX_MAX_POOL"`
	// MaxConcurrent and MaxQueue bound the executions that run and that wait.
	MaxConcurrent int `key:"maxConcurrent" env:"SANDBOX_MAX_CONCURRENT"`
	MaxQueue      int `key:"maxQueue" env:"SANDBOX_MAX_QUEUE"`
	// MaxPaused bounds the executions that wait for somebody outside, and with
	// them those that will and wait for their first turn.
	MaxPaused int `key:"maxPaused" env:"SANDBOX_MAX_PAUSED"`
	// MaxPerUser, MaxQueuePerUser and MaxPausedPerUser are one user's share of
	// these; 0 is a quarter, rounded up.
	MaxPerUser       int `key:"maxPerUser" env:"SANDBOX_MAX_PER_USER"`
	MaxQueuePerUser  int `key:"maxQueuePerUser" env:"SANDBOX_MAX_QUEUE_PER_USER"`
	MaxPausedPerUser int `key:"maxPausedPerUser" env:"SANDBOX_MAX_PAUSED_PER_USER"`
	// Timeout is the wall clock of an execution that asks for none;
	// MaxTimeout is the most it may ask for, at most five minutes.
	Timeout    time.Duration `key:"timeout" env:"SANDBOX_TIMEOUT_MS"`
	MaxTimeout time.Duration `key:"maxTimeout" env:"SANDBOX_MAX_TIMEOUT_MS"`
	// Memory is what one execution may use beyond its interpreter, Disk the size of the
	// scratch file systems, FileSize that of one file, Output what is kept of
	// each output stream.
	Memory    int64 `key:"memory" env:"SANDBOX_MEMORY"`
	Disk      int64 `key:"disk" env:"SANDBOX_DISK"`
	FileSize  int64 `key:"fileSize" env:"SANDBOX_FILE_SIZE"`
	Output    int64 `key:"output" env:"SANDBOX_OUTPUT"`
	Processes int   `key:"processes" env:"SANDBOX_PROCESSES"`
	OpenFiles int   `key:"openFiles" env:"SANDBOX_OPEN_FILES"`
}
