package forkserver

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// slotsDir is where the fork-server sees the folders of its children.
const slotsDir = "/run/portico-slots"

// nursery is a running fork-server. It is used by one goroutine at a time.
type nursery struct {
	cell     *guest.Cell
	slot     *guest.Slot
	children *guest.Children
}

// answerTimeout bounds what takes milliseconds.
const answerTimeout = 30 * time.Second

func startNursery(ctx context.Context, d *Driver, bwrap string, slot *guest.Slot) (n *nursery, err error) {
	n = &nursery{slot: slot}
	if n.children, err = slot.Children(); err != nil {
		return nil, errors.Join(err, slot.Release())
	}
	runtime, err := d.host.Compiled(ctx, bwrap)
	if err != nil {
		return nil, errors.Join(err, slot.Release())
	}
	disk := fmt.Sprint(d.host.Limits.Disk)
	options := append(guest.BaseOptions(d.host.Root, runtime),
		// Which puts each program into the namespaces of its own sandbox. A
		// program has none of it: what counts there is a user namespace below.
		"--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN",
		"--size", disk, "--tmpfs", "/dev/shm",
		"--remount-ro", "/dev",
		"--size", disk, "--tmpfs", "/tmp",
		"--dir", guest.SocketDir,
		"--ro-bind", n.children.Dir(), slotsDir,
		"--remount-ro", "/run",
		"--chdir", "/",
	)
	n.cell, err = guest.StartCell(ctx, guest.CellConfig{
		Bwrap: bwrap, Options: options, ID: slot.ID, Spawner: d.host.Spawner,
		Command: []string{"/usr/bin/python3", "-I", guest.ForkEntry, strings.Join(d.host.Preload, ",")},
	})
	if err != nil {
		return nil, errors.Join(err, slot.Release())
	}
	if err := n.greet(ctx, d.host.Filters); err != nil {
		return nil, errors.Join(n.cell.Explain(ctx, err), n.Close())
	}
	return n, nil
}

// greet sends the filters and waits until children can be made.
func (n *nursery) greet(ctx context.Context, filters [][]byte) error {
	texts := make([]string, len(filters))
	for i, f := range filters {
		texts[i] = base64.StdEncoding.EncodeToString(f)
	}
	body, err := json.Marshal(texts)
	if err != nil {
		return err
	}
	defer n.deadline(ctx)()
	if _, err := n.cell.Control.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		return err
	}
	return n.expect('R')
}

// deadline bounds one exchange, and returns what ends that.
func (n *nursery) deadline(ctx context.Context) (stop func()) {
	_ = n.cell.Control.SetDeadline(time.Now().Add(answerTimeout)) // a closed one fails in the exchange
	end := context.AfterFunc(ctx, func() { _ = n.cell.Control.SetDeadline(time.Unix(1, 0)) })
	return func() { end() }
}

func (n *nursery) expect(want byte) error {
	var got [1]byte
	if _, err := io.ReadFull(n.cell.Control, got[:]); err != nil {
		return err
	}
	if got[0] != want {
		return fmt.Errorf("the fork-server said %q, not %q", got[0], want)
	}
	return nil
}

type forkRequest struct {
	Slot   int   `json:"slot"`
	Disk   int64 `json:"disk"`
	Inodes int   `json:"inodes"`
}

// fork makes a child. After an error the fork-server is of no more use.
func (n *nursery) fork(ctx context.Context, d *Driver) (*capsule, error) {
	number, slot, err := n.children.Take()
	if err != nil {
		return nil, err
	}
	c := &capsule{driver: d, exited: make(chan struct{}), code: -1}
	c.session = guest.Session{Tree: c, Slot: slot, Limits: d.host.Limits, Poller: d.host.Poller}
	theirs, err := c.open()
	defer closeAll(theirs)
	if err != nil {
		return nil, errors.Join(err, c.session.Close())
	}
	text, err := json.Marshal(forkRequest{Slot: number, Disk: d.host.Limits.Disk, Inodes: d.host.Limits.Inodes})
	if err == nil {
		defer n.deadline(ctx)()
		err = n.send(text, theirs)
	}
	if err == nil {
		err = n.expect('F')
	}
	closeAll(theirs) // or their pipes would never end
	if err != nil {
		return nil, errors.Join(n.cell.Explain(ctx, fmt.Errorf("fork: %w", err)), c.session.Close())
	}
	return c, nil
}

func (n *nursery) send(text []byte, files []*os.File) error {
	conn, ok := n.cell.Control.(*net.UnixConn)
	if !ok {
		return errors.New("the fork-server has no socket")
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	_, _, err := conn.WriteMsgUnix(text, unix.UnixRights(fds...), nil)
	return err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // twice is no harm
	}
}

// Close kills the fork-server and all its children.
func (n *nursery) Close() error {
	return errors.Join(n.cell.Close(), n.slot.Release())
}

var _ sandbox.Capsule = (*capsule)(nil)
