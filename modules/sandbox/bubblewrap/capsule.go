package bubblewrap

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// capsule implements sandbox.Capsule: one interpreter in a cell of its own.
type capsule struct {
	driver  *Driver
	cell    *guest.Cell
	session guest.Session

	once sync.Once
	err  error
}

// start brings an interpreter to the point where it waits for a job.
func (c *capsule) start(ctx context.Context, bwrap string) (err error) {
	d := c.driver
	runtime, err := d.host.Compiled(ctx, bwrap)
	if err != nil {
		return err
	}
	c.cell, err = guest.StartCell(ctx, guest.CellConfig{
		Bwrap: bwrap, Options: c.options(runtime), Filters: d.host.Filters, ID: c.session.Slot.ID, Spawner: d.host.Spawner,
		Command: []string{"/usr/bin/python3", "-I", guest.Entry, strings.Join(d.host.Preload, ",")},
	})
	if err != nil {
		return err
	}
	c.session.Tree, c.session.Control, c.session.Stdout, c.session.Stderr = c.cell, c.cell.Control, c.cell.Stdout, c.cell.Stderr
	if err := c.session.Ready(ctx); err != nil {
		return c.cell.Explain(ctx, err)
	}
	if err := c.session.Bound(d.host.Groups, c.cell.PID()); err != nil {
		return err
	}
	_, err = c.session.Observe(c.cell.Init(), 0)
	return err
}

// options are bwrap's.
func (c *capsule) options(runtime string) []string {
	disk := strconv.FormatInt(c.driver.host.Limits.Disk, 10)
	return append(guest.BaseOptions(c.driver.host.Root, runtime),
		"--disable-userns", "--cap-drop", "ALL",
		"--perms", "1777", "--size", disk, "--tmpfs", "/dev/shm",
		"--remount-ro", "/dev",
		"--size", disk, "--tmpfs", "/tmp",
		"--size", disk, "--tmpfs", sandbox.WorkDir,
		"--ro-bind", c.session.Slot.Run(), guest.SocketDir,
		"--remount-ro", "/run",
		"--ro-bind", c.session.Slot.Tools(), sandbox.ToolsDir,
		"--chdir", sandbox.WorkDir,
	)
}

// Run implements sandbox.Capsule.
func (c *capsule) Run(ctx context.Context, job sandbox.Job) (sandbox.Result, error) {
	return c.session.Run(ctx, job)
}

// Close implements sandbox.Capsule.
func (c *capsule) Close() error {
	c.once.Do(func() {
		c.session.Retire()
		if c.cell != nil {
			c.err = c.cell.Close()
		}
		c.err = errors.Join(c.err, c.session.Close())
		c.driver.host.Forget(c)
	})
	return c.err
}
