// What Go's runtime asks of a kernel: threads, timers, the network poller, signals, children,
// and a garbage collector that runs beside it all. Prints the same on every machine.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	socket = "runtime.socket"
	ends   = 7
)

func check(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

// One more goroutine to wait for: older releases have no WaitGroup.Go.
func spawn(all *sync.WaitGroup, body func()) {
	all.Add(1)
	go func() {
		defer all.Done()
		body()
	}()
}

// Sleeps side by side, not one after the other.
func sleeps() {
	start := time.Now()
	var all sync.WaitGroup
	for n := 0; n < 100; n++ {
		spawn(&all, func() { time.Sleep(50 * time.Millisecond) })
	}
	all.Wait()
	passed := time.Since(start)
	fmt.Println("slept", passed >= 50*time.Millisecond, passed < 5*time.Second)
}

// A number through a chain of goroutines, each of which adds one.
func chain() {
	first := make(chan int)
	last := first
	for n := 0; n < 10_000; n++ {
		from, to := last, make(chan int)
		go func() { to <- 1 + <-from }()
		last = to
	}
	first <- 0
	fmt.Println("chain", <-last)
}

// Clients and servers that wait in the network poller.
func polls() {
	listener, err := net.Listen("unix", socket)
	check(err)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					fmt.Fprintln(conn, len(lines.Text()))
				}
			}()
		}
	}()
	var all sync.WaitGroup
	var answered int64
	for client := 0; client < 50; client++ {
		spawn(&all, func() {
			conn, err := net.Dial("unix", socket)
			check(err)
			defer conn.Close()
			answers := bufio.NewReader(conn)
			for n := 0; n < 100; n++ {
				fmt.Fprintf(conn, "%0*d\n", n+2, client)
				line, err := answers.ReadString('\n')
				check(err)
				if line == fmt.Sprintln(n+2) {
					atomic.AddInt64(&answered, 1)
				}
			}
		})
	}
	all.Wait()
	fmt.Println("answered", answered)
	conn, err := net.Dial("unix", socket)
	check(err)
	defer conn.Close()
	check(conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond)))
	_, err = conn.Read(make([]byte, 1))
	fmt.Println("deadline", errors.Is(err, os.ErrDeadlineExceeded))
}

type tree struct{ left, right *tree }

func grow(depth int) *tree {
	if depth == 0 {
		return nil
	}
	return &tree{grow(depth - 1), grow(depth - 1)}
}

func (t *tree) count() int {
	if t == nil {
		return 0
	}
	return 1 + t.left.count() + t.right.count()
}

// Trees of which most are garbage at once, while the collector runs.
func collects() {
	var all sync.WaitGroup
	var nodes int64
	for worker := 0; worker < 4; worker++ {
		spawn(&all, func() {
			kept := grow(14)
			for n := 0; n < 20; n++ {
				atomic.AddInt64(&nodes, int64(grow(12).count()))
			}
			atomic.AddInt64(&nodes, int64(kept.count()))
		})
	}
	all.Wait()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	fmt.Println("nodes", nodes, "collected", stats.NumGC > 1)
}

func signals() {
	came := make(chan os.Signal, 1)
	signal.Notify(came, syscall.SIGUSR1)
	check(syscall.Kill(os.Getpid(), syscall.SIGUSR1))
	fmt.Println("signal", <-came)
	err := exec.Command(os.Args[0], "child").Run()
	var exit *exec.ExitError
	fmt.Println("child", errors.As(err, &exit) && exit.ExitCode() == 5)
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "child" {
		os.Exit(5)
	}
	fmt.Println("hello")
	for _, part := range []func(){sleeps, chain, polls, collects, signals} {
		part()
	}
	os.Exit(ends)
}
