package main

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// idleMemory is what one more idle interpreter costs: the median, over the
// process namespaces below this process, of the memory that their Python
// processes have alone. Where a kernel of their own hides them, it is their part
// of everything below this process.
func idleMemory(pool int) (int64, error) {
	parents, names := map[int]int{}, map[int]string{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		fields := strings.Fields(string(stat[end+1:]))
		names[pid] = string(stat[open+1 : end])
		if parents[pid], err = strconv.Atoi(fields[1]); err != nil {
			return 0, err
		}
	}
	// An interpreter is what has a process namespace of its own, with its process
	// 1. The fork-server is one more, and does not change the median.
	namespaces := map[string]int64{}
	for pid := range parents {
		if !strings.HasPrefix(names[pid], "python") || !below(parents, pid, os.Getpid()) {
			continue
		}
		namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
		if err != nil {
			continue // it has ended
		}
		if cost, err := share(pid); err == nil {
			namespaces[namespace] += cost
		}
	}
	costs := slices.Collect(maps.Values(namespaces))
	if len(costs) == 0 {
		var all int64
		for pid := range parents {
			if below(parents, pid, os.Getpid()) {
				cost, _ := share(pid) // it has ended
				all += cost
			}
		}
		return all / int64(pool), nil
	}
	slices.Sort(costs)
	return costs[len(costs)/2], nil
}

func below(parents map[int]int, pid, ancestor int) bool {
	for p := parents[pid]; p > 1; p = parents[p] {
		if p == ancestor {
			return true
		}
	}
	return false
}

// share is the memory that is a process' own, in bytes.
func share(pid int) (own int64, err error) {
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(rollup)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if name != "Private_Clean" && name != "Private_Dirty" {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
		if err != nil {
			return 0, err
		}
		own += kib << 10
	}
	return own, nil
}
