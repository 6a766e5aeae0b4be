package main

import (
	"sync"
	"syscall"
	"unsafe"
)

// mutate runs body on as many mutators as threads says, with their numbers from 0, and gives what it returns in that
// order. One mutator is the calling goroutine.
func mutate[R any](threads int, body func(number int) R) []R {
	results := make([]R, threads)
	if threads == 1 {
		results[0] = body(0)
		return results
	}
	var all sync.WaitGroup
	all.Add(threads)
	for number := range results {
		go func(number int) {
			defer all.Done()
			results[number] = body(number)
		}(number)
	}
	all.Wait()
	return results
}

// added is the sum of what mutators return.
func added(results []uint64) uint64 {
	sum := uint64(0)
	for _, result := range results {
		sum += result
	}
	return sum
}

// outside is memory outside of the heap, for input that is read before the clock starts. Nothing in it may refer to
// the heap.
func outside[T any](count int) ([]T, error) {
	var one T
	bytes := count * int(unsafe.Sizeof(one))
	if bytes == 0 {
		return nil, nil
	}
	memory, err := syscall.Mmap(-1, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&memory[0])), count), nil
}

func lesser(a, b uint64) uint64 {
	if a < b {
		return a
	}
	return b
}
