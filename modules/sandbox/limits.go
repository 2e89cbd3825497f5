package sandbox

import "fmt"

// Limits bound what one execution can use. A zero field takes its default.
type Limits struct {
	// Memory is the address space of one process and the real memory of the
	// whole execution, its files included, in bytes. Default 512 MiB.
	Memory int64
	// FileSize is the largest file the program can write, in bytes. Default
	// 64 MiB.
	FileSize int64
	// Disk is the size of /tmp and of /mnt/data each, in bytes. Both live in
	// memory. Default 128 MiB.
	Disk int64
	// Output is how much of each of stdout and stderr is kept, in bytes.
	// Default 1 MiB.
	Output int64
	// Processes counts processes and threads together. Default 64.
	Processes int
	// OpenFiles is the number of descriptors of one process. Default 256.
	OpenFiles int
	// Inodes is the number of files and folders in one writable folder.
	// Default 10000.
	Inodes int
}

// The smallest limits with which the interpreter itself still starts.
const (
	minMemory    = 128 << 20
	minProcesses = 8
	minOpenFiles = 32
)

// WithDefaults returns l with every zero field set to its default.
func (l Limits) WithDefaults() Limits {
	set := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	setInt := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&l.Memory, 512<<20)
	set(&l.FileSize, 64<<20)
	set(&l.Disk, 128<<20)
	set(&l.Output, 1<<20)
	setInt(&l.Processes, 64)
	setInt(&l.OpenFiles, 256)
	setInt(&l.Inodes, 10_000)
	return l
}

// Validate names the first limit that no program can work under.
func (l Limits) Validate() error {
	for _, c := range []struct {
		name     string
		value    int64
		smallest int64
	}{
		{"memory", l.Memory, minMemory},
		{"file size", l.FileSize, 1},
		{"disk", l.Disk, 1 << 12},
		{"output", l.Output, 1},
		{"processes", int64(l.Processes), minProcesses},
		{"open files", int64(l.OpenFiles), minOpenFiles},
		{"inodes", int64(l.Inodes), 16},
	} {
		if c.value < c.smallest {
			return fmt.Errorf("sandbox limit %s is %d, must be at least %d", c.name, c.value, c.smallest)
		}
	}
	return nil
}
