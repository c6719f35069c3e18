//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// machine is what the figures depend on.
type machine struct {
	Kernel     string  `json:"kernel"`
	Cores      int     `json:"cores"`
	CPU        string  `json:"cpu"`
	Memory     string  `json:"memory"`
	FileSystem string  `json:"fileSystem"`
	FsyncMs    float64 `json:"fsyncMs"`
	LoadBefore string  `json:"loadBefore"`
	LoadAfter  string  `json:"loadAfter"`
}

func describeMachine(dir string) (machine, error) {
	m := machine{Cores: runtime.NumCPU(), LoadBefore: loadAverage(), CPU: valueIn("/proc/cpuinfo", "model name"), Memory: valueIn("/proc/meminfo", "MemTotal") + " memory"}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return m, err
	}
	m.Kernel = unix.ByteSliceToString(uts.Release[:])
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return m, err
	}
	names := map[int64]string{unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay"}
	if m.FileSystem = names[int64(fs.Type)]; m.FileSystem == "" {
		m.FileSystem = fmt.Sprintf("%#x", fs.Type)
	}
	var err error
	m.FsyncMs, err = fsyncTime(dir)
	return m, err
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(b)); err == nil && len(f) > 3 {
		return strings.Join(f[:3], " ")
	}
	return "unknown"
}

// busyTime is the CPU time of the whole machine that was not idle, and not waiting for the disk, since it started.
func busyTime() (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseBusy(string(b))
}

// parseBusy adds up the first line: user, nice, system, (idle, iowait,) irq, softirq, steal in ticks of 10 ms.
func parseBusy(stat string) (time.Duration, error) {
	line, _, _ := strings.Cut(stat, "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var ticks int64
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		n, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// valueIn is the value of the first "key: value" line.
func valueIn(file, key string) string {
	b, _ := os.ReadFile(file)
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}

// fsyncTime is the median of writes of 4 KiB with fdatasync into allocated space, in ms.
func fsyncTime(dir string) (float64, error) {
	f, err := os.CreateTemp(dir, "fsync-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	const n = 100
	buf := make([]byte, 4096)
	if err := unix.Fallocate(int(f.Fd()), 0, 0, n*int64(len(buf))); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	var all []float64
	for i := range int64(n) {
		for k := range buf {
			buf[k] = byte(rand.Uint32())
		}
		begin := time.Now()
		if _, err := f.WriteAt(buf, i*int64(len(buf))); err != nil {
			return 0, err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
		all = append(all, time.Since(begin).Seconds()*1000)
	}
	return median(all), nil
}

// touchMemory uses the machine's free memory once. Memory that a virtual machine has not touched yet is slow the first time, for whoever comes first.
func touchMemory(limit int64) error {
	var si unix.Sysinfo_t
	if err := unix.Sysinfo(&si); err != nil {
		return err
	}
	n := min(int64(si.Freeram)*int64(si.Unit)*8/10, limit)
	if n <= 0 {
		return nil
	}
	b, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	return unix.Munmap(b)
}

// dropCached drops the files of a topic from the page cache, once they are on the disk.
func dropCached(dataDir, topic string) error {
	files, err := filepath.Glob(filepath.Join(dataDir, topic+"-*", "*.log"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no files of topic %s under %s (%w)", topic, dataDir, err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = syscall.Fdatasync(int(f.Fd()))
		if err == nil {
			err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
		}
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// raiseFileLimit lets this process and the brokers have many connections.
func raiseFileLimit(n uint64) error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return err
	}
	if l.Cur = l.Max; l.Max < n {
		return fmt.Errorf("only %d open files are allowed, %d are needed", l.Max, n)
	}
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
}
