package instance

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Usage is what a server occupies.
type Usage struct {
	RSS, PSS int64 // bytes, of the server's own process
	// Tree is the PSS of the server and all processes below it.
	Tree                    int64
	Descriptors, Goroutines int
}

// Usage looks at the server.
func (s *Server) Usage(ctx context.Context) (u Usage, err error) {
	own, err := memory(s.PID())
	if err != nil {
		return u, err
	}
	u.RSS, u.PSS = own["Rss"], own["Pss"]
	pids, err := Below(s.PID())
	if err != nil {
		return u, err
	}
	for _, pid := range pids {
		if m, err := memory(pid); err == nil { // otherwise it has ended
			u.Tree += m["Pss"]
		}
	}
	descriptors, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.PID()))
	if err != nil {
		return u, err
	}
	u.Descriptors = len(descriptors)
	u.Goroutines, err = s.goroutines(ctx)
	return u, err
}

func (s *Server) goroutines(ctx context.Context) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			return strconv.Atoi(rest)
		}
	}
	return 0, fmt.Errorf("go_goroutines is not among the metrics (%s)", resp.Status)
}

// memory is the sum of a process' mappings, in bytes, by its name.
func memory(pid int) (map[string]int64, error) {
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return nil, err
	}
	m := map[string]int64{}
	for lines := bufio.NewScanner(bytes.NewReader(rollup)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value, found := strings.CutSuffix(strings.TrimSpace(value), " kB")
		if !found {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil {
			return nil, err
		}
		m[name] = kib << 10
	}
	return m, nil
}

// Resident is what a process and all below it have in memory, in bytes. Pages
// that they share count more than once.
func Resident(pid int) int64 {
	pids, err := Below(pid)
	if err != nil {
		return 0
	}
	var sum int64
	for _, pid := range pids {
		statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			continue // it has ended
		}
		if fields := strings.Fields(string(statm)); len(fields) > 1 {
			pages, _ := strconv.ParseInt(fields[1], 10, 64) // the kernel writes numbers
			sum += pages * int64(os.Getpagesize())
		}
	}
	return sum
}

// Below lists a process and all that descend from it.
func Below(root int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, err
		}
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, err
		}
		children[parent] = append(children[parent], pid)
	}
	all := []int{root}
	for n := 0; n < len(all); n++ {
		all = append(all, children[all[n]]...)
	}
	return all, nil
}
