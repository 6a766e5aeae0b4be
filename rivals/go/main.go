// The workloads of `gleaner-bench native` in Go; one line of JSON at the end.
//
// The same objects, stores and numbers in the same order. The heap's size is Go's memory limit, which is soft: a
// program that needs more gets more, and collects all the time. Collections are started by the limit alone (GOGC=off).
// The number of threads is GOMAXPROCS, since Go's collector runs beside the program and on its threads.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type chosen struct {
	name                      string
	heap, workers, iterations int
	tiny                      bool
}

// times of an iteration, in seconds.
type times struct {
	Wall float64 `json:"wall_s"`
	CPU  float64 `json:"cpu_s"`
}

type line struct {
	Benchmark string `json:"benchmark"`
	Result    string `json:"result"`
	times
	PeakKB      int64   `json:"peak_kb"`
	Collections uint32  `json:"collections"`
	TotalPause  float64 `json:"total_pause_s"`
	Iterations  []times `json:"iterations,omitempty"`
}

var workloads = map[string]func(tiny bool) uint64{
	"gcbench":  func(tiny bool) uint64 { return gcbench(tiny, false) },
	"holes":    func(tiny bool) uint64 { return gcbench(tiny, true) },
	"queue":    queue,
	"refarray": refarray,
	"quads":    quads,
	"cipher":   cipher,
}

func main() {
	what, err := read(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	runtime.GOMAXPROCS(what.workers)
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(int64(what.heap) << 20)
	out, err := json.Marshal(run(what))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(string(out))
}

func run(what chosen) line {
	var result uint64
	var iterations []times
	start := now()
	for i := 0; i < what.iterations; i++ {
		start := now()
		result = workloads[what.name](what.tiny)
		iterations = append(iterations, now().since(start))
	}
	whole := now().since(start)
	if what.iterations == 1 {
		iterations = nil
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return line{
		Benchmark:   what.name,
		Result:      fmt.Sprintf("%016x", result),
		times:       whole,
		PeakKB:      peakKB(),
		Collections: memory.NumGC,
		TotalPause:  float64(memory.PauseTotalNs) * 1e-9,
		Iterations:  iterations,
	}
}

func read(words []string) (chosen, error) {
	if len(words) == 0 || workloads[words[0]] == nil {
		return chosen{}, errors.New("the first argument is gcbench, holes, queue, refarray, quads or cipher")
	}
	what := chosen{name: words[0], iterations: 1}
	if given := os.Getenv("ITERATIONS"); given != "" {
		number, err := strconv.Atoi(given)
		if err != nil {
			return what, fmt.Errorf("ITERATIONS: %s is no number", given)
		}
		what.iterations = number
	}
	flags := flag.NewFlagSet("go", flag.ExitOnError)
	flags.IntVar(&what.heap, "heap", 113, "size of the heap in `MB`")
	flags.IntVar(&what.workers, "workers", 2, "threads")
	flags.IntVar(&what.iterations, "iterations", what.iterations, "runs so often in one process")
	flags.BoolVar(&what.tiny, "tiny", false, "does a thousandth, for a test")
	compressed := flags.Bool("compressed", false, "refused")
	if err := flags.Parse(words[1:]); err != nil {
		return what, err
	}
	switch {
	case *compressed:
		return what, errors.New("--compressed: no such thing: a pointer of Go has 8 bytes")
	case flags.NArg() > 0:
		return what, fmt.Errorf("%s: expected --heap MB, --workers N, --iterations K or --tiny", flags.Arg(0))
	case what.heap < 1 || what.workers < 1 || what.iterations < 1 || what.iterations > 1000:
		return what, errors.New("--heap and --workers are at least 1, --iterations 1 to 1000")
	}
	return what, nil
}

// moment: what the clocks say, in seconds.
type moment struct{ wall, cpu float64 }

var began = time.Now()

func now() moment {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	cpu := time.Duration(used.Utime.Nano() + used.Stime.Nano())
	return moment{time.Since(began).Seconds(), cpu.Seconds()}
}

func (to moment) since(from moment) times {
	return times{to.wall - from.wall, to.cpu - from.cpu}
}

// peakKB is the kernel's high-water mark of resident memory; 0 if unknown.
func peakKB() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(status), "\n") {
		if words := strings.Fields(line); len(words) == 3 && words[0] == "VmHWM:" {
			kb, _ := strconv.ParseInt(words[1], 10, 64)
			return kb
		}
	}
	return 0
}
