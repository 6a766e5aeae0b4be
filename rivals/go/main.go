// The workloads of `gleaner-bench native` in Go; one line of JSON at the end.
//
// The same objects, stores and numbers in the same order. The heap's size is Go's memory limit, which is soft: a
// program that needs more gets more, and collects all the time. Collections are started by the limit alone (GOGC=off).
// The number of workers is GOMAXPROCS, since Go's collector runs beside the program and on its threads; several mutators
// are goroutines on as many threads.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type chosen struct {
	name                               string
	heap, workers, threads, iterations int
	tiny, wasteful                     bool
	input                              string
}

// times of an iteration, in seconds.
type times struct {
	Wall float64 `json:"wall_s"`
	CPU  float64 `json:"cpu_s"`
}

// facts are what some workloads say beside the fields of all.
type facts struct {
	Transactions     uint64  `json:"transactions,omitempty"`
	TransactionsPerS float64 `json:"transactions_per_s,omitempty"`
	QueriesPerS      float64 `json:"queries_per_s,omitempty"`
}

type line struct {
	Benchmark string `json:"benchmark"`
	Result    string `json:"result"`
	times
	PeakKB      int64   `json:"peak_kb"`
	Collections uint32  `json:"collections"`
	TotalPause  float64 `json:"total_pause_s"`
	Mutators    int     `json:"mutators"`
	facts
	Iterations []times `json:"iterations,omitempty"`
}

// work runs once; a number made of what it comes to.
type work func(out *facts) uint64

// workload: how many mutators it has unless told, or always, and which options it knows.
type workload struct {
	threads              int
	one, wasteful, input bool
	prepare              func(what chosen) (work, error)
}

var workloads = map[string]workload{
	"gcbench":    alone(func(tiny bool) uint64 { return gcbench(tiny, false) }),
	"holes":      alone(func(tiny bool) uint64 { return gcbench(tiny, true) }),
	"queue":      alone(queue),
	"refarray":   alone(refarray),
	"quads":      alone(quads),
	"cipher":     alone(cipher),
	"ephemerons": {threads: 1, prepare: func(chosen) (work, error) { return nil, errors.New("Go has no ephemerons") }},
	"finalizers": together(1, finalizers),
	"jbb": {threads: 2, prepare: func(what chosen) (work, error) {
		return func(out *facts) uint64 { return jbb(what, out) }, nil
	}},
	"index":    {threads: 2, prepare: prepareIndex, wasteful: true, input: true},
	"xml":      {threads: 1, prepare: prepareXML, input: true},
	"producer": together(4, producer),
	"agents":   together(16, agents),
	"render":   together(runtime.NumCPU(), render),
	"tiny":     together(16, tiny),
}

// alone is a workload of one mutator.
func alone(run func(tiny bool) uint64) workload {
	return workload{threads: 1, one: true, prepare: func(what chosen) (work, error) {
		return func(*facts) uint64 { return run(what.tiny) }, nil
	}}
}

// together is a workload that has this number of mutators unless it is told another one.
func together(threads int, run func(what chosen) uint64) workload {
	return workload{threads: threads, prepare: func(what chosen) (work, error) {
		return func(*facts) uint64 { return run(what) }, nil
	}}
}

func main() {
	what, err := read(os.Args[1:])
	stopOn(err, 2)
	runtime.GOMAXPROCS(what.workers)
	work, err := workloads[what.name].prepare(what)
	stopOn(err, 2)
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(int64(what.heap) << 20)
	out, err := json.Marshal(run(what, work))
	stopOn(err, 1)
	fmt.Println(string(out))
}

func stopOn(err error, status int) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(status)
	}
}

func run(what chosen, work work) line {
	var result uint64
	var iterations []times
	var out facts
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := now()
	for i := 0; i < what.iterations; i++ {
		start := now()
		result = work(&out)
		iterations = append(iterations, now().since(start))
	}
	whole := now().since(start)
	if what.iterations == 1 {
		iterations = nil
	}
	runtime.ReadMemStats(&after)
	return line{
		Benchmark:   what.name,
		Result:      fmt.Sprintf("%016x", result),
		times:       whole,
		PeakKB:      peakKB(),
		Collections: after.NumGC - before.NumGC,
		TotalPause:  float64(after.PauseTotalNs-before.PauseTotalNs) * 1e-9,
		Mutators:    what.threads,
		facts:       out,
		Iterations:  iterations,
	}
}

func workloadNames() []string {
	var names []string
	for name := range workloads {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func read(words []string) (chosen, error) {
	if len(words) == 0 || workloads[words[0]].prepare == nil {
		return chosen{}, fmt.Errorf("the first argument is one of %s", strings.Join(workloadNames(), ", "))
	}
	what, workload := chosen{name: words[0], iterations: 1}, workloads[words[0]]
	if given := os.Getenv("ITERATIONS"); given != "" {
		number, err := strconv.Atoi(given)
		if err != nil {
			return what, fmt.Errorf("ITERATIONS: %s is no number", given)
		}
		what.iterations = number
	}
	flags := flag.NewFlagSet("go", flag.ExitOnError)
	flags.IntVar(&what.heap, "heap", 113, "size of the heap in `MB`")
	flags.IntVar(&what.workers, "workers", 2, "threads that run the mutators and the collector")
	flags.IntVar(&what.threads, "threads", workload.threads, "mutators")
	flags.IntVar(&what.iterations, "iterations", what.iterations, "runs so often in one process")
	flags.BoolVar(&what.tiny, "tiny", false, "does a thousandth, for a test")
	flags.BoolVar(&what.wasteful, "wasteful", false, "index allocates all buffers and lists of a query anew")
	flags.StringVar(&what.input, "input", "", "a directory of texts for index, a document for xml, instead of Debian's, at `PATH`")
	compressed := flags.Bool("compressed", false, "refused")
	if err := flags.Parse(words[1:]); err != nil {
		return what, err
	}
	switch {
	case *compressed:
		return what, errors.New("--compressed: no such thing: a pointer of Go has 8 bytes")
	case flags.NArg() > 0:
		return what, fmt.Errorf("%s: expected options, as --help lists them", flags.Arg(0))
	case what.wasteful && !workload.wasteful:
		return what, fmt.Errorf("--wasteful is for index, not for %s", what.name)
	case what.input != "" && !workload.input:
		return what, fmt.Errorf("--input is for index and xml, not for %s", what.name)
	case what.threads != 1 && workload.one:
		return what, fmt.Errorf("--threads %d: %s has one mutator", what.threads, what.name)
	case what.threads < 1 || what.threads > 256:
		return what, errors.New("--threads is 1 to 256")
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
