package gvisor

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

const (
	// answerTimeout bounds what takes the supervisor milliseconds.
	answerTimeout = 5 * time.Second
	// carryTimeout bounds one file on its way.
	carryTimeout = 30 * time.Second
	maxName      = 64 << 10
)

// supervisor speaks with process 1 of a sandbox. Nothing of it is believed that
// could harm the host: a program that broke its sandbox's kernel could speak
// for it.
type supervisor struct {
	conn    net.Conn
	answers chan frame
	ended   func(status syscall.WaitStatus, ok bool) // called once
	done    chan struct{}

	mu   sync.Mutex // one question at a time
	lost bool       // an answer did not come; later ones would be taken for others
}

// frame is a letter, a name and a body. Bodies are read by whoever takes the
// frame from answers.
type frame struct {
	kind byte
	name string
	body []byte
}

func newSupervisor(conn net.Conn, ended func(syscall.WaitStatus, bool)) *supervisor {
	k := &supervisor{conn: conn, answers: make(chan frame), ended: ended, done: make(chan struct{})}
	go k.read()
	return k
}

// read passes answers on, and tells about the end of the program, until the
// connection ends.
func (k *supervisor) read() {
	defer close(k.answers)
	told := false
	defer func() {
		if !told {
			k.ended(0, false)
		}
	}()
	for {
		f, err := readFrame(k.conn)
		if err != nil {
			return
		}
		if f.kind == 'X' && !told {
			told = true
			status, err := strconv.Atoi(f.name)
			k.ended(syscall.WaitStatus(status), err == nil)
			continue
		}
		select {
		case k.answers <- f:
		case <-k.done:
			return
		}
	}
}

// maxBody bounds what is read of one file; the driver's limits are lower.
const maxBody = 1 << 30

func readFrame(r io.Reader) (frame, error) {
	var head [13]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	n, size := binary.BigEndian.Uint32(head[1:5]), binary.BigEndian.Uint64(head[5:])
	if n > maxName || size > maxBody {
		return frame{}, fmt.Errorf("a frame of %d and %d bytes", n, size)
	}
	name := make([]byte, n)
	if _, err := io.ReadFull(r, name); err != nil {
		return frame{}, err
	}
	body := make([]byte, 0, min(size, 1<<20))
	for uint64(len(body)) < size { // grown as it arrives
		part := make([]byte, min(size-uint64(len(body)), 1<<20))
		if _, err := io.ReadFull(r, part); err != nil {
			return frame{}, err
		}
		body = append(body, part...)
	}
	return frame{head[0], string(name), body}, nil
}

// send writes a frame, within answerTimeout.
func (k *supervisor) send(f frame) error {
	if k.lost {
		return errLost
	}
	_ = k.conn.SetWriteDeadline(time.Now().Add(answerTimeout)) // a closed one fails below
	buffers := net.Buffers{head(f.kind, f.name, int64(len(f.body))), f.body}
	if _, err := buffers.WriteTo(k.conn); err != nil {
		k.lost = true
		return fmt.Errorf("sandbox supervisor: %w", err)
	}
	return nil
}

// begin writes the head of a frame whose body follows.
func (k *supervisor) begin(kind byte, name string, size int64) error {
	if k.lost {
		return errLost
	}
	if _, err := (patient{k.conn}).Write(head(kind, name, size)); err != nil {
		k.lost = true
		return fmt.Errorf("sandbox supervisor: %w", err)
	}
	return nil
}

func head(kind byte, name string, size int64) []byte {
	lengths := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(name))), uint64(size))
	return append(lengths, name...)
}

var errLost = errors.New("sandbox supervisor: it does not answer")

// next waits for an answer.
func (k *supervisor) next(timeout time.Duration) (frame, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case f, ok := <-k.answers:
		if ok {
			return f, nil
		}
	case <-timer.C:
	}
	k.lost = true
	return frame{}, errLost
}

// memory asks how much of the sandbox's memory is in use.
func (k *supervisor) memory() (int64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.send(frame{kind: 'M'}); err != nil {
		return 0, err
	}
	f, err := k.next(answerTimeout)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(f.name, 10, 64)
}

// listen makes the supervisor carry what comes to a TCP port of the sandbox's
// loopback to the tool socket.
func (k *supervisor) listen(port int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.send(frame{kind: 'L', name: strconv.Itoa(port)}); err != nil {
		return err
	}
	f, err := k.next(answerTimeout)
	if err == nil && f.name != "" {
		err = fmt.Errorf("sandbox supervisor: port %d: error %s", port, f.name)
	}
	return err
}

// stop asks for the end of the program; ended is called when it has come.
func (k *supervisor) stop() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.send(frame{kind: 'S'})
}

// Put implements guest.Files.
func (k *supervisor) Put(ctx context.Context, files []sandbox.File) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, file := range files {
		if err := k.carry(ctx, file); err != nil {
			return err
		}
		f, err := k.next(carryTimeout)
		if err != nil {
			return sandbox.ErrCapsuleGone.With(err)
		}
		if f.name == "" {
			continue
		}
		number, err := strconv.Atoi(f.name)
		if err != nil {
			return errLost
		}
		return guest.Unfit(syscall.Errno(number))
	}
	return nil
}

// carry sends one file.
func (k *supervisor) carry(ctx context.Context, file sandbox.File) error {
	from, size, err := file.Reader(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // it was only read
	kind := byte('W')
	if file.ReadOnly {
		kind = 'R'
	}
	if err := k.begin(kind, file.Path, size); err != nil {
		return sandbox.ErrCapsuleGone.With(err) // no user code ran
	}
	if err := guest.Carry(patient{k.conn}, from, size); err != nil {
		k.lost = true // the supervisor waits for the rest
		return err
	}
	return nil
}

// patient gives each piece of a file the time of a whole one.
type patient struct{ conn net.Conn }

// Write implements io.Writer.
func (p patient) Write(b []byte) (int, error) {
	_ = p.conn.SetWriteDeadline(time.Now().Add(carryTimeout)) // a closed one fails below
	return p.conn.Write(b)
}

// Take implements guest.Files.
func (k *supervisor) Take(limit sandbox.Collect) (files []sandbox.File, dropped int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ask, err := json.Marshal(map[string]int64{"files": int64(limit.MaxFiles), "bytes": limit.MaxBytes})
	if err != nil || k.send(frame{kind: 'T', name: string(ask)}) != nil {
		return nil, 1
	}
	room := limit.MaxBytes
	for {
		f, err := k.next(carryTimeout)
		if err != nil {
			return files, dropped + 1
		}
		if f.kind == 'E' {
			more, err := strconv.Atoi(f.name)
			if err != nil || more < 0 {
				more = 1
			}
			return files, dropped + more
		}
		room -= int64(len(f.body))
		if room < 0 || len(files) >= limit.MaxFiles || !guest.UsablePath(f.name) {
			k.lost = true // it does not keep to what was agreed
			return files, dropped + 1
		}
		file := sandbox.File{Path: f.name, Content: f.body}
		if same, err := limit.Same(f.name, int64(len(f.body)), bytes.NewReader(f.body)); err == nil && same {
			file.Content, file.Unchanged = nil, true
		}
		files = append(files, file)
	}
}

// Close implements guest.Files. It returns when nothing reads any more.
func (k *supervisor) Close() {
	close(k.done)
	k.conn.Close()
	for range k.answers { // what nobody asked for
	}
}
